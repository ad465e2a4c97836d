#!/bin/bash
# Conversions of a model that is larger than what they may need: three times its largest tensor and 50 MiB. (They
# promise 200 MB for that, which would take a model three times as large.)
tree=$(realpath "$(dirname "$0")"/..)
. "$(dirname "$0")"/story.bash
if sanitized; then
    echo "skipped: under AddressSanitizer memory is not the program's alone"
    exit 77
fi
expect 0 "MiB, largest tensor 7 MiB" python3 "$tree/tools/make_large_model.py" model 9 512 8000
size=$(sed 's/ MiB.*//' out)
limit=$((3 * 8 + 50)) # MiB
export DROVER_THREADS=2 # each thread has a piece in hand
check "the model is larger than the limit" test "$size" -gt $limit
# within WHAT COMMAND...: succeeds in no more memory than the limit
within() {
    local what=$1 peak
    shift
    if ! peak=$(python3 "$tree/tests/peak_memory.py" "$@" 2>out); then bad "$what fails" out
    elif [ "$peak" -gt $limit ]; then bad "$what takes $peak MiB, at most $limit" out
    else echo "   $what: $peak MiB of $limit"; ok; fi
}
within export "$drover" ckpt export model --out f32 --dtype f32
within export-in-shards "$drover" ckpt export model --out f16 --dtype f16 --max-shard-size 20MB --no-verify # as `export` had it
within import "$drover" ckpt import f16 --out imported --dtype bf16
within gguf "$drover" ckpt export model --gguf model.gguf --type q8_0
within import-gguf "$drover" ckpt import model.gguf --out from-gguf
within merge "$drover" ckpt merge model model.adapter --out merged
within verify "$drover" ckpt verify model imported
within consolidate "$drover" ckpt consolidate f16 --out one
finish
