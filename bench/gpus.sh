#!/bin/bash
# What a machine of several GPUs adds to one, in twenty minutes: whether every layout has the losses of one device, whether two runs
# have the same bits, processes of a GPU each on one host or several, a rank that dies, and step times with XLA's and NCCL's flags.
#   bench/gpus.sh [--dry-run] [--devices N] [--hosts A,B,...] [--budget SECONDS] [--out FILE] [--plugin NAME] [--parts "1 2 3 ..."]
# --hosts: of mpirun, with N GPUs each, which see this folder under the same path. Each part has a time limit; one that fails is
# written down and the next begins; what does not fit into the budget (1200 s) is left out and named. Results go to a page in
# bench/results as they come. --dry-run: tiny sizes on virtual devices of the CPU plugin, whose processes join as
# stages of a pipeline alone. docs/accelerators.md says which test stands for each question where there are no GPUs.
set -u
cd "$(dirname "$0")/.." || exit 1
budget=1200 dry=0 out= plugin=cuda devices=8 hosts= python=${PYTHON:-python3} parts="1 2 3 4 5 6 7"
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=1 plugin=cpu ;;
    --devices) devices=$2; shift ;;
    --hosts) hosts=$2; shift ;;
    --budget) budget=$2; shift ;;
    --out) out=$2; shift ;;
    --plugin) plugin=$2; shift ;;
    --parts) parts=$2; shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ -n "$out" ] || { [ $dry = 1 ] && out=$(date +%F)-gpus-dry-run.md || out=$(date +%F)-gpus.md; out=bench/results/$out; }
drover=$(realpath "${DROVER:-build/drover}")
[ -x "$drover" ] || { echo "no $drover: make builds it" >&2; exit 1; }
if [ -n "$hosts" ]; then work=$(mktemp -d -p "$PWD"); else work=$(mktemp -d); fi # other hosts see it
trap 'rm -rf "$work"' EXIT
. bench/parts.bash
SECONDS=0
export drover work plugin python devices dry
export DROVER_COMPILE_CACHE=${DROVER_COMPILE_CACHE:-$work/compiled} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
peak_flops=$(awk -v n="$devices" 'BEGIN { print n * 989e12 }') # dense bf16 of H100 and H200: NVIDIA's data sheet

train() { # NAME ARGS...: 20 steps of the tiny model
    local name=$1
    shift
    "$drover" train "$work/run.yaml" --set backend=pjrt --set pjrt.plugin="$plugin" --set training.precision=fp32 --set run_dir="$work/$name" "$@" >/dev/null
}
shared() { # NAME ARGS...: on all devices of this machine
    train "$@" --set pjrt.devices="$devices" --set training.micro_batch_size=1
}
# Every axis, each beside one device.
layouts() {
    local name set
    make_run $((2 * devices)) && train one || return 1
    while read -r name set; do
        # shellcheck disable=SC2086
        if shared "$name" $set; then compare_losses 1e-5 "$work/one" "$work/$name"; else echo "$name: failed"; fi
    done <<'L'
zero1
zero2 --set parallel.zero=2
zero3 --set parallel.zero=3
tensor --set parallel.tensor=2
sequence --set parallel.tensor=2 --set parallel.sequence=true
context --set parallel.context=2
pipeline --set parallel.pipeline=2
pipeline-tensor --set parallel.pipeline=2 --set parallel.tensor=2
L
}
same_bits() {
    local name file
    for name in first second; do shared $name || return 1; done
    for file in model optimizer; do cmp "$work"/{first,second}/checkpoints/step-000020/$file.safetensors || return 1; done
    echo "model and optimizer: the same bits"
}
# Ten steps on all devices, ten more on one.
moves() {
    shared moved --set checkpoint.every=10 --set training.stop_at_step=10
    train moved --set checkpoint.every=10 && compare_losses 1e-5 "$work/one" "$work/moved"
}
ranks() { # NAME HOSTS ARGS...: a process for each GPU; the CPU plugin joins two, with a stage each
    local name=$1 list=$2 many
    shift 2
    many="-n $devices"
    [ -z "$list" ] || many="-n $((devices * $(tr , '\n' <<<"$list" | wc -l))) --host ${list//,/:$devices,}:$devices -x DROVER_COMPILE_CACHE -x LD_LIBRARY_PATH"
    [ "$dry" = 0 ] || { many="--oversubscribe -n 2"; set -- "$@" --set parallel.pipeline=2; }
    # shellcheck disable=SC2086
    mpirun $many "$drover" train "$work/run.yaml" --set backend=pjrt --set pjrt.plugin="$plugin" --set training.precision=fp32 --set training.micro_batch_size=1 --set run_dir="$work/$name" "$@"
}
processes() { # NAME HOSTS
    ranks "$1" "$2" >/dev/null && compare_losses 1e-5 "$work/one" "$work/$1"
}
# kill -9 of the last rank in the middle of a run: how long until all have ended, and in whose words.
dies() {
    ranks dies "" --set training.steps=1000000 >"$work/words" 2>&1 &
    local job=$! begin
    until grep -q '"step":5[,}]' "$work/dies/metrics.jsonl" 2>/dev/null; do
        kill -0 $job 2>/dev/null || { tail -n 3 "$work/words" >&2; return 1; }
        sleep 0.2
    done
    kill -9 "$(pgrep -f "^$drover train .*run_dir=$work/dies" | tail -n 1)"
    begin=$(date +%s%3N)
    wait $job
    echo "status $? $(($(date +%s%3N) - begin)) ms after kill -9: $(grep -m 1 '^drover: ' "$work/words")"
}
export -f train shared layouts same_bits moves ranks processes dies make_run compare_losses

