// A script for sbatch. A task is a rank (PMIx), or runs `drover launch node`, one for each node. A
// user's words are quoted by shell_word, and go into #SBATCH lines only after their form was
// checked.
//
// The end of a run is read from RUN_DIR/status.json, because with `srun -K` the status of ranks
// that end at slightly different times may become 143.
#include <stdio.h>
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
    job_put_command(spec, out);
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

extern const char slurm_train_bash[]; // the file as a string, made by CMake

// Adds a part of the file: from its line "#: NAME" on, without such lines, up to the next part.
static void put_part(str *out, const char *name) {
    char line[32];
    snprintf(line, sizeof line, "\n#: %s\n", name);
    const char *begin = strstr(slurm_train_bash, line);
    DRV_ASSERT(begin, "no part \"%s\"", name);
    for (begin++; str_starts(begin, "#: ");)
        begin = strchr(begin, '\n') + 1;
    const char *end = strstr(begin, "\n#: ");
    str_add(out, begin, end ? (size_t)(end + 1 - begin) : strlen(begin));
}

static void write_train(arena *a, const job_spec *spec, str *out) {
    put_values(a, spec, out);
    put_part(out, "say");
    if (job_secret_name(a, spec))
        put_part(out, "secret");
    else
        str_puts(out, "\nsecret=\n");
    put_part(out, "numbers");
    put_part(out, "functions");
    if (!spec->restarts) put_part(out, "run_status");
    put_part(out, "run");
    put_part(out, "checks");
    // With "mixed", the default, a rank left MPI_Init before others were ready, 5 times of 95
    // (Slurm 22.05, Open MPI 4.1), and its first message failed.
    if (!spec->is_node_launch || spec->preflight != PREFLIGHT_OFF)
        str_puts(out, "export SLURM_PMIX_FENCE=tree\n");
    if (spec->preflight != PREFLIGHT_OFF) put_part(out, "preflight");
    if (spec->preflight == PREFLIGHT_EXCLUDE) put_part(out, "exclude");
    if (spec->restarts) {
        put_part(out, "restarts");
    } else {
        str_printf(out,
                "attempt=$(field attempt) # of the last start\nended=$(mktemp) || exit 75\n"
                "{ srun -K \"${resume[@]}\" --mpi=%s --cpu-bind=none \"${program[@]}\"; echo $? >\"$ended\"; } &\n",
                spec->is_node_launch ? "none" : "pmix");
        put_part(out, "once");
    }
    put_part(out, "ends");
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
