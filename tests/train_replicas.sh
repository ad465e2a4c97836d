#!/bin/bash
# Ranks that are not alike: processors of several kinds take one arithmetic and give the bits that one rank has with it; weights
# that differ end the run, with nothing saved. Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
weights() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors); }
make_data
sed -i 's/steps: 40/steps: 4/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
two() { # SETTINGS OF RANK 1 -- SETTINGS OF BOTH: VAR=VALUE are of the environment
    local first=() both=()
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    shift
    for set in "$@"; do both+=(--set "$set"); done
    mpirun --oversubscribe -n 1 "$drover" train run.yaml "${both[@]}" : -n 1 "${mixed[@]}" "$drover" train run.yaml "${both[@]}" "${first[@]}"
}

# --- kernels of two levels
mixed=(env DROVER_CPU=ref)
if [ "$("$drover" doctor 2>/dev/null | grep -c 'kernels *ref')" = 0 ]; then
    expect 0 "for the same bits all take kernels ref, bf16 products by fp32" two -- run_dir=mixed parallel.tensor=2
    says "ranks differ: kernels " "kernels ref, bf16 products by fp32 on rank 1" "step 4"
    check "it is said once" test "$(grep -c 'ranks differ' out)" = 1
    DROVER_CPU=ref expect 0 "step 4" train 1 low
    check "two levels: the bits of one rank that has the lower one" test "$(weights low 000004)" = "$(weights mixed 000004)"
fi
mixed=(env)
expect 0 "step 4" two -- run_dir=alike parallel.tensor=2
check "nothing is said of ranks that are alike" test "$(grep -c 'ranks differ' out)" = 0

# --- weights that differ: of another seed, as if the config of one host were an older one
expect 1 'has another "model.embed_tokens.weight" than rank 0' two --set training.seed=7 -- run_dir=seeds
says "drover: after step 0 rank 1 ("
check "it is said once" test "$(grep -c 'should be the same' out)" = 1
check "nothing is saved" [ -z "$(ls seeds/checkpoints 2>/dev/null)" ]
expect 0 "step 4" two --set training.seed=7 -- run_dir=unseen parallel.check_every=0
finish
