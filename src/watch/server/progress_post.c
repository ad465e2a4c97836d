// Posts the progress of a run to the server that Kubeflow Trainer names in the environment of a
// TrainJob's pods (KUBEFLOW_TRAINER_SERVER_*, feature gate TrainJobStatus of version 2.2). A thread
// of its own posts; only the end of the run waits for it, for a moment.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/curl_calls.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/task.h"
#include "watch/server/page_secrets.h"
#include "watch/server/progress_body.h"
#include "watch/server/run_observer.h"

enum {
    EVERY_S = 10,
    POST_S = 8, // time limit of a post,
    LAST_S = 2, // and of the one at the end
    END_S = 2,  // the run waits so much longer at most
};

typedef struct progress_post {
    const char *url, *ca_file, *token_file; // from the environment
    run_view *view;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;         // under the lock
    atomic_bool hurries; // abandon the post that is under way
    bool failed;         // a failure has been reported
} progress_post;

// --- a post
static size_t ignore_body(char *bytes DRV_UNUSED, size_t size, size_t count, void *ctx DRV_UNUSED) {
    return size * count;
}

static int on_progress(void *ctx, curl_off_t total DRV_UNUSED, curl_off_t now DRV_UNUSED,
        curl_off_t up_total DRV_UNUSED, curl_off_t up_now DRV_UNUSED) {
    const progress_post *self = ctx;
    return self->hurries;
}

// The token is meant for this server only, so no other CA, no redirection and no proxy is accepted.
static void set_options(progress_post *self, CURL *handle, const char *token, const str *body,
        struct curl_slist *headers, long limit_s) {
    curl->easy_setopt(handle, CURLOPT_URL, self->url);
    curl->easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "https");
    curl->easy_setopt(handle, CURLOPT_CAINFO, self->ca_file);
    curl->easy_setopt(handle, CURLOPT_CAPATH, NULL);
    curl->easy_setopt(handle, CURLOPT_NOPROXY, "*");
    curl->easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl->easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, token);
    curl->easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(handle, CURLOPT_USERAGENT, "drover");
    curl->easy_setopt(handle, CURLOPT_POSTFIELDS, body->p);
    curl->easy_setopt(handle, CURLOPT_POSTFIELDSIZE, (long)body->n);
    curl->easy_setopt(handle, CURLOPT_WRITEFUNCTION, ignore_body);
    curl->easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl->easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl->easy_setopt(handle, CURLOPT_XFERINFODATA, self);
    curl->easy_setopt(handle, CURLOPT_TIMEOUT, limit_s);
    curl->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
}

static drv_status send_body(progress_post *self, const str *body, long limit_s) {
    char token[TOKEN_MAX];
    long code = 0;
    DRV_TRY(page_token_read(self->token_file, "token", 1,
            token)); // read each time, since it is rotated
    CURL *handle = curl->easy_init();
    struct curl_slist *headers = curl->slist_append(NULL, "Content-Type: application/json");
    DRV_ASSERT(handle && headers, "libcurl");
    set_options(self, handle, token, body, headers, limit_s);
    const CURLcode result = curl->easy_perform(handle);
    curl->easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    curl->easy_cleanup(handle);
    curl->slist_free_all(headers);
    explicit_bzero(token, sizeof token);
    if (result == CURLE_ABORTED_BY_CALLBACK) return DRV_OK;
    if (result != CURLE_OK) return drv_fail(DRV_E_IO, "%s", curl->easy_strerror(result));
    if (code == 401 || code == 403)
        return drv_fail(DRV_E_IO,
                "the server refuses the token of KUBEFLOW_TRAINER_SERVER_TOKEN (%ld)", code);
    if (code < 200 || code > 299) return drv_fail(DRV_E_IO, "the server answered %ld", code);
    return DRV_OK;
}

