// The page of a run: answers each path from the files of the run.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "watch/files/metrics_part.h"
#include "watch/server/page_listen.h"
#include "watch/server/page_secrets.h"
#include "watch/server/page_server.h"
#include "watch/server/prometheus.h"
#include "watch/server/run_observer.h"
#include "watch/views/run_report.h"

extern const char page_js[]; // page.js

// The limits of the watchdog (comm_opts).
#define SILENT_S 5.0
#define STUCK_S  300.0

enum { LEAST_TOKEN = 16 }; // least characters of a token that a user has chosen

// An answer, made from one reading of the files.
typedef struct kept_answer {
    int64_t number; // of the reading
    str body;
} kept_answer;

typedef struct run_page {
    run_observed run;
    page_keys keys;
    page_listener listener;
    page_server *server;
    kept_answer kept[N_PAGE_PATHS];
    char *run_dir, *about, *metrics_path, *token_file; // copies: a thread may outlive the run
    char set_cookie[160], password[TOKEN_MAX];
    bool failing; // a fault of http.json or of a token file has been reported
} run_page;

// --- health
// Returns the rank that the watchdog would name: a silent one, or one that others await; -1: none.
static int find_suspect(const rank_table *table) {
    int waiting = -1, computing = -1;
    for (int i = 0; i < table->n; i++) {
        const rank_row *row = &table->rows[i];
        if (!row->known || row->ended) continue;
        if (row->heard_s >= SILENT_S) return i;
        if (!*row->op) computing = i;
        if (*row->op && row->since_s + row->heard_s >= STUCK_S) waiting = i;
    }
    return waiting >= 0 ? computing : -1;
}

static void answer_health(const watched_run *run, page_reply *out) {
    const int suspect = find_suspect(&run->table);
    if (run->has_status && run->status.end == RUN_FAILED) {
        out->status = 503;
        str_printf(&out->body, "failed: %s\n", run->status.cause);
    } else if (suspect >= 0) {
        out->status = 503;
        str_printf(&out->body, "the watchdog has fired: the others wait for rank %d\n", suspect);
    } else {
        str_puts(&out->body, "ok\n");
    }
}

// Returns whether every rank has been heard of, and the run has not ended.
static bool all_ranks_reported(const watched_run *run) {
    if (!run->has_status || !run->has_table || run->table.n != run->status.ranks) return false;
    for (int i = 0; i < run->table.n; i++)
        if (!run->table.rows[i].known || run->table.rows[i].pid <= 0) return false;
    return run->status.end == RUN_GOES_ON;
}

static void answer_ready(const watched_run *run, page_reply *out) {
    const bool formed = all_ranks_reported(run);
    if (!formed) out->status = 503;
    str_puts(&out->body, formed ? "ready\n" : "some ranks have not reported yet, or have ended\n");
}

// --- the run
static void make_page(const run_page *self, watched_run *run, str *out) {
    const char *about = self->about;
    run_report_html(&run, 1, &(report_opts){.about = &about, .served = true}, out);
}

static void make_status(const watched_run *run, str *out) {
    json_print_to(out, watched_run_json(run), JSON_COMPACT);
    str_puts(out, "\n");
}

// Makes the answer once for each reading of the files, however many clients ask for it.
static void answer_kept(run_page *self, page_path path, watched_run *run, int64_t number,
        page_reply *out) {
    kept_answer *kept = &self->kept[path];
    if (kept->number != number) {
        str_clear(&kept->body);
        if (path == PATH_PAGE)
            make_page(self, run, &kept->body);
        else if (path == PATH_STATUS)
            make_status(run, &kept->body);
        else
            prometheus_add(run,
                    &(prometheus_opts){.ranks = self->run.http_ranks,
                            .save_every = self->run.save_every},
                    &kept->body);
        kept->number = number;
    }
    str_add(&out->body, kept->body.p, kept->body.n);
}

static void answer_records(const run_page *self, int64_t from, page_reply *out) {
    if (metrics_part(self->metrics_path, from, &out->body) == DRV_OK) return;
    out->status = 503;
    out->type = "text/plain; charset=utf-8";
    str_clear(&out->body);
    str_printf(&out->body, "%s\n", drv_message());
}

static void answer_run(run_page *self, page_path path, page_reply *out) {
    int64_t number;
    watched_run *run = run_view_take(self->run.view, &number);
    if (path == PATH_HEALTH && self->keys.password)
        str_puts(&out->body, "ok\n");
    else if (path == PATH_HEALTH)
        answer_health(run, out);
    else if (path == PATH_READY)
        answer_ready(run, out);
    else
        answer_kept(self, path, run, number, out);
    run_view_give(self->run.view);
}

// --- authentication
static void note(run_page *self, drv_status status) {
    if (status != DRV_OK && !self->failing) log_warn("page: %s", drv_message());
    self->failing = status != DRV_OK;
}

// The code works only once, so it is useless in a browser's history or a log.
static void answer_code(run_page *self, page_reply *out) {
    out->status = 303;
    out->location = "/";
    out->cookie = self->set_cookie;
    drv_status status = page_secret_make(self->keys.code);
    if (status == DRV_OK)
        status = page_secrets_write(self->run_dir, self->listener.address, &self->keys);
    else
        self->keys.code[0] = 0;
    note(self, status);
}

