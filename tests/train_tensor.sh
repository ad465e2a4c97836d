#!/bin/bash
# Tensor ranks beside data ranks over mpirun: the bits of one process, also of LoRA; a run that goes on under other layouts, levels of ZeRO and
# sizes of a micro-batch; evaluation of what several ranks wrote; a full disk; what cannot be cut. (Layouts by the hundred, on ranks
# that are threads: test_grid, test_tensor_bits, test_lora_layouts.) Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 6, hash_every: 1/; s/eval_every: 0/eval_every: 3, eval_batches: 2/; s/micro_batch_size: 2/micro_batch_size: 1/; s/sequence_length: 64/sequence_length: 32/' run.yaml
sed -i 's/schedule:.*/schedule: {type: constant, warmup_steps: 2}/' run.yaml # the rate of a step does not depend on training.steps
echo 'parallel: {accumulation_groups: 4, context_blocks: 2}' >>run.yaml
same() { # ONE RUN: hashes of every step, losses and every file of the last checkpoint but the time in it
    sed -i 's/"created[^,]*,//' "$1"/checkpoints/step-000006/trainer.json "$2"/checkpoints/step-000006/trainer.json
    cmp "$1/hashes.jsonl" "$2/hashes.jsonl" && cmp <(losses "$1" loss) <(losses "$2" loss) && diff -rq "$1/checkpoints/step-000006" "$2/checkpoints/step-000006" -x manifest.json
}

expect 0 "step 6" train 1 one
expect 0 "4 ranks on 1 host over MPI: tensor 2, context 1 with 2 reduction blocks, data 2, 4 accumulation groups" train 4 mesh parallel.tensor=2 parallel.zero=auto
says "zero 1: it needs"
check "tensor 2, data 2: the bits of one rank" same one mesh
expect 0 ": ok" "$drover" ckpt verify mesh/checkpoints/step-000006
loss_of() { "$drover" eval run.yaml --set run_dir="$1" "${@:2}" 2>/dev/null | sed -n 's/^loss \([0-9.]*\).*/\1/p'; }
check "evaluated in larger micro-batches, another loss" [ "$(loss_of mesh)" = "$(loss_of one --set training.micro_batch_size=2)" ]
expect 0 "" "$drover" generate mesh --prompt "Document" --max-tokens 4

# --- from one layout, level of ZeRO and micro-batch to another
expect 0 "step 2" train 4 mixed training.steps=2 parallel.zero=3 parallel.tensor=2
expect 0 "resumed from mixed/checkpoints/step-000002" train 4 mixed training.steps=3 parallel.zero=0 parallel.context=2 training.micro_batch_size=2
check "a resumed run says that a micro-batch of another size changes something" [ "$(grep -cE "changed since.*(micro|partial_sum)" out)" = 0 ]
expect 0 "resumed from mixed/checkpoints/step-000003" train 4 mixed training.steps=4 parallel.zero=3 parallel.zero_group=1 parallel.pipeline=2
expect 0 "resumed from mixed/checkpoints/step-000004" train 4 mixed training.steps=5 parallel.tensor=4 parallel.sequence=false
expect 0 "resumed from mixed/checkpoints/step-000005" train 1 mixed
check "under five layouts in turn: the bits of one rank" same one mixed

# --- LoRA with dropout: the folder of one rank
lora=(model.preset= model.num_hidden_layers= model.vocab_size= model.from=one/checkpoints/step-000006 lora.rank=4 lora.dropout=0.2 lora.target_modules=all-linear)
expect 0 "parameters are trained" train 1 lora "${lora[@]}"
expect 0 "tensor 2" train 4 lora4 "${lora[@]}" parallel.tensor=2 parallel.pipeline=2
check "LoRA on tensor 2, pipeline 2: the folder of one rank" same lora lora4

# --- a disk that is full for one rank: a file size limit stands for it
mpirun --oversubscribe -n 4 "$drover" train run.yaml --set run_dir=full --set parallel.tensor=2 --set training.steps=100000 --set checkpoint.every=5 --set checkpoint.give_up_minutes=0 >out 2>&1 &
mpirun=$!
wait_for grep -q '"step":4,' full/metrics.jsonl
for pid in $(pgrep -P $mpirun); do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qx OMPI_COMM_WORLD_RANK=3 && break
done
if prlimit --pid "$pid" --fsize=300000:unlimited 2>/dev/null; then
    wait_end $mpirun
    check "three failed saves end all ranks" test $? != 0
    says "could not save checkpoint" "rank 3 (" "training continues and tries again" "3 times in a row"
    check "each failed save is said once" test "$(grep -c 'training continues' out)" = 2
    check "the end is said once" test "$(grep -c '3 times in a row' out)" = 1
    check "nothing is left of failed saves" test -z "$(ls full/checkpoints | grep -v '^step-0*[0-9]*$')"
else
    echo "not tried: a full disk (prlimit does not work here)"
    kill -TERM $mpirun
    wait_end $mpirun
fi

# --- what cannot be cut
expect 2 "\"parallel.tensor\" is 3, expected a divisor of model.num_attention_heads" train 3 bad parallel.tensor=3 parallel.sequence=false
check "it is said once" test "$(grep -c 'num_attention_heads' out)" = 1
expect 2 "3 ranks were started, expected a multiple of tensor 2" train 3 bad parallel.tensor=2
finish
