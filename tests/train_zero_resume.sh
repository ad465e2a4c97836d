#!/bin/bash
# A run that goes on with another level of ZeRO and another layout: 0, then 2, then 1, then a pipeline with 2, then one
# rank. Every file of its last checkpoint and the hashes of every step are those of one rank that was never stopped.
# Needs mpirun.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 10/; s/micro_batch_size: 2/micro_batch_size: 1, hash_every: 1/; s/checkpoint:.*/checkpoint: {every: 0}/; s/schedule:.*/schedule: {type: constant, warmup_steps: 1}/' run.yaml
echo 'parallel: {lanes: 4, context_leaves: 2}' >>run.yaml
same() { cmp "$1/hashes.jsonl" one/hashes.jsonl && diff -r "$1/checkpoints/step-000010" one/checkpoints/step-000010; }
# goes_on RUN STEP RANKS SETTING...: up to that step, from a checkpoint where it is not the first part
goes_on() {
    local run=$1 step=$2 n=$3 from=0
    shift 3
    [ ! -e "$run" ] || from=1
    expect 0 "step $step" train "$n" "$run" training.steps="$step" "$@"
    [ $from = 0 ] || says "resumed from $run/checkpoints/step-"
}

expect 0 "step 10" train 1 one
goes_on levels 2 2 parallel.zero=0
goes_on levels 4 2 parallel.zero=2
goes_on levels 6 4 parallel.zero=1
goes_on levels 8 4 parallel.zero=2 parallel.pipeline=2
goes_on levels 10 1
check "ZeRO 0, 2, 1, a pipeline with 2, one rank: hashes and files of one" same levels
goes_on mixed 3 4 parallel.zero=2 parallel.tensor=2
goes_on mixed 6 4 parallel.zero=0 parallel.context=2
goes_on mixed 8 4 parallel.zero=1 parallel.tensor=2 parallel.pipeline=2
goes_on mixed 10 4 parallel.zero=2 parallel.context=2
check "with tensor, context and pipeline ranks: hashes and files of one" same mixed
finish
