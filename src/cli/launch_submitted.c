// drover launch status, logs, stop and clean: the verbs for a job that was submitted.
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/launch_jobs.h"
#include "launch/jobs/shell_words.h"
#include "launch/jobs/submitted_job.h"

enum { MOST_LOG = 64 << 20, TAIL_BYTES = 4 << 20 };

static drv_status open_job(arena *a, const cli_args *args, submitted_job *out) {
    const char *run_dir =
            cli_find_option(args->verb, "--run-dir") ? cli_get(args, "--run-dir", NULL) : NULL;
    double limit_s = 60;
    DRV_TRY(cli_get_f64(args, "--limit", 0.1, 3600, &limit_s));
    DRV_TRY_CTX(submitted_job_open(a, args->positional[0], run_dir, limit_s, out), "%s",
            args->name);
    return DRV_OK;
}

// --- status
static void print_json(const submitted_job *job) {
    const job_state *s = &job->state;
    json_t *o = json_object(), *scheduler = json_object();
    json_object_set_new(scheduler, "asked", json_boolean(job->is_known));
    json_object_set_new(scheduler, "state", json_of_words(job_phase_name(s->phase)));
    json_object_set_new(scheduler, "why", json_of_words(s->why));
    json_object_set_new(scheduler, "where", json_of_words(s->where));
    json_object_set_new(scheduler, "id", json_of_words(s->id));
    json_object_set_new(o, "name", json_string(job->record.name));
    json_object_set_new(o, "kind", json_string(job->record.kind->name));
    json_object_set_new(o, "state", json_string(submitted_job_verdict(job)));
    json_object_set_new(o, "scheduler", scheduler);
    json_object_set_new(o, "run", job->has_status ? run_status_json(&job->status) : json_null());
    cli_puts_json(o, json_print(o, JSON_INDENT(2) | JSON_ENSURE_ASCII));
}

drv_status launch_run_status(arena *a, const cli_args *args) {
    submitted_job job;
    DRV_TRY(open_job(a, args, &job));
    DRV_TRY_CTX(submitted_job_ask(a, &job), "%s", args->name);
    submitted_job_read_run(a, &job);
    if (cli_has(args, "--json")) {
        print_json(&job);
        return DRV_OK;
    }
    const job_record *r = &job.record;
    const char *id = submitted_job_id(&job);
    printf("%s: %s, by %s%s%s, %d node%s x %d rank%s\n", r->name, submitted_job_verdict(&job),
            r->kind->name, *id ? ", job " : "", id, r->nodes, str_plural(r->nodes), r->ranks,
            str_plural(r->ranks));
    printf("  scheduler  %s\n", submitted_job_scheduler_words(a, &job));
    if (job.run_dir) printf("  run        %s\n", submitted_job_run_words(a, &job));
    return DRV_OK;
}

// --- logs
void launch_print_bytes(void *ctx DRV_UNUSED, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        putchar(byte < ' ' && byte != '\n' && byte != '\t' ? '?' : byte == 0x7F ? '?' : byte);
    }
}

static drv_status print_file(arena *a, const char *path, int n_lines) {
    char *text;
    size_t end;
    DRV_TRY(file_read_tail(a, path, TAIL_BYTES, &text, &end));
    size_t from = end;
    for (int seen = 0; from > 0; from--)
        if (text[from - 1] == '\n' && from < end && ++seen == n_lines) break;
    launch_print_bytes(NULL, text + from, end - from);
    return DRV_OK;
}

static drv_status print_program(arena *a, const submitted_job *job, int n_lines) {
    program_end end;
    if (job->record.kind->is_kubernetes && !*job->state.pod)
        return drv_fail(DRV_E_BUSY, "no pod of \"%s\" has begun yet%s%s", job->record.name,
                *job->state.why ? ": " : "", job->state.why);
    const program_words words = job_logs_command(a, &job->record, job->state.pod, n_lines);
    const program_call call = {.words = &words,
            .limit_s = job->limit_s,
            .most_bytes = MOST_LOG,
            .each = launch_print_bytes};
    DRV_TRY(program_must_run(a, &call, &end));
    if (!end.is_cut) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s printed more than %d MiB; the rest is ignored",
            program_name(a, &words), MOST_LOG >> 20);
}

