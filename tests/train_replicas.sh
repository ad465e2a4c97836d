#!/bin/bash
# Ranks that are not alike: processors of several kinds take one arithmetic and give the bits that one rank has with it; another configuration on
# one of them ends the run before it begins. (Weights that part: test_replicas, train_rank_faults.sh.) Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
weights() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors); }
make_data
sed -i 's/steps: 40/steps: 4/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
two() { # SETTINGS OF RANK 1 -- SETTINGS OF BOTH: VAR=VALUE are of the environment
    local first=() both=()
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    shift
    for set in "$@"; do both+=(--set "$set"); done
    ranks_and_last 2 "$drover" train run.yaml "${both[@]}" : "${mixed[@]}" "$drover" train run.yaml "${both[@]}" "${first[@]}"
}

# --- kernels of two levels
mixed=(env DROVER_CPU=ref)
if [ "$("$drover" doctor 2>/dev/null | grep -c 'kernels *ref')" = 0 ]; then
    expect 0 "so that bits are equal, all use kernels ref, bf16 products by fp32" two -- run_dir=mixed parallel.tensor=2
    says "ranks differ: kernels " "kernels ref, bf16 products by fp32 on rank 1" "step 4"
    check "it is said once" test "$(grep -c 'ranks differ' out)" = 1
    DROVER_CPU=ref expect 0 "step 4" train 1 low
    check "two levels: the bits of one rank that has the lower one" test "$(weights low 000004)" = "$(weights mixed 000004)"
fi
mixed=(env)
expect 0 "step 4" two -- run_dir=alike parallel.tensor=2
check "nothing is said of ranks that are alike" test "$(grep -c 'ranks differ' out)" = 0

# --- another configuration on one rank, as if the file of one host were an older one: its first key that differs is said
for other in optimizer.lr=0.002 training.steps=3 parallel.pipeline=2 training.seed=7 data.sequence_length=32 parallel.check_every=3; do
    key=${other%=*}
    expect 2 "\"$key: ${other#*=}\" here, but \"$key: " two --set "$other" -- run_dir=other
    check "$other: it is said once, by rank 1" test "$(grep -c '^drover: rank 1 (.*on rank 0: all ranks need the same configuration$' out)" = 1
    check "$other: nothing is begun" [ ! -e other ]
done
cp -r data data2 && cp -r tok tok2
expect 0 "step 4" two --set data.train=data2/set --set tokenizer=tok2 --set training.threads=2 -- run_dir=paths
finish
