// Reads multiple choice from JSON lines of three kinds (HellaSwag, ARC, our own); contexts and
// choices are those of lm-evaluation-harness's tasks hellaswag and arc_easy.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "infer/choices.h"
#include "tok/unicode.h"

enum { MAX_CHOICES = 1024 };

// --- fields, by name
static drv_status need_text(const json_t *o, const char *key, const json_t **out) {
    *out = json_object_get(o, key);
    if (json_is_string(*out)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\" is %s, expected a text", key,
            *out ? "not a string" : "not there");
}

static drv_status need_texts(const json_t *list, const char *key) {
    const size_t n = json_array_size(list); // 0: also if it is not an array
    if (n < 2 || n > MAX_CHOICES)
        return drv_fail(DRV_E_DATA, "\"%s\" is %s, expected a list of 2 to %d texts", key,
                !list                  ? "not there"
                : !json_is_array(list) ? "not a list"
                : n < 2                ? "a list of fewer than 2"
                                       : "a longer list",
                MAX_CHOICES);
    for (size_t i = 0; i < n; i++)
        if (json_string_length(json_array_get(list, i)) == 0) // 0: also if it is not a string
            return drv_fail(DRV_E_DATA, "\"%s\"[%zu] is %s, expected a text", key, i,
                    json_is_string(json_array_get(list, i)) ? "empty" : "not a string");
    return DRV_OK;
}

// Returns the first key that the object has; NULL: none.
static const char *first_key(const json_t *o, const char *const *keys, int n) {
    for (int i = 0; i < n; i++)
        if (json_object_get(o, keys[i])) return keys[i];
    return NULL;
}

static str_view copy_text(arena *a, const str *text) {
    return (str_view){arena_strndup(a, text->p, text->n), text->n};
}

static str_view copy_json(arena *a, const json_t *text) {
    const size_t n = json_string_length(text);
    return (str_view){arena_strndup(a, json_string_value(text), n), n};
}

static bool same_text(const json_t *text, const json_t *other) {
    return json_is_string(text) && json_equal(text, other);
}

// Reads the index of the right choice: a number from 0, that number as text, or the choice's text.
static drv_status read_gold(const json_t *o, const char *key, const json_t *choices, int *out) {
    const json_t *value = json_object_get(o, key);
    const int n = (int)json_array_size(choices);
    int64_t gold = -1;
    for (int i = n - 1; i >= 0; i--)
        if (same_text(value, json_array_get(choices, (size_t)i))) gold = i;
    if (json_is_integer(value)) gold = json_integer_value(value);
    if (json_is_string(value) && gold < 0 && !str_to_i64(json_string_value(value), &gold))
        gold = -1;
    *out = (int)gold;
    if (gold >= 0 && gold < n) return DRV_OK;
    char *shown = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    drv_status status = drv_fail(DRV_E_DATA,
            "\"%s\" is %.40s, expected the number of the right choice, 0 to %d", key,
            shown ? shown : "not there", n - 1);
    free(shown);
    return status;
}

// --- white space
// Finds the bounds of the text without white space at both ends; n and 0 if there is no other.
static void strip_bounds(const char *p, size_t n, size_t *begin, size_t *end) {
    const unsigned char *s = (const unsigned char *)p, *const stop = s + n;
    *begin = n;
    *end = 0;
    while (s < stop) {
        const size_t at = (size_t)(s - (const unsigned char *)p);
        if (cp_is_python_space(utf8_next(&s))) continue;
        if (*begin == n) *begin = at;
        *end = (size_t)(s - (const unsigned char *)p);
    }
}

