#!/bin/bash
# A job of `drover launch node --max-restarts` on four virtual nodes of a real Slurm, disturbed again and again: ranks and
# daemons are killed, nodes crash and are drained, ranks hang, the disk fills, connections break, signals, limits and scancel
# end the step. What Slurm itself ends is submitted again, as an array of tries would. At the end: the bytes of checkpoints
# beside those of an undisturbed run, seconds from each fault to the next finished step, goodput by the ledger.
# Needs root, slurm-wlm, and a throw-away cluster by the program that SLURM_LOCAL names (start, stop, exec, fail, recover).
# MINUTES (30) bounds it: 20 faults in half an hour, as many fewer in less (the ten kinds take 15), and for the end about a
# quarter of that again: the undisturbed run. The median is looked at; goodput is printed, and its ratio to that run's.
# usage: [MINUTES=10] SLURM_LOCAL=... supervise.sh PROGRAM
. "$(dirname "$0")"/../tests/ranks.bash
killed=()
minutes=${MINUTES:-30}
faults=$(((20 * minutes + 29) / 30))
: "${SLURM_LOCAL:?the program that starts a throw-away cluster of Slurm}"
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 3/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
sed -i 's/checkpoint:.*/checkpoint: {every: 100, keep: 0}/; s/training: {/training: {log_every: 100, /' run.yaml
sed -i 's/warmup_steps: 5/type: constant, warmup_steps: 5/' run.yaml # it ends at another step than it begins for
echo 'parallel: {accumulation_groups: 4, give_up_s: 10}' >>run.yaml
head -c 32 /dev/urandom >secret && chmod 600 secret
export DROVER_JOB_SECRET_FILE=$dir/secret OMPI_MCA_btl_tcp_if_include=lo
unset HWLOC_SYNTHETIC
mkdir runs && mount -t tmpfs -o size=3g tmpfs runs # every checkpoint is kept
eval "$(SLURM_LOCAL_NODES=4 "$SLURM_LOCAL" start)"
trap '"$SLURM_LOCAL" stop; umount "$dir/runs"; rm -rf "$dir"' EXIT
# As sums, but for the number of steps that a config says.
bits() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors && sed 's/"training.steps": "[0-9]*"//' trainer.json | sha256sum); } # RUN STEP
ms() { echo $((($(date +%s%N) - from) / 1000000)); }
run=runs/disturbed
cat >task.sh <<'TASK'
trap : USR1 TERM HUP INT
"$@" &
while :; do
    wait $!
    code=$?
    kill -0 $! 2>/dev/null || break
done
[ $code -ge 128 ] || touch over
exit $code
TASK
submit() { # the number of the job
    cat >job.sh <<JOB
#!/bin/bash
#SBATCH --nodes=1-4 --ntasks-per-node=1 --requeue --open-mode=append --output=$dir/job.out --time=${limit:-30}
trap : USR1 TERM
rm -f over
srun --kill-on-bad-exit=0 --no-kill --overcommit --mpi=none bash task.sh $drover launch node run.yaml --max-restarts 100 --restart-window 5m --min-nodes 1 --grow-after 5s --wait 30 --set run_dir=$run --set training.steps=$steps &
# Of a node that has crashed and come back srun waits for a task that is no more: once nodes end by themselves, the step does.
until [ -e over ] || ! kill -0 \$! 2>/dev/null; do sleep 0.5; done
for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 \$! 2>/dev/null && sleep 1; done
kill -0 \$! 2>/dev/null && scancel --signal=KILL "\$SLURM_JOB_ID.0"; sleep 2
kill -KILL \$! 2>/dev/null # it waits on where the node knows no step any more
wait
JOB
    sbatch --parsable --no-kill -N "${n_nodes:-4}" job.sh
}
ranks_here() { pgrep -f "^drover train .*run_dir=$run"; }
rank() { # N: the process of a rank of the world that is there
    local pid
    for pid in $(ranks_here); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$pid" && return
    done
}
node_of() { tr '\0' '\n' <"/proc/$(rank "$1")/environ" | sed -n 's/^SLURMD_NODENAME=//p'; } # RANK
n_ranks() { ranks_here | wc -l; }
last_step() { tail -n 1 $run/metrics.jsonl 2>/dev/null | sed -nE 's/.*"step":([0-9]+),.*/\1/p'; }
saves() { grep -c '"event":"save"' $run/events.jsonl 2>/dev/null; }
starts() { grep -c '"event":"running"' $run/events.jsonl 2>/dev/null; }
goes_on() { # a world that began after the fault has finished a step, or this one has saved one; 10 minutes at most
    local i
    for i in $(seq 6000); do
        [ "$(starts)" -gt "$before" ] 2>/dev/null && [ -n "$(last_step)" ] && return 0
        [[ $what = *"disk is full"* && $(saves) -gt $saved ]] && return 0
        [ "$(squeue -h -j "$job" 2>/dev/null | wc -l)" = 0 ] && { [ "$(tail -n 1 $run/events.jsonl | grep -c '"state":"done"')" = 1 ] && return 1; job=$(submit); }
        sleep 0.1
    done
    bad "no step in ten minutes after: $what" job.out
    exit 1
}
strike() { # one fault; `what` names it. Between two worlds there is nobody to strike
    local victim n host
    until n=$(n_ranks) && [ "$n" -gt 0 ] && victim=$((RANDOM % n)) && [ -n "$(rank $victim)" ]; do sleep 0.2; done
    case $(($1 % 10)) in
    0) what="rank $victim is killed" && kill -KILL "$(rank $victim)" ;;
    1) what="a daemon is killed" && kill -KILL "$(pgrep -n orted || pgrep -n prted || rank 0)" ;;
    2) host=$(node_of $((n - 1))) && what="node $host crashes" && "$SLURM_LOCAL" fail "$host" && sleep 3 && "$SLURM_LOCAL" recover "$host" ;;
    3) what="rank $victim stops (SIGSTOP)" && kill -STOP "$(rank $victim)" ;;
    4) what="the disk is full (30 s)" && { head -c 4G /dev/zero >runs/filler 2>/dev/null; sleep 30; saved=$(saves); rm runs/filler; } ;;
    5) what="TERM at rank $victim" && kill -TERM "$(rank $victim)" ;;
    6) what="USR1 at the step" && scancel --signal=USR1 "$job" ;;
    7) what="scancel" && scancel "$job" ;;
    8) what="requeue" && scontrol requeue "$job" ;;
    9) what="node n3 is drained, rank $victim is killed" && scontrol update nodename=n3 state=drain reason=drive && kill -KILL "$(rank $victim)" && scontrol update nodename=n3 state=resume ;;
    esac
}
steps=1000000
job=$(submit)
before=0 what="the start"
goes_on
began=$(date +%s)
echo "| fault | next finished step after, ms | nodes then |"
echo "|---|---|---|"
for k in $(seq 0 $((faults - 1))); do
    sleep 3 # at least, and by the clock: faults have their minutes
    while [ "$(date +%s)" -lt $((began + k * 60 * minutes / faults + RANDOM % 5)) ]; do sleep 0.5; done
    before=$(starts) from=$(date +%s%N)
    strike $k 2>/dev/null
    goes_on
    took=$(ms)
    case $what in *killed*) killed+=("$took") ;; esac
    echo "| $what | $took | $(n_ranks) |"
