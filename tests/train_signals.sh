#!/bin/bash
# What each signal asks a run for (docs/adr/0006): saved and resumable, exit 3, and the bits of a run that
# nothing stopped.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
make_data
# A step of 64 micro-batches takes long enough to be stopped in the middle.
slow="--set training.global_batch_size=64 --set training.micro_batch_size=1 --set training.steps=6 --set checkpoint.every=0"
begin() { # RUN_DIR EVENT SETTING...: in the background, paused there
    local run=$1 event=$2
    shift 2
    "${preload[@]}" AT_EVENT="pause $event" "$drover" train run.yaml --set run_dir="$run" $slow "$@" >out 2>&1 &
    pid=$!
    wait_for is_paused
}
# stop RUN_DIR SIGNAL: of a run that has just finished its first step; `code` is its exit status
stop() {
    begin "$1" "after 1 write */metrics.jsonl"
    kill -"$2" $pid
    kill -CONT $pid
    wait_end $pid
    code=$?
}
expect 0 "step-000006" "$drover" train run.yaml --set run_dir=straight $slow
sums straight 000006 >want

for name in INT TERM HUP USR1; do
    stop "stop$name" "$name"
    check "SIG$name exits $code instead of 3" [ $code = 3 ]
    says "SIG$name: the run ends after this micro-batch" "SIG$name: saving after step" "the same command resumes it"
    last=$(newest "stop$name")
    expect 0 ": ok" "$drover" ckpt verify "$last"
    expect 0 "resumed from $last" "$drover" train run.yaml --set run_dir="stop$name" $slow
    sums "stop$name" 000006 | cmp -s - want && ok || bad "a run stopped by SIG$name gives other bits" out
done

# A second SIGINT ends at once, without a checkpoint.
interrupted_twice impatient "$drover" train run.yaml --set run_dir=impatient $slow
check "a second SIGINT leaves a checkpoint" [ -z "$(ls impatient/checkpoints)" ]
# A second SIGTERM long after the first does not, and the first one waits for the micro-batch at hand, not for
# the step of 64. (Two SIGINT in a moment are one key press: test_stop has that.)
is_taken() { ! grep -q '^ShdPnd:.*[4-7c-f]...$' /proc/$pid/status; } # SIGTERM
# In a step of 64 micro-batches, when the first row of the next one is read ahead.
begin patient "before 8193 read *set.bin" --set training.global_batch_size=8192 --set training.micro_batch_size=128 \
    --set data.sequence_length=512
kill -TERM $pid
kill -CONT $pid
wait_for is_taken
kill -TERM $pid 2>/dev/null
wait_end $pid
code=$?
check "a whole step is done after SIGTERM" [ ! -s patient/metrics.jsonl ]
check "a second SIGTERM exits $code instead of 3" [ $code = 3 ]

# What the run says at once in an evaluation: rows of its own set are read.
cp data/set.bin data/held.bin
cp data/set.idx data/held.idx
begin evaluation "before 300 read *held.bin" --set data.split=null --set data.valid=data/held \
    --set training.eval_every=1 --set training.eval_batches=1000000
kill -TERM $pid
kill -CONT $pid
wait_end $pid
code=$?
check "SIGTERM in an evaluation exits $code instead of 3" [ $code = 3 ]
says "SIGTERM: the run ends after this micro-batch of the evaluation and saves" "SIGTERM: ending after step 0"

# SIGUSR2 saves and continues.
stop onward USR2
check "SIGUSR2 exits $code instead of 0" [ $code = 0 ]
check "SIGUSR2 saves nothing" [ "$(grep -c "^checkpoint: " out)" = 2 ]
sums onward 000006 | cmp -s - want && ok || bad "SIGUSR2 gives other bits" out

# Before the first step there is nothing to save; under nohup SIGHUP stays ignored.
expect 0 "step-000006" nohup bash -c "$drover train run.yaml --set run_dir=nohup $slow &
    until grep -q '\"step\":1,' nohup/metrics.jsonl || ! kill -0 \$!; do sleep 0.03; done 2>/dev/null; kill -HUP \$!; wait \$!"
expect 0 "exits 3" "$drover" train --help
finish