// --- HellaSwag
// WikiHow's marks: " [title]" becomes ". ", other brackets on a line go, two spaces become one.
static str_view clean_hellaswag(arena *a, const char *line, size_t n_line) {
    str titled = {0}, bare = {0}, out = {0};
    size_t begin, end;
    strip_bounds(line, n_line, &begin, &end);
    if (end > begin) str_replace(&titled, line + begin, end - begin, " [title]", ". ");
    size_t open_until = 0; // no bracket that opens before this index is closed
    for (size_t i = 0; i < titled.n; i++) {
        size_t close = i;
        if (titled.p[i] == '[' && i >= open_until)
            while (close < titled.n && titled.p[close] != ']' && titled.p[close] != '\n')
                close++;
        if (close > i && close < titled.n && titled.p[close] == ']') {
            i = close;
            continue;
        }
        if (close > i) open_until = close;
        str_add(&bare, titled.p + i, 1);
    }
    if (bare.n) str_replace(&out, bare.p, bare.n, "  ", " ");
    const str_view kept = copy_text(a, &out);
    str_free(&titled);
    str_free(&bare);
    str_free(&out);
    return kept;
}

// Does what Python's str.capitalize does to ASCII. HellaSwag is English; other letters are kept.
static void add_capitalized(str *out, const json_t *text) {
    const size_t n = json_string_length(text), begin = out->n;
    str_add(out, json_string_value(text), n);
    for (size_t i = begin; i < out->n; i++) {
        char *c = out->p + i;
        if (i == begin && *c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
        if (i > begin && *c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
}

static drv_status read_hellaswag(arena *a, const json_t *record, choice_record *out) {
    const json_t *activity, *begin, *end, *endings = json_object_get(record, "endings");
    DRV_TRY(need_text(record, "activity_label", &activity));
    DRV_TRY(need_text(record, "ctx_a", &begin));
    DRV_TRY(need_text(record, "ctx_b", &end));
    DRV_TRY(need_texts(endings, "endings"));
    DRV_TRY(read_gold(record, "label", endings, &out->gold));
    str context = {0};
    str_add(&context, json_string_value(activity), json_string_length(activity));
    str_puts(&context, ": ");
    str_add(&context, json_string_value(begin), json_string_length(begin));
    str_puts(&context, " ");
    add_capitalized(&context, end);
    out->context = clean_hellaswag(a, context.p, context.n);
    str_free(&context);
    out->n_choices = (int)json_array_size(endings);
    out->choice = ARENA_ARRAY(a, str_view, out->n_choices);
    for (int i = 0; i < out->n_choices; i++) {
        const json_t *text = json_array_get(endings, (size_t)i);
        out->choice[i] = clean_hellaswag(a, json_string_value(text), json_string_length(text));
    }
    return DRV_OK;
}

// --- the others
static void keep_choices(arena *a, const json_t *texts, choice_record *out) {
    out->n_choices = (int)json_array_size(texts);
    out->choice = ARENA_ARRAY(a, str_view, out->n_choices);
    for (int i = 0; i < out->n_choices; i++)
        out->choice[i] = copy_json(a, json_array_get(texts, (size_t)i));
}

static drv_status read_arc(arena *a, const json_t *record, choice_record *out) {
    const json_t *question, *key, *choices = json_object_get(record, "choices");
    const json_t *texts = json_object_get(choices, "text"),
                 *labels = json_object_get(choices, "label");
    DRV_TRY(need_text(record, "question", &question));
    DRV_TRY(need_text(record, "answerKey", &key));
    DRV_TRY(need_texts(texts, "choices.text"));
    DRV_TRY(need_texts(labels, "choices.label"));
    if (json_array_size(labels) != json_array_size(texts))
        return drv_fail(DRV_E_DATA,
                "\"choices.label\" has %zu entries, expected %zu as in \"text\"",
                json_array_size(labels), json_array_size(texts));
    out->gold = -1;
    for (size_t i = json_array_size(labels); i-- > 0;)
        if (same_text(key, json_array_get(labels, i))) out->gold = (int)i;
    if (out->gold < 0)
        return drv_fail(DRV_E_DATA, "\"answerKey\" is \"%.40s\", expected one of \"choices.label\"",
                json_string_value(key));
    str context = {0};
    str_puts(&context, "Question: ");
    str_add(&context, json_string_value(question), json_string_length(question));
    str_puts(&context, "\nAnswer:");
    out->context = copy_text(a, &context);
    str_free(&context);
    keep_choices(a, texts, out);
    return DRV_OK;
}

static drv_status read_generic(arena *a, const json_t *o, choice_record *out) {
    static const char *const contexts[] = {"context", "query"}, *const golds[] = {"gold", "label",
                                                                        "answer"};
    const char *context = first_key(o, contexts, 2), *gold = first_key(o, golds, 3);
    const json_t *text, *choices = json_object_get(o, "choices");
    if (!context)
        return drv_fail(DRV_E_DATA,
                "no \"context\" or \"query\", expected one of these, or the fields of HellaSwag or ARC");
    if (!gold)
        return drv_fail(DRV_E_DATA, "no \"gold\", \"label\" or \"answer\", expected one of these");
    DRV_TRY(need_text(o, context, &text));
    DRV_TRY(need_texts(choices, "choices"));
    DRV_TRY(read_gold(o, gold, choices, &out->gold));
    out->context = copy_json(a, text);
    keep_choices(a, choices, out);
    return DRV_OK;
}

// --- the file
static drv_status read_record(arena *a, const json_t *o, choice_record *out) {
    if (!json_is_object(o)) return drv_fail(DRV_E_DATA, "no JSON object, expected one per line");
    if (json_object_get(o, "endings")) return read_hellaswag(a, o, out);
    if (json_is_object(json_object_get(o, "choices"))) return read_arc(a, o, out);
    return read_generic(a, o, out);
}

static drv_status read_line(arena *a, const char *p, size_t n, choice_record *out) {
    json_t *o;
    DRV_TRY(json_parse(p, n, &o));
    const drv_status status = read_record(a, o, out);
    json_decref(o);
    size_t begin;
    if (status == DRV_OK) strip_bounds(out->context.p, out->context.n, &begin, &out->n_stripped);
    return status;
}

static bool is_blank(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", p[i]) || !p[i]) return false;
    return true;
}

// Keeps the message of a line that is not a record.
static void note_bad(arena *a, const char *path, int64_t line, choice_set *out) {
    if (out->n_bad < MAX_BAD_LINES)
        out->bad[out->n_bad] = arena_printf(a, "%s:%lld: %s", path, (long long)line, drv_message());
    out->n_bad++;
}

drv_status choices_parse(arena *a, const char *path, const char *bytes, size_t n_bytes,
        choice_set *out) {
    *out = (choice_set){.path = path};
    int64_t line = 0, n_lines = 1;
    for (size_t i = 0; i < n_bytes; i++)
        n_lines += bytes[i] == '\n';
    out->record = ARENA_ARRAY(a, choice_record, n_lines);
    for (const char *const end = bytes + n_bytes; bytes < end; bytes++) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        if (!stop) stop = end;
        line++;
        choice_record *record = out->record + out->n;
        if (!is_blank(bytes, (size_t)(stop - bytes))) {
            record->line = line;
            if (read_line(a, bytes, (size_t)(stop - bytes), record) == DRV_OK)
                out->n++;
            else
                note_bad(a, path, line, out);
        }
        bytes = stop;
    }
    if (out->n_bad) return drv_fail(DRV_E_DATA, "%s", out->bad[0]);
    if (out->n) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s has no record, expected one JSON object per line", out->path);
}

drv_status choices_read(arena *a, const char *path, choice_set *out) {
    char *bytes;
    size_t n;
    DRV_TRY(file_read_any(a, path, &bytes, &n));
    const drv_status status = choices_parse(a, path, bytes, n, out);
    if (out->n_bad <= 1) return status;
    for (int64_t i = 0; i < out->n_bad && i < MAX_BAD_LINES; i++)
        log_warn("%s", out->bad[i]);
    return drv_fail(DRV_E_DATA, "%s: %lld of %lld lines are not records", path,
            (long long)out->n_bad, (long long)(out->n + out->n_bad));
}
