#!/bin/bash
# The same bits on any processor (training.arithmetic: portable): the level of plain C and the highest one of this
# machine write the same files, alone, on ranks, and on ranks of both at once. Needs mpirun for the ranks.
. "$(dirname "$0")"/ranks.bash
unset DROVER_CPU DROVER_GEMM
make_data
sed -i 's/steps: 40/steps: 2/; s/sequence_length: 64/sequence_length: 40/; s/micro_batch_size: 2/micro_batch_size: 1, arithmetic: portable, hash_every: 1/
    s/global_batch_size: 8/global_batch_size: 4/; s/warmup_steps: 5/warmup_steps: 1/' run.yaml
same() { # RUN OTHER: hashes of each step, and every file of the checkpoints
    check "$1 and $2 have other hashes" cmp "$1/hashes.jsonl" "$2/hashes.jsonl"
    check "$1 and $2 have other files" diff -r "$1/checkpoints" "$2/checkpoints"
}
for precision in bf16 fp32; do
    expect 0 "portable, on " train 1 high-$precision training.precision=$precision
    DROVER_CPU=plain expect 0 "step 2" train 1 plain-$precision training.precision=$precision
    same high-$precision plain-$precision
done
muon=(optimizer.type=normuon model.qk_norm=true)
expect 0 "step 2" train 1 high-muon "${muon[@]}"
DROVER_CPU=plain expect 0 "step 2" train 1 plain-muon "${muon[@]}"
same high-muon plain-muon
check "what is recorded is no kind of processor" grep -q '"arithmetic": "portable"' high-bf16/checkpoints/step-000002/trainer.json
mixed() { # RUN_DIR SETTING...: two ranks of two processors
    local run=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    ranks_and_last 2 "$drover" train run.yaml --set run_dir="$run" "${sets[@]}" : \
        env DROVER_CPU=plain "$drover" train run.yaml --set run_dir="$run" "${sets[@]}"
}
expect 0 "step 2" mixed tensor parallel.tensor=2
check "ranks that differ agree without a word" test "$(grep -c 'ranks differ' out)" = 0
same high-bf16 tensor
expect 0 "step 2" mixed pipeline parallel.pipeline=2
same high-bf16 pipeline

# --- what would break the promise is refused
DROVER_CPU=ref expect 2 'DROVER_CPU is "ref", which computes in double' train 1 refused
DROVER_GEMM=amx_emulated expect 2 'DROVER_GEMM is "amx_emulated", but training.arithmetic is portable' train 1 refused
expect 2 'training.arithmetic" is portable, expected fastest with backend pjrt' "$drover" config run.yaml --set backend=pjrt --set training.hash_every=0
finish
