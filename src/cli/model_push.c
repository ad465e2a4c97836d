// Publishes a model: options, the card, the report.
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/status_line.h"
#include "ckpt/adapter.h"
#include "cli/run_about.h"
#include "data/get/hub.h"
#include "infer/resolve.h"
#include "push/model_card.h"
#include "push/push_files.h"

// The run directory of a checkpoint; NULL: the folder is not in one.
static const char *run_of(arena *a, const char *folder) {
    char *full = realpath(folder, NULL), *slash = full ? strrchr(full, '/') : NULL;
    const char *run = NULL;
    if (slash) *slash = 0;
    if (slash && str_ends(full, "/checkpoints")) {
        full[strlen(full) - strlen("/checkpoints")] = 0;
        if (file_exists(path_join(a, full, "events.jsonl"))) run = arena_strdup(a, full);
    }
    free(full);
    return run;
}

// The base that the adapter or the config of the run names; "": neither does.
static const char *base_of(arena *a, const char *folder, const char *run, bool is_adapter) {
    run_config cfg;
    const char *base = "";
    adapter opened;
    if (is_adapter && adapter_open(a, folder, &opened) == DRV_OK) {
        base = arena_strdup(a, opened.config.base);
        adapter_close(&opened);
    } else if (run && run_about_config(a, run, &cfg)) {
        base = cfg.from;
    }
    return base;
}

// Refuses options that only a card made by drover would contain.
static drv_status check_card_options(const cli_args *args, const char *folder) {
    static const char *const names[] = {"--base", "--dataset", "--license", "--language"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cli_has(args, names[i]))
            return drv_fail(DRV_E_USAGE,
                    "model push: %s has no effect, as %s/README.md is there: --card replaces it",
                    names[i], folder);
    return DRV_OK;
}

// Warns if the base of an adapter is a folder, which is not published with it.
static void warn_of_base(arena *a, const char *folder) {
    const char *base = base_of(a, folder, NULL, true);
    if (*base && (file_is_dir(base) || file_is_dir(path_join(a, folder, base))))
        log_warn("adapter_config.json names the base \"%s\", a folder of this machine: users of the adapter have to name the base themselves",
                base);
}

static const char *make_card(arena *a, const cli_args *args, const char *folder, const char *repo,
        bool is_adapter) {
    const char *run = run_of(a, folder);
    card_facts facts = {.folder = folder,
            .repo = repo,
            .run_dir = run,
            .license = cli_get(args, "--license", NULL),
            .language = cli_get(args, "--language", NULL),
            .is_adapter = is_adapter};
    facts.base = cli_get(args, "--base", NULL);
    if (!facts.base) facts.base = base_of(a, folder, run, is_adapter);
    facts.datasets = cli_get_all(a, args, "--dataset", &facts.n_datasets);
    return model_card_text(a, &facts);
}

// --- without sending
static const char *fate(const push_file *file) {
    if (!file->asked) return "to be sent";
    return file->ignored ? "ignored by .gitignore" : file->there ? "there already" : "to be sent";
}

static void print_list(const push_list *list, const push_opts *o) {
    int64_t bytes = 0;
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        const push_file *file = &list->files[i];
        const char *kind = !file->asked ? "?" : file->lfs ? "LFS" : "regular";
        printf("%-40s %12s  %-8s %s\n", file->name, str_bytes((double)file->size), kind,
                fate(file));
        if (file->ignored || file->there) continue;
        bytes += file->size;
        n++;
    }
    for (int i = 0; i < list->n_left_out; i++)
        printf("%-40s %12s  %-8s left out\n", list->left_out[i], "", "");
    printf("%d of %d files, %s, for hf:%s, branch \"%s\"%s, commit \"%s\"\n", n, list->n,
            str_bytes((double)bytes), o->repo, o->branch,
            o->pull_request ? " by a pull request" : "", o->message);
}

static drv_status dry_run(arena *a, const push_opts *o, push_list *list, const char *card) {
    const char *unknown = "there is no token, so the hub was not asked";
    if (o->link.token) {
        bool exists;
        DRV_TRY(hub_push_ask(a, o, list->files, list->n, &exists));
        unknown =
                exists ? NULL : "the repository or the branch is not there yet: --create makes it";
    }
    print_list(list, o);
    if (unknown)
        printf("not known: which files go by LFS, and which are there already; %s\n", unknown);
    if (card) printf("\nREADME.md, made by drover:\n\n%s", card);
    return DRV_OK;
}

