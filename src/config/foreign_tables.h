// The parts of the list (foreign_key.h); each ends with a row without names.
#pragma once
#include "config/foreign_key.h"

extern const foreign_key foreign_peers[], foreign_nxdt[], foreign_args[], foreign_axolotl[],
        foreign_scripts[], foreign_launchers[];

// Make rows of the tables, each for one rule (foreign_key.h).
#define SAME(kinds, names, ours)                                                                   \
    { names, ours, NULL, kinds, FOREIGN_same, NULL }
#define MAP(kinds, names, ours, values)                                                            \
    { names, ours, NULL, kinds, FOREIGN_map, values }
#define NONE(kinds, names, why)                                                                    \
    { names, NULL, why, kinds, FOREIGN_none, NULL }
#define ONLY(kinds, names, well, why)                                                              \
    { names, NULL, why, kinds, FOREIGN_only, well }
#define CHANGES(kinds, names, why)                                                                 \
    { names, NULL, why, kinds, FOREIGN_changes, NULL }
#define NEVER(kinds, names, why)                                                                   \
    { names, NULL, why, kinds, FOREIGN_never, NULL }
#define FACT(kinds, names, ours, fact)                                                             \
    { names, ours, NULL, kinds, FOREIGN_fact, fact }