done
median=$(printf '%s\n' "${killed[@]}" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
echo "median after a rank or a daemon was killed: $median ms"
check "the median is below 5 s: $median ms" [ "${median:-0}" -lt 5000 ]
# It ends at a round step that is not far, by itself.
steps=$((($(last_step) / 100 + 3) * 100))
scancel --signal=TERM "$job"
while [ "$(squeue -h -j "$job" | wc -l)" != 0 ]; do sleep 0.2; done
job=$(submit)
while [ "$(squeue -h -j "$job" | wc -l)" != 0 ]; do sleep 0.2; done
check "it ended by itself, done" grep -q '"state": "ended"' $run/status.json
check "with status 0" grep -q '"status": 0' $run/status.json
DROVER_THREADS=$(nproc) "$drover" train run.yaml --set run_dir=runs/one --set training.steps=$steps >one.out 2>&1
n_same=0 n_other=0
for step in runs/one/checkpoints/step-*; do
    name=${step##*step-}
    [ -d "$run/checkpoints/step-$name" ] || continue
    if [ "$(bits runs/one "$name")" = "$(bits $run "$name")" ]; then n_same=$((n_same + 1)); else n_other=$((n_other + 1)); fi
done
echo "checkpoints: $n_same byte for byte those of an undisturbed run of one rank, $n_other others"
check "all checkpoints are the same" [ $n_other = 0 -a $n_same -gt 0 ]
check "each row once, in order" [ "$(sed -nE 's/.*"consumed_samples":([0-9]+),.*/\1/p' $run/metrics.jsonl | awk '$1 != 8 * NR { bad = 1 } END { print bad + 0 }')" = 0 ]
"$drover" report $run | sed -n '1,40p'
# Of the wall time without what was stopped on request: goodput, with what was lost since the last saves, of the undisturbed run's.
ledger() { "$drover" report "$1" --json | grep -oE "\"$2\": *[0-9.]+" | head -n 1 | sed 's/.*: *//'; } # RUN FIELD
awk -v good="$(ledger $run goodput)" -v lost="$(ledger $run lost)" -v wall="$(ledger $run wall_s)" -v stopped="$(ledger $run stopped)" \
    -v one="$(ledger runs/one goodput)" 'BEGIN { with = good + lost / (wall - stopped)
        printf "goodput %.3f, with what was lost %.3f; of one rank undisturbed %.3f: %.3f of it\n", good, with, one, with / one }'
grep -E '"event":"(restart|exclusion|layout)"' $run/events.jsonl | sed -E 's/.*"event":"([a-z]*)".*"cause":"([a-z_]*)".*/\1 \2/; t; s/.*"event":"(layout)".*"nodes":([0-9]*).*/\1 \2 nodes/' | sort | uniq -c
finish
