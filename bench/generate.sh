#!/bin/bash
# Generation against the memory's read bandwidth, in one run: llama-135m with random weights, greedy, bf16 and fp32.
# usage: bench/generate.sh build/drover     (needs 1.5 GB in ${TMPDIR:-/tmp}, kept between runs)
set -e
drover=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
dir=${TMPDIR:-/tmp}/drover-bench-generate
mkdir -p "$dir"
cd "$dir"
cc -O3 -march=native -fopenmp "$here/read_bandwidth.c" -o read_bandwidth
if [ ! -e run/checkpoints/step-000001 ]; then
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "Document %d tells of %d lazy hens.\n", i, i * i % 97 }' >text.txt
    "$drover" tokenizer train --input text.txt --vocab-size 300 --out tok
    "$drover" data build --input text.txt --tokenizer tok --out set
    cat >run.yaml <<YAML
model: {preset: llama-135m}
tokenizer: tok
data: {train: set, sequence_length: 64}
training: {steps: 1, global_batch_size: 1, micro_batch_size: 1, eval_every: 0}
run_dir: run
YAML
    "$drover" train run.yaml
fi
./read_bandwidth
for precision in bf16 fp32 bf16 fp32; do
    "$drover" generate run/checkpoints/step-000001 --prompt "Document" --temperature 0 --max-tokens 150 \
        --precision $precision --json --repetition-penalty 1.1 | python3 -c '
import json, sys
o = json.load(sys.stdin)
size = {"bf16": 2, "fp32": 4}[sys.argv[1]] * 134515008 / 1e9  # parameters of llama-135m, tied
tokens, rate = o["tokens"], o["tokens_per_s"]
print(f"{sys.argv[1]}: {tokens} tokens, {rate:.1f} tokens/s, weights read at {rate * size:.2f} GB/s")' $precision
done
./read_bandwidth
