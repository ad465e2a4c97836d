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
void str_reserve(str *s, size_t more); // makes room for so many bytes after the last one
void str_puts(str *s, const char *text);
void str_printf(str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Appends bytes, replacing every `from` by `to`.
void str_replace(str *s, const void *bytes, size_t n, const char *from, const char *to);
// Appends a path as a shell reads it: in single quotes if it needs them, and with "./" before "-".
void str_add_shell(str *s, const char *path);
// Appends valid UTF-8 as a JSON string, with its quotes.
void str_add_json(str *s, const char *p, size_t n);
// Appends a real that reads back the same as JSON, with a point or an exponent ("3.0"); numbers
// that are not finite as Python writes them: "NaN", "Infinity", "-Infinity".
void str_add_json_real(str *s, double x);
void str_clear(str *s); // keeps the memory
void str_free(str *s);
// Copies the text into an arena, "" if there is none, frees `s`, and returns the copy.
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

// Replaces the escapes \n, \t, \r and \\ in place by their characters. False: there is another one.
bool str_unescape(char *s);

// Parse all of `s` as a finite number. False: it is not one, or it is not representable (1e400, or
// 1e-400, which would be 0).
bool str_to_i64(const char *s, int64_t *out);
bool str_to_f64(const char *s, double *out);
// Reads a number of bytes: "80GB" (powers of 1000), "96GiB" and "4G" (powers of 1024), "512". It
// may be negative or not finite. False: it is not a number with one of these units.
bool str_to_bytes(const char *s, double *out);
// Reads the seconds of a time with units: "90s", "1.5h", "1h30m", "7d"; or as the manual of sbatch
// writes one: "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS". False: it is none of them. A
// number alone is refused: it would be minutes for sbatch, but seconds for Kubernetes.
bool str_to_seconds(const char *s, double *out);

// Returns the one of `n` names with the smallest edit distance to `s`. NULL: no distance is small
// enough for a typing error (a third of the letters of `s`, rounded to nearest).
const char *str_nearest(const char *s, const char *const *names, int n);

// Returns the plural ending of a noun after a number: "s", or "" for 1.
const char *str_plural(int64_t n);

// These return text in one of 8 buffers of this thread, which its next 7 calls of them leave alone.
// A number of bytes: "1.50 GiB", "12.30 MiB", "512 B".
const char *str_bytes(double bytes);
// A number with a decimal prefix: "1.23 G", "456.00 M", "12".
const char *str_si(double x);
// The shortest decimal that reads back as x, in a form that YAML 1.1 takes for a number ("1.0e-05").
const char *str_real(double x);
// "1:02:03" or "2:03".
const char *str_duration(double seconds);
// A duration in its two largest units: "3 days 4 h", "1 h 5 min", "2 min 3 s", "4.5 s".
const char *str_long_duration(double seconds);
