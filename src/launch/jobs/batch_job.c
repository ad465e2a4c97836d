// Job batch/v1: one pod that compiles a run's programs or prepares its data, with the image, claim
// and security settings of the training job. It runs on any Kubernetes, whichever operator trains.
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

drv_status batch_job_write(arena *a, const job_spec *spec, job_files *files) {
    const bool compiles = spec->work == WORK_COMPILE;
    const char *config = spec->config_text ? pod_config(a, spec) : NULL;
    int n;
    const char *const *words = job_words(a, spec, config, &n);
    const pod only = {.container = "drover",
            .command = words,
            .n_command = n,
            .size = compiles ? POD_DEVICES : POD_HOST,
            .has_program = true,
            .restart = "Never"};
    yaml_writer *w = manifest_open(spec,
            job_files_add(files, compiles ? "compile.yaml" : "data.yaml", false));
    if (spec->config_text) manifest_config_map(w, a, spec, NULL, 0);
    manifest_begin(w, spec, "batch/v1", "Job", spec->name, spec->kind->by_kueue);
    yaml_map(w, "spec");
    manifest_limits(w, spec);
    // Another try would end in the same way.
    yaml_put(w, "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: "
                "{containerName: drover, operator: In, values: [1, 2]}}]}");
    yaml_map(w, "template");
    pod_template(w, a, spec, &only);
    yaml_writer_close(w);
    return DRV_OK;
}
