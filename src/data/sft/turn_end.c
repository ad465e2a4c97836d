// Renders a made-up conversation twice: up to an answer, and with another question after it.
#include "data/sft/turn_end.h"

#include <string.h>

static const char mark[] = "an-answer-of-drover";

static void add_message(json_t *messages, const char *role, const char *content) {
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", content));
}

// Appends the text after the answer; false: the template refuses the conversation.
static bool render_tail(arena *a, const chat_template *t, const chat_input *in, str *out) {
    chat_output text;
    if (chat_render(a, t, in, &text) != DRV_OK) return false;
    const char *end = NULL, *found = text.text.p;
    while (found && (found = strstr(found, mark)))
        end = found += strlen(mark);
    if (end) str_puts(out, end);
    str_free(&text.text);
    return true;
}

static size_t common_bytes(const str *x, const str *y) {
    size_t n = 0;
    while (n < x->n && n < y->n && x->p[n] == y->p[n])
        n++;
    return n;
}

static int32_t last_added(const tokenizer *tok, const char *text, size_t n) {
    encoder *e = encoder_new(tok);
    id_list ids = {0};
    int32_t last = -1;
    encoder_run(e, text, n, false, &ids);
    for (int64_t i = 0; i < ids.n; i++)
        if (tokenizer_is_added(tok, ids.p[i])) last = ids.p[i];
    id_list_free(&ids);
    encoder_free(e);
    return last;
}

static const char *stripped(arena *a, const char *text, size_t n) {
    static const char space[] = " \t\r\n";
    while (n > 0 && strchr(space, text[n - 1]))
        n--;
    while (n > 0 && strchr(space, *text))
        text++, n--;
    return arena_strndup(a, text, n);
}

int32_t turn_end(arena *a, const chat_template *template, const special_text *specials,
        int n_specials, const tokenizer *tok, const char **text) {
    json_t *messages = json_array();
    const chat_input in = {.messages = messages,
            .specials = specials,
            .n_specials = n_specials,
            .now = {.tm_year = 126, .tm_mday = 1}};
    str ends = {0}, goes_on = {0};
    add_message(messages, "user", "a question");
    add_message(messages, "assistant", mark);
    const bool known = render_tail(a, template, &in, &ends) && ends.n > 0;
    add_message(messages, "user", "another one");
    size_t n = ends.n;
    if (known && render_tail(a, template, &in, &goes_on)) n = common_bytes(&ends, &goes_on);
    const int32_t id = known ? last_added(tok, ends.p, n) : -1;
    if (text) *text = known ? stripped(a, ends.p, n) : "";
    str_free(&ends);
    str_free(&goes_on);
    json_decref(messages);
    return id;
}
