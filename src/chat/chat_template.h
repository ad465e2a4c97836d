// Renders conversations as the text on which a model was trained, by a chat template (Jinja 3.1,
// jinja.palletsprojects.com/templates), as tokenizer.apply_chat_template of transformers 5 does.
#pragma once
#include <time.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct chat_template chat_template; // immutable after opening

// Parses a template. `name` begins messages (the template's file). A statement, filter or test that
// is not supported is refused with its line and column when it is met.
DRV_CHECKED drv_status chat_template_open(arena *a, const char *name, const char *source, size_t n,
        chat_template **out);

const char *chat_template_name(const chat_template *t);
// Returns whether the template marks the assistant's text by {% generation %} blocks.
bool chat_template_marks(const chat_template *t);
// Returns whether the template checks the type of a message's content, or iterates over its parts;
// any other template expects content to be text.
bool chat_template_reads_parts(const chat_template *t);

typedef struct special_text { // a special token, a variable of the template named by its role
    const char *role;         // "bos_token"
    const char *text;
} special_text;

typedef struct chat_input {
    const json_t *messages;          // a list of objects with "role" and, mostly, "content"
    const json_t *tools, *documents; // NULL: none
    bool add_generation_prompt;
    const special_text *specials;
    int n_specials;
    struct tm now; // the time that strftime_now returns (chat_date)
} chat_input;

typedef struct chat_span { // code points [begin, end) of the text
    int64_t begin, end;
} chat_span;

typedef struct chat_output {
    str text;         // str_free it
    chat_span *spans; // of the {% generation %} blocks, in the arena
    int n_spans;
} chat_output;

// Renders a conversation. DRV_E_DATA: the template failed (with its line and column), refused the
// conversation (with its own message), or exceeded a limit: 5 million steps, 64 MiB, 16 MiB of text.
DRV_CHECKED drv_status chat_render(arena *a, const chat_template *t, const chat_input *in,
        chat_output *out);

// Sets the time that templates read: `text`, as 2026-11-22 or 2026-11-22T10:30:00; if it is NULL,
// SOURCE_DATE_EPOCH (reproducible-builds.org: seconds since 1970, UTC) if that is set, else the
// clock. DRV_E_USAGE: `text` is not a date.
DRV_CHECKED drv_status chat_date(const char *text, struct tm *out);
// Returns whether the template asks for the time, so that its output differs from day to day.
bool chat_template_asks_date(const chat_template *t);
