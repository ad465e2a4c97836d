#!/bin/bash
# LoRA with dropout on conversations over mpirun: the same bits as one process, whatever the number of ranks
# and the micro-batch; resumed on another number of ranks. Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
expect 0 "step-000003" "$drover" train run.yaml --set run_dir=pre --set training.steps=3
make_chat
cat >sft.yaml <<YAML
model: {from: pre/checkpoints/step-000003}
data: {train: data/chat, valid: data/chat, sequence_length: 64}
training: {steps: 6, global_batch_size: 8, micro_batch_size: 1, eval_every: 3, eval_batches: 1, precision: bf16}
lora: {rank: 4, alpha: 8, dropout: 0.2}
optimizer: {lr: 0.01}
schedule: {warmup_steps: 2}
checkpoint: {every: 3, keep: 3}
parallel: {lanes: 4}
YAML
sums() { (cd "$1/checkpoints/step-$2" && sha256sum adapter_model.safetensors optimizer.safetensors); }
losses() { sed -n 's/.*"\(loss\|val_loss\|grad_norm\)":\([^,]*\),.*/\2/p' "$1/metrics.jsonl"; }

expect 0 "150 examples in" "$drover" train sft.yaml --set run_dir=one
says "LoRA: 1792 parameters are trained" "step-000006"
expect 0 "data 2, 4 lanes" ranks 2 train sft.yaml --set run_dir=two
expect 0 "data 4, 4 lanes" ranks 4 train sft.yaml --set run_dir=four
for run in two four; do
    check "$run ranks: adapters and moments as of one" test "$(sums one 000006)" = "$(sums $run 000006)"
    check "$run ranks: losses as of one" test "$(losses one)" = "$(losses $run)"
done
# without dropout other bits: it was on
expect 0 "step-000006" "$drover" train sft.yaml --set run_dir=plain --set lora.dropout=0
check "dropout changes nothing" test "$(sums one 000006)" != "$(sums plain 000006)"
# two rows at once: the sums of a lane are taken in another order, the dropped elements are the same
expect 0 "step-000006" "$drover" train sft.yaml --set run_dir=rows --set training.micro_batch_size=2
first() { losses "$1" | head -1 | cut -c1-6; }
check "the first loss depends on the micro-batch" test "$(first one)" = "$(first rows)"
check "dropout leaves the losses as they are" test "$(losses one | sed -n 3p)" != "$(losses plain | sed -n 3p)"
expect 0 "step-000006" ranks 2 train sft.yaml --set run_dir=rows2 --set training.micro_batch_size=2
check "2 ranks of 2 rows: the bits of one" test "$(sums rows 000006)" = "$(sums rows2 000006)"

# --- on other ranks
expect 0 "step-000003" ranks 2 train sft.yaml --set run_dir=mixed --set training.steps=3
expect 0 "resumed from mixed/checkpoints/step-000003" ranks 4 train sft.yaml --set run_dir=mixed
check "2 ranks, then 4: the bits of one" test "$(sums one 000006)" = "$(sums mixed 000006)"
finish
