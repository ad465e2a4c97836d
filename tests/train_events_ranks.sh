#!/bin/bash
# What several ranks tell those who watch, and the keys that stop and save them by rank 0's clock: over mpirun, and
# as devices of one process where a PJRT plugin for the CPU is there.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 12/; s/micro_batch_size: 2/micro_batch_size: 1/; s/precision: bf16/precision: fp32/; s/checkpoint:.*/checkpoint: {every: 0}/' run.yaml
has() { # RUN TEXT...: in its journal
    local run=$1 text
    shift
    for text in "$@"; do
        grep -qE -- "$text" "$run/events.jsonl" && ok || bad "$run: no $text" "$run/events.jsonl"
    done
}
# keys NAME TRAIN...: the three keys on the ranks that TRAIN starts
keys() {
    local name=$1
    shift
    expect 3 "stopped by training.stop_at_step after step 4 of 12; raise it to go on" "$@" "$name" training.stop_at_step=4
    check "$name: it is said once" test "$(grep -c 'stopped by training' out)" = 1
    has "$name" '"event":"start",.*"ranks":2,"nodes":1' '"event":"end","state":"stopped","status":3,"cause":"stopped","step":4,"saved_step":4'
    check "$name: one start" test "$(grep -c '"event":"start"' "$name/events.jsonl")" = 1
    expect 3 "stopped by training.max_minutes after step" "$@" "$name.timed" training.max_minutes=0.02 training.steps=1000000 schedule.type=constant
    has "$name.timed" '"event":"stop","step":[0-9]+,"reason":"training.max_minutes"'
    expect 3 "" "$@" "$name.often" checkpoint.every_minutes=0.00001 training.stop_at_step=6
    check "$name: no checkpoints by time" test "$(grep -c '"event":"save"' "$name.often/events.jsonl")" -ge 3
}
keys processes train 2
expect 0 "done: step 12 of 12" train 2 processes
expect 0 "done: step 12 of 12" train 2 straight
check "a stop by step changes the bits" test "$(sums processes 000012)" = "$(sums straight 000012)"
has processes '"event":"resume","step":4,"from":"processes/checkpoints/step-000004"'

# A failure that all agree on: rank 0 tells which rank it was of.
mkdir refused
expect 1 "nowhere.idx" train 2 refused data.train=nowhere
has refused '"event":"failure","rank":0,.*"cause":"io","message":".*nowhere.idx' '"event":"end","state":"failed","status":1,"cause":"io"'

# The directory is lost: all ranks save beside it.
train 2 moved training.steps=1000000 training.max_minutes=5 >moved.out 2>&1 &
job=$!
wait_for grep -q '"step":3,' moved/metrics.jsonl
mv moved elsewhere
kill -TERM "$(pgrep -x drover -P "$(pgrep -x mpirun -P $job || echo $job)" | tail -1)"
wait $job
code=$?
cp moved.out out
check "moved: exit $code, not 1" test $code = 1
says 'run directory "moved" was moved or removed while the run went on; step' 'is saved in "moved.orphan-1"'
expect 0 ": ok" "$drover" ckpt verify "$(newest moved.orphan-1)"
check "the run makes its old folder anew" test ! -e moved
has moved.orphan-1 '"event":"end","state":"failed","status":1,"cause":"io"'

# --- devices of one process
plugins=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
if ls "$plugins"/cpu/*.so >/dev/null 2>&1; then
    echo "reads $plugins/cpu, outside the tree"
    export DROVER_PJRT_DIR=$plugins DROVER_PJRT_PLUGIN=cpu DROVER_COMPILE_CACHE=$dir/cache
    devices() { train 1 "$@" backend=pjrt pjrt.devices=2; }
    keys devices devices
else
    echo "not tried: devices of one process (no plugin in $plugins/cpu)"
fi
finish
