#!/bin/bash
# A rank of a run is killed in the middle of a step or of a save, again and again, and the run resumed each time on another
# layout: every time the dead rank is named, with host, step and operation, all others exit 75 (another try may succeed), the
# journal of the run says which rank was lost, and in the end the bits are those of an unbroken run of one process.
# DROVER_KILLS: as many more (0), of random ranks at random events on random layouts, from the seed DROVER_SEED.
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
. "$tests"/events.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 4/; s/micro_batch_size: 2/micro_batch_size: 1/; s/checkpoint:.*/checkpoint: {every: 3, keep: 4}/; s/schedule:.*/schedule: {type: constant, warmup_steps: 5}/' run.yaml
echo 'parallel: {accumulation_groups: 4}' >>run.yaml
layouts=(
    "4 parallel.data=4"
    "4 parallel.data=4 parallel.zero=0"
    "4 parallel.pipeline=2"
    "2 parallel.pipeline=2 parallel.schedule=zb-h1"
    "2 parallel.data=2 parallel.zero=3"
    "4 parallel.data=4 parallel.zero=3 parallel.zero_group=2"
    "2 parallel.pipeline=2 parallel.schedule=gpipe"
    "4 parallel.pipeline=4"
)
# Notes the process and the exit status of a rank, and ends when all have: mpirun ends a job when the first of its ranks does.
cat >rank.sh <<'SH'
trap '' TERM
rank=$OMPI_COMM_WORLD_RANK
"$@" &
echo $! >pids/$rank
wait $!
status=$?
echo $status >codes/$rank.new
mv codes/$rank.new codes/$rank
all_ended() { local ended=(codes/*[0-9]); [ ${#ended[@]} = $OMPI_COMM_WORLD_SIZE ]; }
for ((i = 0; i < 2000; i++)); do
    all_ended && break
    sleep 0.03
done
exit $status
SH
export OMPI_MCA_odls_base_sigkill_timeout=0
k=0
kill_rank() { # RANKS VICTIM MOMENT SETTING...
    local n=$1 victim=$2 moment=$3 before sets=() what="kill of rank $2 of $1 ${*:4} $3, seed $seed"
    shift 3
    for key in "$@"; do sets+=(--set "$key"); done
    before=$(last_saved kills) k=$((k + 1))
    rm -rf pids codes && mkdir pids codes
    mpirun --oversubscribe -n "$n" bash rank.sh "${preload[@]}" AT_RANK="$victim" AT_EVENT="kill $moment" "$drover" train run.yaml \
        --set run_dir=kills --set training.steps=100000 "${sets[@]}" >out 2>&1
    check "$what: it was not, but ended with $(cat codes/$victim)" [ "$(cat codes/$victim)" = 137 ]
    rm codes/$victim
    check "$what: the others exit 75, not $(cat codes/* | tr '\n' ' ')" [ "$(sort -u codes/*)" = 75 ]
    check "$what: named with host, step and operation" \
        grep -Eq "drover: rank $victim \([^ ]+, process $(cat pids/$victim)\) died, last heard of at step [0-9]+, [a-z]+: (in )?[a-z]" out
    check "$what: step $before was saved, and is not any more" [ "$(last_saved kills)" -ge "$before" ]
    tail -n 2 kills/events.jsonl >ends
    check "$what: the journal does not tell: $(cat ends)" grep -Eq "\"attempt\":$k,\"event\":\"failure\",\"rank\":$victim,\"host\":\"[^\"]+\",\"cause\":\"peer\",\"message\":\"rank $victim .*died" ends
    check "$what: no end: $(cat ends)" grep -Eq '"event":"end","state":"failed","status":75,"cause":"peer"' ends
    check "$what: status.json" grep -q '"failed_rank": '$victim kills/status.json
}
kills=${DROVER_KILLS:-0} seed=${DROVER_SEED:-1}
RANDOM=$seed
kill_rank 4 2 "half 16 write */checkpoints/*/model.safetensors" parallel.data=4 # the second one
kill_rank 2 1 "before 44 read *set.bin" parallel.pipeline=2 parallel.schedule=zb-h1 # in its sixth step
kill_rank 4 0 "before 2 rename */checkpoints/step-??????" parallel.pipeline=2
kill_rank 4 3 "half 20 write */checkpoints/*" parallel.data=4 parallel.zero=3 parallel.zero_group=2 # of the second group
check "saved is step $(last_saved kills), not 6 or 9" [ "$(last_saved kills)" -ge 6 ]
events=("half %d write */checkpoints/*" "before %d read *set.bin" "after %d read *set.bin")
for ((i = 0; i < kills; i++)); do
    read -r n keys <<<"${layouts[RANDOM % ${#layouts[@]}]}"
    printf -v moment "${events[RANDOM % 3]}" $((RANDOM % 200 + 1))
    kill_rank "$n" $((RANDOM % n)) "$moment" $keys
done
echo "4 kills, and $kills of DROVER_SEED=$seed"
end=$(($(last_saved kills) + 3))
expect 0 "resumed from kills/checkpoints/step-" mpirun --oversubscribe -n 4 "$drover" train run.yaml --set run_dir=kills --set training.steps=$end
expect 0 "step $end" "$drover" train run.yaml --set run_dir=unbroken --set training.steps=$end
check "resumed after $k kills on other layouts: the bits of an unbroken run of $end steps" \
    test "$(sums kills "$(newest_step kills)")" = "$(sums unbroken "$(newest_step unbroken)")"
finish
