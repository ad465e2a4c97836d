// Growable text and small string helpers.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

// A growable byte string, always followed by a NUL. Zero-initialise; str_free when done.
typedef struct str {
    char *p; // NULL until the first byte is added
    size_t n, cap;
} str;

typedef struct str_view { // bytes that belong to someone else; no NUL ends them
    const char *p;
    size_t n;
} str_view;

void str_add(str *s, const void *bytes, size_t n);
void str_reserve(str *s, size_t more); // room after the last byte
void str_puts(str *s, const char *text);
void str_printf(str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Appends bytes, replacing every `from` by `to`.
void str_replace(str *s, const void *bytes, size_t n, const char *from, const char *to);
// Appends a path for a shell, in single quotes if it needs them.
void str_add_shell(str *s, const char *path);
// Appends valid UTF-8 as a JSON text, quotes included.
void str_add_json(str *s, const char *p, size_t n);
// Appends a real as JSON that reads back as the same real: "3.0", "1e-05"; non-finite numbers as
// Python writes them: "NaN", "Infinity", "-Infinity".
void str_add_json_real(str *s, double x);
void str_clear(str *s); // keeps the memory
void str_free(str *s);
// Moves the text into an arena, "" if there is none, and frees `s`.
char *str_keep(arena *a, str *s);

bool str_is(const str *s, const char *text); // the same bytes
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
// Returns the index of `s` (NULL: nothing) among `n` names, of which some may be NULL; -1: none is.
int str_index(const char *s, const char *const *names, int n);
// Returns whether `s` is one of the names that follow.
#define STR_ONE_OF(s, ...)                                                                         \
    (str_index((s), (const char *const[]){__VA_ARGS__},                                            \
             (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))) >= 0)

// Replaces \n, \t, \r and \\ in place by the characters. False: there is another escape.
bool str_unescape(char *s);

// Parses all of `s` as a finite number; false if it is not one or not representable (1e400, or
// 1e-400, which would be 0).
bool str_to_i64(const char *s, int64_t *out);
bool str_to_f64(const char *s, double *out);
// Reads a number of bytes: "80GB" (powers of 1000), "96GiB" and "4G" (powers of 1024), "512".
bool str_to_bytes(const char *s, double *out);

// Returns the one of `n` names with the smallest edit distance to `s`, if that is small enough to
// be a slip of the keyboard (a third of the letters of `s`, rounded to the nearest); else NULL.
const char *str_nearest(const char *s, const char *const *names, int n);

// "1.5 GiB", "12.3 MiB", "512 B" in a buffer that this thread's next 7 calls (of all below) leave
// alone.
const char *str_bytes(double bytes);
// Returns the plural ending of a noun after a number: "s", or "" for 1.
const char *str_plural(int64_t n);
// "1.23 G", "456 M": decimal prefixes, same buffers.
const char *str_si(double x);
// Returns the shortest decimal that reads back as x, as YAML 1.1 readers know numbers ("1.0e-05"),
// same buffers.
const char *str_real(double x);
// "1:02:03" or "2:03", same buffers.
const char *str_duration(double seconds);
// Says a duration in words, by the two largest units: "3 days 4 h", "1 h 5 min", "2 min 3 s", "4.5
// s"; same buffers.
const char *str_long_duration(double seconds);
