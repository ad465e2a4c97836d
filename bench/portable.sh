#!/bin/bash
# What sums in 16 lanes and portable arithmetic cost: training steps of two programs, and of fastest against portable,
# taking turns. usage: portable.sh OLD NEW [PAIRS]; OLD is a drover of before, NEW one of now. About three minutes a pair on two cores of Zen 3.
set -euo pipefail
old=$1 new=$2 pairs=${3:-6}
export DROVER_PEAK_FLOPS=1e11
step() { # PROGRAM KEY=VALUE...: tokens/s of the fastest of 4 steps
    local program=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    "$program" bench step --set model.preset=llama-15m --set data.sequence_length=512 --repeats 4 "${sets[@]}" --json 2>/dev/null |
        sed 's/.*"tokens_per_s": \([0-9.]*\).*/\1/'
}
for precision in fp32 bf16; do
    for ((i = 0; i < pairs; i++)); do
        echo "$precision old $(step "$old" training.precision=$precision) fastest $(step "$new" training.precision=$precision)" \
            "portable $(step "$new" training.precision=$precision training.arithmetic=portable)"
    done
done | awk '{ print; n = split($0, x); b[$1] = b[$1] " " $5 / $3; p[$1] = p[$1] " " $7 / $5 }
    END { for (k in b) print k ": new/old" b[k] "; portable/fastest" p[k] }'