: >"$out" || exit 1
put "# $devices devices, $(date +%F)$([ $dry = 1 ] && echo ": a dry run of tiny sizes on virtual devices of the CPU plugin")"
put ""
put "Commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), \`bench/gpus.sh$([ $dry = 1 ] && echo " --dry-run")\`, budget $budget s. $("$drover" --version 2>/dev/null | head -1)"
put "GPUs: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | sort | uniq -c | paste -sd ';'). Host: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores.${hosts:+ Hosts: $hosts.}"
part 1 60 "What the plugin finds" "$drover" devices "$plugin" && verbatim
part 1 20 "How the GPUs are joined" nvidia-smi topo -m && verbatim 16
part 2 400 "Every layout against one device: 20 steps, fp32" bash -c layouts && verbatim 10
part 3 120 "The same bits twice" bash -c same_bits && verbatim 1
part 3 120 "From all devices to one" bash -c moves && verbatim 1
part 4 180 "A process for each device" bash -c 'processes processes ""' && verbatim 1
[ -z "$hosts" ] || { part 4 240 "A process for each device of several hosts" bash -c "processes hosts $hosts" && verbatim 1; }
part 5 180 "A rank that dies" bash -c dies && verbatim 1

# Step time of each choice: what hides, combines and pipelines the sums between devices.
if [ $dry = 1 ]; then
    seq=64 repeats=1 model="--set model.preset=tiny --set model.vocab_size=512"
else
    seq=8192 repeats=4 model="--set model.preset=llama-3.1-8b --set training.recompute=selective --set pjrt.memory_fraction=0.92"
fi
step() { # FLAGS ARGS...
    local flags=$1
    shift
    [ $dry = 0 ] || flags= # they would change nothing on a CPU
    echo "$drover bench step --json --repeats $repeats --set backend=pjrt --set pjrt.plugin=$plugin --set pjrt.devices=$devices $model --set training.precision=bf16 --set data.sequence_length=$seq --set training.micro_batch_size=1 --set training.global_batch_size=$devices ${flags:+--set pjrt.flags=[$flags]} $*"
}
# XLA's plugin takes each of these (tests/plan_cuda.sh).
hide=xla_gpu_enable_latency_hiding_scheduler=True
combine=xla_gpu_all_reduce_combine_threshold_bytes=2147483648,xla_gpu_all_gather_combine_threshold_bytes=2147483648,xla_gpu_reduce_scatter_combine_threshold_bytes=16777216
apart=xla_gpu_enable_all_gather_combine_by_dim=False,xla_gpu_enable_reduce_scatter_combine_by_dim=False
pipelined=xla_gpu_pipeline_all_reduce=1,xla_gpu_pipeline_all_gather=1,xla_gpu_pipeline_reduce_scatter=1
buffers=xla_gpu_enable_nccl_user_buffers=True
for row in "|as it is" "$hide|latency hiding" "$hide,$combine|and combine thresholds" "$hide,$combine,$apart|and not by dimension" \
    "$hide,$combine,$pipelined|and pipelined collectives" "$hide,$buffers|latency hiding and NCCL's user buffers"; do
    part 6 150 "8B, ZeRO-1: ${row#*|}" $(step "${row%%|*}") && figures "ZeRO-1, ${row#*|}"
done
for row in "|as it is" "$hide|latency hiding"; do
    part 7 150 "8B, $devices tensor ranks, sequence parallel: ${row#*|}" \
        $(step "${row%%|*}" --set parallel.tensor="$devices" --set parallel.sequence=true) && figures "tensor, ${row#*|}"
done
put ""; put "## Summary ($SECONDS s of $budget s)"; put ""
[ -e "$work/summary" ] && while read -r line; do put "- $line"; done <"$work/summary"
