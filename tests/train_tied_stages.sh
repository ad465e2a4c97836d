#!/bin/bash
# Checkpoints of tied embeddings on pipelines over mpirun: the first and the last of three and more stages have the table,
# whose blocks fall to the ranks of all. Every file is that of one rank, byte for byte, with each schedule, beside data
# ranks that share the optimizer, tensor and context ranks, with weights in bf16 and with LoRA; any layout goes on from any other's.
# Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 8, tie_word_embeddings: true/; s/steps: 40/steps: 3/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
folder() { (cd "$1/checkpoints/step-00000$2" && sha256sum *.safetensors manifest.json); }
same() { # ONE RUN [STEP]: all files of the checkpoint
    check "$2: the checkpoint of $1" test "$(folder "$1" "${3:-3}")" = "$(folder "$2" "${3:-3}")"
    expect 0 ": ok" "$drover" ckpt verify "$2/checkpoints/step-00000${3:-3}"
}
expect 0 "step-000003" train 1 one
blocks=$(($(stat -c %s one/checkpoints/step-000003/model.safetensors) / DROVER_CKPT_BLOCK_BYTES))
check "the file has many blocks" test $blocks -gt 40
expect 0 "pipeline 3 x 1 stages" train 3 p3 parallel.pipeline=3
expect 0 "pipeline 4 x 1 stages" train 4 p4 parallel.pipeline=4 parallel.schedule=gpipe
expect 0 "pipeline 3 x 2 stages" train 3 v3 parallel.pipeline=3 parallel.virtual_stages=2
for run in p3 p4 v3; do same one $run; done

# --- beside other axes
expect 0 "step-000003" train 1 two parallel.lanes=2
expect 0 "pipeline 3 x 1 stages, data 2" train 6 p3d2 parallel.pipeline=3 parallel.lanes=2
same two p3d2
expect 0 "tensor 2" train 6 p3t2 parallel.pipeline=3 parallel.tensor=2
same one p3t2
expect 0 "step-000003" train 1 leaves parallel.context_leaves=2
expect 0 "context 2" train 6 p3c2 parallel.pipeline=3 parallel.context=2
same leaves p3c2

# --- what is kept in bf16, and no masters
kept=(optimizer.master_dtype=bf16 optimizer.state_dtype=bf16)
expect 0 "step-000003" train 1 bf16 "${kept[@]}"
expect 0 "step-000003" train 4 bf16p4 parallel.pipeline=4 "${kept[@]}"
same bf16 bf16p4

# --- from one layout to another
expect 0 "step 5" train 1 one training.steps=5
expect 0 "resumed from p4/checkpoints/step-000003" train 3 p4 parallel.pipeline=3 training.steps=4
expect 0 "resumed from p4/checkpoints/step-000004" train 2 p4 parallel.tensor=2 training.steps=5
same one p4 5
expect 0 "resumed from p3/checkpoints/step-000003" train 1 p3 training.steps=4
expect 0 "resumed from p3/checkpoints/step-000004" train 4 p3 parallel.pipeline=4 training.steps=5
same one p3 5

# --- LoRA upon it
cat >lora.yaml <<YAML
model: {from: one/checkpoints/step-000005}
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 3, global_batch_size: 4, micro_batch_size: 1, eval_every: 0, precision: bf16}
lora: {rank: 4, alpha: 8, target_modules: all-linear}
schedule: {type: constant, warmup_steps: 1}
YAML
config=lora.yaml
expect 0 "step-000003" train 1 lora
expect 0 "step-000003" train 4 lora4 parallel.pipeline=4
expect 0 "step-000003" train 3 lora3 parallel.pipeline=3
same lora lora4
same lora lora3
finish
