// Legend: a arena, w writer, p pod, t type of instance, n words.
// Writes YAML in block style with libyaml's emitter. A text stays a text whatever it contains:
// anything that a reader of YAML 1.1 or 1.2 would take for something else is quoted. Single owner.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct yaml_writer yaml_writer;

// Appends to `out`, which must outlive the writer. Texts and keys are valid UTF-8 without NUL.
yaml_writer *yaml_writer_open(str *out);
void yaml_writer_close(yaml_writer *w); // and its last document

// Begins a document, which is one map, and ends the one before with all that is open in it.
void yaml_document(yaml_writer *w);

// `key` NULL: an item of the open list.
void yaml_map(yaml_writer *w, const char *key);
void yaml_map_end(yaml_writer *w);
void yaml_list(yaml_writer *w, const char *key);
void yaml_list_end(yaml_writer *w);
void yaml_text(yaml_writer *w, const char *key, const char *value);
void yaml_lines(yaml_writer *w, const char *key, const char *value); // as a block of lines
void yaml_int(yaml_writer *w, const char *key, int64_t value);
void yaml_bool(yaml_writer *w, const char *key, bool value);
// Writes into the open map or list what a text says in YAML's flow style: "a: {b: 1}", "[x, y]". A
// text of a user does not belong there, unless its form was checked (job_names.h).
void yaml_put(yaml_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
