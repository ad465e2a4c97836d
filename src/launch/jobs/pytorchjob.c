// PyTorchJob kubeflow.org/v1 of the training operator 1.9: a Master and Workers, each of which runs
// `drover launch node` and finds its number in PET_NODE_RANK. The policy ExitCode restarts a pod
// for statuses from 128 on, so the status for another try is 175 here, not 75. On SageMaker
// HyperPod, whose controller replaces nodes and restarts jobs, the policy must be OnFailure.
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

drv_status pytorchjob_write(arena *a, const job_spec *spec, job_files *files) {
    static const char *const retry[] = {"DROVER_RETRY_STATUS", "175", NULL};
    int n;
    const char *const *words = job_words(a, spec, pod_config(a, spec), &n);
    const pod node = {.container = "pytorch",
            .command = words,
            .n_command = n,
            .size = POD_DEVICES,
            .has_program = true,
            .is_one_of_two = spec->nodes > 1,
            .environment = retry};
    pod first = node;
    first.health_port = pod_health_port(spec);
    first.unhealthy_s = RUN_UNHEALTHY_S, first.start_s = RUN_START_S;
    yaml_writer *w = manifest_open(spec, job_files_add(files, spec->kind->file, false));
    manifest_config_map(w, a, spec, NULL, 0);
    manifest_begin(w, spec, "kubeflow.org/v1", "PyTorchJob", spec->name, true);
    yaml_map(w, "spec");
    yaml_text(w, "nprocPerNode", arena_printf(a, "%d", spec->ranks));
    manifest_run_policy(w, spec);
    yaml_map(w, "pytorchReplicaSpecs");
    const char *restart = spec->is_hyperpod ? "OnFailure" : "ExitCode";
    manifest_role(w, a, spec, "Master", 1, restart, &first);
    if (spec->nodes > 1) manifest_role(w, a, spec, "Worker", spec->nodes - 1, restart, &node);
    yaml_writer_close(w);
    return DRV_OK;
}
