// TrainJob trainer.kubeflow.org/v1alpha1 of Kubeflow Trainer 2.0 to 2.3. Everything that differs
// between releases (patches, overrides, labels) is in a TrainingRuntime of the job's own; the
// TrainJob has only runtimeRef and trainer. With the MPI policy a launcher runs mpirun over ssh;
// with the torch policy each pod runs `drover launch node`.
//
// The status of a pod has these effects (JobSet's failurePolicy over each Job's podFailurePolicy).
// 1 and 2 fail the Job with the reason PodFailurePolicy, which ends the JobSet. 3, a saved stop,
// and DisruptionTarget are ignored by the Job, which makes a new pod and uses up no restart; but
// the disruption of a node's sshd, with which its ranks are lost, restarts everything, also for
// free. Any other status, such as 75, fails the Job by its backoffLimit of 0, and the JobSet
// restarts as often as maxRestarts allows.
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

#define HOSTS "/etc/mpi/hostfile"

// --- after a failure
// is_sshd: its status means nothing, and losing it means losing its ranks.
static void put_pod_failure_policy(yaml_writer *w, bool is_sshd) {
    yaml_map(w, "podFailurePolicy"), yaml_list(w, "rules");
    yaml_put(w, "[{action: %s, onPodConditions: [{type: DisruptionTarget, status: \"True\"}]}]",
            is_sshd ? "FailJob" : "Ignore");
    if (!is_sshd)
        yaml_put(w,
                "[{action: FailJob, onExitCodes: "
                "{containerName: node, operator: In, values: [1, 2]}}, "
                "{action: Ignore, onExitCodes: {containerName: node, operator: In, values: [3]}}]");
    yaml_list_end(w), yaml_map_end(w);
}

static void put_rule(yaml_writer *w, const char *name, const char *action, const char *job) {
    yaml_put(w,
            "[{name: %s, action: %s, onJobFailureReasons: [PodFailurePolicy], "
            "targetReplicatedJobs: [%s]}]",
            name, action, job);
}

static void put_failure_policy(yaml_writer *w, const job_spec *spec) {
    yaml_map(w, "failurePolicy");
    yaml_int(w, "maxRestarts", spec->tries);
    yaml_list(w, "rules");
    put_rule(w, "willFailAgain", "FailJobSet", spec->is_node_launch ? "node" : "launcher");
    if (!spec->is_node_launch)
        put_rule(w, "disrupted", "RestartJobSetAndIgnoreMaxRestarts", "node");
    yaml_list_end(w);
    yaml_map_end(w);
}

// --- the runtime
static void put_job(yaml_writer *w, arena *a, const job_spec *spec, const char *name,
        bool is_trainer, const pod *p) {
    yaml_map(w, NULL);
    yaml_text(w, "name", name);
    if (is_trainer && !spec->is_node_launch)
        yaml_put(w, "dependsOn: [{name: node, status: Ready}]");
    yaml_map(w, "template");
    if (is_trainer)
        yaml_put(w, "metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}");
    yaml_map(w, "spec");
    yaml_int(w, "backoffLimit", 0);
    if (spec->time_s) yaml_int(w, "activeDeadlineSeconds", spec->time_s);
    put_pod_failure_policy(w, !is_trainer);
    yaml_map(w, "template");
    pod_template(w, a, spec, p);
    yaml_map_end(w), yaml_map_end(w), yaml_map_end(w), yaml_map_end(w);
}

static void put_jobs(yaml_writer *w, arena *a, const job_spec *spec) {
    pod node = sshd_pod("node"), launcher = mpirun_pod(a, "node", HOSTS);
    const pod alone = {.container = "node",
            .has_program = true,
            .restart = "Never",
            .health_port = spec->nodes == 1 ? pod_health_port(spec) : 0,
            .unhealthy_s = RUN_UNHEALTHY_S,
            .start_s = RUN_START_S,
            .size = POD_DEVICES};
    node.restart = launcher.restart = "Never";
    node.has_progress = spec->has_progress;
    yaml_list(w, "replicatedJobs");
    if (spec->is_node_launch) {
        put_job(w, a, spec, "node", true, &alone);
    } else {
        put_job(w, a, spec, "node", false, &node);
        put_job(w, a, spec, "launcher", true, &launcher);
    }
    yaml_list_end(w);
}

static void put_ml_policy(yaml_writer *w, const job_spec *spec) {
    if (spec->is_node_launch)
        yaml_put(w, "mlPolicy: {numNodes: %d, torch: {}}", spec->nodes);
    else
        yaml_put(w,
                "mlPolicy: {numNodes: %d, mpi: {numProcPerNode: %d, mpiImplementation: OpenMPI, "
                "sshAuthMountPath: " SSH_DIR ", runLauncherAsNode: false}}",
                spec->nodes, spec->ranks);
}

static void put_runtime(yaml_writer *w, arena *a, const job_spec *spec) {
    manifest_begin(w, spec, "trainer.kubeflow.org/v1alpha1", "TrainingRuntime", spec->name, false);
    yaml_map(w, "spec");
    put_ml_policy(w, spec);
    yaml_map(w, "template");
    yaml_map(w, "spec");
    yaml_put(w,
            "network: {publishNotReadyAddresses: true}\n"
            "successPolicy: {operator: All, targetReplicatedJobs: [%s]}",
            spec->is_node_launch ? "node" : "launcher");
    put_failure_policy(w, spec);
    put_jobs(w, a, spec);
}

drv_status trainjob_write(arena *a, const job_spec *spec, job_files *files) {
    enum { MOST_WORDS = 128 }; // of a list in a TrainJob, by its schema
    int n;
    const char *const *words = spec->is_node_launch ? job_words(a, spec, pod_config(a, spec), &n)
                                                    : mpirun_words(a, spec, HOSTS, false, &n);
    if (n > MOST_WORDS)
        return drv_fail(DRV_E_USAGE,
                "launch trainjob: the command has %d words, but Trainer accepts %d; expected fewer --set, --env and --secret-env",
                n, MOST_WORDS);
    yaml_writer *w = manifest_open(spec, job_files_add(files, spec->kind->file, false));
    manifest_config_map(w, a, spec, NULL, 0);
    put_runtime(w, a, spec);
    manifest_begin(w, spec, "trainer.kubeflow.org/v1alpha1", "TrainJob", spec->name, true);
    yaml_map(w, "spec");
    if (job_is_queued(spec)) yaml_bool(w, "suspend", true); // until Kueue admits it
    yaml_put(w, "runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: \"%s\"}",
            spec->name);
    yaml_map(w, "trainer");
    yaml_text(w, "image", spec->image);
    yaml_put(w, "numNodes: %d\nnumProcPerNode: %d", spec->nodes, spec->ranks);
    pod_words(w, a, "command", words, n);
    yaml_writer_close(w);
    return DRV_OK;
}
