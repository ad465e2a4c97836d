// The table of kinds, with the function that writes each kind's files.
#include "launch/jobs/job_spec.h"
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

// Lengths of names: operators' pods have DNS labels, the longest of which is that of the last node;
// KubeRay appends to the names of jobs (47) itself; a JobSet's pods have a suffix of their own.
const job_kind job_kinds[] = {
        {.name = "slurm", .most_name = 63, .counts_tiers = true, .write = slurm_write},
        {.name = "mpi-operator",
                .file = "mpijob.yaml",
                .resource = "mpijob.kubeflow.org",
                .last_pod = "-worker-",
                .first_pod = -1,
                .most_name = 54, // NAME-launcher
                .is_kubernetes = true,
                .by_kueue = true,
                .write = mpi_operator_write},
        {.name = "trainjob",
                .file = "trainjob.yaml",
                .resource = "trainjob.trainer.kubeflow.org",
                .last_pod = "-node-0-",
                .first_pod = -1,
                .most_name = 50, // NAME-launcher-0-0
                .is_kubernetes = true,
                .by_kueue = true,
                .write = trainjob_write},
        {.name = "pytorchjob",
                .file = "pytorchjob.yaml",
                .resource = "pytorchjob.kubeflow.org",
                .last_pod = "-worker-",
                .first_pod = -2,
                .most_name = 54, // NAME-master-0
                .is_kubernetes = true,
                .by_kueue = true,
                .is_node_launch = true,
                .write = pytorchjob_write},
        {.name = "ray",
                .file = "rayjob.yaml",
                .resource = "rayjob.ray.io",
                .most_name = 47,
                .is_kubernetes = true,
                .by_kueue = true,
                .is_node_launch = true,
                .write = ray_write},
        {.name = "volcano",
                .file = "volcano.yaml",
                .resource = "job.batch.volcano.sh",
                .last_pod = "-mpiworker-",
                .first_pod = -1,
                .most_name = 51, // NAME-mpimaster-0
                .is_kubernetes = true,
                .counts_tiers = true,
                .write = volcano_write},
};
const int n_job_kinds = sizeof job_kinds / sizeof *job_kinds;

drv_status job_write(arena *a, const job_spec *spec, job_files *files) {
    if (spec->work != WORK_TRAIN && spec->kind->is_kubernetes)
        return batch_job_write(a, spec, files);
    DRV_TRY(spec->kind->write(a, spec, files));
    if (spec->has_page) page_write(a, spec, files);
    return DRV_OK;
}
