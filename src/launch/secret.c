// Reads the secret of a job from a file or draws one, and passes it to its programs in their
// environment.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "launch/launch.h"
#include "launch/leftovers.h"
#include "launch/outcome.h"

enum { LEAST_BYTES = 16, MOST_BYTES = 1 << 16 };
#define SECRET_FILE "DROVER_JOB_SECRET_FILE"

// Makes a key of fixed size from any bytes, as a Kubernetes Secret may have them.
static drv_status make_key(const char *bytes, size_t n, job_secret *out) {
    return hmac_sha256("drover job secret", 17, bytes, n, out->bytes);
}

// Kubernetes mounts a Secret with owner root and the group of the pod; other users must not be able
// to read it.
static drv_status read_key(arena *a, const char *path, job_secret *out) {
    char *bytes;
    size_t n;
    struct stat info;
    DRV_TRY_CTX(file_read_small(a, path, MOST_BYTES, &bytes, &n), SECRET_FILE);
    if (stat(path, &info) == 0 && info.st_mode & 007)
        return drv_fail(DRV_E_USAGE,
                SECRET_FILE ": others may read \"%s\" (mode %03o), expected 0600", path,
                (unsigned)info.st_mode & 0777);
    if (n < LEAST_BYTES)
        return drv_fail(DRV_E_USAGE,
                SECRET_FILE
                ": \"%s\" has %zu bytes, expected at least %d (head -c 32 /dev/urandom)",
                path, n, LEAST_BYTES);
    return make_key(bytes, n, out);
}

drv_status launch_read_secret(job_secret *out, bool *found) {
    const char *path = getenv(SECRET_FILE);
    *found = path && *path;
    if (!*found) return DRV_OK;
    arena *a = arena_new("secret of a job");
    const drv_status status = read_key(a, path, out);
    arena_free(a);
    return status;
}

// The secret of one machine is kept in a folder that only this user can enter, in a file named
// after the socket at which node 0 listens, which no two jobs share at a time: the network (of
// containers that share a /tmp), the address, the port.
static const char *secret_folder(arena *a) {
    return arena_printf(a, "%s-secret-", leftover_prefix(a));
}

static const char *secret_name(arena *a, const char *address, int port) {
    struct stat network = {0};
    if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
    return arena_printf(a, "%llu-%s-%d.secret", (unsigned long long)network.st_ino, address, port);
}

drv_status launch_leave_secret(arena *a, const char *address, int port, job_secret *out,
        const char **folder, int *held) {
    job_secret drawn;
    DRV_TRY(secret_make(&drawn));
    leftovers_remove(a, "/tmp");
    char *mine = arena_printf(a, "/tmp/%sXXXXXX", secret_folder(a));
    if (!mkdtemp(mine))
        return drv_fail(DRV_E_IO, "could not make \"%s\": %s", mine, strerror(errno));
    *folder = mine;
    *held = leftover_hold(mine); // before there is a file that others look for
    const char *path = path_join(a, mine, secret_name(a, address, port));
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not create \"%s\": %s", path, strerror(errno));
    const drv_status status = file_write_all(fd, path, drawn.bytes, sizeof drawn.bytes);
    close(fd);
    DRV_TRY(status);
    return make_key((const char *)drawn.bytes, sizeof drawn.bytes, out);
}

// Returns whether a folder belongs to this user alone, and to a node 0 that is alive.
static bool is_trusted(const char *folder) {
    struct stat info;
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
            info.st_mode & 077)
        return false;
    const int fd = leftover_hold(folder);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static bool read_secret(const char *path, char bytes[SECRET_BYTES]) {
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const bool whole = file_read_at(fd, bytes, SECRET_BYTES, 0) == SECRET_BYTES;
    close(fd);
    return whole;
}

