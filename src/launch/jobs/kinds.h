// Writes the files of a job, with one function for each kind.
#pragma once
#include "launch/jobs/job_spec.h"

DRV_CHECKED drv_status slurm_write(arena *a, const job_spec *spec, job_files *files);
DRV_CHECKED drv_status mpi_operator_write(arena *a, const job_spec *spec, job_files *files);
DRV_CHECKED drv_status trainjob_write(arena *a, const job_spec *spec, job_files *files);
DRV_CHECKED drv_status pytorchjob_write(arena *a, const job_spec *spec, job_files *files);
DRV_CHECKED drv_status ray_write(arena *a, const job_spec *spec, job_files *files);
DRV_CHECKED drv_status volcano_write(arena *a, const job_spec *spec, job_files *files);
// Writes work of one pod (WORK_COMPILE, WORK_DATA) for any Kubernetes: a Job of batch/v1.
DRV_CHECKED drv_status batch_job_write(arena *a, const job_spec *spec, job_files *files);
