#!/bin/bash
# Tensor and data ranks over mpirun: the bits of one process, checkpoints that any layout goes on from,
# evaluation of what several ranks wrote, what cannot be cut. Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
weights() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors); }
make_data
sed -i 's/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 3, eval_batches: 2/; s/micro_batch_size: 2/micro_batch_size: 1/; s/sequence_length: 64/sequence_length: 32/' run.yaml

expect 0 "step 6" train 1 one
expect 0 "2 ranks on 1 host over MPI: tensor 2, data 1" train 2 t2 parallel.tensor=2
expect 0 "tensor 2, data 2, 2 lanes" train 4 t2d2 parallel.tensor=2
expect 0 "tensor 4, data 1" train 4 t4 parallel.tensor=4 parallel.sequence=false
loss_of() { "$drover" eval run.yaml --set run_dir="$1" --set parallel.tensor=2 2>/dev/null | sed -n 's/^loss \([0-9.]*\).*/\1/p'; }
one=$(loss_of one)
for run in t2 t2d2 t4; do
    check "$run: losses of one rank" near $run one
    expect 0 ": ok" "$drover" ckpt verify $run/checkpoints/step-000006
    check "$run: evaluated as one rank's" awk -v a="$one" -v b="$(loss_of $run)" 'BEGIN { exit !(a > 5 && (a - b) ^ 2 < 1e-6) }'
done
for run in t2 t4; do
    check "$run: the bits of one rank" test "$(weights one 000006)" = "$(weights $run 000006)"
done
check "files have the sizes of one rank's" test "$(cd one/checkpoints/step-000006 && stat -c '%n %s' -- *.safetensors)" = "$(cd t2d2/checkpoints/step-000006 && stat -c '%n %s' -- *.safetensors)"
expect 0 "" "$drover" generate t2 --prompt "Document" --max-tokens 4

# --- the bits of data ranks are those of one, also where each has a part of the products
expect 0 "data 2, 4 lanes" train 4 lanes2 parallel.tensor=2 parallel.lanes=4
expect 0 "data 1, 4 lanes" train 2 lanes1 parallel.tensor=2 parallel.lanes=4
check "2 data ranks: the bits of one" test "$(sums lanes1 000006)" = "$(sums lanes2 000006)"

# --- a vocabulary that ranks cannot share evenly
for n in 1 4; do
    expect 0 "step 2" train $n odd$n parallel.tensor=$n training.steps=2 model.vocab_size=509 tokenizer=
done
check "509 rows among 4 ranks: the bits of one" test "$(weights odd1 000002)" = "$(weights odd4 000002)"

# --- from one layout to another
expect 0 "step 3" train 4 mixed training.steps=3 parallel.tensor=2
cp -r mixed broken
expect 0 "resumed from mixed/checkpoints/step-000003" train 1 mixed training.steps=3
expect 0 "resumed from mixed/checkpoints/step-000003" train 4 mixed parallel.tensor=4
check "tensor 2 data 2, then tensor 4: losses of one" near mixed one
expect 0 "resumed from mixed/checkpoints/step-000006" train 2 mixed training.steps=7
# A resume keeps every bit: the same steps without a break.
expect 0 "resumed" train 4 broken parallel.tensor=2
sed -i 's/"created[^,]*,//' broken/checkpoints/step-000006/trainer.json t2d2/checkpoints/step-000006/trainer.json
for file in model optimizer; do
    check "tensor 2 data 2 resumed: $file of the unbroken run" cmp broken/checkpoints/step-000006/$file.safetensors t2d2/checkpoints/step-000006/$file.safetensors
done
# Weights of a folder, whatever wrote them: one rank's, cut among four.
expect 0 "weights from one/checkpoints/step-000006" train 4 tuned model.preset= model.from=one/checkpoints/step-000006 parallel.tensor=2 training.steps=2
expect 0 "weights from one/checkpoints/step-000006" train 1 tuned1 model.preset= model.from=one/checkpoints/step-000006 training.steps=2
check "they are alike" awk '($1 - $2) ^ 2 > 1e-6 { exit 1 }' <(paste <(losses tuned) <(losses tuned1))

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
