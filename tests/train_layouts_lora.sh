#!/bin/bash
# LoRA with dropout on conversations over mpirun, where ranks share the model: pipelines, tensor and context ranks write
# the folder of one rank byte for byte, as training of all weights does on the same conversations; any layout goes on
# from any other's; every layout names the same base. (More layouts, on ranks that are threads: test_lora_bits,
# test_lora_layouts.) Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
expect 0 "step-000003" "$drover" train run.yaml --set run_dir=pre --set training.steps=3 --set model.num_hidden_layers=4
make_chat
cat >sft.yaml <<YAML
model: {from: pre/checkpoints/step-000003}
data: {train: data/chat, valid: data/chat, sequence_length: 64}
training: {steps: 6, global_batch_size: 4, micro_batch_size: 1, eval_every: 3, eval_batches: 1, precision: bf16}
lora: {rank: 4, alpha: 8, dropout: 0.2, target_modules: all-linear}
optimizer: {lr: 0.002}
schedule: {type: constant, warmup_steps: 2}
checkpoint: {every: 3, keep: 3}
YAML
config=sft.yaml
adapter_folder() { (cd "$1/checkpoints/step-000006" && sha256sum adapter_config.json adapter_model.safetensors base.json base_config.json optimizer.safetensors); }
folder() { adapter_folder "$1"; }
same_as() { # ONE RUN...: each has ONE's folder and losses
    local one=$1 run
    shift
    for run in "$@"; do
        check "$run: the folder of $one" test "$(folder $one)" = "$(folder $run)"
        check "$run: losses of $one" test "$(losses $one)" = "$(losses $run)"
    done
}
expect 0 "LoRA: 18496 parameters are trained" train 1 one

# --- the plan counts the whole model's branches, whatever a rank has of them
expect 0 "trainable     18496 in low-rank branches" "$drover" plan sft.yaml --set parallel.tensor=2 --set parallel.pipeline=2
expect 0 '"trainable_parameters": 18496' "$drover" plan sft.yaml --json --set parallel.tensor=4

# --- pipelines: the folder of one rank, byte for byte
expect 0 "step-000006" train 2 zb parallel.pipeline=2 parallel.schedule=zb-h1
expect 0 "pipeline 2 x 2 stages" train 2 v2 parallel.pipeline=2 parallel.virtual_stages=2
same_as one zb v2
expect 0 "data 2, 2 lanes" train 2 d2
expect 0 "LoRA: 18496 parameters are trained" train 4 p2d2 parallel.pipeline=2
says "pipeline 2 x 1 stages, data 2"
check "beside data ranks: the folder of data ranks alone" test "$(folder d2)" = "$(folder p2d2)"

# --- tensor ranks, with their tokens shared and not
expect 0 "LoRA: 18496 parameters are trained" train 2 t2 parallel.tensor=2
expect 0 "tensor 4" train 4 t4 parallel.tensor=4 parallel.sequence=false
expect 0 "tensor 2, data 2" train 4 t2d2 parallel.tensor=2
expect 0 "pipeline 2 x 1 stages" train 4 t2p2 parallel.tensor=2 parallel.pipeline=2
same_as one t2 t4 t2p2
same_as d2 t2d2
for run in t4 t2d2; do
    expect 0 ": ok" "$drover" ckpt verify $run/checkpoints/step-000006
    expect 0 "loss" "$drover" eval $run --data data/chat
done
plain=(lora.dropout=0 training.precision=fp32 "lora.target_modules=[q_proj, v_proj]")
expect 0 "step-000006" train 1 plain "${plain[@]}"
expect 0 "step-000006" train 4 plain4 parallel.tensor=2 parallel.pipeline=2 "${plain[@]}"
same_as plain plain4
# rows in two leaves, on one rank and on two
expect 0 "step-000006" train 1 c1 parallel.context_leaves=2
expect 0 "context 2" train 4 c2t2 parallel.context=2 parallel.tensor=2
same_as c1 c2t2
check "without dropout other losses: it was on" test "$(losses one)" != "$(losses plain)"

# --- all weights on the same conversations: rows of whole examples, answers counted
sed '/^lora:/d' sft.yaml >full.yaml
config=full.yaml
folder() { (cd "$1/checkpoints/step-000006" && sha256sum config.json model.safetensors optimizer.safetensors); }
expect 0 "150 examples in" train 1 full
expect 0 "step-000006" train 4 full22 parallel.tensor=2 parallel.pipeline=2 parallel.sequence=false
same_as full full22
expect 0 "step-000006" train 1 fullc1 parallel.context_leaves=2
expect 0 "step-000006" train 4 fullc2 parallel.context=2 parallel.tensor=2
same_as fullc1 fullc2
config=sft.yaml
folder() { adapter_folder "$1"; }

# --- from one layout to another: what it holds is what comes back
expect 0 "step-000003" train 2 mixed training.steps=3 parallel.tensor=2
cp -r mixed broken
expect 0 "resumed from mixed/checkpoints/step-000003" train 2 mixed parallel.pipeline=2 training.steps=4
expect 0 "resumed from mixed/checkpoints/step-000004" train 4 mixed parallel.tensor=4 training.steps=5
expect 0 "resumed from mixed/checkpoints/step-000005" train 1 mixed
check "tensor 2, pipeline 2, tensor 4, one: the folder of one rank" test "$(folder mixed)" = "$(folder one)"
expect 0 "resumed" train 2 broken parallel.tensor=2
same_as one broken
expect 0 "step-000003" train 4 turned training.steps=3 parallel.pipeline=4
expect 0 "resumed" train 1 turned
check "4 stages, then one rank: the bits of one" test "$(folder turned)" = "$(folder one)"

# --- an adapter of another run, and another base
expect 0 "branches from t2/checkpoints/step-000006" train 4 more lora.adapter=t2/checkpoints/step-000006 lora.rank=4 lora.alpha=8 training.steps=1 parallel.tensor=2 parallel.pipeline=2
expect 0 "step-000004" "$drover" train run.yaml --set run_dir=other --set training.steps=4 --set model.num_hidden_layers=4
expect 1 "the adapter belongs to another base" train 2 t2 parallel.tensor=2 training.steps=7 model.from=other/checkpoints/step-000004
check "it is said once" test "$(grep -c 'another base' out)" = 1
finish
