// Writes texts as events of libyaml's emitter, in a style that every reader takes for a text.
#include "launch/jobs/yaml_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/status.h"

struct yaml_writer {
    yaml_emitter_t emitter;
    bool is_list[32]; // of the collections that are open, from the document's map inwards
    int depth;
};

static int append(void *out, unsigned char *bytes, size_t n) {
    str_add(out, bytes, n);
    return 1;
}

// Initialising an event fails for lack of memory or for invalid UTF-8; emitting one fails if events
// come in a wrong order.
static void emit(yaml_writer *w, yaml_event_t *event, int made) {
    DRV_ASSERT(made, "yaml_writer: a text is not UTF-8");
    DRV_ASSERT(yaml_emitter_emit(&w->emitter, event), "yaml_writer: %s", w->emitter.problem);
}

yaml_writer *yaml_writer_open(str *out) {
    yaml_writer *w = mem_zeroed(sizeof *w);
    yaml_event_t event;
    DRV_MEMORY(yaml_emitter_initialize(&w->emitter), "to read or write YAML");
    yaml_emitter_set_output(&w->emitter, append, out);
    yaml_emitter_set_unicode(&w->emitter, 1);
    yaml_emitter_set_width(&w->emitter, -1);
    emit(w, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    return w;
}

static void end_document(yaml_writer *w) {
    yaml_event_t event;
    while (w->depth)
        (w->is_list[w->depth - 1] ? yaml_list_end : yaml_map_end)(w);
    emit(w, &event, yaml_document_end_event_initialize(&event, 1));
    DRV_ASSERT(yaml_emitter_flush(&w->emitter), "yaml_writer: %s", w->emitter.problem);
}

void yaml_writer_close(yaml_writer *w) {
    yaml_event_t event;
    if (w->depth) end_document(w);
    emit(w, &event, yaml_stream_end_event_initialize(&event));
    yaml_emitter_delete(&w->emitter);
    free(w);
}

// Words that some reader takes for a truth value, null or a special number.
static bool means_more(const char *text) {
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null",
            "nan", "inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

// Returns whether a text needs no quotes: it begins with a letter or a slash and has no character
// that is special in YAML.
static bool is_plain(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/",
                      others[] =
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    return *text && strchr(letters, *text) && text[strspn(text, others)] == 0 && !means_more(text);
}

static void scalar(yaml_writer *w, const char *text, yaml_scalar_style_t style) {
    yaml_event_t event;
    const int plain = style == YAML_PLAIN_SCALAR_STYLE;
    emit(w, &event,
            yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                    (int)strlen(text), plain, !plain, style));
}

static void text_scalar(yaml_writer *w, const char *text) {
    scalar(w, text, is_plain(text) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static void begin_value(yaml_writer *w, const char *key) {
    if (key) text_scalar(w, key);
}

static void begin_collection(yaml_writer *w, const char *key, bool is_list) {
    begin_value(w, key);
    DRV_ASSERT(w->depth < (int)sizeof w->is_list, "yaml_writer: deeper");
    w->is_list[w->depth++] = is_list;
}

void yaml_document(yaml_writer *w) {
    yaml_event_t event;
    if (w->depth) end_document(w);
    emit(w, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 0));
    yaml_map(w, NULL);
}

void yaml_map(yaml_writer *w, const char *key) {
    yaml_event_t event;
    begin_collection(w, key, false);
    emit(w, &event,
            yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}

void yaml_map_end(yaml_writer *w) {
    yaml_event_t event;
    w->depth--;
    emit(w, &event, yaml_mapping_end_event_initialize(&event));
}

void yaml_list(yaml_writer *w, const char *key) {
    yaml_event_t event;
    begin_collection(w, key, true);
    emit(w, &event,
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE));
}

void yaml_list_end(yaml_writer *w) {
    yaml_event_t event;
    w->depth--;
    emit(w, &event, yaml_sequence_end_event_initialize(&event));
}

void yaml_text(yaml_writer *w, const char *key, const char *value) {
    begin_value(w, key);
    text_scalar(w, value);
}

// Returns whether a block of lines reads back as it is: it ends in a line break, the only kind of
// break in it, and has none of the breaks, blanks and marks that a reader folds, counts or drops.
static bool are_plain_lines(const char *text) {
    static const char *const begins[] = {"\n", " ", "\t"}, *const marks[] = {" \n", "\t", "\r",
                                                                   "\xC2\x85", "\xE2\x80\xA8",
                                                                   "\xE2\x80\xA9", "\xEF\xBB\xBF"};
    if (!str_ends(text, "\n") || str_ends(text, "\n\n")) return false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (str_starts(text, begins[i])) return false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(text, marks[i])) return false;
    return true;
}

void yaml_lines(yaml_writer *w, const char *key, const char *value) {
    begin_value(w, key);
    scalar(w, value,
            are_plain_lines(value) ? YAML_LITERAL_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

void yaml_int(yaml_writer *w, const char *key, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    begin_value(w, key);
    scalar(w, digits, YAML_PLAIN_SCALAR_STYLE);
}

void yaml_bool(yaml_writer *w, const char *key, bool value) {
    begin_value(w, key);
    scalar(w, value ? "true" : "false", YAML_PLAIN_SCALAR_STYLE);
}

// --- parts in YAML
static bool is_number_or_bool(const char *text) {
    return text[strspn(text, "0123456789")] == 0 || strcmp(text, "true") == 0 ||
           strcmp(text, "false") == 0;
}

static void put_event(yaml_writer *w, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    switch (event->type) {
    case YAML_MAPPING_START_EVENT:
        yaml_map(w, NULL);
        break;
    case YAML_MAPPING_END_EVENT:
        yaml_map_end(w);
        break;
    case YAML_SEQUENCE_START_EVENT:
        yaml_list(w, NULL);
        break;
    case YAML_SEQUENCE_END_EVENT:
        yaml_list_end(w);
        break;
    default:
        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && is_number_or_bool(text))
            scalar(w, text, YAML_PLAIN_SCALAR_STYLE);
        else
            text_scalar(w, text);
    }
}

void yaml_put(yaml_writer *w, const char *format, ...) {
    char text[2048];
    va_list list;
    yaml_parser_t parser;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    DRV_ASSERT(n < (int)sizeof text, "yaml_writer: a part of %d bytes", n);
    DRV_MEMORY(yaml_parser_initialize(&parser), "to read or write YAML");
    yaml_parser_set_input_string(&parser, (const yaml_char_t *)text, (size_t)n);
    int depth = 0; // 1: in the outer collection, which is the one that is open
    do {
        yaml_event_t event;
        DRV_ASSERT(yaml_parser_parse(&parser, &event), "yaml_writer: \"%s\": %s", text,
                parser.problem);
        const bool begins = event.type == YAML_MAPPING_START_EVENT ||
                            event.type == YAML_SEQUENCE_START_EVENT,
                   ends = event.type == YAML_MAPPING_END_EVENT ||
                          event.type == YAML_SEQUENCE_END_EVENT;
        depth -= ends;
        if (depth > 0) put_event(w, &event);
        depth += begins;
        const bool is_over = ends && depth == 0;
        yaml_event_delete(&event);
        if (is_over) break;
    } while (true);
    yaml_parser_delete(&parser);
}
