// A script for sbatch. A task is a rank (PMIx), or runs `drover launch node`, one for each node. A
// user's words are quoted by shell_word, and go into #SBATCH lines only after their form was
// checked.
//
// The end of a run is read from RUN_DIR/status.json, because with `srun -K` the status of ranks
// that end at slightly different times may become 143.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "launch/jobs/kinds.h"
#include "launch/jobs/shell_words.h"

enum { NOTICE_S = 60 }; // Slurm may send a signal this much earlier than asked, never later

// --- #SBATCH
static void put_time(str *out, int64_t seconds) {
    enum { DAY = 86400 };
    const int64_t rest = (seconds + 59) / 60 * 60; // whole minutes, Slurm's unit
    str_printf(out, "#SBATCH --time=%lld-%02lld:%02lld:00\n", (long long)(rest / DAY),
            (long long)(rest % DAY / 3600), (long long)(rest % 3600 / 60));
}

static void put_head(const job_spec *spec, str *out) {
    const int tasks = spec->work != WORK_TRAIN || spec->is_node_launch ? 1 : spec->ranks;
    str_puts(out, "#!/bin/bash\n");
    str_printf(out, "# Made by: %s\n", spec->command);
    str_printf(out, "#SBATCH --job-name=%s\n", spec->name);
    str_printf(out, "#SBATCH --nodes=%d\n", spec->nodes);
    str_printf(out, "#SBATCH --ntasks-per-node=%d\n", tasks);
    str_printf(out, "#SBATCH --cpus-per-task=%d\n", spec->instance->cpus / tasks);
    str_puts(out, "#SBATCH --exclusive\n");
    if (spec->queue) str_printf(out, "#SBATCH --partition=%s\n", spec->queue);
    if (spec->topology) str_printf(out, "#SBATCH --switches=%s\n", spec->topology);
    if (spec->time_s) put_time(out, spec->time_s);
    if (spec->restarts) str_puts(out, "#SBATCH --no-kill\n"); // the other nodes go on
    if (spec->work == WORK_TRAIN)
        str_printf(out,
                "#SBATCH --signal=B:USR1@%d\n" // early enough for a save before the limit
                "#SBATCH --requeue\n",
                spec->grace_s + NOTICE_S);
    str_puts(out, "#SBATCH --open-mode=append\n"
                  "#SBATCH --output=%x-%j.log\n");
}

// --- the parts of a training script
static void put_values(arena *a, const job_spec *spec, str *out) {
    int n;
    const char *const *words = job_words(a, spec, spec->config, &n);
    const char *const *environment = job_environment(a, spec, false);
    str_puts(out, "set -u\n\nprogram=(");
    shell_words(out, words, n);
    str_puts(out, ")\nrun_dir=");
    shell_word(out, spec->run_dir);
    str_printf(out, "\ntries=%d # further tries, after a failure that another try may fix\n",
            spec->tries);
    str_printf(out, "tried=.%s.tries # the file that counts them\n", spec->name);
    for (; *environment; environment += 2) {
        str_printf(out, "export %s=", environment[0]);
        shell_word(out, environment[1]);
        str_puts(out, "\n");
    }
}

static const char say[] = "\n"
                          "say() { echo \"job $SLURM_JOB_ID: $*\"; }\n";

// The next try finds the same versions, so a difference is final; a failing step may be a node.
static const char checks[] =
        "\n"
        "# Before the ranks start: every node can start the program, in the same version.\n"
        "if ! versions=$(srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\" \"${program[0]}\" --version) || [ -z \"$versions\" ]; then\n"
        "    try_again \"after srun could not start the program on all nodes\" && exit 75\n"
        "    say \"ended: srun could not start the program on all nodes in $tries tries\"\n"
        "    rm -f \"$tried\" \"$began\"\n"
        "    exit 75\n"
        "fi\n"
        "versions=$(sort -u <<<\"$versions\")\n"
        "if [ \"$(wc -l <<<\"$versions\")\" != 1 ]; then\n"
        "    rm -f \"$tried\" \"$began\"\n"
        "    say \"the nodes do not have one and the same program: ${versions//$'\\n'/, }\"\n"
        "    exit 1\n"
        "fi\n";

static const char secret[] =
        "\n"
        "# The secret by which nodes recognise each other: a file that only this user can read, removed with the job.\n"
        "secret=$(umask 077 && mktemp \"$PWD/.drover-secret-XXXXXX\") || exit 75\n"
        "head -c 32 /dev/urandom >\"$secret\"\n"
        "trap 'rm -f \"$secret\"' EXIT\n"
        "export DROVER_JOB_SECRET_FILE=$secret\n";

