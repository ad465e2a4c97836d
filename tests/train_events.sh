#!/bin/bash
# What a run tells those who watch it: events.jsonl over its attempts, status.json, each end with its cause; the
# keys that stop and save by time and by step; and a run directory that is lost in mid-run.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
make_data
sed -i 's/steps: 40/steps: 12/' run.yaml
train() { # RUN_DIR SETTING...
    local run=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    "$drover" train run.yaml --set run_dir="$run" "${sets[@]}"
}
kinds() { sed -nE 's/.*"event":"([a-z_]*)".*/\1/p' "$1/events.jsonl" | uniq | tr '\n' ' '; }
status_is() { # RUN "KEY": VALUE...: lines of status.json
    local run=$1 line
    shift
    for line in "$@"; do
        grep -qE "^ *$line,?$" "$run/status.json" && ok || bad "$run: no $line in status.json" "$run/status.json"
    done
}
event_is() { # RUN KIND TEXT...: in the last event of the kind
    local run=$1 kind=$2 text
    shift 2
    for text in "$@"; do
        grep "\"event\":\"$kind\"" "$run/events.jsonl" | tail -n 1 | grep -qF -- "$text" && ok ||
            bad "$run: no $text in the last $kind" "$run/events.jsonl"
    done
}

# --- a run that stops by itself, goes on, and is done
expect 3 "stopped by training.stop_at_step after step 5 of 12; raise it to go on" train seen training.stop_at_step=5 training.eval_every=4 checkpoint.every=0
check "events: $(kinds seen)" [ "$(kinds seen)" = "start resume evaluation running evaluation stop save end " ]
event_is seen evaluation '"step":4,"seconds":' '"val_loss":5.'
expect 3 "stopped by training.stop_at_step after step 5 of 12; raise it to go on" train one training.stop_at_step=5
event_is one start '"attempt":1' '"ranks":1' '"nodes":1' "\"host\":\"$(hostname)\"" '"job":""' '"restarts":null' '"steps":12' '"backend":"cpu"'
event_is one resume '"step":0,"from":null,"lost_steps":0'
event_is one running '"step":1'
event_is one save '"step":5,"seconds":' '"blocked_s":' "\"bytes\":$(cat one/checkpoints/step-000005/[!m]* one/checkpoints/step-000005/model* | wc -c)"
event_is one stop '"step":5,"reason":"training.stop_at_step"'
event_is one end '"state":"stopped","status":3,"cause":"stopped","step":5,"saved_step":5'
status_is one '"state": "ended"' '"end": "stopped"' '"status": 3' '"step": 5' '"steps": 12' '"saved_step": 5' '"attempt": 1' '"cause": "stopped"'
check "owner.json stays after the end" [ ! -e one/owner.json ]
expect 3 "nothing to do: step 5 is done, and training.stop_at_step is 5" train one training.stop_at_step=5
export SLURM_JOB_ID=77 SLURM_RESTART_COUNT=2
expect 0 "done: step 12 of 12" train one
unset SLURM_JOB_ID SLURM_RESTART_COUNT
event_is one start '"attempt":3' '"job":"77"' '"restarts":2'
event_is one resume '"step":5,"from":"one/checkpoints/step-000005","lost_steps":0'
event_is one end '"state":"done","status":0,"cause":"done","step":12,"saved_step":12'
status_is one '"end": "done"' '"status": 0' '"message": null' '"failed_rank": null'
# The schedule, and all that is saved, are those of a run that nothing stopped.
expect 0 "done" train straight
check "a stop by step changes the bits" [ "$(sums one 000012)" = "$(sums straight 000012)" ]

# --- by time
expect 3 "stopped by training.max_minutes after step" train timed training.max_minutes=0.002 training.steps=1000000 checkpoint.every=0 schedule.type=constant
says "the same command resumes it"
event_is timed stop '"reason":"training.max_minutes"'
expect 3 "stopped by training.stop_at_step" train often checkpoint.every=0 checkpoint.every_minutes=0.00001 training.stop_at_step=6
check "no checkpoints by time: $(kinds often)" [ "$(grep -c '"event":"save"' often/events.jsonl)" -ge 3 ]

