#!/bin/bash
# More tensor ranks than key-value heads, over mpirun: files of one rank byte for byte, from any layout to any other
# (docs/adr/0018). Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
weights() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors); }
make_data
sed -i 's/steps: 40/steps: 4/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
heads=(model.num_key_value_heads=2 model.intermediate_size=176)

expect 0 "step 4" train 1 one "${heads[@]}"
for n in 4 8; do # 2 heads: two and four ranks to each
    expect 0 "tensor $n, data 1" train $n t$n parallel.tensor=$n "${heads[@]}"
    check "tensor $n: the bits of one rank" test "$(weights one 000004)" = "$(weights t$n 000004)"
    expect 0 ": ok" "$drover" ckpt verify t$n/checkpoints/step-000004
done
one_head=(model.num_key_value_heads=1 model.intermediate_size=176)
expect 0 "step 4" train 1 single "${one_head[@]}"
expect 0 "tensor 2, pipeline 2 x 1 stages" train 4 t2p2 parallel.tensor=2 parallel.pipeline=2 parallel.sequence=false "${one_head[@]}"
check "tensor 2, pipeline 2: the bits of one rank" test "$(weights single 000004)" = "$(weights t2p2 000004)"

# --- nor on the level of kernels
for n in 1 4; do
    DROVER_CPU=ref expect 0 "step 2" train $n ref$n parallel.tensor=$n training.steps=2 training.precision=fp32 training.eval_every=0 "${heads[@]}"
done
check "scalar kernels, tensor 4: the bits of one rank" test "$(weights ref1 000002)" = "$(weights ref4 000002)"

# --- from one layout to another
expect 0 "step 2" train 8 mixed training.steps=2 parallel.tensor=8 "${heads[@]}"
expect 0 "resumed from mixed/checkpoints/step-000002" train 4 mixed training.steps=3 parallel.tensor=4 "${heads[@]}"
expect 0 "resumed from mixed/checkpoints/step-000003" train 2 mixed parallel.tensor=2 "${heads[@]}"
check "tensor 8, then 4, then 2: the bits of one rank" test "$(weights one 000004)" = "$(weights mixed 000004)"

# --- branches of k and v beside weights that stay
expect 0 "done: step 4 of 4" train 4 tuned parallel.tensor=4 model.preset= model.from=one/checkpoints/step-000004 lora.rank=4 "lora.target_modules=[q_proj, k_proj, v_proj]"
expect 0 ": ok" "$drover" ckpt verify tuned/checkpoints/step-000004

# --- heads that no cut goes through evenly
expect 2 "\"parallel.tensor\" is 8, expected a divisor of model.num_key_value_heads 1, or a multiple that cuts a head of 12 evenly" "$drover" plan run.yaml --ranks 8 --set parallel.tensor=8 --set model.num_key_value_heads=1 --set model.head_dim=12 --set model.intermediate_size=176
finish
