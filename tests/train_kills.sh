#!/bin/bash
# A random rank of a run is killed at a random moment, also during a save, again and again, and the run resumed each
# time on another random layout: every time the dead rank is named, with host, step and operation, all others exit 75
# (another try may succeed), the journal of the run says which rank was lost, and in the end the bits are those of an unbroken run of one process. DROVER_KILLS: how often (3), DROVER_SEED: the
# seed; prints the seconds from the kill to the end of mpirun, which no check looks at.
. "$(dirname "$0")"/ranks.bash
patient_mpirun
kills=${DROVER_KILLS:-3} seed=${DROVER_SEED:-$RANDOM}
RANDOM=$seed
echo "seed $seed"
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 4/; s/micro_batch_size: 2/micro_batch_size: 1/; s/checkpoint:.*/checkpoint: {every: 3, keep: 4}/; s/schedule:.*/schedule: {type: constant, warmup_steps: 5}/' run.yaml
echo 'parallel: {lanes: 4}' >>run.yaml
layouts=(
    "4 parallel.data=4"
    "4 parallel.data=4 parallel.zero=0"
    "4 parallel.pipeline=2"
    "2 parallel.pipeline=2 parallel.schedule=zb-h1"
    "2 parallel.data=2"
    "2 parallel.pipeline=2 parallel.schedule=gpipe"
    "4 parallel.pipeline=4"
)
# Notes the process and the exit status of a rank; a rank that is told to end still says its status.
cat >rank.sh <<'SH'
trap '' TERM
"$@" &
echo $$ $! >pids/$OMPI_COMM_WORLD_RANK.new
mv pids/$OMPI_COMM_WORLD_RANK.new pids/$OMPI_COMM_WORLD_RANK
wait $!
status=$?
echo $status >codes/$OMPI_COMM_WORLD_RANK
exit $status
SH
got_on() { [ "$(newest_step kills)" -gt "$before" ] 2>/dev/null; }
slowest=0
for k in $(seq "$kills"); do
    read -r n keys <<<"${layouts[RANDOM % ${#layouts[@]}]}"
    sets=() victim=$((RANDOM % n)) before=$(newest_step kills) && before=${before:-0}
    for key in $keys; do sets+=(--set "$key"); done
    rm -rf pids codes && mkdir pids codes
    mpirun --oversubscribe -n "$n" bash rank.sh "$drover" train run.yaml --set run_dir=kills --set training.steps=100000 \
        "${sets[@]}" >out 2>&1 &
    mpirun=$!
    wait_for got_on
    sleep 0.$((RANDOM % 10))$((RANDOM % 10))
    read -r wrapper process <pids/$victim
    kill -KILL "$wrapper" "$process"
    from=$(date +%s%N)
    wait_end $mpirun
    took=$((($(date +%s%N) - from) / 1000000))
    [ $took -gt $slowest ] && slowest=$took
    what="kill $k of rank $victim of $n ($keys), seed $seed"
    check "$what: named with host, step and operation" \
        grep -Eq "drover: rank $victim \([^ ]+, process $process\) died, last heard of at step [0-9]+, [a-z]+: (in )?[a-z]" out
    # mpirun ends who is not done five seconds after the kill: that rank notes no status.
    check "$what: the others exit 75, not $(cat codes/* | tr '\n' ' ')" bash -c 'cat codes/* | grep -q . && ! cat codes/* | grep -qvx 75'
    tail -n 2 kills/events.jsonl >ends
    check "$what: the journal does not tell: $(cat ends)" grep -Eq "\"attempt\":$k,\"event\":\"failure\",\"rank\":$victim,\"host\":\"[^\"]+\",\"cause\":\"peer\",\"message\":\"rank $victim .*died" ends
    check "$what: no end: $(cat ends)" grep -Eq '"event":"end","state":"failed","status":75,"cause":"peer"' ends
    check "$what: status.json" grep -q '"failed_rank": '$victim kills/status.json
done
last=$((10#$(newest_step kills)))
end=$((last + 3))
expect 0 "resumed from kills/checkpoints/step-" mpirun --oversubscribe -n 4 "$drover" train run.yaml --set run_dir=kills --set training.steps=$end
expect 0 "step $end" "$drover" train run.yaml --set run_dir=unbroken --set training.steps=$end
check "resumed after $kills kills on other layouts: the bits of an unbroken run of $end steps" \
    test "$(sums kills "$(printf %06d $end)")" = "$(sums unbroken "$(printf %06d $end)")"
echo "$kills kills, $end steps; at most $slowest ms from a kill to the end of mpirun"
finish
