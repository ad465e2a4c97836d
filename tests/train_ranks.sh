#!/bin/bash
# Training over mpirun: the same files as one process, resuming with another number of ranks, signals, a
# rank that is killed, errors that are said once. Needs mpirun and drover_mpi.so.
page=$(realpath "$(dirname "$0")/../docs/commands.md")
. "$(dirname "$0")"/ranks.bash
losses() { sed -n 's/.*"\(loss\|val_loss\|grad_norm\|param_norm\)":\([^,]*\),.*/\2/p' "$1/metrics.jsonl"; }
make_data
sed -i 's/steps: 40/steps: 9/; s/eval_every: 0/eval_every: 3, eval_batches: 5/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
echo 'parallel: {accumulation_groups: 4}' >>run.yaml

expect 0 "step 9" "$drover" train run.yaml --set run_dir=one
expect 0 "2 ranks on 1 host over MPI: tensor 1, data 2, 4 accumulation groups" ranks 2 train run.yaml --set run_dir=two
expect 0 "data 4" ranks 4 train run.yaml --set run_dir=four
for run in two four; do
    check "$run ranks: weights, optimizer and counters as of one" test "$(sums one 000009)" = "$(sums $run 000009)"
    check "$run ranks: losses and evaluations as of one" test "$(losses one)" = "$(losses $run)"
done
check "one log of the run" test "$(grep -c '^' two/log.txt)" -lt 60
check "a log for each other rank" test -s four/ranks/log-00003.txt
check "a log of a rank's steps" grep -q "step 9: compute .* waited .*; slowest rank" four/ranks/log-00003.txt
check "each rank's times" python3 -c '
import json, sys
steps = [s for s in map(json.loads, open("four/metrics.jsonl")) if "loss" in s]
for s in steps:
    assert s["slowest_rank"] in range(4) and s["slowest_reason"] in ("compute", "data", "save", "wait"), s
    assert all(len(s[k]) == 4 for k in ("rank_compute_s", "rank_data_s", "rank_wait_s", "rank_sent_bytes")), s
assert len(steps) == 9'
check "the slowest rank is said" grep -q "slowest rank [0-3] (" four/log.txt
check "one rank says nothing of ranks" test "$(grep -c "slowest\|rank_wait" one/log.txt one/metrics.jsonl | grep -vc ":0$")" = 0
check "the record of a rank's operations" grep -q "all_reduce over data" two/ranks/rank-00001.txt

# --- on other ranks
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=mixed --set training.steps=6
expect 0 "resumed from mixed/checkpoints/step-000006" ranks 2 train run.yaml --set run_dir=mixed
check "4 ranks, then 2: the bits of one" test "$(sums one 000009)" = "$(sums mixed 000009)"

# --- what cannot be
expect 2 "expected a multiple of micro_batch_size 1 x data-parallel ranks 3" ranks 3 train run.yaml --set run_dir=bad --set parallel.accumulation_groups=auto
check "it is said once" test "$(grep -c 'data-parallel ranks 3' out)" = 1
expect 2 "\"parallel.data\" is 2, but 1 rank was started, expected mpirun -n 2" "$drover" train run.yaml --set parallel.data=2 --set run_dir=bad
expect 2 "unknown key" ranks 3 train run.yaml --set run_dir=bad --set training.stps=3
check "a wrong config is said once" test "$(grep -c 'unknown key' out)" = 1
foreign=$(dirname "$page")/../tests/golden/foreign/midrun # hosts have copies of another trainer's checkpoint, of which rank 1's differs
for rank in 0 1; do mkdir copies$rank && cp -r "$foreign"/own "$foreign"/titan copies$rank; done
rm copies1/titan/__1_0.distcp
sed -i 's/"updates": 5/"updates": 4/' copies1/own/trainer.json
cat >copies.yaml <<END
data: {train: $foreign/data, sequence_length: 8, pack: stream, split: [1, 0, 0]}
model: {weights: resume}
training: {steps: 9, global_batch_size: 4, micro_batch_size: 2}
END
copies() { mpirun --oversubscribe -n 2 bash -c 'cd copies$OMPI_COMM_WORLD_RANK && exec "$@"' copies "$drover" train ../copies.yaml --set run_dir=../bad --set model.from="$1"; }
expect 1 '): titan/.metadata names "__1_0.distcp", which is not there' copies titan
check "no internal error" eval '! out_has "internal error"'
expect 1 '): "own" is of step 5, 4 updates, 20 samples here, but of step 5, 5 updates, 20 samples on rank 0' copies own
check "another checkpoint is said once" test "$(grep -c '^drover: ' out)" = 1
rm -r bad
exec 9>one/.lock
flock 9
expect 75 "in use by another drover" ranks 2 train run.yaml --set run_dir=one --set training.steps=12
check "that is said once" test "$(grep -c 'in use' out)" = 1
exec 9>&-

