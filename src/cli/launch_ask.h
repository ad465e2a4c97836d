// Asks what is known of a submitted job: its scheduler, by the scheduler's own program, and its
// run, by status.json. For the verbs that look after a job.
#pragma once
#include "cli/cli.h"
#include "launch/jobs/foreign_program.h"
#include "launch/jobs/job_record.h"
#include "launch/jobs/job_state.h"
#include "watch/files/run_status.h"

typedef struct asked_job {
    const char *dir; // of launch.json
    job_record record;
    double limit_s;      // for each program that is asked
    const char *run_dir; // as seen from here; NULL: there is none
    job_state state;     // of the last launch_ask
    int n_pods;          // that have not ended
    bool is_known;       // the scheduler has been asked: Slurm's jobs have no name but their number
    bool has_status;     // `status` is there
    run_status status;
    const char *no_status; // why not
} asked_job;

#define ASK_LIMIT                                                                                  \
    { "--limit", "SECONDS", "for each program of the scheduler that is asked (60)" }
#define ASK_OPTIONS                                                                                \
    {"--run-dir", "DIR", "the run directory as seen from here (that of the job)"}, ASK_LIMIT

// Reads launch.json and the options. DRV_E_USAGE: no such folder, a key of another form, or the
// scheduler's program is not there.
DRV_CHECKED drv_status launch_open_job(arena *a, const cli_args *args, asked_job *out);
// Asks the scheduler. DRV_E_BUSY, DRV_E_IO, DRV_E_DATA: its program hangs, fails, prints rubbish.
DRV_CHECKED drv_status launch_ask(arena *a, asked_job *job);
// Reads status.json, from the disk or from a pod.
void launch_read_run(arena *a, asked_job *job);
// Runs one program of the scheduler within its limit; a failure is named after the verb.
DRV_CHECKED drv_status launch_call(arena *a, const asked_job *job, const program_words *words,
        program_end *out);
// Prints what others have written; a terminal gets no control characters of theirs. ctx: NULL.
void launch_print_bytes(void *ctx, const char *bytes, size_t n);
// "running, step 12 of 100, ..." of status.json.
const char *launch_run_words(arena *a, const asked_job *job);

DRV_CHECKED drv_status launch_run_status(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_logs(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_stop(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_clean(arena *a, const cli_args *args);
extern const cli_option launch_status_options[], launch_logs_options[], launch_stop_options[],
        launch_clean_options[];
enum {
    N_LAUNCH_STATUS_OPTIONS = 3,
    N_LAUNCH_LOGS_OPTIONS = 2,
    N_LAUNCH_STOP_OPTIONS = 3,
    N_LAUNCH_CLEAN_OPTIONS = 2
};

// The rows of their subverbs, for the table of the verb.
#define ASK_COMMON                                                                                         \
    "\n\n"                                                                                                 \
    "JOB_DIR is a folder of drover launch KIND. Its launch.json identifies the job; the other files may\n" \
    "have been edited. The scheduler's own program is asked (squeue, kubectl), for at\n"                   \
    "most --limit seconds. docs/launch-jobs.md has the details."
#define LAUNCH_ASK_SUBVERBS                                                                                                 \
    {.name = "status",                                                                                                      \
            .summary = "print the state of a job of drover launch",                                                         \
            .usage = "JOB_DIR [--json] [--run-dir DIR] [--limit SECONDS]",                                                  \
            .help = "Queued, and why; running, and at which step of which attempt; ended, and by which rank and\n"          \
                    "cause: the scheduler's word joined with the run's status.json, which is read here, or in a\n"          \
                    "pod that runs." ASK_COMMON,                                                                            \
            .options = launch_status_options,                                                                               \
            .n_options = N_LAUNCH_STATUS_OPTIONS,                                                                           \
            .min_positional = 1,                                                                                            \
            .max_positional = 1,                                                                                            \
            .run = launch_run_status},                                                                                      \
            {.name = "logs",                                                                                                \
                    .summary = "print the last lines of a job's log",                                                       \
                    .usage = "JOB_DIR [--lines N] [--limit SECONDS]",                                                       \
                    .help = "Of Slurm those of its log file, of Kubernetes those of its launcher or first pod." ASK_COMMON, \
                    .options = launch_logs_options,                                                                         \
                    .n_options = N_LAUNCH_LOGS_OPTIONS,                                                                     \
                    .min_positional = 1,                                                                                    \
                    .max_positional = 1,                                                                                    \
                    .run = launch_run_logs},                                                                                \
            {.name = "stop",                                                                                                \
                    .summary = "have a job save and end, and wait for it",                                                  \
                    .usage = "JOB_DIR [--wait SECONDS] [--run-dir DIR] [--limit SECONDS]",                                  \
                    .help = "Slurm's ranks get SIGUSR1, a job of Kubernetes is deleted, which gives its pods their\n"       \
                            "grace for a save; one that is queued is taken out. The same job can be handed over again,\n"   \
                            "and goes on. Exit status 75: it still runs after --wait." ASK_COMMON,                          \
                    .options = launch_stop_options,                                                                         \
                    .n_options = N_LAUNCH_STOP_OPTIONS,                                                                     \
                    .min_positional = 1,                                                                                    \
                    .max_positional = 1,                                                                                    \
                    .run = launch_run_stop},                                                                                \
    {                                                                                                                       \
        .name = "clean", .summary = "remove the files and objects of a job that has ended",                                 \
        .usage = "JOB_DIR [--yes] [--limit SECONDS]",                                                                       \
        .help = "Objects of Kubernetes with the job's label, Slurm's log, the files of JOB_DIR: listed first,\n"            \
                "and removed after a yes. The run directory stays." ASK_COMMON,                                             \
        .options = launch_clean_options, .n_options = N_LAUNCH_CLEAN_OPTIONS, .min_positional = 1,                          \
        .max_positional = 1, .run = launch_run_clean                                                                        \
    }
