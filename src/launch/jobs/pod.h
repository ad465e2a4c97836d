// Writes the parts of which manifests of all kinds are made: the head of an object, the ConfigMap
// with the config, and pods that pass the restricted Pod Security profile (IPC_LOCK apart, which
// EFA needs).
#pragma once
#include "launch/jobs/job_spec.h"
#include "launch/jobs/yaml_writer.h"

#define SSH_DIR    "/home/drover/.ssh" // of user 1000 in the image; operators put the keys there
#define CONFIG_DIR "/etc/drover"       // where the ConfigMap is mounted
#define SECRET_DIR "/run/drover-secret"
#define PAGE_DIR   "/run/drover-page" // of the password of the page
#define PAGE_NAME                                                                                  \
    "drover-page" // app.kubernetes.io/name of the pods of the page, which are none of the job
#define KUEUE_LABEL  "kueue.x-k8s.io/queue-name"
#define JOB_LABEL    "app.kubernetes.io/instance" // all that a job made has it, with its name
#define KUEUE_PLACES "kueue.x-k8s.io/podset-"
#define RANKS_LABEL                                                                                \
    "app.kubernetes.io/component" // of pods with ranks, where they are placed together
#define HYPERPOD_SAYS "sagemaker.amazonaws.com/"

typedef enum pod_size {
    POD_SMALL,  // starts others: 2 CPUs, 4 GiB
    POD_HEAD,   // Ray's: 4 CPUs, 16 GiB
    POD_HOST,   // a machine's CPUs and memory
    POD_DEVICES // and its devices and network
} pod_size;

typedef struct pod {
    const char *container;
    const char *const *command; // n_command 0: the image's, or the operator's
    int n_command;
    pod_size size;
    bool has_program;               // it runs drover, so it gets config, environment and secret
    const char *pre_stop;           // for sh, before TERM; NULL: nothing
    const char *wait_first;         // for sh, in an init container; NULL: none
    const char *const *wait_mounts; // volumes that an operator adds to the pod, but mounts into its
                                    // first container alone: NAME, PATH, ..., NULL; or NULL
    const char *restart;            // restartPolicy; NULL: the operator's
    const char *const *environment; // beside job_environment: NAME, VALUE, ..., NULL; or NULL
    int health_port;                // alive as long as /healthz there says so; 0: no probe
    int unhealthy_s, start_s;       // seconds until it counts as dead; that it may take to start
    bool is_page;                   // apart from the job: it has the page's password, and no secret
    int ssh_port;                   // ready when something listens there; 0: no probe
    bool by_volcano;                // its scheduler places the pod
    int64_t deadline_s;             // the pod ends then, with its grace; 0: no limit
    bool is_one_of_two; // Kueue is to place it with the pods of another role (with --topology)
    bool has_progress;  // Trainer's token and certificate, where Trainer has its own
} pod;

// Returns the writer of a file of manifests, after a comment with the command that made it.
yaml_writer *manifest_open(const job_spec *spec, str *out);
// Returns the port at which a pod that has rank 0, of several pods or alone, answers for the run's
// health; 0: none does, or rank 0 may be elsewhere.
int pod_health_port(const job_spec *spec);
enum { RUN_UNHEALTHY_S = 1200, RUN_START_S = 3600 };
// Begins a document with apiVersion, kind and metadata; closed by yaml_document_end. is_job: the
// labels by which a scheduler takes the job stand there.
void manifest_begin(yaml_writer *w, const job_spec *spec, const char *version, const char *kind,
        const char *name, bool is_job);
// The ConfigMap with the config, and a script and a JSON text beside it where those are not NULL.
typedef struct config_map_file {
    const char *name, *text;
} config_map_file;
void manifest_config_map(yaml_writer *w, arena *a, const job_spec *spec,
        const config_map_file *more, int n_more);
// Returns the path of the config in a pod.
const char *pod_config(arena *a, const job_spec *spec);
// Writes the keys of a pod template: metadata and spec.
void pod_template(yaml_writer *w, arena *a, const job_spec *spec, const pod *p);
// `$(NAME)` in a command would be expanded: a text in which it is not.
const char *pod_word(arena *a, const char *text);
// Writes a list of words as `key`.
void pod_words(yaml_writer *w, arena *a, const char *key, const char *const *words, int n);
// Adds page.yaml: a Deployment of the run's page and a Service (page.c).
void page_write(arena *a, const job_spec *spec, job_files *files);
// "440Gi"
const char *pod_quantity(arena *a, int64_t bytes);

// --- jobs of mpirun (mpi_pods.c): a launcher and workers with sshd on port SSH_PORT, not as root
enum { SSH_PORT = 2222 };
// `oversubscribe`: the host file has no slots.
const char *const *mpirun_words(arena *a, const job_spec *spec, const char *hosts,
        bool oversubscribe, int *n);
const char *const *sshd_words(int *n);
const char *const *mpirun_environment(arena *a, const char *hosts); // for pod.environment
extern const char mpirun_pre_stop[], sshd_pre_stop[];
const char *wait_for_hosts(arena *a, const char *hosts); // for pod.wait_first