// --- the verb
// Refuses texts that neither JSON nor YAML can have.
static drv_status check_texts(const cli_args *args) {
    for (int i = 0; i < args->n_options; i++)
        if (args->option[i].value && !text_is_utf8(args->option[i].value))
            return drv_fail(DRV_E_USAGE, "model push: %s is not UTF-8", args->option[i].name);
    return DRV_OK;
}

// Puts stars for the token, which a server might repeat.
static const char *without_token(arena *a, const push_opts *o, const char *text) {
    str out = {0};
    if (!o->link.token || !strstr(text, o->link.token)) return text;
    str_replace(&out, text, strlen(text), o->link.token, "***");
    return str_keep(a, &out);
}

static drv_status failure_without_token(arena *a, const push_opts *o, drv_status status) {
    if (status == DRV_OK) return DRV_OK;
    const char *said = arena_strdup(a, drv_message()), *shown = without_token(a, o, said);
    return shown == said ? status : drv_fail(status, "%s", shown);
}

static drv_status read_options(arena *a, const cli_args *args, push_opts *out) {
    int64_t parallel = 4, tries = 8;
    const char *spec = args->positional[1];
    out->repo = str_starts(spec, "hf:") ? spec + 3 : spec;
    if (!hub_is_name(out->repo)) return drv_fail(DRV_E_USAGE, "\"%s\": expected hf:ORG/NAME", spec);
    DRV_TRY(cli_get_i64(args, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(args, "--tries", 1, 1000, &tries));
    out->link = (http_link){.endpoint = hub_endpoint(a),
            .token = hub_token(a),
            .tries = (int)tries,
            .parallel = (int)parallel};
    out->branch = cli_get(args, "--branch", "main");
    out->message = cli_get(args, "--message",
            arena_printf(a, "Upload %s with drover", strchr(out->repo, '/') + 1));
    DRV_TRY(check_texts(args));
    out->create = cli_has(args, "--create");
    out->is_private = cli_has(args, "--private");
    out->pull_request = cli_has(args, "--create-pr");
    if (out->link.token || cli_has(args, "--dry-run")) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "model push: there is no token: set HF_TOKEN, or log in by `hf auth login`; --dry-run "
            "needs none");
}

static void report(arena *a, const push_opts *o, const push_list *list, const push_result *made) {
    if (made->n_ignored)
        log_warn("%d file%s ignored by the repository's .gitignore", made->n_ignored,
                made->n_ignored == 1 ? " is" : "s are");
    log_info("hf:%s: %d file%s committed in %d commit%s, %d there already; LFS: %s sent in %s, "
             "%lld of %lld large files found on the hub",
            o->repo, made->n_sent, str_plural(made->n_sent), made->n_commits,
            str_plural(made->n_commits), made->n_there, str_bytes((double)made->lfs.bytes),
            str_long_duration(made->lfs.seconds), (long long)made->lfs.there,
            (long long)(made->lfs.there + made->lfs.files));
    if (made->url)
        printf("%s\n", without_token(a, o, made->url));
    else
        printf("hf:%s has all %d files already\n", o->repo, list->n);
}

drv_status model_push(arena *a, const cli_args *args) {
    push_opts o = {0};
    push_list list;
    push_result made;
    const char *folder, *card = NULL;
    DRV_TRY(read_options(a, args, &o));
    DRV_TRY(ckpt_resolve(a, args->positional[0], &folder));
    DRV_TRY(push_files_list(a, folder, cli_has(args, "--optimizer"), &list));
    if (list.is_adapter) warn_of_base(a, folder);
    if (!list.has_card || cli_has(args, "--card")) {
        card = make_card(a, args, folder, o.repo, list.is_adapter);
        push_files_add_text(a, &list, "README.md", card);
    } else {
        DRV_TRY(check_card_options(args, folder));
    }
    if (cli_has(args, "--dry-run"))
        return failure_without_token(a, &o, dry_run(a, &o, &list, card));
    DRV_TRY(failure_without_token(a, &o, hub_push(a, &o, list.files, list.n, &made)));
    report(a, &o, &list, &made);
    return DRV_OK;
}
