// Ends a job with a save, and removes what it has left behind.
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "launch/jobs/shell_words.h"
#include "launch/jobs/submitted_job.h"

// The scheduler is asked soon after the request, and then every two seconds.
enum { FIRST_WAIT_MS = 200, WAIT_MS = 2000 };

static drv_status call(arena *a, const submitted_job *job, program_words words) {
    program_end end;
    return submitted_job_call(a, job, &words, &end);
}

// --- stop
bool submitted_job_is_over(const submitted_job *job) {
    return job->state.phase != JOB_QUEUED && job->state.phase != JOB_RUNNING && job->n_pods == 0;
}

// A job that does not run has nothing to save; one of Kubernetes saves when its pods are deleted.
static drv_status ask_to_end(arena *a, const submitted_job *job) {
    const char *id = submitted_job_id(job);
    if (job_is_slurm(&job->record) && job->state.phase == JOB_RUNNING)
        return call(a, job, job_save_command(id));
    return call(a, job, job_end_command(&job->record, id));
}

static drv_status still_runs(arena *a, const submitted_job *job, double wait_s) {
    const program_words words = job_end_command(&job->record, submitted_job_id(job));
    str line = {0};
    if (job_is_slurm(&job->record)) {
        str_puts(&line, "; without a save: ");
        shell_words(&line, words.words, words.n);
    }
    return drv_fail(DRV_E_BUSY, "\"%s\" has been asked to save, and still runs after %g s%s",
            job->record.name, wait_s, str_keep(a, &line));
}

drv_status submitted_job_stop(arena *a, submitted_job *job, double wait_s) {
    const double until = clock_s() + wait_s;
    DRV_TRY(ask_to_end(a, job));
    for (int wait_ms = FIRST_WAIT_MS; clock_s() < until; wait_ms = WAIT_MS) {
        usleep((useconds_t)wait_ms * 1000);
        DRV_TRY(submitted_job_ask(a, job));
        if (submitted_job_is_over(job)) return DRV_OK;
        // Slurm may have put the job into its queue again.
        if (job_is_slurm(&job->record) && job->state.phase == JOB_QUEUED)
            DRV_TRY(ask_to_end(a, job));
    }
    return still_runs(a, job, wait_s);
}

// --- clean
static drv_status find_objects(arena *a, const submitted_job *job, job_remains *out) {
    program_end end;
    int n;
    const char *const *ours = job_objects(a, &job->record, &n);
    const program_words words = job_objects_command(a, &job->record);
    if (!job->record.kind->is_kubernetes) return DRV_OK;
    DRV_TRY(submitted_job_call(a, job, &words, &end));
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(ours[i]);
        for (const char *line = end.out; *line;) {
            const size_t here = strcspn(line, "\n");
            if (here == length && strncmp(line, ours[i], length) == 0) {
                out->objects[out->n_objects++] = ours[i];
                break;
            }
            line += here + (line[here] == '\n');
        }
    }
    return DRV_OK;
}

static void add_file(job_remains *out, const char *path) {
    if (file_exists(path)) out->files[out->n_files++] = path;
}

drv_status job_remains_find(arena *a, const submitted_job *job, job_remains *out) {
    const job_record *r = &job->record;
    *out = (job_remains){.files = ARENA_ARRAY(a, const char *, r->n_files + 4)};
    DRV_TRY(find_objects(a, job, out));
    if (job_is_slurm(r) && *r->id) {
        add_file(out, path_join(a, r->folder, arena_printf(a, "%s-%s.log", r->name, r->id)));
        add_file(out, path_join(a, r->folder, arena_printf(a, ".%s.tries", r->name)));
    }
    for (int i = 0; i < r->n_files; i++)
        add_file(out, path_join(a, job->dir, r->files[i]));
    add_file(out, path_join(a, job->dir, JOB_RECORD));
    return DRV_OK;
}

drv_status job_remains_remove(arena *a, const submitted_job *job, const job_remains *list) {
    for (int i = 0; i < list->n_objects; i++)
        DRV_TRY(call(a, job, job_remove_command(&job->record, list->objects[i])));
    for (int i = 0; i < list->n_files; i++)
        if (unlink(list->files[i]) != 0) return file_fail("remove", list->files[i]);
    return DRV_OK;
}
