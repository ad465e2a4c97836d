#!/bin/bash
# State and gradients in bf16 over ranks: random bits belong to elements of the model, so tensor ranks, data ranks with
# lanes and pipelines leave the bits of one rank. Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 0/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
low="optimizer.state_dtype=bf16 training.grad_dtype=bf16"
weights() { (cd "$1/checkpoints/step-000006" && sha256sum model.safetensors optimizer.safetensors); }

expect 0 "step 6" train 1 one $low
expect 0 "tensor 2, data 1" train 2 t2 $low parallel.tensor=2
check "tensor 2: the bits of one rank" test "$(weights one)" = "$(weights t2)"
expect 0 "step 6" train 1 masters $low optimizer.master_dtype=fp32
expect 0 "tensor 2, data 1" train 2 t2m $low optimizer.master_dtype=fp32 parallel.tensor=2
check "tensor 2, masters: the bits of one rank" test "$(weights masters)" = "$(weights t2m)"

expect 0 "step 6" train 1 lanes1 $low parallel.lanes=4
for zero in 0 1; do
    expect 0 "data 2, 4 lanes" train 4 lanes2-$zero $low parallel.tensor=2 parallel.lanes=4 parallel.zero=$zero
    check "tensor 2, data 2, zero $zero: the bits of one rank" test "$(weights lanes1)" = "$(weights lanes2-$zero)"
done
for schedule in 1f1b zb-h1; do
    expect 0 "step 6" train 2 pipe-$schedule $low parallel.pipeline=2 parallel.schedule=$schedule
    check "pipeline 2, $schedule: the bits of one rank" test "$(weights one)" = "$(weights pipe-$schedule)"
done
expect 0 "step 6" train 2 context $low parallel.context=2
check "context 2: losses of one rank" near context one 1e-3 6
finish