static void post(progress_post *self, long limit_s) {
    str body = {0};
    const watched_run *run = run_view_take(self->view, NULL);
    progress_body(run, clock_utc_s(), &body);
    run_view_give(self->view);
    if (send_body(self, &body, limit_s) != DRV_OK && !self->failed) {
        log_warn("progress: %s; training continues, and further failures are not logged",
                drv_message());
        self->failed = true;
    }
    str_free(&body);
}

// --- the thread
// Tests set it: on a busy machine a server may need more than two seconds to answer.
static long last_s(void) {
    const char *said = getenv("DROVER_PROGRESS_LAST_S");
    const long seconds = said ? strtol(said, NULL, 10) : 0;
    return seconds > 0 ? seconds : LAST_S;
}

static void *post_main(void *arg) {
    progress_post *self = arg;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&self->lock);
    while (!self->ending) {
        pthread_mutex_unlock(&self->lock);
        post(self, POST_S);
        pthread_mutex_lock(&self->lock);
        next.tv_sec += EVERY_S;
        while (!self->ending && pthread_cond_timedwait(&self->changed, &self->lock, &next) == 0) {
        }
    }
    pthread_mutex_unlock(&self->lock);
    self->hurries = false;
    run_view_refresh(self->view); // to see how the run ended
    post(self, last_s());
    return NULL;
}

// --- opening
// Returns the host and port of the URL; the rest of it may be secret and is not logged.
static drv_status find_server(const char *url, host_port *out) {
    const char *scheme = "https://";
    char text[HOST_BYTES + 16];
    if (strncasecmp(url, scheme, strlen(scheme)) == 0) {
        const char *host = url + strlen(scheme);
        const size_t n = strcspn(host, "/?#");
        snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, host);
        if (host_port_parse(text, out) && *out->host) {
            if (out->port < 0) out->port = 443;
            return DRV_OK;
        }
    }
    return drv_fail(DRV_E_USAGE, "KUBEFLOW_TRAINER_SERVER_URL is not https://HOST[:PORT]/PATH");
}

static drv_status read_environment(progress_post *self, bool *asked) {
    static const char *const names[] = {"KUBEFLOW_TRAINER_SERVER_URL",
            "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"};
    const char **values[] = {&self->url, &self->ca_file, &self->token_file};
    int n = 0, missing = 0;
    for (int i = 0; i < 3; i++) {
        *values[i] = getenv(names[i]);
        if (*values[i] && **values[i])
            n++;
        else
            missing = i;
    }
    *asked = n > 0;
    if (n == 0 || n == 3) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s is not set, but others of KUBEFLOW_TRAINER_SERVER_* are",
            names[missing]);
}

static drv_status begin(const run_observed *run, void **out) {
    progress_post found = {.view = run->view};
    host_port server;
    bool asked;
    DRV_TRY(read_environment(&found, &asked));
    if (!asked) return DRV_OK;
    DRV_TRY(find_server(found.url, &server));
    DRV_TRY(curl_open("posts of progress need"));
    progress_post *self = mem_zeroed(sizeof *self);
    self->url = found.url;
    self->ca_file = found.ca_file;
    self->token_file = found.token_file;
    self->view = run->view;
    pthread_mutex_init(&self->lock, NULL);
    cond_init_monotonic(&self->changed);
    const drv_status status = thread_start(&self->thread, post_main, self);
    if (status != DRV_OK) {
        free(self);
        return status;
    }
    log_info("progress: posted every %d s to %s, port %d (KUBEFLOW_TRAINER_SERVER_URL)", EVERY_S,
            server.host, server.port);
    *out = self;
    return DRV_OK;
}

static bool end(void *ctx) {
    progress_post *self = ctx;
    self->hurries = true;
    pthread_mutex_lock(&self->lock);
    self->ending = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    const struct timespec until = clock_after((double)(last_s() + END_S));
    if (pthread_timedjoin_np(self->thread, NULL, &until) != 0) return false;
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self);
    return true;
}

const run_observer progress_observer = {"progress", begin, end};
