#!/bin/bash
# What happens to one rank of several in the middle of a run: its data cannot be read, or has become shorter; a weight of it
# becomes NaN, or another number than the others have; its library computes another logarithm. All end with 1 and say what
# that rank says, once; the same command then goes on, to the bits of a run that nothing happened to. Nothing in the program knows of it: tests/rank_fault.c is preloaded. Needs mpirun.
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/checkpoint:.*/checkpoint: {every: 5, keep: 0}/; s/precision: bf16/precision: fp32/; s/schedule:.*/schedule: {type: constant, warmup_steps: 0}/' run.yaml
echo 'parallel: {accumulation_groups: 2}' >>run.yaml
base=$dir
for rank in 0 1; do mkdir rank$rank && cp -r data tok run.yaml rank$rank; done
cat >rank.sh <<'SH'
cd "$BASE/rank$OMPI_COMM_WORLD_RANK" && exec env ${PRELOAD:+LD_PRELOAD=$PRELOAD} "$@"
SH
export BASE=$dir FAULT_RANK=1 ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
two() { # RUN SETTING...: each of two ranks in its own folder, with its own copy of the data
    local run=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    mpirun --oversubscribe -n 2 bash rank.sh "$drover" train run.yaml --set run_dir="$base/$run" "${sets[@]}"
}
# ends RUN TEXT: the run in the background, in which something happened, has ended as it should, and can be resumed. (One to
# which nothing happened is not gone on with: its 2,000 steps would be trained once more.)
ends() {
    local run=$1 said=$2
    wait_end $job
    local got=$? last
    check "$run: exit $got, not 1" [ $got = 1 ]
    [ $got = 1 ] || return
    check "$run: said $(grep -Ec "^drover: $said" out) times: $said" [ "$(grep -Ec "^drover: $said" out)" = 1 ]
    check "$run: one failure is said" [ "$(grep -c '^drover: ' out)" = 1 ]
    rm -rf rank1/data fault && cp -r data rank1
    last=$((10#$(newest_step "$run") + 2))
    expect 0 "resumed from $base/$run/checkpoints/" two "$run" training.steps=$last $settings
    expect 0 "step $last" "$drover" train run.yaml --set run_dir="$run.whole" --set training.steps=$last ${settings:+--set $settings}
    # (Another number may be in what was saved before the ranks were compared: nothing in the file tells it from a weight.)
    [ -n "$FAULT_NUMBER" ] || check "$run: the bits of a run that nothing happened to" test "$(sums "$run" "$(printf %06d $last)")" = "$(sums "$run.whole" "$(printf %06d $last)")"
}
starts() { # RUN SETTING...
    local run=$1
    two "$@" training.steps=2000 training.log_every=1000 >out 2>&1 &
    job=$!
    wait_for grep -q '"step":6,' "$run/metrics.jsonl"
}
settings= on_rank_1='rank 1 \([^)]*\)'
for what in bin idx; do
    starts short$what
    truncate -s 20 rank1/data/set.$what
    ends short$what "$on_rank_1: .*shorter"
done
starts gone # what is open stays readable: a file that vanishes disturbs nobody
rm -r rank1/data
wait_for grep -q "\"step\":$(($(wc -l <gone/metrics.jsonl) + 6))," gone/metrics.jsonl # read after that, whatever was read ahead
kill -TERM "$(pgrep -P "$(pgrep -P $job)" | tail -1)" # a rank: mpirun itself would give the two a second to save
wait_end $job
check "gone: a file that is open may vanish" grep -q "stopped by SIGTERM" out
cp -r data rank1

if ! cc -shared -fPIC -o fault.so "$tests/rank_fault.c" -ldl -lpthread 2>cc.txt; then
    echo "not tried: reads that fail, weights that become NaN (no C compiler here: $(head -1 cc.txt))"
    finish
    exit
fi
export PRELOAD=$dir/fault.so
export FAULT_READ=$dir/fault
starts io
touch fault
ends io "$on_rank_1: .*Input/output error"
unset FAULT_READ
settings=optimizer.lr=0 # so that the test knows what to look for in memory
export FAULT_NAN=$dir/bytes
spoil() { # RUN: a weight of it, as its first checkpoint has it, which is written during the steps that follow
    wait_for test -d $1/checkpoints/step-000005 || return
    python3 - $1/checkpoints/step-000005/model.safetensors <<'PY'
import json, os, sys
data = open(sys.argv[1], "rb").read()
n = int.from_bytes(data[:8], "little")
begin = 8 + n + json.loads(data[8:8 + n])["model.embed_tokens.weight"]["data_offsets"][0]
open("bytes.new", "wb").write(data[begin:begin + 64])
os.rename("bytes.new", os.environ["FAULT_NAN"])
PY
}
# ZeRO 0, where nobody else has that weight: with ZeRO the next update would mend it.
starts nan $settings parallel.zero=0
spoil nan
PRELOAD= ends nan "$on_rank_1: after step [0-9]+ .*has a value that is not finite" # before a save that would find it too
rm bytes
export FAULT_NUMBER=0.5
starts number $settings parallel.zero=0 parallel.check_every=1
spoil number
PRELOAD= ends number "after step [0-9]+ $on_rank_1 has another \"model.embed_tokens.weight\" than rank 0 .*should be the same"
unset FAULT_NAN FAULT_NUMBER
finish
