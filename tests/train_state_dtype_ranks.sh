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
expect 0 "data 2, 4 lanes" train 4 zero1 $low parallel.tensor=2 parallel.lanes=4
expect 0 "data 2, 4 lanes" train 2 zero0 $low parallel.lanes=4 parallel.zero=0
for run in zero0 zero1; do
    check "$run: the bits of one rank" test "$(weights lanes1)" = "$(weights $run)"
done
expect 0 "step 6" train 2 pipe $low parallel.pipeline=2 parallel.schedule=zb-h1
check "pipeline 2: the bits of one rank" test "$(weights one)" = "$(weights pipe)"
expect 0 "step 6" train 2 context $low parallel.context=2
check "context 2: losses of one rank" near context one 1e-3 6
finish
