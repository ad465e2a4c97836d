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
    yaml_int(w, "backoffLimit", spec->tries);
    if (spec->time_s) yaml_int(w, "activeDeadlineSeconds", spec->time_s);
    if (job_is_queued(spec)) yaml_bool(w, "suspend", true); // until Kueue admits it
    yaml_map(w, "podFailurePolicy");
    yaml_list(w, "rules");
    yaml_map(w, NULL);
    yaml_text(w, "action", "FailJob"); // another try would end in the same way
    yaml_map(w, "onExitCodes");
    yaml_text(w, "containerName", "drover");
    yaml_text(w, "operator", "In");
    yaml_list(w, "values");
    yaml_int(w, NULL, 1);
    yaml_int(w, NULL, 2);
    yaml_list_end(w);
    yaml_map_end(w), yaml_map_end(w);
    yaml_list_end(w);
    yaml_map_end(w);
    yaml_map(w, "template");
    pod_template(w, a, spec, &only);
    yaml_map_end(w), yaml_map_end(w);
    yaml_document_end(w);
    yaml_writer_close(w);
    return DRV_OK;
}
