#!/bin/bash
# backend: pjrt, stopped and killed: while programs are compiled, in a step, while it saves; on one device, on several, in a
# pipeline. Whatever ends a run, the same command gives the bits of one that nothing ended. Skipped where there is no plugin.
tests=$(realpath "$(dirname "$0")")
. "$tests"/pjrt.bash
. "$tests"/events.bash
make_data
train() { "$drover" train run.yaml --set backend=pjrt --set schedule.type=constant --set training.steps=8 --set checkpoint.every=2 --set run_dir="$@"; }
layouts=("one" "shared --set pjrt.devices=2 --set training.micro_batch_size=1"
    "staged --set parallel.pipeline=2 --set parallel.tensor=2")
# stop SIGNAL EVENT LAYOUT...: begins a run, which is paused at that event of at_event.c, sends the signal and lets it go on; `code` is
# its exit status
stop() {
    local signal=$1 event=$2
    shift 2
    rm -rf "$1" dump && mkdir dump
    "${preload[@]}" AT_EVENT="pause $event" DROVER_PJRT_DUMP=dump "$drover" train run.yaml --set backend=pjrt \
        --set schedule.type=constant --set training.steps=8 --set checkpoint.every=2 --set run_dir="$@" >out 2>&1 &
    pid=$!
    wait_for eval 'is_paused || is_gone $pid'
    kill -"$signal" $pid
    kill -CONT $pid
    wait_end $pid 2>/dev/null
    code=$?
}
same() { check "$1 after $2: other bits" cmp -s <(sums "$1" 000008) want; }

for layout in "${layouts[@]}"; do
    set -- $layout
    run=$1
    expect 0 "step 8" train $layout
    sums $run 000008 >want

    # The text of a program is written just before it is compiled: nothing was done, so the run ends at once.
    stop TERM 'after 1 rename *.mlir' $layout --set pjrt.cache=none
    check "$run: SIGTERM while it compiles exits $code instead of 3" [ $code = 3 ]
    says "drover: stopped by SIGTERM" "while programs were compiled"
    check "$run: a checkpoint of no step" [ -z "$(ls $run/checkpoints)" ]
    check "$run: the journal does not end: $(tail -n 1 $run/events.jsonl)" grep -q '"event":"end","state":"stopped","status":3,"cause":"stopped","step":0,"saved_step":null' $run/events.jsonl
    check "$run: status.json does not end" grep -q '"end": "stopped"' $run/status.json
    expect 0 "step 8" train $layout
    same $run "SIGTERM while it compiles"

    stop KILL "after 1 rename $run/checkpoints/step-000002" $layout
    expect 0 "step 8" train $layout
    same $run "SIGKILL"

    # In a step, and while the second checkpoint is written.
    for when in "after 3 write */$run/metrics.jsonl" "after 1 write */$run/checkpoints/*4*"; do
        stop TERM "$when" $layout
        check "$run: SIGTERM exits $code instead of 3" [ $code = 3 ]
        says "stopped by SIGTERM after step" "the same command resumes it"
        expect 0 "resumed from $run/checkpoints/step-00000" train $layout
        same $run SIGTERM
    done
done

# A second SIGINT ends a run at once, also while its devices wait for one another.
interrupted_twice impatient "$drover" train run.yaml --set backend=pjrt --set pjrt.devices=2 --set training.micro_batch_size=1 --set run_dir=impatient
finish
