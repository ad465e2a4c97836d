#!/bin/bash
# What cuDNN is told, in whole training runs on a processor: a plugin in CUDA's place computes its calls by their definition
# (cuda_stand_in.c), and losses are those of the CPU back end. Each form of a call by itself: test_cudnn_meaning.
. "$(dirname "$0")"/pjrt.bash
stand_in=$(dirname "$drover")/tests/libcuda_stand_in.so
[ -e "$stand_in" ] || { echo "skipped: $stand_in is not built"; exit 77; }
STAND_IN_FOR=$(ls "$folder"/cpu/*.so)
export STAND_IN_FOR DROVER_PJRT_DUMP=$PWD/dump
# XLA's compiler for CUDA wants these; the one for processors does not look at them.
mkdir -p dump tools/bin tools/nvvm/libdevice && : >tools/bin/ptxas && : >tools/nvvm/libdevice/libdevice.10.bc
export CUDA_HOME=$PWD/tools
make_data
# same NAME CALL KEYS...: a run's losses on both back ends, and the call that its step has, once for each layer and direction
same() {
    local name=$1 call=$2 sets=(--set schedule.type=constant --set training.steps=4 --set checkpoint.every=0)
    shift 2
    for key; do sets+=(--set "$key"); done
    rm -f dump/*
    expect 0 "step 4" "$drover" train run.yaml "${sets[@]}" --set run_dir="$name-cpu"
    expect 0 "step 4" "$drover" train run.yaml "${sets[@]}" --set run_dir="$name" --set backend=pjrt --set pjrt.plugin="$stand_in"
    check "$name: losses differ" near 1e-5 "$name-cpu" "$name"
    check "$name: no $call" [ "$(grep '__cudnn[$]fmha' dump/whole_step.mlir | grep -c "$call")" = 4 ]
}
same mask ScaleBiasSoftmax
same segments PADDING_CAUSAL training.deterministic=false
says "training.deterministic is false"
expect 0 "2 of 2 from the cache" "$drover" compile run.yaml --set schedule.type=constant --set training.steps=4 \
    --set training.deterministic=false --set backend=pjrt --set pjrt.plugin="$stand_in" # with the same bound on documents
# What XLA tunes on a device is kept beside the programs, for one set of flags each, and the folder may be moved.
check "two sets of flags: $(ls -d cache/*.tuning/tuned | wc -l) folders of tuned kernels" [ "$(ls cache/*.tuning/tuned | wc -l)" = 2 ]
mv cache moved
export DROVER_COMPILE_CACHE=$PWD/moved
expect 0 "2 of 2 from the cache" "$drover" compile run.yaml --set schedule.type=constant --set training.steps=4 \
    --set training.deterministic=false --set backend=pjrt --set pjrt.plugin="$stand_in"
same window 'sliding_window_length[^0-9]*24' data.pack=stream model.sliding_window=24
finish
