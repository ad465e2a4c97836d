// Options of the verbs that download, and the download itself.
#include "cli/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/get/hub_call.h"

// The folder in which huggingface_hub keeps what belongs to a user (its constants.py).
static const char *hub_home(arena *a) {
    const char *hub = getenv("HF_HOME");
    return hub && *hub ? hub : path_user_cache(a, "huggingface");
}

const char *hub_endpoint(arena *a) {
    const char *endpoint = getenv("HF_ENDPOINT");
    if (!endpoint || !*endpoint) endpoint = "https://huggingface.co";
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    return arena_strndup(a, endpoint, length);
}

// The order is that of huggingface_hub's get_token.
const char *hub_token(arena *a) {
    enum { MAX_TOKEN = 4096 };
    const char *token = getenv("HF_TOKEN"), *path = getenv("HF_TOKEN_PATH"), *home = hub_home(a);
    char *text;
    size_t n;
    if (token && *token)
        text = arena_strdup(a, token);
    else {
        if ((!path || !*path) && home) path = path_join(a, home, "token");
        if (!path || !*path || file_read_small(a, path, MAX_TOKEN, &text, &n) != DRV_OK)
            return NULL;
    }
    text += strspn(text, " \t\r\n");
    text[strcspn(text, " \t\r\n")] = 0;
    return *text ? text : NULL;
}

// Downloads go on without a token where it would travel readable by others.
static const char *download_token(arena *a, const char *endpoint) {
    const char *token = hub_token(a);
    const http_link link = {.endpoint = endpoint};
    if (!token || hub_url_check(&link, endpoint, "HF_ENDPOINT is") == DRV_OK) return token;
    log_warn("no token is sent: %s", drv_message());
    return NULL;
}

drv_status fetch_options(arena *a, const cli_args *args, const char *out, hub_opts *o) {
    int64_t parallel = 8, tries = 8;
    DRV_TRY(cli_get_i64(args, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(args, "--tries", 1, 1000, &tries));
    const char *endpoint = hub_endpoint(a);
    *o = (hub_opts){.link = {.endpoint = endpoint,
                            .token = download_token(a, endpoint),
                            .parallel = (int)parallel,
                            .tries = (int)tries},
            .revision = cli_get(args, "--revision", "main"),
            .out = out};
    return DRV_OK;
}

drv_status fetch_files(const hub_opts *o, const download *list, int n) {
    download_stats s;
    DRV_TRY(download_files(list, n, &o->link, &s));
    log_info("%s: %lld file%s, %lld of them already there; %s in %s", o->out, (long long)s.files,
            str_plural(s.files), (long long)s.there_already, str_bytes((double)s.bytes),
            str_long_duration(s.seconds));
    return DRV_OK;
}
