// After the files are made: what to do next, or doing it, by the scheduler's own programs.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/launch_jobs.h"
#include "comm/handshake.h"
#include "launch/jobs/pod.h"
#include "launch/jobs/shell_words.h"

extern char **environ;

#define SECRET_VARIABLE "DROVER_JOB_SECRET"
enum { MAX_WORDS = 16, LIMIT_S = 300 };

static bool is_skypilot(const job_spec *spec) {
    return !spec->kind->is_kubernetes && spec->kind->is_node_launch;
}

static const char *program_of(const job_spec *spec) {
    return spec->kind->is_kubernetes ? "kubectl" : is_skypilot(spec) ? "sky" : "sbatch";
}

drv_status launch_find_program(arena *a, const job_spec *spec) {
    const char *name = program_of(spec), *path = getenv("PATH");
    for (const char *dir = path ? path : ""; *dir;) {
        const size_t n = strcspn(dir, ":");
        if (access(arena_printf(a, "%.*s/%s", (int)n, dir, name), X_OK) == 0) return DRV_OK;
        dir += n + (dir[n] == ':');
    }
    return drv_fail(DRV_E_USAGE,
            "--submit: there is no %s in PATH; without --submit the files are written for where it is",
            name);
}

// --- words
typedef struct command {
    const char *words[MAX_WORDS];
    int n;
} command;

static void say(command *c, const char *word) {
    DRV_ASSERT(c->n < MAX_WORDS - 1, "%d words", c->n);
    c->words[c->n++] = word;
}

static command kubectl(const job_spec *spec) {
    command c = {0};
    say(&c, "kubectl");
    if (spec->name_space) say(&c, "--namespace"), say(&c, spec->name_space);
    return c;
}

// What hands a file to the scheduler.
static command submit_command(const job_spec *spec, const char *path, bool only_test) {
    command c = {0};
    if (spec->kind->is_kubernetes) {
        c = kubectl(spec);
        say(&c, "apply");
        if (only_test) say(&c, "--dry-run=server");
        say(&c, "-f");
    } else if (is_skypilot(spec)) {
        say(&c, "sky"), say(&c, "jobs"), say(&c, "launch"), say(&c, "--yes");
        if (spec->nodes > 1 && spec->work == WORK_TRAIN)
            say(&c, "--secret"), say(&c, SECRET_VARIABLE);
    } else {
        say(&c, "sbatch");
        if (only_test) say(&c, "--test-only");
    }
    say(&c, path);
    return c;
}

// --- what to do next
static void print_command(const char *before, const command *c, const char *why) {
    str line = {0};
    shell_words(&line, c->words, c->n);
    printf("  %s%s", before, line.p);
    printf(why ? "   # %s\n" : "\n", why);
    str_free(&line);
}

static void print_secret(arena *a, const job_spec *spec) {
    const char *name = job_secret_name(a, spec);
    if (!name) return;
    if (is_skypilot(spec)) {
        printf("  export " SECRET_VARIABLE "=$(head -c 32 /dev/urandom | base64)\n");
    } else if (spec->kind->is_kubernetes) {
        command c = kubectl(spec);
        say(&c, "create"), say(&c, "secret"), say(&c, "generic"), say(&c, name);
        say(&c, "--from-file=secret=/dev/stdin");
        print_command("head -c 32 /dev/urandom | ", &c, "once");
    }
}

void launch_print_next(arena *mem, const job_spec *spec, const job_files *files, const char *dir) {
    printf("wrote");
    for (int i = 0; i < files->n; i++)
        printf("%s %s/%s", i ? "," : "", dir, files->file[i].name);
    printf("\nnext:\n");
    print_secret(mem, spec);
    const char *path = path_join(mem, dir, files->file[0].name);
    if (!is_skypilot(spec)) {
        const command test = submit_command(spec, path, true);
        print_command("", &test, "asks, and starts nothing");
    }
    const command submit = submit_command(spec, path, false);
    print_command("", &submit, NULL);
    if (!spec->kind->is_kubernetes) return;
    command look = kubectl(spec), logs = kubectl(spec);
    say(&look, "get"), say(&look, "pods"), say(&look, "--watch"), say(&look, "--selector");
    say(&logs, "logs"), say(&logs, "--follow"), say(&logs, "--prefix"), say(&logs, "--selector");
    const char *selector = arena_printf(mem, JOB_LABEL "=%s", spec->name);
    say(&look, selector), say(&logs, selector);
    print_command("", &look, NULL);
    print_command("", &logs, NULL);
}

