#!/bin/bash
# Never N runs of one: what a launcher's variables say is several nodes is refused by `drover train` where no MPI joins them, and
# a run says how many ranks it expects. usage: launch_alone.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
make_data
refused() { # TEXT VARIABLE...
    local text=$1
    shift
    expect 2 "$text" env "$@" "$drover" train run.yaml --set run_dir=never
    says "drover launch node run.yaml"
    check "$*: one line" [ "$(grep -c . out)" = 1 ]
}
refused "4 nodes, by PET_NODE_RANK" PET_NNODES=4 PET_NODE_RANK=0 PET_NPROC_PER_NODE=auto
refused "2 nodes, by RANK" RANK=0 WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=29500
refused "1 node x 4 ranks, by RANK" RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4
refused "2 nodes, by JAX_PROCESS_ID" JAX_PROCESS_ID=0 JAX_NUM_PROCESSES=2 JAX_COORDINATOR_ADDRESS=node0:1234
refused "by JOB_COMPLETION_INDEX" JOB_COMPLETION_INDEX=1
expect 2 "RANK is set, but not WORLD_SIZE" env RANK=0 "$drover" train run.yaml --set run_dir=never
expect 2 'PET_NNODES is "1:4": elastic' env PET_NNODES=1:4 "$drover" train run.yaml --set run_dir=never
check "nothing was made" [ ! -e never ]
# Environments that were recorded under Slurm, Open MPI and Ray: who drover takes its process for.
if "$tests"/../tools/replay_launchers.py "$drover" >out; then ok; else bad "an answer to a recorded launcher" out; fi

few=(--set training.steps=1 --set run_dir=one)
expect 2 "this job has 1 rank, but 2 were expected (--expect-ranks or DROVER_EXPECT_RANKS)" "$drover" train run.yaml "${few[@]}" --expect-ranks 2
expect 2 "this job has 1 node, but 4 were expected (--expect-nodes or DROVER_EXPECT_NODES)" env DROVER_EXPECT_NODES=4 "$drover" train run.yaml "${few[@]}"
expect 2 'DROVER_EXPECT_RANKS is "x"' env DROVER_EXPECT_RANKS=x "$drover" train run.yaml "${few[@]}"
expect 2 "expect-nodes" "$drover" train run.yaml "${few[@]}" --expect-nodes 0
check "nothing was made" [ ! -e one/metrics.jsonl ]
expect 0 "step-000001" env PET_NNODES=1 PET_NODE_RANK=0 RANK=0 WORLD_SIZE=1 \
    "$drover" train run.yaml "${few[@]}" --expect-ranks 1 --expect-nodes 1
finish
