#!/bin/bash
# What the responses of a pair save by sharing their prompt's computation: pairs a second in training by this program and by one
# of before (OTHER), which computed a prompt for each response, in turns, on the same pairs. Prompts and responses of three shapes.
#
#     bench/shared_prompts.sh PROGRAM OTHER
#
# ROUNDS=2   runs of each, in turns       STEPS=6   of a run, of which the first is left out       MODEL=llama-15m
# With the defaults about six minutes on two cores.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,9p' "$0" | cut -c3-; exit 2; }
program=$(realpath -- "$1") other=$(realpath -- "$2")
rounds=${ROUNDS:-2} steps=${STEPS:-6} model=${MODEL:-llama-15m}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
words() { awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%s%d", i ? " " : "", int(rand() * 10) }'; }
for i in $(seq 400); do words 40 "$i"; echo; done >text.txt
"$program" tokenizer train --input text.txt --vocab-size 300 --out tok >log 2>&1
pairs() { # PROMPT CHOSEN REJECTED, in words
    for i in $(seq 96); do
        printf '{"prompt": "%s", "chosen": " %s", "rejected": " %s"}\n' "$(words "$1" "$i")" "$(words "$2" "9$i")" "$(words "$3" "7$i")"
    done
}
cat >run.yaml <<YAML
model: {preset: $model}
data: {train: pairs, sequence_length: 1024}
training: {objective: dpo, steps: $steps, global_batch_size: 4, precision: bf16}
checkpoint: {every: 1000}
YAML
rate() { # RUN: pairs a second
    python3 - "$1/metrics.jsonl" <<'PY'
import json, sys
steps = [s for s in map(json.loads, open(sys.argv[1])) if "step_s" in s][1:]
print(f"{sum(s['pairs'] for s in steps) / sum(s['step_s'] for s in steps):.3f}")
PY
}
for shape in "100 100 100" "300 60 60" "30 150 150"; do
    # shellcheck disable=SC2086
    pairs $shape >pairs.jsonl
    rm -f pairs.bin pairs.idx pairs.idx.json pairs.roles pairs.reference-*
    "$program" data build --preference --template none --input pairs.jsonl --tokenizer tok --out pairs >log 2>&1
    tokens=$("$program" data info pairs | sed -n 's/^tokens *//p')
    for round in $(seq "$rounds"); do
        for which in program other; do
            rm -rf run
            "${!which}" train run.yaml --set run_dir=run >log 2>&1 || { cat log >&2; exit 1; }
            echo "prompt, chosen, rejected $shape words ($tokens tokens in 96 pairs), round $round, $which: $(rate run) pairs/s"
        done
    done
done
