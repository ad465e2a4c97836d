// A launcher with mpirun and workers with sshd, as user 1000. The image needs only ssh's two
// programs: command lines name keys, port and files. The arguments of the remote shell are set
// under both names, for Open MPI 4 (plm_rsh) and PRRTE of Open MPI 5 (plm_ssh). The host file is
// named too, since an mpirun without one starts all ranks in its own pod.

#include "launch/jobs/pod.h"

#define SSH_OPTIONS                                                                                \
    "-p 2222 -i " SSH_DIR "/id_rsa -o ConnectionAttempts=10 -o StrictHostKeyChecking=no "          \
    "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

// The variables that Trainer's controller sets in the launcher's environment.
static const char *const progress_variables[] = {"KUBEFLOW_TRAINER_SERVER_URL",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"};

// mpirun kills its ranks soon after TERM, but forwards USR1: the ranks save and end, and so does
// mpirun, which is process 1 there.
static const char mpirun_pre_stop[] = "kill -USR1 1; while kill -0 1 2>/dev/null; do sleep 1; done";
// TERM would end sshd, and with it the container, while ranks run. So they, and with them all ranks
// of the job, are asked to save, and have ended before.
static const char sshd_pre_stop[] =
        "ranks() { grep -lx drover /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3; }; "
        "for rank in $(ranks); do kill -USR1 \"$rank\"; done; "
        "while [ -n \"$(ranks)\" ]; do sleep 1; done";

// Hosts are the first words of the lines. A lost node's pod is replaced only after its eviction
// (300 s); without this wait the tries would be used up before.
const char *wait_for_hosts(arena *a, const char *hosts) {
    enum { WAIT_S = 1800 };
    return arena_printf(a,
            "end=$(($(date +%%s) + %d)); while read -r host _ || [ -n \"$host\" ]; do until ssh -n -o ConnectTimeout=5 "
            "-o ConnectionAttempts=1 " SSH_OPTIONS
            " \"$host\" true 2>/dev/null; do if [ \"$(date +%%s)\" -ge \"$end\" ]; then "
            "echo \"$host does not answer\" >&2; exit 75; fi; sleep 1; done; done <%s",
            WAIT_S, hosts);
}

pod sshd_pod(const char *container) {
    static const char *const words[] = {"/usr/sbin/sshd", "-D", "-e", "-p", "2222", "-h",
            SSH_DIR "/id_rsa", "-o", "AuthorizedKeysFile=" SSH_DIR "/authorized_keys", "-o",
            "StrictModes=no", "-o", "PasswordAuthentication=no", "-o", "UsePAM=no", "-o",
            "PidFile=none"};
    return (pod){.container = container,
            .command = words,
            .n_command = sizeof words / sizeof *words,
            .size = POD_DEVICES,
            .pre_stop = sshd_pre_stop,
            .ssh_port = SSH_PORT};
}

pod mpirun_pod(arena *a, const char *container, const char *hosts) {
    const char **list = ARENA_ARRAY(a, const char *, 5);
    list[0] = "PRTE_MCA_plm_ssh_args", list[1] = SSH_OPTIONS;
    list[2] = "PRTE_MCA_prte_default_hostfile", list[3] = hosts;
    return (pod){.container = container,
            .has_program = true,
            .environment = list,
            .pre_stop = mpirun_pre_stop};
}

const char *const *mpirun_words(arena *a, const job_spec *spec, const char *hosts,
        bool oversubscribe, int *n) {
    int n_program;
    const char *const *variables = job_environment(a, spec, true), *const *program = job_words(a,
                                                                           spec,
                                                                           pod_config(a, spec),
                                                                           &n_program);
    const pod_options *more = &spec->pods;
    const char **list = ARENA_ARRAY(a, const char *,
            n_program + 64 + 2 * (more->n[POD_ENV] + more->n[POD_SECRET_ENV]));
    const char *const first[] = {"mpirun", "--hostfile", hosts, "-np",
            arena_printf(a, "%d", job_ranks(spec)), "--map-by",
            arena_printf(a, "ppr:%d:node%s", spec->ranks, oversubscribe ? ":OVERSUBSCRIBE" : ""),
            "--bind-to", "none", "--wdir", spec->mount, "--mca", "plm_rsh_args", SSH_OPTIONS};
    *n = 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        list[(*n)++] = first[i];
    for (; *variables; variables += 2) {
        if (pod_options_set_variable(more, variables[0])) continue;
        list[(*n)++] = "-x";
        list[(*n)++] = arena_printf(a, "%s=%s", variables[0], variables[1]);
    }
    for (int option = POD_ENV; option <= POD_SECRET_ENV; option++)
        for (int i = 0; i < more->n[option]; i++) { // for the launcher's own environment
            list[(*n)++] = "-x";
            list[(*n)++] = more->items[option][i].name;
        }
    for (int i = 0; spec->has_progress && i < 3; i++) {
        list[(*n)++] = "-x";
        list[(*n)++] = progress_variables[i];
    }
    for (int i = 0; i < n_program; i++)
        list[(*n)++] = program[i];
    return list;
}