# --- signals, and starts that are refused
"$drover" train run.yaml --set run_dir=stopped --set training.steps=1000000 --set training.max_minutes=5 --set checkpoint.every=0 --fresh >began 2>&1 &
pid=$!
wait_for grep -q '"step":5,' stopped/metrics.jsonl
status_is stopped '"state": "(starting|running)"' '"end": null' "\"pid\": $pid"
check "no owner" grep -q "\"pid\": $pid, .*\"heartbeat\": 1" stopped/owner.json
expect 75 "is in use by another drover (host $(hostname), process $pid, since 20" train stopped
check "a start that was refused writes into the journal" [ "$(grep -c '"event":"start"' stopped/events.jsonl)" = 1 ]
kill -TERM $pid
wait $pid
check "SIGTERM: exit $?, not 3" [ $? = 3 ]
check "no way back is named" grep -q "the same command without --fresh resumes it" began
event_is stopped stop '"signal":"SIGTERM"'
status_is stopped '"end": "stopped"' '"status": 3'
expect 1 "nowhere.idx" train new data.train=nowhere
check "a mistyped data set leaves no run directory" [ ! -e new ]
mkdir refused
expect 1 "nowhere.idx" train refused data.train=nowhere
event_is refused failure '"rank":0' "\"host\":\"$(hostname)\"" '"cause":"io"' 'nowhere.idx'
event_is refused end '"state":"failed","status":1,"cause":"io","step":0,"saved_step":null'
status_is refused '"state": "ended"' '"end": "failed"' '"status": 1' '"cause": "io"' '"failed_rank": 0' '"message": ".*nowhere.idx.*"'
check "a failed start keeps the directory" [ ! -e refused/owner.json ]
# What is refused leaves how the run ended as it is.
expect 0 "done: step 2 of 2" train finished training.steps=2
for run in finished stopped; do
    cp $run/status.json before.json
    expect 2 "a run keeps its model" train $run model.hidden_size=32
    expect 2 "a run keeps its optimizer" train $run optimizer.type=muon
    check "$run: status.json after a refusal" cmp $run/status.json before.json
done
cp finished/status.json before.json
expect 1 "nowhere.idx" train finished data.train=nowhere
check "finished: status.json after a start without data" cmp finished/status.json before.json
expect 0 "done" "$drover" report finished
expect 0 "done" "$drover" top finished --once

# --- killed: what no checkpoint holds is told, and lines that stand twice are cut
"$drover" train run.yaml --set run_dir=killed --set training.steps=1000000 --set training.max_minutes=5 --set checkpoint.every=0 >out 2>&1 &
pid=$!
wait_for grep -q '"step":7,' killed/metrics.jsonl
kill -KILL $pid
wait $pid 2>/dev/null
lost=$(grep -c '"loss"' killed/metrics.jsonl)
expect 3 "" train killed training.stop_at_step=6
event_is killed start '"attempt":2'
event_is killed resume "\"step\":0,\"from\":null,\"lost_steps\":$lost,\"lost_s\":"
cp killed/metrics.jsonl once
cat once >>killed/metrics.jsonl
tail -n 2 once >>killed/metrics.jsonl
printf '{"step":7,"step_s":0.5}\n{"step":8,"step_s":0.25,"lo' >>killed/metrics.jsonl
expect 3 "resumed from" train killed training.stop_at_step=7
event_is killed resume '"step":6,"from":"killed/checkpoints/step-000006","lost_steps":1,"lost_s":0.5'
check "lines stand twice" [ "$(sed -nE 's/.*"step":([0-9]*),.*/\1/p' killed/metrics.jsonl | tr '\n' ' ')" = "1 2 3 4 5 6 7 " ]
check "lines have changed" [ "$(head -n 6 killed/metrics.jsonl)" = "$(cat once)" ]

