#!/bin/bash
# Pipelines over mpirun: the checkpoints of one process to the bit, evaluation, going on from one layout under
# another, what drover plan says, what cannot be cut. Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 4/; s/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 3, eval_batches: 5/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml

# --- the plan, and what cannot be cut
expect 0 "pipeline      1f1b" "$drover" plan run.yaml --set parallel.pipeline=2
says "rank 0 " "rank 1 " ", head" "<- most" "sent by a rank in a step over the pipeline axis"
expect 0 '"bubble": 0' "$drover" plan run.yaml --json --set parallel.pipeline=2 --set parallel.schedule=zb-h1
expect 0 "stage0.forward" "$drover" graph run.yaml --set parallel.pipeline=2 --program stage0.forward
expect 2 "fewer than 8 stages: parallel.pipeline 8 x parallel.virtual_stages 1" "$drover" plan run.yaml --set parallel.pipeline=8
expect 2 "expected 1, or parallel.pipeline above 1" "$drover" plan run.yaml --set parallel.virtual_stages=2
expect 2 "parallel.schedule" "$drover" plan run.yaml --set parallel.pipeline=2 --set parallel.virtual_stages=2 --set training.global_batch_size=1

same() { # RUN ONE: losses, weights and moments
    test "$(losses "$1")" = "$(losses "$2")" || return 1
    for file in model optimizer; do
        cmp "$1/checkpoints/step-000006/$file.safetensors" "$2/checkpoints/step-000006/$file.safetensors" || return 1
    done
}
expect 0 "step 6" train 1 one
expect 0 "pipeline 2 x 1 stages" train 2 p2 parallel.pipeline=2
expect 0 "step 6" train 2 zb parallel.pipeline=2 parallel.schedule=zb-h1
expect 0 "pipeline 2 x 2 stages" train 2 v2 parallel.pipeline=2 parallel.virtual_stages=2
expect 0 "step 6" train 4 p4 parallel.pipeline=4 parallel.schedule=gpipe
expect 0 "pipeline 2 x 1 stages, data 2" train 4 p2d2 parallel.pipeline=2
expect 0 "data 2, 2 accumulation groups" train 2 d2
check "beside data ranks: losses and weights of data ranks alone" same p2d2 d2
for run in p2 zb v2 p4; do
    check "$run: losses and weights of one rank" same $run one
    expect 0 ": ok" "$drover" ckpt verify $run/checkpoints/step-000006
done
expect 0 "loss" "$drover" eval run.yaml --set run_dir=p2 --set parallel.pipeline=2

# --- from one layout to another
expect 0 "step 3" train 2 mixed training.steps=3 parallel.pipeline=2
expect 0 "resumed from mixed/checkpoints/step-000003" train 1 mixed training.steps=4
expect 0 "resumed from mixed/checkpoints/step-000004" train 4 mixed parallel.pipeline=4
finish
