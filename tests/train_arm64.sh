#!/bin/bash
# The same bits on arm64, under qemu: a run there and one here write the same files, and each audits the other's. Skipped
# without build-arm64/drover (tools/build_arm64.sh) and qemu.
. "$(dirname "$0")"/story.bash
unset DROVER_CPU DROVER_GEMM
there=$(dirname "$(dirname "$drover")")/build-arm64/drover
command -v qemu-aarch64-static >/dev/null && [ -x "$there" ] || { echo "skipped: no qemu-aarch64-static, or no $there"; exit 77; }
arm64() { qemu-aarch64-static "$there" "$@"; }
make_data
sed -i 's/steps: 40/steps: 2/; s/sequence_length: 64/sequence_length: 40/; s/micro_batch_size: 2/micro_batch_size: 1, arithmetic: portable, hash_every: 1/
    s/global_batch_size: 8/global_batch_size: 4/; s/warmup_steps: 5/warmup_steps: 1/; s/checkpoint:.*/checkpoint: {every: 1}/' run.yaml
for precision in bf16 fp32; do
    expect 0 "step 2" "$drover" train run.yaml --set training.precision=$precision --set run_dir=here-$precision
    expect 0 "step 2" arm64 train run.yaml --set training.precision=$precision --set run_dir=there-$precision
    check "$precision: other hashes" cmp here-$precision/hashes.jsonl there-$precision/hashes.jsonl
    check "$precision: other files" diff -r here-$precision/checkpoints there-$precision/checkpoints
done
expect 0 "equal: 1 of the steps 2 to 2" arm64 audit here-bf16 --steps 2
expect 0 "equal: 2 of the steps 1 to 2" "$drover" audit there-bf16
# What the other began goes on here.
rm -r there-bf16/checkpoints/step-000002
expect 0 "resumed from there-bf16/checkpoints/step-000001" "$drover" train run.yaml --set run_dir=there-bf16
check "a resumed run has other files" diff -r here-bf16/checkpoints there-bf16/checkpoints
finish