# --- nothing learned
cp -r "$(newest straight)" huge
header=$(od -An -t u8 -N 8 huge/model.safetensors | tr -d ' ')
printf '\177\177\177\177' | dd of=huge/model.safetensors bs=1 conv=notrunc seek=$((8 + header + 400)) 2>/dev/null
sed 's/^model:.*/model: {from: huge}/' run.yaml >huge.yaml
for fresh in "" ""; do # begun, and started again
    expect 1 "none of the 3 steps changed a weight" "$drover" train huge.yaml --set run_dir=nan --set training.steps=3 --set checkpoint.every=2 --set data.pack=stream
    says "look at"
    event_is nan end '"state":"failed","status":1,"cause":"not_finite","step":3'
done

# --- the directory is lost in mid-run
begin_long() { # RUN
    "$drover" train run.yaml --set run_dir="$1" --set training.steps=1000000 --set training.max_minutes=5 --set checkpoint.every=0 >out."$1" 2>&1 &
    pid=$!
    wait_for grep -q '"step":3,' "$1/metrics.jsonl"
}
lost() { # RUN TEXT: it has ended, and saved its last step beside
    wait $pid
    local got=$?
    cp out."$1" out
    check "$1: exit $got, not 1" [ $got = 1 ]
    says "$2" "is saved in \"$1.orphan-1\""
    expect 0 ": ok" "$drover" ckpt verify "$(newest "$1".orphan-1)"
    event_is "$1.orphan-1" end '"state":"failed","status":1,"cause":"io"'
}
begin_long moved
mv moved elsewhere
kill -USR2 $pid
lost moved 'run directory "moved" was moved or removed while the run went on'
check "the run makes its old folder anew" [ ! -e moved ]
check "a lost folder holds later events" [ "$(kinds elsewhere)" = "start resume running " ]
expect 3 "resumed from moved.orphan-1" "$drover" train moved.orphan-1/config.yaml --set training.stop_at_step="$(($(sed -nE 's/.*"step": ([0-9]*).*/\1/p' moved.orphan-1/saved.json) + 1))"
# Removed, and another run begun in its place.
begin_long removed
first=$pid
wait_for rm -rf removed
mv out.removed out.first
begin_long removed
second=$pid
kill -TERM "$first"
wait "$first"
code=$?
cp out.first out
check "removed: exit $code, not 1" [ $code = 1 ]
says "and another is in its place; step" 'is saved in "removed.orphan-1"'
expect 0 ": ok" "$drover" ckpt verify "$(newest removed.orphan-1)"
check "the older run saves among the other's files" [ -z "$(ls removed/checkpoints)" ]
check "the older run takes the other's place" grep -q "\"pid\": $second," removed/owner.json
kill -TERM "$second"
wait "$second"
check "the younger run: exit $?, not 3" [ $? = 3 ]
check "the younger run's journal: $(kinds removed)" [ "$(kinds removed)" = "start resume running stop save end " ]
# Taken over by a run on another machine, which the lock of this one does not keep away.
begin_long taken
sed 's/"token": "[^"]*"/"token": "another"/; s/"host": "[^"]*"/"host": "n9"/' taken/owner.json >other && mv other taken/owner.json
kill -TERM "$pid"
lost taken 'was taken over by another drover (host n9,'
check "the run that was taken over saves there" [ -z "$(ls taken/checkpoints)" ]
check "the other's owner.json goes" grep -q n9 taken/owner.json

