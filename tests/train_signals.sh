#!/bin/bash
# What each signal asks a run for (docs/adr/0006): saved and resumable, exit 3, and the bits of a run that
# nothing stopped.
. "$(dirname "$0")"/story.bash
make_data
# A step of 64 micro-batches takes long enough to be stopped in the middle.
slow="--set training.global_batch_size=256 --set training.micro_batch_size=1 --set training.steps=6 --set checkpoint.every=0"
begin() { # begin RUN_DIR [--set ...]: in the background, up to the first finished step
    local run=$1
    shift
    "$drover" train run.yaml --set run_dir="$run" $slow "$@" >out 2>&1 &
    pid=$!
    wait_for grep -q '"step":1,' "$run/metrics.jsonl" || bad "no step in a minute" out
}
expect 0 "step-000006" "$drover" train run.yaml --set run_dir=straight $slow
sums straight 000006 >want

for name in INT TERM HUP USR1; do
    begin "stop$name"
    kill -"$name" $pid
    wait $pid
    check "SIG$name exits $? instead of 3" [ $? = 3 ]
    says "SIG$name: saving after step" "the same command resumes it"
    last=$(ls -d "stop$name"/checkpoints/step-* | sort | tail -n 1)
    expect 0 ": ok" "$drover" ckpt verify "$last"
    expect 0 "resumed from $last" "$drover" train run.yaml --set run_dir="stop$name" $slow
    sums "stop$name" 000006 | cmp -s - want && ok || bad "a run stopped by SIG$name gives other bits" out
done

# A second SIGTERM changes nothing; a second SIGINT ends at once, without a checkpoint.
begin twice --set training.global_batch_size=4096
kill -TERM $pid
kill -TERM $pid
wait $pid
check "two SIGTERM exit $? instead of 3" [ $? = 3 ]
"$drover" train run.yaml --set run_dir=impatient $slow --set training.global_batch_size=65536 \
    --set training.micro_batch_size=1024 --set data.sequence_length=512 >out 2>&1 &
pid=$!
wait_for grep -q "of memory planned" impatient/log.txt
kill -INT $pid
sleep 0.3
kill -INT $pid
wait $pid
check "a second SIGINT exits $? instead of 130" [ $? = 130 ]
check "a second SIGINT leaves a checkpoint" [ -z "$(ls impatient/checkpoints)" ]
# Told twice in a moment, as timeout(1) does, it is one.
"$drover" train run.yaml --set run_dir=bounce $slow >out 2>&1 &
pid=$!
wait_for grep -q '"step":1,' bounce/metrics.jsonl
kill -INT $pid
kill -INT $pid
wait $pid
check "one key press told twice exits $? instead of 3" [ $? = 3 ]

# SIGUSR2 saves and goes on.
begin onward
kill -USR2 $pid
wait $pid
check "SIGUSR2 exits $? instead of 0" [ $? = 0 ]
check "SIGUSR2 saves nothing" [ "$(grep -c "^checkpoint: " out)" = 2 ]
sums onward 000006 | cmp -s - want && ok || bad "SIGUSR2 gives other bits" out

# Before the first step there is nothing to save; under nohup SIGHUP stays ignored.
expect 0 "step-000006" nohup bash -c "$drover train run.yaml --set run_dir=nohup $slow & sleep 1; kill -HUP \$!; wait \$!"
expect 0 "exit 3" "$drover" train --help
finish
