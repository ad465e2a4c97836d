# The parts of the script that slurm.c writes for sbatch. A line "#: NAME" begins a part; further lines
# that begin with "#: " are not in the script.
#: say

say() { echo "job $SLURM_JOB_ID: $*"; }
#: checks
#: The next try would find the same versions, so a difference is final; a step may fail because of one node.

# Before the ranks start: every node can start the program, in the same version.
if ! versions=$(srun --ntasks-per-node=1 --ntasks="$SLURM_NNODES" "${program[0]}" --version) || [ -z "$versions" ]; then
    try_again "after srun could not start the program on all nodes" && exit 75
    say "ended: srun could not start the program on all nodes in $tries tries"
    rm -f "$tried"
    exit 75
fi
versions=$(sort -u <<<"$versions")
if [ "$(wc -l <<<"$versions")" != 1 ]; then
    rm -f "$tried"
    say "the nodes do not have one and the same program: ${versions//$'\n'/, }"
    exit 1
fi
#: secret

# The secret by which nodes recognise each other: a file that only this user can read, removed with the job.
secret=$(umask 077 && mktemp "$PWD/.drover-secret-XXXXXX") || exit 75
head -c 32 /dev/urandom >"$secret"
trap 'rm -f "$secret"' EXIT
export DROVER_JOB_SECRET_FILE=$secret
#: numbers
#: Text from a file counts only if it is a number: a shell would evaluate anything else.

# number_of TEXT ELSE: prints TEXT if it is a number, otherwise ELSE
number_of() {
    case $1 in
    '' | *[!0-9]* | ??????????*) echo "$2" ;;
    *) echo "$((10#$1))" ;;
    esac
}
# field NAME: prints a number from the run's status.json
field() {
    tr '\n\0' '  ' 2>/dev/null <"$run_dir/status.json" | sed -nE "s/.*\"$1\": *([0-9]+) *[,}].*/\1/p"
}
saved_step() { number_of "$(field saved_step)" 0; }
count_tries() { number_of "$(head -c 20 "$tried" 2>/dev/null | tr -d '\0')" 0; }
#: run_status
#: An attempt that fails before its first step may leave the status.json of an earlier one in place. Its
#: time says nothing: the clock of a file server may differ from that of this node.

# Prints the exit status of the attempt that has just ended: from status.json if that is of this attempt, otherwise srun's.
status_of_run() {
    local status=
    [ "$(field attempt)" = "$attempt" ] || status=$(field status)
    number_of "$status" "$1"
}
#: functions

slow= # hosts that are slow or faulty in the check before the run
# A try on other hosts is a new job, which names the first one.
first=${DROVER_FIRST_JOB:-$SLURM_JOB_ID}
unset DROVER_FIRST_JOB

# Prints the hosts on which ranks were lost at least twice, separated by commas.
bad_hosts() {
    [ -e "$run_dir/events.jsonl" ] || return 0
    sed -nE '/"event": *"failure"/{/"cause": *"(fault|hang|peer|device)"/s/.*"host": *"([A-Za-z0-9._-]+)".*/\1/p}' "$run_dir/events.jsonl" |
        sort | uniq -c | awk '$1 > 1 { print $2 }' | paste -sd, -
}

# Requeues the job, or, to exclude hosts, submits a new one.
again() {
    local bad
    bad=$({ bad_hosts; echo "$slow"; } | sed '/^$/d' | paste -sd, -)
    rm -f ${secret:+"$secret"}
    if [ -n "$bad" ]; then
        say "the next try excludes $bad"
        sbatch --exclude="$bad" --dependency="afterany:$SLURM_JOB_ID" --comment="drover:$first" \
            --export="ALL,DROVER_FIRST_JOB=$first" "$0"
    else
        scontrol requeue "$SLURM_JOB_ID"
    fi
}

# try_again WHY: starts the job again if a try is left
try_again() {
    local count=$(($(count_tries) + 1))
    [ "$count" -le "$tries" ] || return 1
    echo "$count" >"$tried"
    say "try $count of $tries $1"
    again
    return 0
}

# Shortly before the time limit: all ranks save and end, and the job is requeued.
limit=
# shellcheck disable=SC2317,SC2329 # the trap calls it
on_limit() {
    limit=yes
    say "the time limit is near: saving"
    scancel --signal=USR1 "$SLURM_JOB_ID"
}
trap on_limit USR1
#: run

# SageMaker HyperPod replaces a broken node while the step runs.
resume=()
[ ! -d /opt/sagemaker_cluster ] || resume=(--auto-resume=1)

saved=$(saved_step)
say "on $SLURM_JOB_NODELIST, start $((${SLURM_RESTART_COUNT:-0} + 1))"
#: preflight
#: Before the ranks start, one process on each node measures it, all at once. The report goes to the
#: log; the next try excludes outliers.

slow=$(srun --ntasks-per-node=1 --ntasks="$SLURM_NNODES" --mpi=pmix "${program[0]}" doctor --node "$run_dir" --hosts | sort -u | paste -sd, -)
[ -z "$slow" ] || say "outliers among the nodes: $slow"
#: exclude
if [ -n "$slow" ]; then
    try_again "without $slow" && exit 75
    say "no try is left for others: they are used"
fi
#: once
#: Waits for the step of ranks. `wait` returns when the trap runs, and loses the status of a step that
#: ended meanwhile (bash 5.2: -1), so the step's shell writes it to a file.
step=$!
while kill -0 "$step" 2>/dev/null; do
    wait "$step" # the trap ends it, too
done
status=$(status_of_run "$(number_of "$(cat "$ended" 2>/dev/null)" 137)")
rm -f "$ended"
#: restarts
#: The step whose nodes go on without a lost one. It ends with node 0, whose shell writes the status to
#: a file: srun would wait for the task of a node that crashed and came back, and status.json describes
#: the last ranks, not a decision of node 0 against another attempt.

# drover restarts its ranks itself: the step survives the loss of a node, except node 0.
over=$(mktemp "$PWD/.drover-over-XXXXXX") || exit 75
trap 'rm -f "$over" ${secret:+"$secret"}' EXIT
# shellcheck disable=SC2016 # each node's own
task='trap : USR1 USR2 TERM INT HUP; "$@"; status=$?; [ "$SLURM_PROCID" != 0 ] || echo $status >"$0"; exit $status'
srun --kill-on-bad-exit=0 --no-kill "${resume[@]}" --mpi=none --cpu-bind=none bash -c "$task" "$over" "${program[@]}" &
step=$!
until [ -s "$over" ] || ! kill -0 "$step" 2>/dev/null; do sleep 1; done
for _ in {1..30}; do kill -0 "$step" 2>/dev/null && sleep 1; done
kill -KILL "$step" 2>/dev/null
wait "$step" 2>/dev/null
status=$(number_of "$(cat "$over")" 137)
[ "$status" -lt 128 ] || status=75 # node 0 was lost
rm -f "$over"
#: ends
#: After a time limit the job is requeued for as long as it makes progress; a start that saves no later
#: step uses up a try.

if [ "$status" = 75 ]; then
    try_again "after status 75" && exit 75
    say "ended with 75 after $tries tries"
elif [ "$status" != 0 ] && [ -n "$limit" ]; then
    if [ "$(saved_step)" -gt "$saved" ]; then
        again
        exit "$status"
    fi
    try_again "after a time limit before which no further step was saved" && exit "$status"
    say "ended: no further step was saved in $tries tries"
fi
rm -f "$tried"
exit "$status"