# Taken over while it is paused, by a run of this machine, as the lock is lost: that goes on from the same step. The first one,
# continued, changes none of the other's files, wherever it was.
written() { (cd "$1" && find checkpoints saved.json metrics.jsonl hashes.jsonl events.jsonl status.json -type f -exec sha256sum {} + | sort); }
paused() { # RUN EVENT SETTING...: paused at an EVENT of at_event.c, taken over, continued
    local run=$1 event=$2 got
    shift 2
    "${preload[@]}" AT_EVENT="pause $event" "$drover" train run.yaml --set run_dir="$run" "$@" >out.paused 2>&1 &
    pid=$!
    wait_for is_paused
    rm "$run/.lock"
    expect 0 "done: step 12 of 12" train "$run" training.hash_every=1 checkpoint.keep=0
    written "$run" >before
    kill -CONT $pid
    wait_end $pid
    got=$?
    cp out.paused out
    check "$run: exit $got, not 1" [ $got = 1 ]
    says "and another is in its place"
    written "$run" >after
    check "$run: it has changed what is another's: $(diff before after)" cmp -s before after
}
expect 3 "after step 6 of 12" train lines training.hash_every=1 training.stop_at_step=6
for run in saves notes removes; do cp -r lines $run; done
# Before its first line: all lines that there are stay, and the other run has them.
paused lines "before 1 write */hashes.jsonl" --set training.hash_every=1
# Its checkpoint is in place: it has yet to say so in saved.json, and to remove older ones.
paused saves "after 1 rename */checkpoints/step-000009" --set training.hash_every=1 --set checkpoint.keep=1
# It has begun to say so, in the file that is to be renamed to saved.json.
paused notes "before 1 write */saved.json.drover-tmp" --set training.hash_every=1
# It has begun to remove the oldest one: the other finds no part of it, and nothing goes from under it.
paused removes "after 1 rename */checkpoints/step-000003.drover-tmp" --set training.hash_every=1 --set checkpoint.keep=1

# --- a disk without room
if unshare -rm true 2>/dev/null; then
    mkdir disk
    unshare -rm bash -c 'mount -t tmpfs -o size=1m none disk && "$0" train run.yaml --set run_dir=disk/run; code=$?
        cp disk/run/events.jsonl full.jsonl; exit $code' "$drover" >out 2>&1
    code=$?
    check "full: exit $code, not 75" [ $code = 75 ]
    says "No space left on device"
    check "full: its cause" grep -q '"event":"end","state":"failed","status":75,"cause":"full"' full.jsonl
    # One that has room again: training has gone on, and what could not be written has been kept.
    cat >again.sh <<'AGAIN'
mount -t tmpfs -o size=20m none disk || exit 1
wait_for() { for _ in $(seq 600); do eval "$1" && return; sleep 0.1; done; cat again.out; exit 1; }
count() { grep -c "$1" again.out; }
"$1" train run.yaml --set run_dir=disk/run --set training.steps=100000 --set checkpoint.every=5 --set checkpoint.keep=1 \
    --set training.eval_every=7 --set data.valid= --set "data.split=[9, 1, 0]" >again.out 2>&1 &
wait_for 'compgen -G "disk/run/checkpoints/step-*/trainer.json"'
full_still() { head -c 30M /dev/zero >>disk/filler 2>/dev/null; } # again: a save that was under way may have made room
wait_for 'full_still; [ $(count "tries again") -ge 4 ]'
rm disk/filler
n=$(count "^checkpoint: ")
wait_for '[ $(count "^checkpoint: ") -gt $n ]'
kill -TERM $!
wait $!
code=$?
cp -r disk/run again
exit $code
AGAIN
    unshare -rm bash again.sh "$drover" >out 2>&1
    code=$?
    check "room again: exit $code, not 3" [ $code = 3 ]
    check "room again: each step once, in order" [ "$(sed -nE 's/^\{"step":([0-9]+),.*"loss".*/\1/p' again/metrics.jsonl |
        awk '$1 != NR { bad = 1 } END { print (NR > 20 && !bad) }')" = 1 ]
    check "room again: each line of the journal is whole" bash -c "! grep -vE '^\{.*\}$' again/events.jsonl"
    check "room again: evaluations while it was full" [ "$(grep -c '"event":"evaluation"' again/events.jsonl)" = "$(grep -c '"val_loss"' again/metrics.jsonl)" ]
    expect 0 ": ok" "$drover" ckpt verify "$(newest again)"
else
    echo "not tried: a full disk (no mounts of one's own)"
fi
finish
