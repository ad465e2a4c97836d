// Submits a job: Secrets first, for Slurm a test of the script, then the files.
#include "launch/jobs/job_submit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "comm/handshake.h"
#include "launch/jobs/job_commands.h"
#include "launch/jobs/pod.h"

enum { LIMIT_S = 300, MOST_BYTES = 1 << 20 };

static drv_status must_run(arena *a, const program_words *words, const str *input,
        program_end *end) {
    const program_call call = {.words = words,
            .input = input,
            .limit_s = LIMIT_S,
            .most_bytes = MOST_BYTES};
    return program_must_run(a, &call, end);
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
    DRV_TRY(program_run(a, &call, &end));
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

// Reads "123" or "123;CLUSTER", as sbatch --parsable prints it.
static drv_status read_id(arena *a, const char *text, const char **out) {
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || !strchr(";\n", text[n]))
        return drv_fail(DRV_E_DATA,
                "sbatch printed \"%.40s\", expected the number of the job; squeue --me shows whether it is there",
                text);
    *out = arena_strndup(a, text, n);
    return DRV_OK;
}

drv_status job_submit(arena *a, const char *dir, job_record *record, program_end *said) {
    char folder[4096];
    const program_words test = job_submit_command(a, record, dir, true),
                        submit = job_submit_command(a, record, dir, false);
    if (record->has_secret && record->kind->is_kubernetes)
        DRV_TRY(make_secret(a, record, "secret", "secret"));
    if (job_record_has_page(record)) DRV_TRY(make_secret(a, record, "page", "password"));
    if (job_is_slurm(record)) DRV_TRY(must_run(a, &test, NULL, said));
    DRV_TRY(must_run(a, &submit, NULL, said));
    if (job_is_slurm(record)) DRV_TRY(read_id(a, said->out, &record->id));
    if (!getcwd(folder, sizeof folder)) return file_fail("find the working folder", ".");
    record->folder = arena_strdup(a, folder);
    record->time_s = clock_utc_s();
    return job_record_write(a, dir, record);
}
