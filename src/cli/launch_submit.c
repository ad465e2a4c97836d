// After the files are made: what to do next, or doing it, by the scheduler's own programs.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/launch_ask.h"
#include "cli/launch_jobs.h"
#include "comm/handshake.h"
#include "launch/jobs/job_commands.h"
#include "launch/jobs/pod.h"
#include "launch/jobs/shell_words.h"

enum { LIMIT_S = 300, MOST_BYTES = 1 << 20 };

drv_status launch_find_program(arena *a, const char *name, const char *why) {
    if (program_is_there(a, name)) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: there is no %s in PATH", why, name);
}

// --- what to do next
static void print_command(const char *before, const program_words *c, const char *why) {
    str line = {0};
    shell_words(&line, c->words, c->n);
    printf("  %s%s", before, line.p);
    printf(why ? "   # %s\n" : "\n", why);
    str_free(&line);
}

static void print_secret(arena *a, const job_record *record, const char *secret, const char *made) {
    program_words create = job_kubectl(record), label = job_kubectl(record);
    const char *name = arena_printf(a, "%s-%s", record->name, secret),
               *key = strcmp(secret, "page") == 0 ? "password" : secret;
    program_add(&create, "create", "secret", "generic", name,
            arena_printf(a, "--from-file=%s=/dev/stdin", key));
    print_command(made, &create, "once");
    program_add(&label, "label", "secret", name, arena_printf(a, JOB_LABEL "=%s", record->name),
            "app.kubernetes.io/name=drover");
    print_command("", &label, NULL);
}

static void print_secrets(arena *a, const job_record *record) {
    if (record->has_secret && record->kind->is_kubernetes)
        print_secret(a, record, "secret", "head -c 32 /dev/urandom | ");
    if (job_record_has_page(record))
        print_secret(a, record, "page", "head -c 18 /dev/urandom | base64 | ");
}

// Prints how to open the page: its password, and a way to its port.
static void print_page(arena *a, const job_record *record) {
    program_words show = job_kubectl(record), forward = job_kubectl(record);
    if (!job_record_has_page(record)) return;
    program_add(&show, "get", "secret", arena_printf(a, "%s-page", record->name),
            "--output=go-template={{.data.password | base64decode}}");
    print_command("", &show, "the page's password; any name goes with it");
    program_add(&forward, "port-forward", arena_printf(a, "service/%s-page", record->name), "8080");
    print_command("", &forward, "the page, at http://127.0.0.1:8080/");
}

void launch_print_next(arena *a, const job_record *record, const char *dir) {
    printf("wrote");
    for (int i = 0; i < record->n_files; i++)
        printf("%s %s/%s", i ? "," : "", dir, record->files[i]);
    printf("\nnext:\n");
    print_secrets(a, record);
    const program_words test = job_submit_command(a, record, dir, true),
                        submit = job_submit_command(a, record, dir, false);
    print_command("", &test, "asks whether the scheduler would accept it");
    print_command("", &submit, NULL);
    if (!record->kind->is_kubernetes) return;
    program_words look = {0};
    program_add(&look, "drover", "launch", "status", dir);
    print_command("", &look, "or logs, stop, clean");
    print_page(a, record);
}

// --- doing it
static drv_status must_run(arena *a, const program_words *words, const str *input,
        program_end *end) {
    const program_call call = {.words = words,
            .input = input,
            .limit_s = LIMIT_S,
            .most_bytes = MOST_BYTES};
    DRV_TRY_CTX(program_must_run(a, &call, end), "--submit");
    return DRV_OK;
}

static drv_status draw_secret(arena *a, const char **out) {
    job_secret drawn;
    char *text = arena_alloc(a, 2 * sizeof drawn.bytes + 1);
    DRV_TRY(secret_make(&drawn));
    for (size_t i = 0; i < sizeof drawn.bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", drawn.bytes[i]);
    *out = text;
    return DRV_OK;
}

// A Secret that is there already stays: a job that runs may use it. It goes through standard input,
// never through an argument or a file.
static drv_status make_secret(arena *a, const job_record *record, const char *suffix,
        const char *key) {
    const char *text, *name = arena_printf(a, "%s-%s", record->name, suffix);
    program_end end;
    program_words look = job_kubectl(record), create = job_kubectl(record);
    program_add(&look, "get", "secret", name, "--output=name");
    const program_call call = {.words = &look, .limit_s = LIMIT_S, .most_bytes = MOST_BYTES};
    DRV_TRY_CTX(program_run(a, &call, &end), "--submit");
    if (end.status == 0) return DRV_OK;
    DRV_TRY(draw_secret(a, &text));
    json_t *secret = json_pack("{s:s,s:s,s:{s:s,s:{s:s,s:s}},s:s,s:{s:s}}", "apiVersion", "v1",
            "kind", "Secret", "metadata", "name", name, "labels", "app.kubernetes.io/name",
            "drover", JOB_LABEL, record->name, "type", "Opaque", "stringData", key, text);
    char *json = json_print_in(a, secret, JSON_COMPACT);
    const str input = {.p = json, .n = strlen(json)};
    program_add(&create, "create", "-f", "-");
    return must_run(a, &create, &input, &end);
}

// "123" or "123;CLUSTER", as sbatch --parsable prints it.
static drv_status read_id(arena *a, const char *text, const char **out) {
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || !strchr(";\n", text[n]))
        return drv_fail(DRV_E_DATA,
                "--submit: sbatch printed \"%.40s\", expected the number of the job; squeue --me shows whether it is there",
                text);
    *out = arena_strndup(a, text, n);
    return DRV_OK;
}

static drv_status hand_over(arena *a, const char *dir, job_record *record) {
    program_end end;
    if (record->has_secret && record->kind->is_kubernetes)
        DRV_TRY(make_secret(a, record, "secret", "secret"));
    if (job_record_has_page(record)) DRV_TRY(make_secret(a, record, "page", "password"));
    if (job_is_slurm(record)) {
        const program_words test = job_submit_command(a, record, dir, true);
        DRV_TRY(must_run(a, &test, NULL, &end));
    }
    const program_words submit = job_submit_command(a, record, dir, false);
    DRV_TRY(must_run(a, &submit, NULL, &end));
    if (job_is_slurm(record)) return read_id(a, end.out, &record->id);
    launch_print_bytes(NULL, end.out, end.n_out);
    return DRV_OK;
}

drv_status launch_submit(arena *a, const char *dir, job_record *record) {
    char folder[4096];
    DRV_TRY(hand_over(a, dir, record));
    if (!getcwd(folder, sizeof folder)) return file_fail("find the working folder", ".");
    record->folder = folder;
    record->time_s = clock_utc_s();
    DRV_TRY(job_record_write(a, dir, record));
    printf("submitted%s%s\n", *record->id ? " as job " : "", record->id);
    print_page(a, record);
    printf("next: drover launch status|logs|stop|clean %s\n", path_for_shell(a, dir));
    return DRV_OK;
}
