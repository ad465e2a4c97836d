#!/bin/bash
# Generation in one run, llama-135m with random weights, bf16 and fp32: decoding after one token and after 4,000 against
# the memory's read bandwidth, then prompts of 512, 1,024 and 1,900 tokens against the GEMM peak.
# usage: bench/generate.sh build/drover [ROUNDS (5)]    (needs 1.5 GB in ${TMPDIR:-/tmp}, kept between runs)
set -e
rounds=${2:-5}
drover=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
dir=${TMPDIR:-/tmp}/drover-bench-generate-8k
mkdir -p "$dir"
cd "$dir"
cc -O3 -march=native -fopenmp "$here/read_bandwidth.c" -o read_bandwidth
if [ ! -e run/checkpoints/step-000001 ]; then
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "Document %d tells of %d lazy hens.\n", i, i * i % 97 }' >text.txt
    "$drover" tokenizer train --input text.txt --vocab-size 300 --out tok
    "$drover" data build --input text.txt --tokenizer tok --out set
    cat >run.yaml <<YAML
model: {preset: llama-135m, max_position_embeddings: 8192}
tokenizer: tok
data: {train: set, sequence_length: 64}
training: {steps: 1, global_batch_size: 1, micro_batch_size: 1, eval_every: 0}
run_dir: run
YAML
    "$drover" train run.yaml
fi
[ -e prompt.txt ] || awk 'BEGIN { for (i = 0; i < 4000; i++) printf "Document %d tells of %d lazy hens.\n", i, i * i % 97 }' |
    head -c 20000 >prompt.txt
ids=$("$drover" tokenizer encode --tokenizer tok --input prompt.txt)
for n in 1 512 1024 1900 4000; do
    echo $ids | cut -d ' ' -f "1-$n" | "$drover" tokenizer decode --tokenizer tok >prompt.$n
done
# The memory of a machine that is shared changes its speed within seconds: reading, bf16 and fp32 take turns, each
# share is that of a reading just before and just after, and the medians count.
for ((round = 0; round < rounds; round++)); do
    for kind in bf16:1 fp32:1 bf16:4000; do
        ./read_bandwidth 7
        "$drover" generate run/checkpoints/step-000001 --prompt-file prompt.${kind#*:} --temperature 0 --max-tokens 150 \
            --precision ${kind%:*} --json --repetition-penalty 1.1 | sed "s/^/$kind /"
    done
done >lines
./read_bandwidth 7 >>lines
python3 - lines <<'PYTHON'
import json, statistics, sys
PARAMETERS = 134515008  # llama-135m, tied
CACHED = 2 * 30 * 3 * 64 # numbers of keys and values for each token of the context
reads, runs = [], []    # GB/s; (precision, tokens before, tokens/s, how many reads came before)
for line in open(sys.argv[1]):
    if "GB/s read" in line:
        reads.append(float(line.split()[0]))
    else:
        kind, text = line.split(" ", 1)
        run = json.loads(text)
        runs.append((kind.split(":")[0], run["prompt_tokens"], run["tokens_per_s"], len(reads)))
for precision, before in sorted({(p, n) for p, n, _, _ in runs}):
    size = (2 if precision == "bf16" else 4) * (PARAMETERS + CACHED * (before + 75)) # half-way through the answer
    mine = [(rate, rate * size / 1e9, (reads[i - 1] + reads[i]) / 2) for p, n, rate, i in runs if (p, n) == (precision, before)]
    shares = sorted(used / read for _, used, read in mine)
    for rate, used, read in mine:
        print(f"{precision} after {before}: {rate:.1f} tokens/s, weights and cache read at {used:.1f} GB/s of {read:.1f}: {used / read:.2f}")
    print(f"{precision} after {before}: median {statistics.median(r for r, _, _ in mine):.1f} tokens/s, "
          f"{statistics.median(shares):.2f} of the read bandwidth (from {shares[0]:.2f} to {shares[-1]:.2f})")
PYTHON

# Prompts: the GEMM peak of each type just before and just after each prompt, and the medians count. The prompt is the
# beginning of a text; how many tokens it has stands in the output.
for ((round = 0; round < rounds; round++)); do
    for n in 512 1024 1900; do
        for precision in bf16 fp32; do
            "$drover" bench gemm --set model.preset=llama-135m --json | sed "s/^/peak /"
            "$drover" generate run/checkpoints/step-000001 --prompt-file prompt.$n --temperature 0 --max-tokens 1 \
                --precision $precision --json | sed "s/^/$precision /"
        done
    done
done >lines
"$drover" bench gemm --set model.preset=llama-135m --json | sed "s/^/peak /" >>lines
python3 - lines run/checkpoints/step-000001/config.json <<'PYTHON'
import json, statistics, sys
c = json.load(open(sys.argv[2]))
h, f, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
q = c["num_attention_heads"] * c["head_dim"]
kv = c["num_key_value_heads"] * c["head_dim"]
def flops(n):  # products of the layers and the causal half of attention, no logits
    return layers * (2 * n * h * (2 * q + 2 * kv + 3 * f) + 2 * n * n * q)
peaks, runs = [], []  # FLOP/s by type; (precision, JSON of generate, how many peaks came before)
for line in open(sys.argv[1]):
    kind, text = line.split(" ", 1)
    if kind == "peak":
        peaks.append(json.loads(text))
    else:
        runs.append((kind, json.loads(text), len(peaks)))
for precision in "bf16", "fp32":
    for n in sorted({run["prompt_tokens"] for _, run, _ in runs}):
        shares, rates = [], []
        for kind, run, i in runs:
            if kind == precision and run["prompt_tokens"] == n:
                peak = max(p["gemm_peak_" + precision] for p in peaks[i - 1:i + 1])
                rates.append(run["prompt_tokens_per_s"])
                shares.append(flops(n) * rates[-1] / n / peak)
        print(f"prompt of {n} tokens, {precision}: median {statistics.median(rates):.0f} tokens/s, "
              f"{statistics.median(shares):.2f} of the {precision} GEMM peak (from {min(shares):.2f} to {max(shares):.2f})")
PYTHON
