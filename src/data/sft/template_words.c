// Searches the source of a template, since its output is unknown before it runs.
#include "data/sft/template_words.h"

#include <string.h>

#include "base/log.h"

enum { MAX_MARKER = 48, NAMED = 4 };

// Returns the length of a marker, <|...|>, that begins at p; 0: none does.
static size_t marker_at(const char *p, size_t n) {
    if (n < 5 || p[0] != '<' || p[1] != '|') return 0;
    for (size_t i = 2; i + 1 < n && i < MAX_MARKER; i++) {
        if (p[i] == '|' && p[i + 1] == '>') return i > 2 ? i + 2 : 0;
        if (strchr(" \t\r\n'\"{}<>", p[i])) return 0;
    }
    return 0;
}

static bool is_one_token(encoder *e, const char *p, size_t n) {
    id_list ids = {0};
    encoder_run(e, p, n, false, &ids);
    const bool one = ids.n == 1;
    id_list_free(&ids);
    return one;
}

static void tell_markers(const tokenizer *t, const chat_model *model) {
    str names = {0};
    int n_unknown = 0;
    encoder *e = encoder_new(t);
    for (size_t i = 0, n; i < model->n_source; i += n ? n : 1) {
        char marker[MAX_MARKER + 4];
        n = marker_at(model->source + i, model->n_source - i);
        if (n == 0 || is_one_token(e, model->source + i, n)) continue;
        snprintf(marker, sizeof marker, "\"%.*s\"", (int)n, model->source + i);
        if ((names.p && strstr(names.p, marker)) || n_unknown == NAMED) continue;
        str_printf(&names, "%s%s", n_unknown++ > 0 ? ", " : "", marker);
    }
    encoder_free(e);
    if (n_unknown > 0)
        log_warn("%s: the template writes %s, for which the tokenizer has no token: it is split into pieces",
                model->path, names.p);
    str_free(&names);
}

static bool has_role(const chat_model *model, const char *role) {
    int i = 0;
    while (i < model->n_specials && strcmp(model->specials[i].role, role) != 0)
        i++;
    return i < model->n_specials;
}

static void tell_undefined(const chat_model *model, const char *role, const char *ends) {
    char set[32];
    snprintf(set, sizeof set, "set %s", role);
    const bool asks = memmem(model->source, model->n_source, role, strlen(role)) &&
                      !memmem(model->source, model->n_source, set, strlen(set));
    if (asks && !has_role(model, role))
        log_warn("%s: the template writes %s, which no file of the folder defines: it is rendered as nothing%s",
                model->path, role, ends);
}

void template_tell_words(const tokenizer *t, const chat_model *model) {
    if (t) tell_markers(t, model);
    tell_undefined(model, "bos_token", "");
    tell_undefined(model, "eos_token", ", so that no answer ends with it");
}
