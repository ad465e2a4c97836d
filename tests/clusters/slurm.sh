#!/bin/bash
# Real Slurm with virtual nodes, by both forms: a task a rank (PMIx) and a task a node (drover launch node). The bits of mpirun;
# how srun ends for each end of a run; signals to all processes of a step; and jobs that `drover launch slurm` has written, which
# meet the time limit, are requeued, and lose a node: they go on by themselves, to the bits of an unbroken run.
# usage: slurm.sh DROVER
. "$(dirname "$0")"/clusters.bash
find_slurm_local
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 100000/; s/checkpoint:.*/checkpoint: {every: 20, keep: 2}/' run.yaml
start_nodes 10 # two jobs of four, and each loses one
(umask 077; head -c 32 /dev/urandom >secret)
export DROVER_JOB_SECRET_FILE=$dir/secret
export SLURM_PMIX_FENCE=tree # as drover launch slurm has it: else a rank may be let out of MPI_Init too early, and another one crashes
# step FORM SETTING...: a step of four ranks, by one of the two forms; its job has the form's name
step() {
    local form=$1 sets=() set
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    case $form in
    ranks) timeout -s KILL $LIMIT srun -J ranks -K -N4 -n4 -c1 --mpi=pmix "$drover" train run.yaml "${sets[@]}" ;;
    nodes) timeout -s KILL $LIMIT srun -J nodes -K -N4 -n4 -c1 --mpi=none "$drover" launch node run.yaml "${sets[@]}" ;;
    esac
}
job_of() { squeue -h -n "$1" -t R -o %i; } # FORM
has_job() { [ -n "$(job_of "$1")" ]; }

# --- the bits of mpirun, and how srun ends for each end
expect 3 "step 6" ranks 4 train run.yaml --set run_dir=mpi --set training.stop_at_step=6
check_end() { # FORM STATUS WANTED...: a run has ended so; srun's status is WANTED, or another that it makes of it
    local form=$1 status=$2 got=$?
    shift 2
    echo "$form: a run that ends with $status: srun ends with $got"
    case " $* " in *" $got "*) ok ;; *) bad "$form: srun ends with $got for $status" out ;; esac
}
for form in ranks nodes; do
    step $form run_dir=$form training.stop_at_step=6 >out 2>&1
    check_end $form 3 3 143
    check "$form: the bits of mpirun" test "$(sums $form 000006)" = "$(sums mpi 000006)"
    is status $form 3
    journal $form '"event": *"start".*"ranks": *4'
    step $form run_dir=$form-0 training.steps=6 >out 2>&1
    check_end $form 0 0
    is status $form-0 0
    step $form run_dir=$form-2 data.sequence_length=0 >out 2>&1
    check_end $form 2 2
    step $form run_dir=$form-1 data.train=nowhere >out 2>&1
    check_end $form 1 1 143
    step $form run_dir=$form-75 >out 2>&1 &
    pid=$!
    begun $form-75 5
    kill -KILL "$(pgrep -f "^[^ ]*drover train .*run_dir=$form-75" | tail -n 1)" # a rank
    wait_end $pid
    check_end $form 75 75 137 143
    is status $form-75 75
done

# --- signals to each process of a step: USR1, TERM and INT save and end with 3
for form in ranks nodes; do
    for signal in USR1 TERM INT; do
        run=$form-$signal
        step $form run_dir=$run >out 2>&1 &
        pid=$!
        begun $run 5
        wait_for has_job $form
        scancel --signal=$signal "$(job_of $form)".0
        wait_end $pid
        check_end $form 3 3 143
        is end $run stopped
        is status $run 3
        check "$run: the step is saved" [ "$(newest_step $run)" -gt 4 ]
    done
done

# --- jobs as `drover launch slurm` writes them, one of each form side by side
PATH=$(dirname "$drover"):$PATH
each() { for form in ranks nodes; do "$@" $form; done; }
sed -i 's/every: 20/every: 1/' run.yaml # a step takes its time
submit() {
    [ $1 = ranks ] && tasks=rank || tasks=node
    expect 0 "next:" "$drover" launch slurm run.yaml --nodes 4 --instance cpu --tasks $tasks --name $1 --set run_dir=job-$1 --out jobs-$1
    job[$1]=$(sbatch --parsable --cpus-per-task=1 --time=1 --signal=B:USR1@45 jobs-$1/train.sbatch)
}
declare -A job
each submit
# Slurm counts as a start what the program never sees, too: a prolog that fails, a node that does not answer yet. So another
# start is one with a higher number than the last one that was seen, however much higher.
of_last_start() { tac job-$1/events.jsonl 2>/dev/null | sed '/"event": *"start"/q'; } # FORM: its lines of the journal
number_of_start() { of_last_start $1 | sed -nE 's/.*"event": *"start".*"restarts": *([0-9]+).*/\1/p'; }
resumed_from() { of_last_start $1 | sed -nE 's/.*"event": *"resume".*"step": *([0-9]+).*/\1/p'; }
declare -A seen=([ranks]=0 [nodes]=0)
resumed() { [ "$(number_of_start $1)" -gt ${seen[$1]} ] && [ -n "$(resumed_from $1)" ]; }
starts_again() { # FORM: the job runs once more, and has taken a few steps
    wait_for resumed $1 || return
    seen[$1]=$(number_of_start $1)
    begun job-$1 $(($(resumed_from $1) + 5))
}
saved_by() { wait_for grep -qE '"event": *"stop".*SIGUSR1' job-$1/events.jsonl; } # the signal before the time limit
each saved_by
# At once, as the next start would meet the same limit: while the job is on its way back, it may be refused.
more_time() { wait_for scontrol update jobid="${job[$1]}" timelimit=30; }
each more_time
each starts_again
requeue() { scontrol requeue "${job[$1]}"; }
each requeue
each starts_again
lose_a_node() { "$slurm_local" fail "$(scontrol show hostnames "$(squeue -h -j "${job[$1]}" -o %N)" | sed -n 3p)" 2>out; }
each lose_a_node
each starts_again
end_job() { scancel --signal=USR1 "${job[$1]}"; }
each end_job
is_over() { ! squeue -h -j "${job[$1]}" -o %T 2>/dev/null | grep -q .; }
over() {
    wait_for is_over $1
    is status job-$1 3
    local step
    step=$(newest_step job-$1)
    expect 3 "step" ranks 4 train run.yaml --set run_dir=whole-$1 --set checkpoint.every=0 --set training.stop_at_step=$((10#$step))
    check "$1: the bits of a run that nothing broke" test "$(sums job-$1 $step)" = "$(sums whole-$1 $step)"
}
each over
check "no secret is left" [ -z "$(ls -A . | grep drover-secret)" ]
[ $failed = 0 ] || grep -v "^step " ranks-*.log nodes-*.log
finish
