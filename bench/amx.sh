#!/bin/bash
# Whether a processor with AMX gives the bits of the plain C that defines its tiles, and how fast products and steps by it are: docs/adr/0040 says
# what has not been measured. usage: amx.sh [DROVER_SOURCE]; builds there, needs amx_bf16 in the flags of /proc/cpuinfo and a quiet machine. About
# ten minutes on two cores after the build. Exit status 1: other bits; 77: no AMX.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
grep -qw amx_bf16 /proc/cpuinfo && grep -qw amx_tile /proc/cpuinfo || { echo "no amx_bf16 here" >&2; exit 77; }
make -s
cmake --build build -j "$(nproc)" --target test_tiles test_gemm test_amx_bits test_micro_batch test_tensor_bits
drover=$PWD/build/drover
grep -m 1 "model name" /proc/cpuinfo
git log -1 --format="commit %h"

echo "--- bits: instructions against plain C, then layouts by the instructions"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
for test in test_tiles test_gemm test_amx_bits test_micro_batch test_tensor_bits; do
    build/tests/$test >"$said" 2>&1 || { cat "$said"; echo "$test failed" >&2; exit 1; }
    ! grep -q "no AMX here" "$said" || { echo "the system refuses the tiles' registers" >&2; exit 1; }
done
echo "equal"

echo "--- products: asked 0.60 of the tile peak"
for preset in llama-135m llama-3.1-8b; do
    "$drover" bench gemm --set model.preset=$preset --set data.sequence_length=1024 --set training.micro_batch_size=1 | tee "$said"
    ! cc -O2 bench/onednn_gemm.c -ldnnl -o build/onednn_gemm 2>/dev/null || build/onednn_gemm <"$said"
done

echo "--- steps: asked 0.50 of what the products reach"
step() { "$drover" bench step --set model.preset=llama-135m --set data.sequence_length=1024 --set training.global_batch_size=8 "$@"; }
step --profile
echo "fp32 arithmetic beside it:"
DROVER_GEMM=fp32 step --repeats 3
echo "--- ranks against one process, tokens/s of each: layouts.sh measures the same in turns"
if command -v mpirun >/dev/null; then bench/layouts.sh "$drover"; fi
