#!/bin/bash
# Two attempts on one run directory: the first is paused at a random moment, the second is started as on a file system without
# locks, and the first goes on at another random moment, a hundred times over. No checkpoint may be harmed: each is verified,
# and at the end all have the bytes of an undisturbed run; status.json and the journal are the second attempt's.
# About 6 s a pause. usage: fences.sh PROGRAM [PAUSES]
. "$(dirname "$0")"/../tests/ranks.bash
pauses=${2:-100}
make_data
sed -i 's/checkpoint:.*/checkpoint: {every: 5, keep: 0}/; s/training: {/training: {log_every: 100, /; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
sed -i 's/warmup_steps: 5/type: constant, warmup_steps: 5/' run.yaml # other numbers of steps, the same rates
echo 'parallel: {accumulation_groups: 2}' >>run.yaml
run=runs/fenced
mkdir runs
# As sums, but for the number of steps that a config says.
bits() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors && sed 's/"training.steps": "[0-9]*"//' trainer.json | sha256sum); } # RUN STEP
descendants() { # PID
    local child
    for child in $(pgrep -P "$1"); do echo "$child" && descendants "$child"; done
}
rest() { sleep "$(awk -v most="$1" -v seed=$RANDOM 'BEGIN { srand(seed); print rand() * most }')"; } # at most SECONDS
start() { # STEPS: in the background
    "$drover" launch node run.yaml --ranks-per-node 2 --set run_dir=$run --set training.steps="$1" >>"$2" 2>&1 &
}
attempts() { grep -c '"event":"start"' $run/events.jsonl 2>/dev/null; }
said() { sed -nE "s/.*\"$1\": *\"?([^,\"]*).*/\1/p" $run/status.json; }
n_refused=0
for k in $(seq "$pauses"); do
    before=$(attempts)
    start 1000000 first.out
    first=$!
    wait_for eval "[ \"\$(attempts)\" != '$before' ]"
    rest 1.5
    processes="$first $(descendants $first)"
    # shellcheck disable=SC2086
    kill -STOP $processes 2>/dev/null
    rm -f $run/.lock
    saved=$(last_saved $run)
    steps=$(((saved / 5 + 4) * 5))
    start $steps second.out
    second=$!
    rest 2
    # shellcheck disable=SC2086
    kill -CONT $processes 2>/dev/null
    wait $second
    code=$?
    [ $code = 0 ] || n_refused=$((n_refused + 1)) # the first was no longer paused
    wait $first
    ended=$?
    [ $code = 0 ] && [ $ended = 0 ] && bad "pause $k: the first attempt ends with 0" first.out
    if [ $code = 0 ]; then
        check "pause $k: status.json is the second's, not: $(said state) at $(said step)" [ "$(said step)" = $steps ]
        check "pause $k: its attempt" [ "$(said attempt)" = "$(attempts)" ]
    fi
    for step in $(ls -d $run/checkpoints/step-* | grep -v tmp | tail -n 20); do
        "$drover" ckpt verify "$step" >out 2>&1 && continue
        bad "pause $k: ${step##*/} is harmed" out
        exit 1
    done
    rm -rf $run.orphan-*
done
last=$(last_saved $run)
"$drover" train run.yaml --set run_dir=one --set training.steps="$last" >one.out 2>&1
n_same=0 n_other=0
for step in $(ls -d $run/checkpoints/step-* | grep -v tmp); do
    name=${step##*step-}
    if [ "$(bits $run "$name")" = "$(bits one "$name")" ]; then n_same=$((n_same + 1)); else n_other=$((n_other + 1)); fi
done
echo "$pauses pauses; $n_refused times the second attempt was refused; $(attempts) attempts, $last steps"
echo "checkpoints: $n_same byte for byte those of an undisturbed run of one rank, $n_other others"
check "no other checkpoint" [ $n_other = 0 -a $n_same -gt 0 ]
finish
