// After the files of a job are made: prints the next commands, or submits the job.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/launch_jobs.h"
#include "launch/jobs/job_commands.h"
#include "launch/jobs/job_submit.h"
#include "launch/jobs/pod.h"
#include "launch/jobs/shell_words.h"

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

drv_status launch_submit(arena *a, const char *dir, job_record *record) {
    program_end said;
    DRV_TRY_CTX(job_submit(a, dir, record, &said), "--submit");
    if (!job_is_slurm(record)) launch_print_bytes(NULL, said.out, said.n_out);
    printf("submitted%s%s\n", *record->id ? " as job " : "", record->id);
    print_page(a, record);
    printf("next: drover launch status|logs|stop|clean %s\n", path_for_shell(a, dir));
    return DRV_OK;
}
