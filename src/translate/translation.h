// A translation in progress: the foreign keys, their outcomes, and our keys so far.
#pragma once
#include "config/foreign_key.h"
#include "config/value.h"
#include "translate/budget.h"
#include "translate/shell.h"
#include "translate/translate.h"

// DIFFERS: a default of theirs that drover does not have; it is reported, not refused.
typedef enum outcome { TRANSLATED, NO_EFFECT, DIFFERS, CHANGES, REFUSED, N_OUTCOMES } outcome;

typedef struct report_line {
    outcome outcome;
    const char *name, *where, *text;
} report_line;

typedef struct setting {     // a key of drover's
    const char *key, *value; // YAML, on one line
    const char *origin;      // "nxdt: trainer.max_steps, line 12"
} setting;

typedef struct fact { // a foreign key that determines our keys together with others
    const char *name;
    const value *value;
    bool used;
} fact;

typedef struct framework {                  // a table of defaults; program_defaults.c has them
    const char *name;                       // with its version: "transformers 5.24.0"
    const char *const *words, *const *keys; // each ends with NULL; NULL: none
} framework;
enum { MAX_FRAMEWORKS = 5 };

typedef struct translation {
    arena *a;
    const translate_opts *opts;
    unsigned kinds; // bits of foreign_kind: the lists in which names are looked up
    budget left;
    const char *program; // basename of the script that trains: "run_clm.py"; "": none is known
    report_line *lines;
    int n_lines, cap_lines;
    setting *settings;
    int n_settings, cap_settings;
    fact *facts;
    int n_facts, cap_facts;
    const framework *frameworks[MAX_FRAMEWORKS]; // the tables of defaults that apply
    int n_frameworks;
    int64_t ranks;   // of the job; 0: not known
    int64_t planned; // steps of the schedule; epochs may end the run earlier; 0: not known
    bool drops_last; // transformers' dataloader_drop_last
} translation;

// Translates a value of the foreign config; v->path is its name. Names that are not in the list are
// REFUSED.
void translate_key(translation *self, const value *v);
// Translates all values of a tree.
void translate_tree(translation *self, const value *root);
// Derive keys from facts, in this order: shape, precision and LoRA; data and rows; batches, steps
// and schedule.
DRV_CHECKED drv_status derive_model(translation *self);
DRV_CHECKED drv_status derive_data(translation *self);
DRV_CHECKED drv_status derive_run(translation *self); // includes the loop and the schedule
DRV_CHECKED drv_status derive_schedule(translation *self);
DRV_CHECKED drv_status derive_loop(translation *self);
// Counts the steps of one epoch of --data as the other trainer does, and those of n_epochs; 0: the
// data set or the batch is not known yet.
DRV_CHECKED drv_status epoch_steps(translation *self, double n_epochs, double *one, double *all);

// Reports as refused that the foreign configuration gives no value for a key that drover needs.
void report_unsaid(translation *self, const char *ours);
void report_add(translation *self, outcome what, const value *v, const char *text);
void report_printf(translation *self, outcome what, const value *v, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
// Sets a key from a foreign value and reports it; `remark` may be NULL. A key that --set gives is
// left alone.
void translation_set(translation *self, const char *path, const char *yaml, const value *from,
        const char *remark);
// Returns the current value of a key; NULL: none.
const char *translation_get(const translation *self, const char *path);
int64_t translation_number(const translation *self, const char *path, int64_t otherwise);
// Return the value that --set gives the key, and the setting of the translation; NULL: none.
const char *translation_given(const translation *self, const char *path);
setting *translation_setting(const translation *self, const char *path);

// Returns whether a value is a default and was not written in a file.
bool is_default(const value *v);
bool fact_is_said(const translation *self, const char *name);   // null counts
bool fact_has_value(const translation *self, const char *name); // null does not
bool fact_is_true(const translation *self, const char *name);
// Returns the value of a fact, which may be null, and marks it as used; NULL: it was not given.
const value *fact_last(translation *self, const char *name);
// Returns the value of a fact and marks it as used; NULL: it was not given, or is null.
const value *fact_take(translation *self, const char *name);
// Takes a fact and reads it as a number; *from is NULL, and *out as before, if it was not given.
// DRV_E_USAGE: it is not a number.
DRV_CHECKED drv_status fact_number(translation *self, const char *name, double *out,
        const value **from);
// Sets a key of ours to the value of a fact, if that was given; `text` as for value_yaml.
void fact_set(translation *self, const char *name, const char *ours, bool text);
// Reports that a fact has no effect, if it was given.
void fact_drop(translation *self, const char *name, const char *why);

// A value that comes from a table of defaults and not from a file.
#define DEFAULT_OF "default of "
#define DEFAULT_VALUE(name, of)                                                                    \
    { .kind = VALUE_TEXT, .path = name, .where = DEFAULT_OF of }
bool is_whole(double x);
const char *number_yaml(arena *a, double x); // also of a whole number
// Fails with DRV_E_USAGE and a message that ends with `what`, a format.
DRV_CHECKED drv_status refuse_value(const translation *self, const value *v, const char *what, ...)
        __attribute__((format(printf, 3, 4)));
bool says(const value *v, const char *text); // ignores case
bool says_true(const value *v);              // true, yes, 1
// Returns one line of YAML that reads back as the value; `text`: a plain scalar is quoted as text.
const char *value_yaml(arena *a, const value *v, bool text);

// Prints the config as YAML, in the order of drover's keys.
void translation_print(const translation *self, str *out);
void translation_report(const translation *self, str *out);
// Fails with DRV_E_USAGE and the first key that is refused or not accepted.
DRV_CHECKED drv_status translation_judge(const translation *self);

// Choose the tables of defaults: for the program words[index] of a command, whose options have been
// read; for NeMo's own configuration; for other kinds, if none apply yet. DRV_E_USAGE: the program
// trains something that drover does not.
DRV_CHECKED drv_status defaults_of_program(translation *self, const shell_command *command,
        int index);
void defaults_of_nemo(translation *self);
void defaults_of_kind(translation *self);
// Returns whether PyTorch Lightning counts the steps: the run then ends at max_steps or max_epochs,
// whichever comes first.
bool is_lightning(const translation *self);
// Returns whether the program is one of NxD's examples.
bool program_is_nxd(const translation *self);
// Returns whether the program is TRL or one of its scripts: sft.py, dpo.py.
bool program_is_trl(const translation *self);
