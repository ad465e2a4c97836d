// Job batch.volcano.sh/v1alpha1: Volcano without an operator. Its plugins provide the host file
// (svc) and keys (ssh); mpi opens the port and tells tasks each other's names. Policies are read in
// order: first by status, then any other failure. A job has no time limit of its own; the
// launcher's pod has one, and its ranks save before it ends.
#include "base/str.h"
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

#define HOSTS "/etc/volcano/mpiworker.host"

static void put_task(yaml_writer *w, arena *a, const job_spec *spec, const char *name, int replicas,
        bool ends_job, const pod *p) {
    yaml_map(w, NULL);
    yaml_text(w, "name", name);
    yaml_int(w, "replicas", replicas);
    if (ends_job)
        yaml_put(w,
                "policies: [{event: TaskCompleted, action: CompleteJob}, "
                "{exitCode: 1, action: TerminateJob}, {exitCode: 2, action: TerminateJob}, "
                "{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: RestartJob}]");
    yaml_map(w, "template");
    pod_template(w, a, spec, p);
    yaml_map_end(w);
    yaml_map_end(w);
}

drv_status volcano_write(arena *a, const job_spec *spec, job_files *files) {
    int64_t tier = 0;
    DRV_ASSERT(!spec->topology || str_to_i64(spec->topology, &tier), "job_check has read it");
    pod master = mpirun_pod(a, "mpimaster", HOSTS), worker = sshd_pod("mpiworker");
    const char *const *const more = master.environment;
    const char *const environment[] = {more[0], more[1], more[2], more[3],
            "OMPI_MCA_orte_keep_fqdn_hostnames", "true", NULL};
    master.command = mpirun_words(a, spec, HOSTS, true, &master.n_command);
    master.environment = environment;
    master.wait_first = wait_for_hosts(a, HOSTS);
    master.deadline_s = spec->time_s;
    master.restart = worker.restart = "Never";
    master.by_volcano = worker.by_volcano = true;
    yaml_writer *w = manifest_open(spec, job_files_add(files, spec->kind->file, false));
    manifest_config_map(w, a, spec, NULL, 0);
    manifest_begin(w, spec, "batch.volcano.sh/v1alpha1", "Job", spec->name, false);
    yaml_map(w, "spec");
    yaml_text(w, "schedulerName", "volcano");
    yaml_int(w, "minAvailable", spec->nodes + 1); // all or none
    if (spec->queue) yaml_text(w, "queue", spec->queue);
    if (spec->topology)
        yaml_put(w, "networkTopology: {mode: hard, highestTierAllowed: %lld}", (long long)tier);
    yaml_int(w, "maxRetry", spec->tries + 1);
    yaml_put(w,
            "plugins: {ssh: [\"--ssh-key-file-path=" SSH_DIR "\"], svc: [], "
            "mpi: [--master=mpimaster, --worker=mpiworker, --port=2222]}\n"
            "policies: [{event: PodEvicted, action: RestartJob}, {event: PodFailed, action: RestartJob}]");
    yaml_list(w, "tasks");
    put_task(w, a, spec, "mpimaster", 1, true, &master);
    put_task(w, a, spec, "mpiworker", spec->nodes, false, &worker);
    yaml_writer_close(w);
    return DRV_OK;
}