bool launch_find_secret(arena *a, const char *address, int port, job_secret *out) {
    char **names, bytes[SECRET_BYTES];
    int n = 0;
    const char *prefix = secret_folder(a), *name = secret_name(a, address, port);
    if (dir_list(a, "/tmp", &names, &n) != DRV_OK) return false;
    for (int i = 0; i < n; i++) {
        if (!str_starts(names[i], prefix)) continue;
        const char *folder = path_join(a, "/tmp", names[i]), *path = path_join(a, folder, name);
        if (file_exists(path) && is_trusted(folder) && read_secret(path, bytes))
            return make_key(bytes, sizeof bytes, out) == DRV_OK;
    }
    return false;
}

// --- the environment of Open MPI's programs
extern char **environ;

// Returns whether a variable belongs to the launcher of this process, which is not a rank. With it
// mpirun would believe that it is a rank, or would ask Slurm for its nodes. SLURM_JOB_ID and the
// like stay, for people who read logs.
static bool is_foreign(const char *variable) {
    static const char *const names[] = {"SLURM_JOBID=", "SLURM_STEP", "SLURM_PROCID=",
            "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_NODELIST=", "SLURM_JOB_NODELIST=",
            "SLURM_TASKS_PER_NODE=", "SLURM_NTASKS=", "SLURM_NPROCS=", "SLURM_CPU_BIND", "PMIX_",
            "PMI_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "RANK=", "WORLD_SIZE=",
            "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "PET_",
            "JAX_PROCESS_ID=", "JAX_NUM_PROCESSES=", "JOB_COMPLETION_INDEX=", "VC_TASK_INDEX="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_starts(variable, names[i])) return true;
    return false;
}

const char **launch_variables(arena *a, const launch_job *job, const char *dir,
        const char *address) {
    // Both names are set: of Open MPI 4 and of PRRTE in Open MPI 5. An agent stays as long as its
    // daemon, so as many run at once as there are nodes; node 0 starts all daemons.
    static const char *const fixed[] = {"OMPI_MCA_plm=rsh", "PRTE_MCA_plm=ssh",
            "OMPI_MCA_plm_rsh_no_tree_spawn=1", "PRTE_MCA_plm_ssh_no_tree_spawn=1",
            "OMPI_MCA_orte_leave_session_attached=1", "PRTE_MCA_prte_leave_session_attached=1",
            "OMPI_MCA_hwloc_base_binding_policy=none", "PRTE_MCA_hwloc_default_binding_policy=none",
            "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
            "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
            "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
            "DROVER_JOB_SECRET_FILE", "DROVER_NODE_RANK", "DROVER_NODES"};
    enum { N_FIXED = sizeof fixed / sizeof *fixed, N_MADE = 8 };
    int n_foreign = 0, n = 0;
    for (char **v = environ; *v; v++)
        n_foreign += is_foreign(*v);
    const char **list = ARENA_ARRAY(a, const char *, N_FIXED + N_MADE + n_foreign + 1);
    for (int i = 0; i < N_FIXED; i++)
        list[n++] = fixed[i];
    for (char **v = environ; *v; v++)
        if (is_foreign(*v)) list[n++] = arena_strndup(a, *v, strcspn(*v, "="));
    list[n++] = arena_printf(a, "OMPI_MCA_plm_rsh_agent=%s/drover launch agent --", dir);
    list[n++] = arena_printf(a, "PRTE_MCA_plm_ssh_agent=%s/drover launch agent --", dir);
    list[n++] = arena_printf(a, "OMPI_MCA_plm_rsh_num_concurrent=%d", job->n_nodes + 1);
    list[n++] = arena_printf(a, "PRTE_MCA_plm_ssh_num_concurrent=%d", job->n_nodes + 1);
    list[n++] = arena_printf(a, "TMPDIR=%s", dir); // Open MPI's session; nodes may share a /tmp
    list[n++] = arena_printf(a, LAUNCH_DIR "=%s", dir);
    list[n++] = arena_printf(a, LAUNCH_SOCKET "=%s/agents", dir);
    list[n++] = arena_printf(a, LAUNCH_NODE "=%d %d %d %s", job->node, job->n_nodes, job->ranks,
            address);
    return list;
}
