#!/bin/bash
# A model of real size, from the hub, and the pages of docs that need one: it is imported, its tokenizer reads, it writes what it
# has learned. usage: real_model.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
model=$HOME/.cache/drover/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -e "$model" ]; then
    echo "skipped: no $model (tools/fetch_smollm2.sh fetches it)"
    exit 77
elif sanitized; then
    echo "skipped: a model of real size takes many minutes under AddressSanitizer"
    exit 77
fi
echo "reads $model, outside the tree"
expect 0 "272 tensors" "$drover" ckpt import "$model" --out smollm2
expect 0 " Paris" "$drover" generate smollm2 --prompt "The capital of France is" --temperature 0 --max-tokens 4
expect 0 "28 " "$drover" tokenizer encode --tokenizer smollm2 < <(echo "Hello, world")
expect 0 " 0 failed" "$tests"/docs.sh "$drover" models
check "a page was run" out_has "1 passed"
finish