# --- stopped and killed
sed -i 's/schedule:.*/schedule: {type: constant, warmup_steps: 5}/' run.yaml # the rate of a step does not depend on training.steps
background() { # RUN_DIR: two ranks that train for long; $! is mpirun, whose children they are
    mpirun --oversubscribe -n 2 "$drover" train run.yaml --set run_dir="$1" --set training.steps=20000 --set checkpoint.keep=0 >out 2>&1 &
    mpirun=$!
    wait_for test -s "$1/checkpoints/step-000003/trainer.json"
}
background stopped
kill -TERM "$(pgrep -P $mpirun | tail -1)" # one of them
wait_end $mpirun
status=$?
check "a stop is of all ranks, status 3" test $status = 3
says "stopped by SIGTERM after step"
check "it is said once" test "$(grep -c 'drover: stopped by' out)" = 1

# As soon as one of them listens, before the first step: there, too, all agree, and nobody is taken for dead.
rank_listens() { # `rank` is one that does
    rank=$(pgrep -P $mpirun | tail -1)
    [ "/proc/$rank/exe" -ef "$drover" ] && [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$rank/status") >> 14 & 1)) = 1 ] # 15: SIGTERM
}
mpirun --oversubscribe -n 2 "$drover" train run.yaml --set run_dir=early --set training.steps=20000 >out 2>&1 &
mpirun=$!
until rank_listens 2>/dev/null || ! kill -0 $mpirun 2>/dev/null; do :; done # at once: wait_for sleeps in between
kill -TERM "$rank"
wait_end $mpirun
status=$?
check "stopped at its start: status $status, not 3" test $status = 3
says "drover: stopped by SIGTERM" # while it was opened, or after a step
check "nobody died" test "$(grep -c 'died' out)" = 0

patient_mpirun
background killed
kill -KILL "$(pgrep -P $mpirun | tail -1)"
wait_end $mpirun
status=$?
check "a killed rank ends the run" test $status != 0
says "drover: rank 1 (" "died, last heard of at step"
last=$((10#$(newest_step killed)))
expect 0 "resumed from killed/checkpoints/step-" ranks 2 train run.yaml --set run_dir=killed --set checkpoint.keep=0 --set training.steps=$((last + 3))
expect 0 "step $((last + 3))" "$drover" train run.yaml --set run_dir=unbroken --set training.steps=$((last + 3))
check "resumed after a kill: the bits of an unbroken run" test "$(sums killed "$(printf %06d $((last + 3)))")" = "$(sums unbroken "$(printf %06d $((last + 3)))")"
# --- the line of docs/commands.md, in a shell that says nothing to Open MPI, on whatever cores there are
line=$(sed -n 's/^\(mpirun .*drover train run.yaml .*\)/\1/p' "$page")
ln -sf "$drover" drover && ln -sf "$(dirname "$drover")"/drover_mpi.so .
sed 's/^parallel:.*//' run.yaml >four.yaml
expect 0 "4 ranks on 1 host over MPI: tensor 2, data 2" env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
    PATH="$PWD:$PATH" bash -c "${line/run.yaml/four.yaml} --set run_dir=page --set training.steps=1"
finish
