// A job for a scheduler: options, config and instance type, resolved and checked once, so that each
// kind only has to write its files.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "launch/jobs/instance_types.h"
#include "launch/jobs/job_files.h"
#include "launch/jobs/pod_options.h"

#define PAGE_FILE "page.yaml"

enum { MAX_GRACE_S = 86400 };

typedef enum job_work {
    WORK_TRAIN,
    WORK_COMPILE, // drover compile, one process with one machine's devices
    WORK_DATA     // another verb of drover on one machine, without devices
} job_work;

// Says how the measurements of the nodes are used before the ranks start.
typedef enum preflight_use {
    PREFLIGHT_OFF,
    PREFLIGHT_WARN,
    PREFLIGHT_EXCLUDE,
    N_PREFLIGHT_USES
} preflight_use;
extern const char *const preflight_words[N_PREFLIGHT_USES]; // values of --preflight

typedef struct job_kind job_kind;

typedef struct job_spec {
    const job_kind *kind;
    const char *name;        // a DNS label
    const char *image;       // NULL: none, as for Slurm
    const char *queue;       // NULL: the cluster's own
    const char *topology;    // the domain that must hold all ranks; NULL: any
    const char *ray_cluster; // the standing cluster that a RayJob is submitted to; NULL: a new one
    bool has_page;           // a Deployment serves the run's page beside the job
    int health_port;         // at which the run serves its page to other machines; 0: none
    bool by_volcano;         // with Ray: Volcano schedules all pods of a cluster or none
    const char *name_space, *claim; // Kubernetes; name_space NULL: that of the context
    pod_options pods;               // Kubernetes: additional settings of each pod
    const char *mount; // of the claim; the working directory; NULL: that of the machine
    const instance_type *instance;
    bool is_hyperpod;    // the instance type was given as ml.TYPE
    bool is_node_launch; // `drover launch node` on each node, not mpirun or srun
    bool has_progress;   // ranks of mpirun get the token for posting progress to Trainer
    job_work work;
    int nodes, ranks;        // ranks: per node
    int spares;              // nodes beyond the layout, which replace failed ones
    int fewest;              // the fewest nodes with which the job goes on
    bool restarts;           // `drover launch node` restarts its ranks
    int64_t time_s;          // 0: no limit
    preflight_use preflight; // in Slurm's script
    int grace_s, tries;      // time for a save after TERM; tries after the first
    int64_t shm;             // bytes of /dev/shm
    const char *config;      // as given
    const char *config_text; // its bytes, valid UTF-8; NULL: none, as with some WORK_DATA
    const char *run_dir;
    const char **node_options; // passed to `drover launch node`: NAME, VALUE, ...
    int n_node_options;
    const char *const *sets; // KEY=VALUE
    int n_sets;
    const char *const *words; // of WORK_DATA: what follows `drover`
    int n_words;
    const char *command; // that made the job, for job_put_command
} job_spec;

struct job_kind {
    const char *name;     // "trainjob": the subverb
    const char *file;     // the file that it writes for WORK_TRAIN
    const char *resource; // the type in kubectl: "mpijob.kubeflow.org"; NULL: not Kubernetes
    const char *last_pod; // printf format of name and number: the longest name of a job's pods
    int first_pod;        // number of the last pod minus the number of nodes
    size_t most_name;     // longest name of a job
    bool is_kubernetes;   // pods, claims, images
    bool by_kueue;        // --queue names a queue of Kueue, which starts suspended jobs
    bool counts_tiers;    // --topology is a number: of leaf switches, or of a Volcano tier
    bool is_node_launch;  // see job_spec; otherwise an option may ask for it
    drv_status (*write)(arena *a, const job_spec *spec, job_files *files);
};

extern const job_kind job_kinds[];
extern const int n_job_kinds;

// Checks names, sizes and options that depend on each other. DRV_E_USAGE names the option, the
// value and what was expected.
DRV_CHECKED drv_status job_check(const job_spec *spec);
// Makes all files of the job.
DRV_CHECKED drv_status job_write(arena *a, const job_spec *spec, job_files *files);
// Appends the comment "# Made by: COMMAND". The command may contain any bytes: what would end the
// line, or is not text, becomes "?".
void job_put_command(const job_spec *spec, str *out);
// Returns whether Kueue starts the job, which is then written suspended.
bool job_is_queued(const job_spec *spec);
// Returns whether --topology is a number, as for Slurm and Volcano, and not a key of nodes.
bool job_counts_tiers(const job_spec *spec);
// Returns the number of ranks at the start, on all nodes but the spare ones.
int job_ranks(const job_spec *spec);
// Returns the name of the Secret that several nodes need; NULL: none is needed.
const char *job_secret_name(arena *a, const job_spec *spec);
// Returns the words of the program that each kind finally starts: `drover train CONFIG ...`,
// `drover launch node ...`, or another verb; `config`: its path there. They live in `a`.
const char *const *job_words(arena *a, const job_spec *spec, const char *config, int *n);
// Returns the program's environment: NAME, VALUE, NAME, VALUE, NULL; `in_pod`: in Kubernetes.
const char *const *job_environment(arena *a, const job_spec *spec, bool in_pod);
