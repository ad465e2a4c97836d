// A job for a scheduler: the options, the config and the type of machine, resolved and checked
// once, so that the writer of each kind only writes.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "launch/jobs/instance_types.h"
#include "launch/jobs/job_files.h"
#include "launch/jobs/pod_options.h"

#define PAGE_FILE "page.yaml"

typedef enum job_work {
    WORK_TRAIN,
    WORK_COMPILE, // drover compile, one process with one machine's devices
    WORK_DATA     // a verb of drover on one machine, without devices
} job_work;

// Says what the nodes' own figures decide before the ranks start.
typedef enum preflight_use {
    PREFLIGHT_OFF,
    PREFLIGHT_WARN,
    PREFLIGHT_EXCLUDE,
    N_PREFLIGHT_USES
} preflight_use;
extern const char *const preflight_words[N_PREFLIGHT_USES]; // as of --preflight

typedef struct job_kind job_kind;

typedef struct job_spec {
    const job_kind *kind;
    const char *name;        // a DNS label
    const char *image;       // NULL: none, as for Slurm
    const char *queue;       // NULL: the cluster's own
    const char *topology;    // the domain that holds all ranks; NULL: any
    const char *ray_cluster; // that stays, and to which a RayJob is submitted; NULL: its own
    bool has_page;           // a Deployment of the run's page beside the job
    int health_port;         // where the run serves its page to other machines; 0: it does not
    bool by_volcano;         // of Ray: Volcano schedules all pods of a cluster or none
    const char *name_space, *claim; // of Kubernetes; name_space NULL: that of the context
    pod_options pods;               // of Kubernetes: what each pod gets besides
    const char *mount; // where the claim is, and the working directory; NULL: as the machine has it
    const instance_type *instance;
    bool is_hyperpod;    // the instance was given as ml.TYPE
    bool is_node_launch; // `drover launch node` on each node, not mpirun or srun
    bool has_progress;   // ranks of mpirun get the token with which Trainer takes their progress
    job_work work;
    int nodes, ranks;        // ranks: of each node
    int spares;              // nodes beyond the layout, which wait for a failure
    int fewest;              // nodes with which the job still goes on
    bool restarts;           // `drover launch node` starts its ranks again
    int64_t time_s;          // 0: no limit
    preflight_use preflight; // of Slurm's script
    int grace_s, tries;      // seconds for a save after TERM; further tries after the first
    int64_t shm;             // bytes of /dev/shm
    const char *config;      // as given
    const char *config_text; // its bytes, valid UTF-8; NULL: none, as of WORK_DATA without one
    const char *run_dir;
    const char **node_options; // of `drover launch node`, to be handed on: NAME, VALUE, ...
    int n_node_options;
    const char *const *sets; // KEY=VALUE
    int n_sets;
    const char *const *words; // of WORK_DATA: what follows `drover`
    int n_words;
    const char *command; // that made it, for a comment: one line
} job_spec;

struct job_kind {
    const char *name;     // "trainjob": the subverb
    const char *file;     // that it writes for WORK_TRAIN
    const char *resource; // of Kubernetes, as kubectl takes it: "mpijob.kubeflow.org"; NULL: none
    const char *last_pod; // printf of name and number, the longest name that it makes of a job's
    int first_pod;        // number of the last pod less the nodes
    size_t most_name;     // of the job's own
    bool is_kubernetes;   // pods, claims, images
    bool by_kueue;        // --queue is a queue of Kueue, which starts what is suspended
    bool counts_tiers;    // --topology is a number: of leaf switches, or a tier of Volcano
    bool is_node_launch;  // see job_spec; else an option may say so
    drv_status (*write)(arena *a, const job_spec *spec, job_files *files);
};

extern const job_kind job_kinds[];
extern const int n_job_kinds;

// Checks names, sizes and options that depend on each other. DRV_E_USAGE names the option, the
// value and what was expected.
DRV_CHECKED drv_status job_check(arena *a, const job_spec *spec);
// Reads the seconds of "MINUTES", "HH:MM:SS", "DAYS-HH:MM:SS" as Slurm reads them, or "90m", "24h",
// "7d".
DRV_CHECKED drv_status job_read_time(const char *text, int64_t *out);
// Makes all files of the job.
DRV_CHECKED drv_status job_write(arena *a, const job_spec *spec, job_files *files);
// Returns whether Kueue is to start the job: it is written suspended.
bool job_is_queued(const job_spec *spec);
// Returns whether --topology is a number, as for Slurm and Volcano, and no key of nodes.
bool job_counts_tiers(const job_spec *spec);
// Returns the ranks that begin: of the nodes that are not spare.
int job_ranks(const job_spec *spec);
// Returns the name of the Secret that several nodes need; NULL: none is needed.
const char *job_secret_name(arena *a, const job_spec *spec);
// Returns the words of the program that each kind starts in the end: `drover train CONFIG ...`, or
// `drover launch node ...`, or those of other work; `config`: where it is there. Live in `a`.
const char *const *job_words(arena *a, const job_spec *spec, const char *config, int *n);
// Returns the environment of the program: NAME, VALUE, NAME, VALUE, NULL; `in_pod`: of Kubernetes.
const char *const *job_environment(arena *a, const job_spec *spec, bool in_pod);
