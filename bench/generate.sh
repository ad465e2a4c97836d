#!/bin/bash
# Generation against the memory's read bandwidth, in one run: llama-135m with random weights, greedy, bf16 and fp32.
# usage: bench/generate.sh build/drover [ROUNDS (5)]    (needs 1.5 GB in ${TMPDIR:-/tmp}, kept between runs)
set -e
rounds=${2:-5}
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
# The memory of a machine that is shared changes its speed within seconds: reading, bf16 and fp32 take turns, each
# share is that of a reading just before and just after, and the medians count.
for ((round = 0; round < rounds; round++)); do
    for precision in bf16 fp32; do
        ./read_bandwidth 7
        "$drover" generate run/checkpoints/step-000001 --prompt "Document" --temperature 0 --max-tokens 150 \
            --precision $precision --json --repetition-penalty 1.1 | sed "s/^/$precision /"
    done
done >lines
./read_bandwidth 7 >>lines
python3 - lines <<'PYTHON'
import json, statistics, sys
PARAMETERS = 134515008  # llama-135m, tied
reads, runs = [], []    # GB/s; (precision, tokens/s, how many reads came before)
for line in open(sys.argv[1]):
    if "GB/s read" in line:
        reads.append(float(line.split()[0]))
    else:
        precision, text = line.split(" ", 1)
        runs.append((precision, json.loads(text)["tokens_per_s"], len(reads)))
for precision, size in (("bf16", 2), ("fp32", 4)):
    mine = [(rate, rate * size * PARAMETERS / 1e9, (reads[i - 1] + reads[i]) / 2) for p, rate, i in runs if p == precision]
    shares = sorted(used / read for _, used, read in mine)
    for rate, used, read in mine:
        print(f"{precision}: {rate:.1f} tokens/s, weights read at {used:.1f} GB/s of {read:.1f}: {used / read:.2f}")
    print(f"{precision}: median {statistics.median(r for r, _, _ in mine):.1f} tokens/s, "
          f"{statistics.median(shares):.2f} of the read bandwidth (from {shares[0]:.2f} to {shares[-1]:.2f})")
PYTHON
