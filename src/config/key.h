// A key of the configuration or a field of config.json: the offset of its value in a struct, its
// type, range, default and help. The tables of keys (run_keys.c, model_config.c) list each once;
// parsing, printing, checks of single values, defaults and docs/keys.md use them. Rules over
// several keys are in check.c. Two other lists name exceptions: keys that differ between hosts
// (config_print.c), and keys that a checkpoint does not record (train/trainer_json.c).
#pragma once
#include <stdbool.h>

#include "config/value.h"

// A name and the enum value that it stands for; a list ends with {NULL, 0}.
typedef struct choice {
    const char *name;
    int value;
} choice;

const char *choice_name(const choice *choices, int wanted); // which must be in the list

typedef struct key key;

// `base` is the struct to which the key's offset applies. parse allocates in `a`.
typedef struct key_type {
    // DRV_E_USAGE with place, key, value and the expected values.
    drv_status (*parse)(arena *a, const key *k, const value *v, void *base);
    void (*print)(const key *k, const void *base, str *out); // as YAML
    json_t *(*json)(const key *k, const void *base);         // as config.json; NULL: left out
    void (*expected)(const key *k, str *out);                // "a whole number from 1 to 8"
} key_type;

extern const key_type type_int;     // int64_t
extern const key_type type_real;    // double
extern const key_type type_bool;    // bool
extern const key_type type_text;    // const char *; "" if not given
extern const key_type type_texts;   // const char ** and an int: a text or a list of them
extern const key_type type_choice;  // an enum of the width of int: one of the key's choices
extern const key_type type_ids;     // int64_t[max_items] and an int: a number or a list
extern const key_type type_reals;   // double[max_items], all or none of them (all 0)
extern const key_type type_sources; // data_source * and an int: a prefix or a list of them

struct key {
    const char *path; // "optimizer.lr", or "rope_scaling.factor" below a prefix
    const key_type *type;
    size_t offset, count_offset; // of the value, and of the count of a list
    const char *initial;         // default, in YAML; NULL: depends on other keys
    const char *initial_note;    // then: a description of the default; NULL: there is none
    double min, max;
    const choice *choices; // for numbers: names of some values; for texts: all allowed values
    int max_items;
    bool optional;        // the key may be null
    double none;          // the number that stands for "no value"
    const char *expected; // replaces the range in messages; NULL: the range
    const char *help;
};

// The upper limit of keys without a meaningful one; whole numbers below 2^53 are exact in a double.
#define NO_MAX 9e15

// Fails with the place, the key, the value, and the values that the key accepts.
drv_status key_refuse(const key *k, const value *v);
// Returns whether a number is in the key's range (or is its `none`).
bool key_in_range(const key *k, double x);
// Returns the value of a key in the struct `base`, as YAML. Lives in `a`.
const char *key_text(arena *a, const key *k, const void *base);

// The fields of model_config, named as in config.json; in YAML below "model.".
extern const key model_keys[];
extern const int n_model_keys;

// The keys of a run: those of all tables, in the order in which they are printed.
int key_count(void);
// Returns key `i` of a run with its whole path, which lives in `a`; its offsets count from
// run_config.
key key_of_index(arena *a, int i);
int key_find(const char *path); // its index; -1: no key has this path
// Returns the default of a key in YAML, or a description of it; NULL: it has none.
const char *key_default(const key *k);
// Prints as YAML the headings of those sections of `path` that do not contain `last`, the path that
// was printed before it. Returns the name of the key without its sections; *depth is their number.
const char *key_open_sections(const char *last, const char *path, str *out, int *depth);
