// Asks the scheduler and the run about a job, and puts the answers into words.
#include "launch/jobs/submitted_job.h"

#include <math.h>

#include "base/clock.h"
#include "base/file.h"

enum { MOST_JSON = 16 << 20, MOST_STATUS = 1 << 16 };

// --- opening
// Returns where the run directory is seen from here, if it is seen at all.
static const char *find_run_dir(arena *a, const job_record *record) {
    if (!record->run_dir || *record->run_dir == '/') return record->run_dir;
    if (record->mount) return path_join(a, record->mount, record->run_dir);
    return *record->folder ? path_join(a, record->folder, record->run_dir) : record->run_dir;
}

drv_status submitted_job_open(arena *a, const char *dir, const char *run_dir, double limit_s,
        submitted_job *out) {
    submitted_job job = {.dir = dir, .limit_s = limit_s, .state = job_state_new(), .no_status = ""};
    DRV_TRY(job_record_read(a, dir, &job.record));
    DRV_TRY(program_find(a, job_is_slurm(&job.record) ? "squeue" : job_program(&job.record)));
    job.run_dir = run_dir ? run_dir : find_run_dir(a, &job.record);
    job.is_known = !job_is_slurm(&job.record) || *job.record.id;
    *out = job;
    return DRV_OK;
}

// --- asking
drv_status submitted_job_call(arena *a, const submitted_job *job, const program_words *words,
        program_end *out) {
    const program_call call = {.words = words, .limit_s = job->limit_s, .most_bytes = MOST_JSON};
    DRV_TRY(program_must_run(a, &call, out));
    if (!out->is_cut) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s printed more than %d MiB", program_name(a, words),
            MOST_JSON >> 20);
}

drv_status submitted_job_ask(arena *a, submitted_job *job) {
    const job_record *record = &job->record;
    program_end end;
    const program_words words = job_ask_command(record);
    if (!job->is_known) return DRV_OK;
    DRV_TRY(submitted_job_call(a, job, &words, &end));
    if (job_is_slurm(record))
        return job_state_of_squeue(a, end.out, end.n_out, record->id, &job->state);
    DRV_TRY(job_state_of_object(a, end.out, end.n_out, record, &job->state));
    const program_words pods = job_pods_command(a, record);
    DRV_TRY(submitted_job_call(a, job, &pods, &end));
    return job_state_add_pods(a, end.out, end.n_out, &job->state, &job->n_pods);
}

// Reads status.json in a pod that runs, since a volume of Kubernetes is rarely mounted where
// kubectl is.
static drv_status read_from_pod(arena *a, submitted_job *job, const char *path) {
    program_end end;
    const program_words words = job_cat_command(&job->record, job->state.pod, path);
    const program_call call = {.words = &words,
            .limit_s = job->limit_s,
            .most_bytes = MOST_STATUS + 1};
    DRV_TRY(program_must_run(a, &call, &end));
    return run_status_parse(a, path, end.out, end.n_out, &job->status);
}

void submitted_job_read_run(arena *a, submitted_job *job) {
    job->has_status = false;
    job->no_status = "";
    if (!job->run_dir) return;
    const char *path = path_join(a, job->run_dir, "status.json");
    drv_status status;
    if (file_exists(path)) {
        status = run_status_read(a, job->run_dir, &job->status);
    } else if (job->record.kind->is_kubernetes && job->state.pod_runs && *path == '/') {
        status = read_from_pod(a, job, path);
    } else {
        job->no_status = arena_printf(a, "there is no \"%s\" here%s", path,
                job->record.mount ? " (--run-dir says where it is)" : " yet");
        return;
    }
    job->has_status = status == DRV_OK;
    if (status != DRV_OK) job->no_status = arena_strdup(a, drv_message());
}

// --- the answers in words
const char *submitted_job_id(const submitted_job *job) {
    return *job->state.id ? job->state.id : job->record.id;
}

const char *submitted_job_verdict(const submitted_job *job) {
    if (job->state.phase == JOB_QUEUED) return "queued";
    if (job->state.phase == JOB_RUNNING) return "running";
    if (job->has_status && job->status.end) return run_end_name(job->status.end);
    if (job->state.phase != JOB_ABSENT) return job_phase_name(job->state.phase);
    return job->has_status && job->is_known ? "lost" : "unknown";
}

const char *submitted_job_scheduler_words(arena *a, const submitted_job *job) {
    const job_state *s = &job->state;
    if (!job->is_known)
        return "not asked: drover has not submitted it (--submit), so its number is not known";
    return arena_printf(a, "%s%s%s%s%s",
            s->phase == JOB_ABSENT ? "no such job (any more)" : job_phase_name(s->phase),
            *s->where ? " on " : "", s->where, *s->why ? ": " : "", s->why);
}

const char *submitted_job_run_words(arena *a, const submitted_job *job) {
    const run_status *s = &job->status;
    if (!job->has_status) return arena_printf(a, "not known: %s", job->no_status);
    const char *words = arena_printf(a, "%s, step %lld of %lld",
            s->end ? run_end_name(s->end) : run_state_name(s->state), (long long)s->step,
            (long long)s->steps);
    if (s->attempt > 0) words = arena_printf(a, "%s, attempt %lld", words, (long long)s->attempt);
    if (!isnan(s->loss)) words = arena_printf(a, "%s, loss %.4g", words, s->loss);
    if (s->saved_step >= 0)
        words = arena_printf(a, "%s, saved step %lld", words, (long long)s->saved_step);
    if (!s->end && !isnan(s->eta_s))
        words = arena_printf(a, "%s, %s to go", words, str_duration(s->eta_s));
    if (s->end == RUN_FAILED) {
        words = arena_printf(a, "%s; cause %s", words, *s->cause ? s->cause : "not told");
        if (s->failed_rank >= 0)
            words = arena_printf(a, "%s, rank %lld on %s", words, (long long)s->failed_rank,
                    *s->failed_host ? s->failed_host : "?");
        words = arena_printf(a, "%s: %s", words, s->message);
    }
    return arena_printf(a, "%s (%s ago)", words,
            str_long_duration(fmax(0, clock_utc_s() - s->time)));
}