static void read_metrics_token(run_page *self) {
    if (!*self->token_file) return;
    const drv_status status =
            page_token_read(self->token_file, "token", LEAST_TOKEN, self->keys.metrics_token);
    if (status != DRV_OK) self->keys.metrics_token[0] = 0;
    note(self, status);
}

static void answer(void *ctx, const page_request *request, page_reply *out) {
    static const char *const types[N_PAGE_PATHS] = {[PATH_PAGE] = "text/html; charset=utf-8",
            [PATH_STYLE] = "text/css; charset=utf-8",
            [PATH_SCRIPT] = "text/javascript; charset=utf-8",
            [PATH_STATUS] = "application/json",
            [PATH_RECORDS] = "application/json",
            [PATH_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
            [PATH_HEALTH] = "text/plain; charset=utf-8",
            [PATH_READY] = "text/plain; charset=utf-8"};
    run_page *self = ctx;
    const char *metrics = page_path_name(PATH_PROMETHEUS);
    if (strcmp(request->target, metrics) == 0) read_metrics_token(self);
    const page_answer asked = page_request_check(request, &self->keys);
    if (asked.status == 303) {
        answer_code(self, out);
        return;
    }
    out->status = asked.status;
    if (asked.status != 200) {
        out->asks_password = self->keys.password != NULL;
        str_printf(&out->body, "%s\n", asked.why);
        return;
    }
    out->type = types[asked.path];
    if (asked.path == PATH_STYLE)
        run_report_style(&out->body);
    else if (asked.path == PATH_SCRIPT)
        str_puts(&out->body, page_js);
    else if (asked.path == PATH_RECORDS)
        answer_records(self, asked.from, out);
    else
        answer_run(self, asked.path, out);
}

static bool catch_up(void *ctx) {
    const run_page *self = ctx;
    return run_view_catch_up(self->run.view);
}

// --- opening
static const page_server_calls calls = {answer, catch_up};

static void free_page(run_page *self) {
    for (int i = 0; i < N_PAGE_PATHS; i++)
        str_free(&self->kept[i].body);
    free(self->run_dir);
    free(self->about);
    free(self->metrics_path);
    free(self->token_file);
    free(self);
}

static run_page *new_page(const run_observed *run) {
    run_page *self = mem_zeroed(sizeof *self);
    str path = {0};
    str_printf(&path, "%s/metrics.jsonl", run->run_dir);
    self->run = *run;
    self->run_dir = strdup(run->run_dir);
    self->about = strdup(run->about);
    self->metrics_path = path.p;
    self->token_file = strdup(run->http_metrics_token_file);
    return self;
}

static drv_status make_keys(run_page *self) {
    page_keys *keys = &self->keys;
    const char *port = strrchr(self->listener.address, ':') + 1;
    DRV_TRY(page_secret_make(keys->token));
    DRV_TRY(page_secret_make(keys->code));
    DRV_TRY(page_secret_make(keys->cookie));
    snprintf(keys->cookie_name, sizeof keys->cookie_name, "drover_%s", port);
    snprintf(keys->host, sizeof keys->host, "%s", self->listener.host);
    snprintf(keys->name, sizeof keys->name, "%s", self->listener.name);
    snprintf(self->set_cookie, sizeof self->set_cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict",
            keys->cookie_name, keys->cookie);
    return DRV_OK;
}

static void say_open(const run_page *self) {
    const page_listener *listener = &self->listener;
    if (self->keys.password)
        log_info("page: http://%s/ shows \"%s\", unencrypted; the password opens it, /healthz needs none",
                listener->address, self->run_dir);
    else if (listener->to_others)
        log_warn("page: http://%s/ is open to other machines (training.http: %s), unencrypted; the token in "
                 "%s/http.json opens it, /healthz and /readyz need none",
                listener->address, self->run.http, self->run_dir);
    else
        log_info("page: http://%s/ for this machine alone; %s/http.json has the address to open and the token",
                listener->address, self->run_dir);
}

static drv_status open_page(run_page *self) {
    const char *password = self->run.password_file;
    if (password) DRV_TRY(page_token_read(password, "password", LEAST_TOKEN, self->password));
    if (password) self->keys.password = self->password;
    DRV_TRY(page_listen(self->run.http, password ? "--listen" : "training.http", &self->listener));
    drv_status status = password ? DRV_OK : make_keys(self);
    if (status == DRV_OK && !password)
        status = page_secrets_write(self->run_dir, self->listener.address, &self->keys);
    if (status == DRV_OK) return page_server_start(self->listener.fd, &calls, self, &self->server);
    close(self->listener.fd);
    return status;
}

static drv_status begin(const run_observed *run, void **out) {
    if (!run->http) return DRV_OK;
    run_page *self = new_page(run);
    const drv_status status = open_page(self);
    if (status != DRV_OK) {
        // Keys of an earlier attempt are removed too.
        if (!run->password_file) page_secrets_remove(self->run_dir);
        free_page(self);
        return status;
    }
    say_open(self);
    *out = self;
    return DRV_OK;
}

static bool end(void *ctx) {
    run_page *self = ctx;
    const bool stopped = page_server_stop(self->server);
    if (!self->keys.password) page_secrets_remove(self->run_dir);
    if (!stopped) return false;
    free_page(self);
    return true;
}

const run_observer page_observer = {"page", begin, end};
