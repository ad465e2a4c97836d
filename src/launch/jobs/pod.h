// Writes parts that manifests of all kinds share: the head of an object, the ConfigMap with the
// config, and pods that satisfy the restricted Pod Security profile (except for IPC_LOCK, which EFA
// needs).
#pragma once
#include "launch/jobs/job_spec.h"
#include "launch/jobs/yaml_writer.h"

#define SSH_DIR    "/home/drover/.ssh" // of user 1000 in the image; operators mount keys there
#define CONFIG_DIR "/etc/drover"       // where the ConfigMap is mounted
#define SECRET_DIR "/run/drover-secret"
#define PAGE_DIR   "/run/drover-page" // the password of the page
#define RAY_SCRIPT "ray_nodes.py"     // files beside the config in the ConfigMap of a Ray job
#define RAY_JOB    "job.json"
#define PAGE_NAME                                                                                  \
    "drover-page" // app.kubernetes.io/name of the pods of the page, which are none of the job
#define KUEUE_LABEL  "kueue.x-k8s.io/queue-name"
#define JOB_LABEL    "app.kubernetes.io/instance" // of all objects of a job: its name
#define KUEUE_PLACES "kueue.x-k8s.io/podset-"
#define RANKS_LABEL                                                                                \
    "app.kubernetes.io/component" // of pods with ranks, where they are placed together
#define HYPERPOD_SAYS "sagemaker.amazonaws.com/"

typedef enum pod_size {
    POD_SMALL,  // starts other pods: 2 CPUs, 4 GiB
    POD_HEAD,   // of a Ray cluster: 4 CPUs, 16 GiB
    POD_HOST,   // all CPUs and memory of a machine
    POD_DEVICES // also its devices and network
} pod_size;

typedef struct pod {
    const char *container;
    const char *const *command; // n_command 0: the image's, or the operator's
    int n_command;
    pod_size size;
    bool has_program;               // it runs drover, so it gets config, environment, secret
    const char *pre_stop;           // a script for sh, before TERM; NULL: none
    const char *wait_first;         // a script for sh, in an init container; NULL: none
    const char *const *wait_mounts; // volumes that an operator adds to the pod, but mounts into its
                                    // first container alone: NAME, PATH, ..., NULL; or NULL
    const char *restart;            // restartPolicy; NULL: the operator's
    const char *const *environment; // added to job_environment: NAME, VALUE, ..., NULL; or NULL
    int health_port;                // a liveness probe asks /healthz there; 0: no probe
    int unhealthy_s, start_s;       // seconds until it counts as dead; for its start
    bool is_page;                   // not a part of the job: gets the page's password, no secret
    int ssh_port;                   // ready if something listens there; 0: no probe
    bool by_volcano;                // its scheduler places the pod
    int64_t deadline_s;             // after which the pod ends, with its grace period; 0: no limit
    bool is_one_of_two; // Kueue places it together with another role's pods (--topology)
    bool has_progress;  // gets Trainer's token and certificate, where Trainer mounts them
} pod;

// Returns the writer of a file of manifests, after a comment with the command that made it.
yaml_writer *manifest_open(const job_spec *spec, str *out);
// Returns the port at which a pod that is certain to have rank 0 reports the run's health; 0: none
// does, or rank 0 may be in another pod.
int pod_health_port(const job_spec *spec);
enum { RUN_UNHEALTHY_S = 1200, RUN_START_S = 3600 };
// Begins a document with apiVersion, kind and metadata. is_job: adds the labels by which a
// scheduler accepts the job.
void manifest_begin(yaml_writer *w, const job_spec *spec, const char *version, const char *kind,
        const char *name, bool is_job);
// The ConfigMap with the config, and with a script and a JSON text unless those are NULL.
typedef struct config_map_file {
    const char *name, *text;
} config_map_file;
void manifest_config_map(yaml_writer *w, arena *a, const job_spec *spec,
        const config_map_file *more, int n_more);
// Returns the path of the config in a pod.
const char *pod_config(arena *a, const job_spec *spec);
// Writes the keys of a pod template: metadata and spec.
void pod_template(yaml_writer *w, arena *a, const job_spec *spec, const pod *p);
// Writes how often the job is tried, its time limit, and whether Kueue starts it.
void manifest_limits(yaml_writer *w, const job_spec *spec);
// Write parts of the jobs of the MPI Operator and of the training operator: runPolicy, which has
// these limits, and a role with its pods.
void manifest_run_policy(yaml_writer *w, const job_spec *spec);
void manifest_role(yaml_writer *w, arena *a, const job_spec *spec, const char *role, int replicas,
        const char *restart, const pod *p);
// Escapes `$(NAME)`, which Kubernetes would expand in a command.
const char *pod_word(arena *a, const char *text);
// Writes a list of words under `key`.
void pod_words(yaml_writer *w, arena *a, const char *key, const char *const *words, int n);
// Adds page.yaml: a Deployment of the run's page and a Service (page.c).
void page_write(arena *a, const job_spec *spec, job_files *files);
// "440Gi"
const char *pod_quantity(arena *a, int64_t bytes);

// --- jobs of mpirun (mpi_pods.c): a launcher, and workers with sshd on port SSH_PORT, not as root
enum { SSH_PORT = 2222 };
// `oversubscribe`: the host file has no slots.
const char *const *mpirun_words(arena *a, const job_spec *spec, const char *hosts,
        bool oversubscribe, int *n);
// Return the launcher's pod without its command, and a worker's pod.
pod mpirun_pod(arena *a, const char *container, const char *hosts);
pod sshd_pod(const char *container);
const char *wait_for_hosts(arena *a, const char *hosts); // for pod.wait_first
