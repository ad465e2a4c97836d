#!/bin/bash
# Time to loss: what a small Llama knows of held-out text after so many seconds of training on the cores of this machine,
# drover and PyTorch, each with AdamW and with Muon. Bits per byte of the held-out text, by `drover eval` for all, so that
# figures compare over tokenizers and trainers.
#
#     bench/time_to_loss.sh PROGRAM [PYTHON]       PYTHON has torch 2.9 or later and transformers; without: drover alone
#
# BUDGET_S=300  seconds of training of each run (loading, compiling and evaluating do not count)
# RUNS="drover:adamw:3e-3 drover:muon:3e-3 torch:adamw:3e-3 torch:muon:3e-3"     which, with their learning rates: give
#               several of one kind to sweep it (drover:muon:1e-3 drover:muon:2e-3); drover has normuon, too
# SEEDS="1"     of each run       OUT=/tmp/time_to_loss     kept: a second call goes on with what is missing
# ROWS=32       of a step, of 256 tokens
# MODE=fp32     of PyTorch: fp32 or bf16 (autocast), compile-fp32, compile-bf16        PRECISION=fp32  of drover
# With the defaults about 23 minutes. The text: manuals of Perl (package perl-doc); every 20th document is held out.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,15p' "$0" | cut -c3-; exit 2; }
drover=$(realpath -- "$1") python=${2:-} here=$(dirname "$(realpath -- "$0")")
budget=${BUDGET_S:-300} out=${OUT:-/tmp/time_to_loss} precision=${PRECISION:-fp32}
runs=${RUNS:-drover:adamw:3e-3 drover:muon:3e-3 torch:adamw:3e-3 torch:muon:3e-3}
rows=${ROWS:-32} row=256
mkdir -p "$out"
cd "$out"

pods() { find /usr/share/perl /usr/lib -path '*/pod/*.pod' 2>/dev/null | LC_ALL=C sort; }
if [ ! -e text/done ]; then
    [ "$(pods | wc -l)" -ge 50 ] || { echo "no text: install perl-doc" >&2; exit 1; }
    mkdir -p text/train text/valid
    i=0
    for f in $(pods); do
        i=$((i + 1))
        part=train
        [ $((i % 20)) != 0 ] || part=valid
        cp "$f" "text/$part/$(basename "$f" .pod).txt"
    done
    touch text/done
fi
for part in train valid; do
    (cd text/$part && cat -- *.txt) | sha256sum | sed "s/-$/text to $part, $(cat text/$part/*.txt | wc -c) bytes/"
done
dpkg-query -W perl-doc 2>/dev/null || true
[ -e tokenizer/tokenizer.json ] || "$drover" tokenizer train --input text/train --vocab-size 2048 --out tokenizer >/dev/null
[ -e data/train.idx ] || "$drover" data build --input text/train --tokenizer tokenizer --out data/train --append-eod >/dev/null

cat >base.yaml <<YAML
model: {vocab_size: 2048, hidden_size: 192, intermediate_size: 512, num_hidden_layers: 6, num_attention_heads: 6,
        num_key_value_heads: 2, max_position_embeddings: 1024, tie_word_embeddings: true}
tokenizer: tokenizer
data: {train: data/train, sequence_length: $row}
training: {global_batch_size: $rows, micro_batch_size: 8, eval_every: 0, log_every: 10, precision: $precision}
schedule: {type: cosine, warmup_ratio: 0.1}
checkpoint: {every: 0}
YAML
"$drover" config base.yaml --set training.steps=1 >/dev/null

# field FILE NAME: the last value of a field of metrics
field() { sed -n "s/.*\"$2\": *\([-0-9.e]*\).*/\1/p" "$1" | tail -n 1; }

# How many steps fit: the median rate of 11 steps, which are thrown away.
drover_run() { # NAME OPTIMIZER LR SEED
    local keys=(--set optimizer.type="$2" --set optimizer.lr="$3" --set training.seed="$4") rate steps
    [ -e "$1/checkpoints" ] || {
        "$drover" train base.yaml "${keys[@]}" --set training.steps=11 --set run_dir="$1.rate" --set training.log_every=1 >/dev/null 2>&1
        rate=$(sed -n 's/.*"tokens_per_s": *\([0-9.]*\).*/\1/p' "$1.rate/metrics.jsonl" | sort -n | sed -n 6p)
        rm -rf "$1.rate"
        steps=$(awk -v r="$rate" -v b="$budget" -v n=$((rows * row)) 'BEGIN { printf "%d", r * b / n }')
        "$drover" train base.yaml "${keys[@]}" --set training.steps="$steps" --set run_dir="$1" >"$1.log" 2>&1
    }
    echo "$(field "$1/metrics.jsonl" step) $(sed -n 's/.*"step_s": *\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" |
        awk '{ s += $1; n++ } END { printf "%.4f", s / n }')" >"$1.steps"
}

torch_run() { # NAME OPTIMIZER LR SEED
    [ -e "$1/config.json" ] || "$python" "$here/time_to_loss_peer.py" --data data/train.bin --config base.json \
        --tokenizer tokenizer --optimizer "$2" --lr "$3" --seed "$4" --seconds "$budget" --rows $rows --row $row \
        --mode "${MODE:-fp32}" --out "$1" >"$1.steps" 2>"$1.log"
}

model_of() { # the folder that holds its weights
    if [ -e "$1/checkpoints" ]; then printf '%s\n' "$1"/checkpoints/step-* | tail -n 1; else echo "$1"; fi
}

"$drover" train base.yaml --set training.steps=1 --set run_dir=shape >/dev/null 2>&1
cp "$(model_of shape)/config.json" base.json
rm -rf shape
printf '| trainer | optimizer | lr | seed | steps | tokens | s a step | bits per byte |\n|---|---|---|---|---|---|---|---|\n' | tee table.md
for one in $runs; do
    IFS=: read -r trainer optimizer lr <<<"$one"
    [ "$trainer" != torch ] || [ -n "$python" ] || continue
    for seed in ${SEEDS:-1}; do
        name=$trainer-$optimizer-$lr-$seed
        "${trainer}_run" "$name" "$optimizer" "$lr" "$seed" || { tail -n 3 "$name.log" >&2; exit 1; }
        [ -e "$name.json" ] || "$drover" eval "$(model_of "$name")" --text text/valid --context $row --json >"$name.part" 2>"$name.eval"
        [ ! -e "$name.part" ] || mv "$name.part" "$name.json"
        read -r steps s_a_step <"$name.steps"
        echo "| $trainer | $optimizer | $lr | $seed | $steps | $((steps * rows * row)) | $s_a_step | $(field "$name.json" bits_per_byte) |" |
            tee -a table.md
    done
done
