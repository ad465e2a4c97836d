// Asking about a job, and what drover launch status and logs print of it.
#include "cli/launch_ask.h"

#include <math.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/launch_jobs.h"
#include "launch/jobs/job_commands.h"

enum { MOST_JSON = 16 << 20, MOST_LOG = 64 << 20, MOST_STATUS = 1 << 16, TAIL_BYTES = 4 << 20 };

// --- opening
static const char *asks_with(const job_record *record) {
    return job_is_slurm(record) ? "squeue" : job_program(record);
}

// Returns where the run directory is seen from here, if it is seen at all.
static const char *find_run_dir(arena *a, const cli_args *args, const job_record *record) {
    const char *given =
            cli_find_option(args->verb, "--run-dir") ? cli_get(args, "--run-dir", NULL) : NULL;
    if (given || !record->run_dir) return given;
    if (*record->run_dir == '/') return record->run_dir;
    if (record->mount) return path_join(a, record->mount, record->run_dir);
    return *record->folder ? path_join(a, record->folder, record->run_dir) : record->run_dir;
}

drv_status launch_open_job(arena *a, const cli_args *args, asked_job *out) {
    asked_job job = {.dir = args->positional[0],
            .limit_s = 60,
            .state = job_state_new(),
            .no_status = ""};
    DRV_TRY(cli_get_f64(args, "--limit", 0.1, 3600, &job.limit_s));
    DRV_TRY(job_record_read(a, job.dir, &job.record));
    DRV_TRY(launch_find_program(a, asks_with(&job.record), args->name));
    job.run_dir = find_run_dir(a, args, &job.record);
    job.is_known = !job_is_slurm(&job.record) || *job.record.id;
    *out = job;
    return DRV_OK;
}

// --- asking
drv_status launch_call(arena *a, const asked_job *job, const program_words *words,
        program_end *out) {
    const program_call call = {.words = words, .limit_s = job->limit_s, .most_bytes = MOST_JSON};
    DRV_TRY(program_must_run(a, &call, out));
    if (!out->is_cut) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s printed more than %d MiB", program_name(a, words),
            MOST_JSON >> 20);
}

static drv_status ask_pods(arena *a, asked_job *job) {
    program_end end;
    const program_words words = job_pods_command(a, &job->record);
    DRV_TRY(launch_call(a, job, &words, &end));
    return job_state_add_pods(a, end.out, end.n_out, &job->state, &job->n_pods);
}

drv_status launch_ask(arena *a, asked_job *job) {
    const job_record *record = &job->record;
    program_end end;
    const program_words words = job_ask_command(record);
    if (!job->is_known) return DRV_OK;
    DRV_TRY(launch_call(a, job, &words, &end));
    if (job_is_slurm(record))
        return job_state_of_squeue(a, end.out, end.n_out, record->id, &job->state);
    DRV_TRY(job_state_of_object(a, end.out, end.n_out, record, &job->state));
    return ask_pods(a, job);
}

// From a pod that runs, since a volume of Kubernetes is rarely mounted where kubectl is.
static drv_status read_from_pod(arena *a, asked_job *job, const char *path) {
    program_end end;
    const program_words words = job_cat_command(&job->record, job->state.pod, path);
    const program_call call = {.words = &words,
            .limit_s = job->limit_s,
            .most_bytes = MOST_STATUS + 1};
    DRV_TRY(program_must_run(a, &call, &end));
    return run_status_parse(a, path, end.out, end.n_out, &job->status);
}

void launch_read_run(arena *a, asked_job *job) {
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

// --- status
const char *launch_run_words(arena *a, const asked_job *job) {
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

// One word for the job: what the scheduler says, and where it says nothing any more, the run.
static const char *verdict(const asked_job *job) {
    if (job->state.phase == JOB_QUEUED) return "queued";
    if (job->state.phase == JOB_RUNNING) return "running";
    if (job->has_status && job->status.end) return run_end_name(job->status.end);
    if (job->state.phase != JOB_ABSENT) return job_phase_name(job->state.phase);
    return job->has_status && job->is_known ? "lost" : "unknown";
}

static const char *scheduler_words(arena *a, const asked_job *job) {
    const job_state *s = &job->state;
    if (!job->is_known)
        return "not asked: drover has not submitted it (--submit), so its number is not known";
    return arena_printf(a, "%s%s%s%s%s",
            s->phase == JOB_ABSENT ? "no such job (any more)" : job_phase_name(s->phase),
            *s->where ? " on " : "", s->where, *s->why ? ": " : "", s->why);
}

static void print_json(const asked_job *job) {
    const job_state *s = &job->state;
    json_t *o = json_object(), *scheduler = json_object();
    json_object_set_new(scheduler, "asked", json_boolean(job->is_known));
    json_object_set_new(scheduler, "state", json_of_words(job_phase_name(s->phase)));
    json_object_set_new(scheduler, "why", json_of_words(s->why));
    json_object_set_new(scheduler, "where", json_of_words(s->where));
    json_object_set_new(scheduler, "id", json_of_words(s->id));
    json_object_set_new(o, "name", json_string(job->record.name));
    json_object_set_new(o, "kind", json_string(job->record.kind->name));
    json_object_set_new(o, "state", json_string(verdict(job)));
    json_object_set_new(o, "scheduler", scheduler);
    json_object_set_new(o, "run", job->has_status ? run_status_json(&job->status) : json_null());
    cli_puts_json(o, json_print(o, JSON_INDENT(2) | JSON_ENSURE_ASCII));
}

drv_status launch_run_status(arena *a, const cli_args *args) {
    asked_job job;
    DRV_TRY(launch_open_job(a, args, &job));
    DRV_TRY_CTX(launch_ask(a, &job), "%s", args->name);
    launch_read_run(a, &job);
    if (cli_has(args, "--json")) {
        print_json(&job);
        return DRV_OK;
    }
    const job_record *r = &job.record;
    const char *id = *job.state.id ? job.state.id : r->id;
    printf("%s: %s, by %s%s%s, %d node%s x %d rank%s\n", r->name, verdict(&job), r->kind->name,
            *id ? ", job " : "", id, r->nodes, str_plural(r->nodes), r->ranks,
            str_plural(r->ranks));
    printf("  scheduler  %s\n", scheduler_words(a, &job));
    if (job.run_dir) printf("  run        %s\n", launch_run_words(a, &job));
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

static drv_status print_program(arena *a, const asked_job *job, int n_lines) {
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
    asked_job job;
    int64_t n_lines = 100;
    DRV_TRY(cli_get_i64(args, "--lines", 1, 1000000, &n_lines));
    DRV_TRY(launch_open_job(a, args, &job));
    if (!job.is_known)
        return drv_fail(DRV_E_USAGE,
                "%s: drover has not submitted \"%s\" (--submit), so its number is not known; its log is %s-NUMBER.log where sbatch was called",
                args->name, job.dir, job.record.name);
    DRV_TRY_CTX(launch_ask(a, &job), "%s", args->name);
    if (!job_is_slurm(&job.record)) {
        DRV_TRY_CTX(print_program(a, &job, (int)n_lines), "%s", args->name);
        return DRV_OK;
    }
    const char *id = *job.state.id ? job.state.id : job.record.id;
    return print_file(a,
            path_join(a, job.record.folder, arena_printf(a, "%s-%s.log", job.record.name, id)),
            (int)n_lines);
}
