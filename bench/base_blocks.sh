#!/bin/bash
# A LoRA step beside a base in bf16 and in blocks, in turn, so that a machine whose speed changes is fair to all: tokens/s of
# each, and their ratio to bf16 of the same round. Five minutes a round on two cores of Zen 3; with MODEL=llama-3.1-8b (24 GiB,
# bf16 needs 17 of them) ROUNDS x 6 minutes.
#   bench/base_blocks.sh [DROVER] [ROUNDS]
drover=${1:-build/drover} rounds=${2:-5} model=${MODEL:-llama-3.2-1b}
types=${TYPES:-auto q8_0 q4_k}
step() {
    "$drover" bench step --json --repeats 2 --set model.preset=$model --set data.sequence_length=512 \
        --set training.global_batch_size=1 --set training.micro_batch_size=1 --set training.recompute=full \
        --set lora.rank=16 --set lora.alpha=32 --set model.base_dtype=$1 2>/dev/null | sed -n 's/.*"tokens_per_s": *\([0-9.]*\).*/\1/p'
}
for round in $(seq "$rounds"); do
    plain=
    for type in $types; do
        speed=$(step "$type")
        plain=${plain:-$speed}
        awk -v r="$round" -v t="$type" -v s="$speed" -v p="$plain" 'BEGIN { printf "round %d  %-5s %8.1f tokens/s  %.3f of %s\n", r, t, s, s / p, "the first" }'
    done
done
