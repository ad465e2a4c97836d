// MPIJob kubeflow.org/v2beta1 of the MPI Operator. It restarts a failed launcher whatever its
// status, up to runPolicy.backoffLimit: the operator has no policy by status.
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

#define HOSTS_DIR "/etc/mpi"
#define HOSTS     HOSTS_DIR "/hostfile"

drv_status mpi_operator_write(arena *a, const job_spec *spec, job_files *files) {
    // The operator's names for the volumes that it adds (its controller, v0.4 to v0.6).
    static const char *const mounts[] = {"ssh-auth", SSH_DIR, "mpi-job-config", HOSTS_DIR, NULL};
    pod launcher = mpirun_pod(a, "launcher", HOSTS);
    const pod worker = sshd_pod("worker");
    launcher.command = mpirun_words(a, spec, HOSTS, false, &launcher.n_command);
    launcher.wait_first = wait_for_hosts(a, HOSTS);
    launcher.wait_mounts = mounts;
    yaml_writer *w = manifest_open(spec, job_files_add(files, spec->kind->file, false));
    manifest_config_map(w, a, spec, NULL, 0);
    manifest_begin(w, spec, "kubeflow.org/v2beta1", "MPIJob", spec->name, true);
    yaml_map(w, "spec");
    yaml_put(w,
            "slotsPerWorker: %d\nmpiImplementation: OpenMPI\nsshAuthMountPath: " SSH_DIR
            "\nlauncherCreationPolicy: WaitForWorkersReady",
            spec->ranks);
    manifest_run_policy(w, spec);
    yaml_map(w, "mpiReplicaSpecs");
    manifest_role(w, a, spec, "Launcher", 1, "Never", &launcher);
    manifest_role(w, a, spec, "Worker", spec->nodes, "Never", &worker);
    yaml_writer_close(w);
    return DRV_OK;
}