// --- doing it
// Writes into a pipe whose reader may have gone; a pipe takes what is written here at once.
static void feed(int fd, const str *input) {
    if (input && write(fd, input->p, input->n) < 0)
        log_warn("--submit: a program did not read its input: %s", strerror(errno));
    close(fd);
}

static drv_status wait_for(const command *c, pid_t child, int *status) {
    const double until = clock_s() + LIMIT_S;
    while (waitpid(child, status, WNOHANG) == 0) {
        if (clock_s() > until) {
            kill(child, SIGKILL);
            waitpid(child, status, 0);
            return drv_fail(DRV_E_BUSY, "--submit: %s %s did not end within %d s", c->words[0],
                    c->words[1], LIMIT_S);
        }
        usleep(10000);
    }
    return DRV_OK;
}

// Runs a program by its words, without a shell; `quiet`: its output is of no interest. *ended: its
// status, 128 + a signal.
static drv_status run_program(arena *mem, const command *what, const str *input, bool quiet,
        int *ended) {
    posix_spawn_file_actions_t files;
    int ends[2], status = 0;
    pid_t child;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return drv_fail(DRV_E_IO, "could not make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
    if (quiet) posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (quiet) posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    fflush(stdout);
    char *words[MAX_WORDS] = {0};
    for (int i = 0; i < what->n; i++)
        words[i] = arena_strdup(mem, what->words[i]);
    const int why = posix_spawnp(&child, words[0], &files, NULL, words, environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[0]);
    if (why != 0) {
        close(ends[1]);
        return drv_fail(DRV_E_IO, "--submit: could not start %s: %s", what->words[0],
                strerror(why));
    }
    feed(ends[1], input);
    DRV_TRY(wait_for(what, child, &status));
    *ended = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return DRV_OK;
}

static drv_status must_run(arena *a, const command *c, const str *input) {
    int ended;
    DRV_TRY(run_program(a, c, input, false, &ended));
    if (ended == 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "--submit: %s %s ended with status %d", c->words[0], c->words[1],
            ended);
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
static drv_status make_secret(arena *a, const job_spec *spec, const char *name) {
    const char *text;
    int ended;
    command look = kubectl(spec), create = kubectl(spec);
    say(&look, "get"), say(&look, "secret"), say(&look, name);
    DRV_TRY(run_program(a, &look, NULL, true, &ended));
    if (ended == 0) return DRV_OK;
    DRV_TRY(draw_secret(a, &text));
    json_t *secret = json_pack("{s:s,s:s,s:{s:s,s:{s:s,s:s}},s:s,s:{s:s}}", "apiVersion", "v1",
            "kind", "Secret", "metadata", "name", name, "labels", "app.kubernetes.io/name",
            "drover", JOB_LABEL, spec->name, "type", "Opaque", "stringData", "secret", text);
    char *json = json_print(secret, JSON_COMPACT);
    const str input = {.p = json, .n = strlen(json)};
    say(&create, "create"), say(&create, "-f"), say(&create, "-");
    const drv_status status = must_run(a, &create, &input);
    free(json);
    json_decref(secret);
    return status;
}

drv_status launch_submit(arena *a, const job_spec *spec, const job_files *files, const char *dir) {
    const char *name = job_secret_name(a, spec), *path = path_join(a, dir, files->file[0].name),
               *text;
    if (name && spec->kind->is_kubernetes) DRV_TRY(make_secret(a, spec, name));
    if (name && is_skypilot(spec)) {
        DRV_TRY(draw_secret(a, &text));
        setenv(SECRET_VARIABLE, text, 1);
    }
    if (!spec->kind->is_kubernetes && !is_skypilot(spec)) {
        const command test = submit_command(spec, path, true);
        DRV_TRY(must_run(a, &test, NULL));
    }
    const command submit = submit_command(spec, path, false);
    return must_run(a, &submit, NULL);
}