// Text from a file counts only if it is a number: a shell would evaluate anything else.
static const char numbers[] =
        "\n"
        "# number_of TEXT ELSE: prints TEXT if it is a number, otherwise ELSE\n"
        "number_of() {\n"
        "    case $1 in\n"
        "    '' | *[!0-9]* | ??????????*) echo \"$2\" ;;\n"
        "    *) echo \"$((10#$1))\" ;;\n"
        "    esac\n"
        "}\n"
        "# field NAME: prints a number from the run's status.json\n"
        "field() {\n"
        "    tr '\\n\\0' '  ' 2>/dev/null <\"$run_dir/status.json\" | sed -nE \"s/.*\\\"$1\\\": *([0-9]+) *[,}].*/\\1/p\"\n"
        "}\n"
        "saved_step() { number_of \"$(field saved_step)\" 0; }\n"
        "count_tries() { number_of \"$(head -c 20 \"$tried\" 2>/dev/null | tr -d '\\0')\" 0; }\n";

static const char run_status[] =
        "\n"
        "# Prints the exit status of the run that has just ended: from status.json, otherwise srun's.\n"
        "status_of_run() {\n"
        "    local status=\n"
        "    [ ! \"$run_dir/status.json\" -nt \"$began\" ] || status=$(field status)\n"
        "    number_of \"$status\" \"$1\"\n"
        "}\n";

static const char functions[] =
        "\n"
        "slow= # hosts that are slow or faulty in the check before the run\n"
        "# A try on other hosts is a new job, which names the first one.\n"
        "first=${DROVER_FIRST_JOB:-$SLURM_JOB_ID}\n"
        "unset DROVER_FIRST_JOB\n"
        "\n"
        "# Prints the hosts on which ranks were lost at least twice, separated by commas.\n"
        "bad_hosts() {\n"
        "    [ -e \"$run_dir/events.jsonl\" ] || return 0\n"
        "    sed -nE '/\"event\": *\"failure\"/{/\"cause\": *\"(fault|hang|peer|device)\"/"
        "s/.*\"host\": *\"([A-Za-z0-9._-]+)\".*/\\1/p}' \"$run_dir/events.jsonl\" |\n"
        "        sort | uniq -c | awk '$1 > 1 { print $2 }' | paste -sd, -\n"
        "}\n"
        "\n"
        "# Requeues the job, or, to exclude hosts, submits a new one.\n"
        "again() {\n"
        "    local bad\n"
        "    bad=$({ bad_hosts; echo \"$slow\"; } | sed '/^$/d' | paste -sd, -)\n"
        "    rm -f \"$began\" ${secret:+\"$secret\"}\n"
        "    if [ -n \"$bad\" ]; then\n"
        "        say \"the next try excludes $bad\"\n"
        "        sbatch --exclude=\"$bad\" --dependency=\"afterany:$SLURM_JOB_ID\" --comment=\"drover:$first\" \\\n"
        "            --export=\"ALL,DROVER_FIRST_JOB=$first\" \"$0\"\n"
        "    else\n"
        "        scontrol requeue \"$SLURM_JOB_ID\"\n"
        "    fi\n"
        "}\n"
        "\n"
        "# try_again WHY: starts the job again if a try is left\n"
        "try_again() {\n"
        "    local count=$(($(count_tries) + 1))\n"
        "    [ \"$count\" -le \"$tries\" ] || return 1\n"
        "    echo \"$count\" >\"$tried\"\n"
        "    say \"try $count of $tries $1\"\n"
        "    again\n"
        "    return 0\n"
        "}\n"
        "\n"
        "# Shortly before the time limit: all ranks save and end, and the job is requeued.\n"
        "limit=\n"
        "# shellcheck disable=SC2317,SC2329 # the trap calls it\n"
        "on_limit() {\n"
        "    limit=yes\n"
        "    say \"the time limit is near: saving\"\n"
        "    scancel --signal=USR1 \"$SLURM_JOB_ID\"\n"
        "}\n"
        "trap on_limit USR1\n";

static const char run[] =
        "\n"
        "# SageMaker HyperPod replaces a broken node while the step runs.\n"
        "resume=()\n"
        "[ ! -d /opt/sagemaker_cluster ] || resume=(--auto-resume=1)\n"
        "\n"
        "began=$(mktemp) || exit 75\n"
        "saved=$(saved_step)\n"
        "say \"on $SLURM_JOB_NODELIST, start $((${SLURM_RESTART_COUNT:-0} + 1))\"\n";

// Before the ranks start, one process on each node measures it, all at once. The report goes to the
// log; the next try excludes the hosts that stand out.
static const char preflight[] =
        "\n"
        "slow=$(srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\" --mpi=pmix \"${program[0]}\" doctor --node \"$run_dir\" --hosts | sort -u | paste -sd, -)\n"
        "[ -z \"$slow\" ] || say \"nodes that stand out: $slow\"\n",
                  exclude[] = "if [ -n \"$slow\" ]; then\n"
                              "    try_again \"without $slow\" && exit 75\n"
                              "    say \"no try is left for others: they are used\"\n"
                              "fi\n";

// Waits for the step of ranks. `wait` returns when the trap runs, and loses the status of a step
// that ended meanwhile (bash 5.2: -1), so the step's shell writes it to a file.
static const char once[] =
        "step=$!\n"
        "while kill -0 \"$step\" 2>/dev/null; do\n"
        "    wait \"$step\" # the trap ends it, too\n"
        "done\n"
        "status=$(status_of_run \"$(number_of \"$(cat \"$began.status\" 2>/dev/null)\" 137)\")\n"
        "rm -f \"$began.status\"\n";

