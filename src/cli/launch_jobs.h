// drover launch KIND: jobs for schedulers. The rows of their subverbs, for the table of the verb.
#pragma once
#include "cli/cli.h"
#include "config/config.h"
#include "launch/jobs/job_record.h"
#include "launch/jobs/job_spec.h"

// Options by kind; the numbers are held against the lists.
enum {
    N_LAUNCH_SLURM_OPTIONS = 22,
    N_LAUNCH_VOLCANO_OPTIONS = 36,
    N_LAUNCH_POD_OPTIONS = 36,
    N_LAUNCH_RAY_OPTIONS = 38,
    N_LAUNCH_TRAINJOB_OPTIONS = 38,
    MAX_LAUNCH_WORDS = 4096
};
extern const cli_option launch_slurm_options[], launch_volcano_options[], launch_pod_options[],
        launch_ray_options[], launch_trainjob_options[];
extern const cli_rule launch_job_rules[];
enum { N_LAUNCH_JOB_RULES = 1 };
extern const char launch_job_help[];

DRV_CHECKED drv_status launch_job_run(arena *a, const cli_args *args);

#define LAUNCH_JOB_SUBVERB(word, says, list, count)                                                \
    {                                                                                              \
        .name = word, .summary = says,                                                             \
        .usage = "CONFIG --nodes N --instance TYPE [OPTION]... [--set KEY=VALUE]...\n"             \
                 "--job data --instance TYPE [OPTION]... -- VERB WORD...",                         \
        .help = launch_job_help, .options = list, .n_options = count, .rules = launch_job_rules,   \
        .n_rules = N_LAUNCH_JOB_RULES, .min_positional = 1, .max_positional = MAX_LAUNCH_WORDS,    \
        .run = launch_job_run,                                                                     \
    }
#define LAUNCH_JOB_SUBVERBS                                                                        \
    LAUNCH_JOB_SUBVERB("slurm", "write a script for sbatch", launch_slurm_options,                 \
            N_LAUNCH_SLURM_OPTIONS),                                                               \
            LAUNCH_JOB_SUBVERB("trainjob", "write a TrainJob of Kubeflow Trainer and its runtime", \
                    launch_trainjob_options, N_LAUNCH_TRAINJOB_OPTIONS),                           \
            LAUNCH_JOB_SUBVERB("mpi-operator", "write an MPIJob of the MPI Operator",              \
                    launch_pod_options, N_LAUNCH_POD_OPTIONS),                                     \
            LAUNCH_JOB_SUBVERB("pytorchjob", "write a PyTorchJob of the training operator",        \
                    launch_pod_options, N_LAUNCH_POD_OPTIONS),                                     \
            LAUNCH_JOB_SUBVERB("ray", "write a RayJob and a RayCluster of KubeRay",                \
                    launch_ray_options, N_LAUNCH_RAY_OPTIONS),                                     \
            LAUNCH_JOB_SUBVERB("volcano", "write a Job of Volcano", launch_volcano_options,        \
                    N_LAUNCH_VOLCANO_OPTIONS)

// Prints what a person does next, on standard output (launch_submit.c).
void launch_print_next(arena *a, const job_record *record, const char *dir);
// Checks that PATH has the scheduler's program. DRV_E_USAGE, after `why`: it has not.
DRV_CHECKED drv_status launch_find_program(arena *a, const char *name, const char *why);
// Makes the secret, hands the files in `dir` to the scheduler, and keeps that in launch.json.
// DRV_E_BUSY: its program did not end in time; DRV_E_IO: it failed.
DRV_CHECKED drv_status launch_submit(arena *a, const char *dir, job_record *record);
