#!/bin/bash
# A stop that reaches one rank in an evaluation or a step that would take minutes: all ranks, on every axis, save and end with 3,
# without the rest of it, and the same command goes on; one that comes while the run is opened ends it before its first step.
# usage: train_stops.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
make_data
valid=$(for _ in {1..400}; do printf 'data/set, '; done)
sed -i "s#^data: .*#data: {train: data/set, valid: [${valid%, }], sequence_length: 64}#" run.yaml
sed -i 's/eval_every: 0/eval_every: 1, eval_batches: 1000000/; s/micro_batch_size: 2/micro_batch_size: 1/; s/precision: bf16/precision: fp32/' run.yaml
stops() { # NAME RANKS SIGNAL SETTING...
    local name=$1 ranks=$2 signal=$3 sets=() set job code
    shift 3
    for set in "$@"; do sets+=(--set "$set"); done
    mpirun --oversubscribe -n "$ranks" "$drover" train run.yaml --set run_dir="$name" "${sets[@]}" >out 2>&1 &
    job=$!
    wait_for grep -qs "of memory planned" "$name/log.txt"
    kill -"$signal" "$(pgrep -x drover -P $job | tail -n 1)"
    wait_end $job
    code=$?
    check "$name: SIG$signal in an evaluation: exit $code, not 3" test $code = 3
    says "stopped by SIG$signal after step 0 of 40; the same command resumes it" "SIG$signal: ending after step 0"
    check "$name: the evaluation went on to its end" test -z "$(grep -s val_loss "$name/metrics.jsonl")"
}
# Before the first step: it is not taken.
mpirun --oversubscribe -n 2 "$drover" train run.yaml --set run_dir=opened --set training.eval_every=0 --set training.global_batch_size=65536 \
    --set training.micro_batch_size=1 >out 2>&1 &
job=$!
listens() { # the last rank: 15 is SIGTERM
    rank=$(pgrep -x drover -P $job | tail -n 1)
    [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$rank/status") >> 14 & 1)) = 1 ]
}
until listens 2>/dev/null || is_gone $job; do :; done # at once: wait_for sleeps in between
kill -TERM "$rank"
wait_end $job
code=$?
check "stopped while it is opened: exit $code, not 3" test $code = 3
says "stopped by SIGTERM " "the same command resumes it"

# `srun -K` sends SIGTERM to the ranks that are left when the first has ended with 2 for a wrong config: they end so too. Rank 0
# waits here, so that the signal comes while the other one is about to refuse the config.
mkfifo go
mpirun --oversubscribe -n 2 bash -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] || read -r <go; exec "$@"' bash "$drover" train run.yaml \
    --set data.sequence_length=0 >out 2>&1 &
job=$!
wait_for listens
kill -TERM "$rank"
echo >go
wait_end $job
code=$?
check "a wrong config, and SIGTERM: exit $code, not 2" test $code = 2
says "data.sequence_length"

stops alone 1 TERM
stops data 2 TERM
stops mesh 4 USR1 parallel.tensor=2 parallel.context=2
stops interleaved 2 USR1 parallel.pipeline=2 parallel.virtual_stages=2 model.num_hidden_layers=4

# In a step that would take minutes: it is given up between two micro-batches.
in_step() { # NAME RANKS SIGNAL SETTING...
    stops "$@" training.eval_every=0 training.global_batch_size=65536
    check "$1: the step was done to its end" test ! -s "$1/metrics.jsonl"
}
in_step step_data 2 USR1
in_step step_pipeline 2 TERM parallel.pipeline=2 parallel.schedule=zb-h1
# While a checkpoint is checked, rows are read and a checkpoint is written by a disk that does not answer. (One layout, so that one
# run is enough to compare with; tools/stop_phases.py draws others.)
STOP_LIMIT_S=60 expect 0 "3 passed, 0 failed" python3 "$(dirname "$tests")"/tools/stop_phases.py "$drover" check:pipeline data:pipeline save:pipeline
finish