// The step whose nodes go on without a lost one. It ends with node 0, whose shell writes the status
// to a file: srun would wait for the task of a node that crashed and came back, and status.json
// describes the last ranks, not a decision of node 0 against another attempt.
static const char restarts[] =
        "\n"
        "# drover restarts its ranks itself: the step survives the loss of a node, except node 0.\n"
        "over=$(mktemp \"$PWD/.drover-over-XXXXXX\") || exit 75\n"
        "trap 'rm -f \"$over\" ${secret:+\"$secret\"}' EXIT\n"
        "# shellcheck disable=SC2016 # each node's own\n"
        "task='trap : USR1 USR2 TERM INT HUP; \"$@\"; status=$?; "
        "[ \"$SLURM_PROCID\" != 0 ] || echo $status >\"$0\"; exit $status'\n"
        "srun --kill-on-bad-exit=0 --no-kill \"${resume[@]}\" --mpi=none --cpu-bind=none bash -c \"$task\" \"$over\" \"${program[@]}\" &\n"
        "step=$!\n"
        "until [ -s \"$over\" ] || ! kill -0 \"$step\" 2>/dev/null; do sleep 1; done\n"
        "for _ in {1..30}; do kill -0 \"$step\" 2>/dev/null && sleep 1; done\n"
        "kill -KILL \"$step\" 2>/dev/null\n"
        "wait \"$step\" 2>/dev/null\n"
        "status=$(number_of \"$(cat \"$over\")\" 137)\n"
        "[ \"$status\" -lt 128 ] || status=75 # node 0 was lost\n"
        "rm -f \"$over\"\n";

// After a time limit the job is requeued for as long as it makes progress; a start that saves no
// later step uses up a try.
static const char ends[] =
        "\n"
        "if [ \"$status\" = 75 ]; then\n"
        "    try_again \"after status 75\" && exit 75\n"
        "    say \"ended with 75 after $tries tries\"\n"
        "elif [ \"$status\" != 0 ] && [ -n \"$limit\" ]; then\n"
        "    if [ \"$(saved_step)\" -gt \"$saved\" ]; then\n"
        "        again\n"
        "        exit \"$status\"\n"
        "    fi\n"
        "    try_again \"after a time limit before which no further step was saved\" && exit \"$status\"\n"
        "    say \"ended: no further step was saved in $tries tries\"\n"
        "fi\n"
        "rm -f \"$tried\" \"$began\"\n"
        "exit \"$status\"\n";

static void write_train(arena *a, const job_spec *spec, str *out) {
    put_values(a, spec, out);
    str_puts(out, say);
    str_puts(out, job_secret_name(a, spec) ? secret : "\nsecret=\n");
    str_puts(out, numbers);
    str_puts(out, functions);
    if (!spec->restarts) str_puts(out, run_status);
    str_puts(out, run);
    str_puts(out, checks);
    // With "mixed", the default, a rank left MPI_Init before others were ready, 5 times of 95
    // (Slurm 22.05, Open MPI 4.1), and its first message failed.
    if (!spec->is_node_launch || spec->preflight != PREFLIGHT_OFF)
        str_puts(out, "export SLURM_PMIX_FENCE=tree\n");
    if (spec->preflight != PREFLIGHT_OFF) str_puts(out, preflight);
    if (spec->preflight == PREFLIGHT_EXCLUDE) str_puts(out, exclude);
    if (spec->restarts) {
        str_puts(out, restarts);
    } else {
        str_printf(out,
                "{ srun -K \"${resume[@]}\" --mpi=%s --cpu-bind=none \"${program[@]}\"; echo $? >\"$began.status\"; } &\n",
                spec->is_node_launch ? "none" : "pmix");
        str_puts(out, once);
    }
    str_puts(out, ends);
}

// A signal that is due when the job starts would have it requeued before it has done anything.
static drv_status check_time(const job_spec *spec) {
    const int notice = spec->grace_s + NOTICE_S;
    if (spec->work != WORK_TRAIN || !spec->time_s || spec->time_s > notice) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "--time: %lld s, but the ranks are asked to save %d s before the limit (--grace %d and %d s of Slurm's); expected more, or a shorter --grace",
            (long long)spec->time_s, notice, spec->grace_s, NOTICE_S);
}

drv_status slurm_write(arena *a, const job_spec *spec, job_files *files) {
    static const char *const names[] = {"train.sbatch", "compile.sbatch", "data.sbatch"};
    DRV_TRY(check_time(spec));
    str *out = job_files_add(files, names[spec->work], true);
    put_head(spec, out);
    if (spec->work == WORK_TRAIN) {
        write_train(a, spec, out);
        return DRV_OK;
    }
    int n;
    const char *const *words = job_words(a, spec, spec->config, &n);
    str_puts(out, "exec srun ");
    shell_words(out, words, n);
    str_puts(out, "\n");
    return DRV_OK;
}
