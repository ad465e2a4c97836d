// A translation under way: what the foreign config says, what became of it, and the keys so far.
#pragma once
#include "config/foreign_key.h"
#include "config/value.h"
#include "translate/translate.h"

typedef enum outcome { TRANSLATED, NO_EFFECT, CHANGES, REFUSED, N_OUTCOMES } outcome;

typedef struct report_line {
    outcome outcome;
    const char *name, *where, *text;
} report_line;

typedef struct setting {     // a key of drover's
    const char *key, *value; // YAML, on one line
    const char *origin;      // "nxdt: trainer.max_steps, line 12"
} setting;

typedef struct fact { // a foreign key whose value becomes ours together with others
    const char *name;
    const value *v;
    bool used;
} fact;

typedef struct translation {
    arena *a;
    const translate_opts *opts;
    unsigned kinds;      // of foreign_kind: where names are looked up
    const char *program; // basename of the script that trains: "run_clm.py"; "": none is known
    report_line *lines;
    int n_lines, cap_lines;
    setting *settings;
    int n_settings, cap_settings;
    fact *facts;
    int n_facts, cap_facts;
    int64_t ranks; // of the job; 0: not known
} translation;

// Translates a leaf of the foreign config: v->path is its name. Names that the list lacks are
// REFUSED.
void translate_key(translation *self, const value *v);
// Translates all leaves of a tree.
void translate_tree(translation *self, const value *root);
// Derive keys from facts: shape, precision and LoRA; data and rows; batches, steps and schedule. In
// this order.
DRV_CHECKED drv_status derive_model(translation *self);
DRV_CHECKED drv_status derive_data(translation *self);
DRV_CHECKED drv_status derive_run(translation *self);

void report_add(translation *self, outcome what, const value *v, const char *text);
// Sets a key from a foreign value and reports it; `remark` NULL: none. Nothing happens where --set
// gives the key.
void translation_set(translation *self, const char *path, const char *yaml, const value *from,
        const char *remark);
// Returns the value that a key has by now; NULL: none.
const char *translation_get(const translation *self, const char *path);
int64_t translation_number(const translation *self, const char *path, int64_t otherwise);
// Returns whether --set gives the key.
bool translation_given(const translation *self, const char *path);

// Returns the value of a fact, which is then used; NULL: it was not said, or is null.
const value *fact_take(translation *self, const char *name);
// The same as a number; false: it was not said. DRV_E_USAGE: it is none.
DRV_CHECKED drv_status fact_number(translation *self, const char *name, double *out, bool *said);

bool says(const value *v, const char *text); // without regard to case
bool says_true(const value *v);              // true, yes, 1
// Returns one line of YAML that reads back to the value; `text`: a plain scalar is text, and
// quoted.
const char *value_yaml(arena *a, const value *v, bool text);

// Prints the config as YAML, in the order of drover's keys.
void translation_print(const translation *self, str *out);
void translation_report(const translation *self, str *out);
// DRV_E_USAGE names the first key that is refused or whose change is not accepted.
DRV_CHECKED drv_status translation_judge(const translation *self);
// Returns the defaults of a program that the command line does not name, as "name=value" words;
// ends with NULL.
const char *const *program_defaults(const translation *self);
