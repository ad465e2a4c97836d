// The list of other trainers' keys: their names, the corresponding keys of drover, and the rule
// that converts the value. Messages for unknown keys (unknown_key.c), `drover config --from`
// (src/translate) and the tables of docs/keys.md use it.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

// The kinds of files and command lines in which a name occurs; a row may serve several.
typedef enum foreign_kind {
    FOREIGN_NXDT = 1,     // a path in the YAML of NxD Training
    FOREIGN_NEMO = 2,     // a path in a Hydra override or the YAML of neuronx-nemo-megatron
    FOREIGN_ARGS = 4,     // a flag of transformers, Optimum Neuron, TRL, NxD's scripts; "_" for "-"
    FOREIGN_AXOLOTL = 8,  // a path in Axolotl's YAML
    FOREIGN_SCRIPT = 16,  // a variable of a script that starts a run, or of its environment
    FOREIGN_OPTIONS = 32, // an option letter of run_llama3.1_8b.sh
    FOREIGN_TORCHRUN = 64, // an option of a launcher, before the program that it starts
    FOREIGN_ACCELERATE = 128,
    FOREIGN_DEEPSPEED = 256,
    FOREIGN_MPIRUN = 512,
    FOREIGN_SRUN = 1024,
    FOREIGN_LAUNCHERS = 64 | 128 | 256 | 512 | 1024,
} foreign_kind;

// The rules that convert a value; each is a function in src/translate/rules.c. `argument` is the
// row's.
#define FOREIGN_RULES(X)                                                                           \
    X(hint)    /* only messages use the row */                                                     \
    X(same)    /* the same value */                                                                \
    X(count)   /* the same number; "all", which is -1, is 0 here */                                \
    X(map)     /* argument "theirs=ours ...": the value is looked up */                            \
    X(none)    /* it has no effect in drover, for the reason in `remark` */                        \
    X(only)    /* argument "value ...": those have no effect; others change the result */          \
    X(changes) /* it changes the result unless it is off */                                        \
    X(never)   /* it is not supported and cannot be accepted */                                    \
    X(fact)    /* argument: its name in the function that derives our keys from several of theirs */

typedef enum foreign_rule {
#define RULE(name) FOREIGN_##name,
    FOREIGN_RULES(RULE)
#undef RULE
            N_FOREIGN_RULES
} foreign_rule;

typedef struct foreign_key {
    const char *names;  // words; a "*" at the end of one stands for any rest
    const char *ours;   // a key; NULL: none
    const char *remark; // the difference, or why there is no such key; NULL: none
    unsigned kinds;     // of foreign_kind; 0: only for messages
    foreign_rule rule;
    const char *argument;
} foreign_key;

// Returns the row of a name of one of these kinds; NULL: the list has none.
const foreign_key *foreign_find(unsigned kinds, const char *name);
// Returns the name of these kinds that is nearest to a misspelt `name`; NULL: none is near. Lives
// in `a`.
const char *foreign_nearest(arena *a, unsigned kinds, const char *name);
// Returns the end of a message about another trainer's key: "here it is optimizer.lr"; NULL: no
// trainer in the list has such a key. `whole`: only matches a whole path ("optimizer.type"), not
// its last part. Lives in `a`.
const char *foreign_hint(arena *a, const char *full, bool whole);
// The same for a flag of a program or a key of Axolotl.
const char *foreign_flag_hint(arena *a, const char *name);
// Writes the names that are matched by their last part to `out` (NULL: only counts them); returns
// their number. They live in `a`.
int foreign_names(arena *a, const char **out);
// Prints the tables as Markdown.
void foreign_keys_print(str *out);
