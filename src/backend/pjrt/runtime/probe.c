// Tries a plugin in a child process, which it may end.
#include "backend/devices.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/pjrt/runtime/pjrt_client.h"

enum { MAX_TEXT = 512, MAX_NAME = 96, PATIENCE_S = 60 };

typedef struct answer {     // the child writes it as a whole
    char failure[MAX_TEXT]; // "" when there is none
    int major, minor, n_devices;
    int64_t memory_bytes;
    char stablehlo[MAX_NAME], platform[MAX_NAME], kind[MAX_NAME];
} answer;

static drv_status try_plugin(arena *a, const char *wanted, answer *out) {
    pjrt_plugin *plugin;
    device_client *client;
    int64_t used, limit;
    DRV_TRY(plugin_open(a, wanted, &plugin));
    DRV_TRY(client_open(a, plugin, &(client_options){0}, &client));
    out->major = plugin->api->version.major;
    out->minor = plugin->api->version.minor;
    out->n_devices = client->n_devices;
    if (client_memory(client, 0, &used, &limit)) out->memory_bytes = limit;
    snprintf(out->stablehlo, MAX_NAME, "%s", plugin->stablehlo);
    snprintf(out->platform, MAX_NAME, "%s", client->platform);
    snprintf(out->kind, MAX_NAME, "%s", client->kind);
    client_close(client);
    return DRV_OK;
}

static _Noreturn void answer_and_leave(const char *wanted, int to) {
    static answer out;
    alarm(PATIENCE_S);
    if (try_plugin(arena_new("probe"), wanted, &out) != DRV_OK)
        snprintf(out.failure, MAX_TEXT, "%s", drv_message());
    // There is nothing to clean up, and the plugin's exit handlers should not run.
    _exit(write(to, &out, sizeof out) != (ssize_t)sizeof out);
}

static bool read_answer(int from, answer *out) {
    size_t have = 0;
    ssize_t n;
    while (have < sizeof *out && (n = read(from, (char *)out + have, sizeof *out - have)) > 0)
        have += (size_t)n;
    return have == sizeof *out;
}

// False: the child died; *reason says why.
static bool ask(arena *a, const char *wanted, answer *out, const char **reason) {
    int ends[2], status = 0;
    *reason = "no process could be started for it";
    if (pipe(ends) != 0) return false;
    const pid_t child = fork();
    if (child == 0) answer_and_leave(wanted, ends[1]);
    close(ends[1]);
    const bool answered = child > 0 && read_answer(ends[0], out);
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    if (child > 0 && WIFEXITED(status))
        *reason = arena_printf(a, "it ends with exit status %d while it is opened",
                WEXITSTATUS(status));
    if (child > 0 && WIFSIGNALED(status))
        *reason = WTERMSIG(status) == SIGALRM
                          ? arena_printf(a, "it has not answered for %d s", PATIENCE_S)
                          : arena_printf(a, "it dies of signal %d while it is opened",
                                    WTERMSIG(status));
    return answered;
}

static void look(arena *a, const char *wanted, plugin_report *out) {
    answer said = {0};
    const char *name;
    *out = (plugin_report){.name = wanted, .stablehlo = "", .platform = "", .kind = ""};
    if (plugin_find(a, wanted, &name, &out->path) != DRV_OK) {
        out->path = NULL;
        out->lacks = arena_strdup(a, drv_message());
        return;
    }
    if (!ask(a, wanted, &said, &out->lacks)) return;
    out->lacks = *said.failure ? arena_strdup(a, said.failure) : NULL;
    out->major = said.major;
    out->minor = said.minor;
    out->n_devices = said.n_devices;
    out->memory_bytes = said.memory_bytes;
    out->stablehlo = arena_strdup(a, said.stablehlo);
    out->platform = arena_strdup(a, said.platform);
    out->kind = arena_strdup(a, said.kind);
}

int plugins_look(arena *a, const char *wanted, plugin_report out[MAX_PLUGINS]) {
    if (wanted) {
        look(a, wanted, &out[0]);
        return 1;
    }
    for (int i = 0; i < N_PLUGIN_NAMES; i++)
        look(a, plugin_names[i], &out[i]);
    return N_PLUGIN_NAMES;
}