drv_status launch_run_logs(arena *a, const cli_args *args) {
    submitted_job job;
    int64_t n_lines = 100;
    DRV_TRY(cli_get_i64(args, "--lines", 1, 1000000, &n_lines));
    DRV_TRY(open_job(a, args, &job));
    if (!job.is_known)
        return drv_fail(DRV_E_USAGE,
                "%s: drover has not submitted \"%s\" (--submit), so its number is not known; its log is %s-NUMBER.log where sbatch was called",
                args->name, job.dir, job.record.name);
    DRV_TRY_CTX(submitted_job_ask(a, &job), "%s", args->name);
    if (!job_is_slurm(&job.record)) {
        DRV_TRY_CTX(print_program(a, &job, (int)n_lines), "%s", args->name);
        return DRV_OK;
    }
    const char *log = arena_printf(a, "%s-%s.log", job.record.name, submitted_job_id(&job));
    return print_file(a, path_join(a, job.record.folder, log), (int)n_lines);
}

// --- stop
static drv_status stop(arena *a, const cli_args *args, submitted_job *job) {
    enum { MORE_S = 60 }; // beyond the time that a save may take
    double wait_s = job->record.grace_s + MORE_S;
    DRV_TRY(cli_get_f64(args, "--wait", 1, 1e6, &wait_s));
    DRV_TRY(submitted_job_ask(a, job));
    if (submitted_job_is_over(job)) {
        printf("%s: %s; there is nothing to stop\n", job->record.name,
                job_phase_name(job->state.phase));
        return DRV_OK;
    }
    if (job->state.phase == JOB_RUNNING)
        log_info("%s: asking for a save, and waiting for %g s", job->record.name, wait_s);
    DRV_TRY(submitted_job_stop(a, job, wait_s));
    submitted_job_read_run(a, job);
    printf("%s: ended\n", job->record.name);
    if (job->run_dir) printf("  run        %s\n", submitted_job_run_words(a, job));
    return DRV_OK;
}

drv_status launch_run_stop(arena *a, const cli_args *args) {
    submitted_job job;
    DRV_TRY(open_job(a, args, &job));
    if (!job.is_known)
        return drv_fail(DRV_E_USAGE,
                "%s: drover has not submitted \"%s\" (--submit), so its number is not known; scancel --signal=USR1 NUMBER asks for a save",
                args->name, job.dir);
    DRV_TRY_CTX(stop(a, args, &job), "%s", args->name);
    return DRV_OK;
}

// --- clean
static drv_status confirm(const cli_args *args, const job_remains *list) {
    char answer[16];
    printf("to be removed:\n");
    for (int i = 0; i < list->n_objects; i++)
        printf("  %s\n", list->objects[i]);
    for (int i = 0; i < list->n_files; i++)
        printf("  %s\n", list->files[i]);
    if (cli_has(args, "--yes")) return DRV_OK;
    printf("remove them? [y/N] ");
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y')) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "nothing was removed; expected y, or --yes");
}

static drv_status clean(arena *a, const cli_args *args, submitted_job *job) {
    job_remains list;
    DRV_TRY(submitted_job_ask(a, job));
    if (!submitted_job_is_over(job))
        return drv_fail(DRV_E_USAGE, "\"%s\" is %s; expected drover launch stop %s before",
                job->record.name,
                job_phase_name(job->state.phase == JOB_QUEUED ? JOB_QUEUED : JOB_RUNNING),
                path_for_shell(a, job->dir));
    DRV_TRY(job_remains_find(a, job, &list));
    DRV_TRY(confirm(args, &list));
    DRV_TRY(job_remains_remove(a, job, &list));
    if (rmdir(job->dir) != 0)
        log_info("%s: \"%s\" has other files, and is not removed", args->name, job->dir);
    return DRV_OK;
}

drv_status launch_run_clean(arena *a, const cli_args *args) {
    submitted_job job;
    DRV_TRY(open_job(a, args, &job));
    DRV_TRY_CTX(clean(a, args, &job), "%s", args->name);
    return DRV_OK;
}
