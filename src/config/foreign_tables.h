// The parts of the list (foreign_key.h), each with its length.
#pragma once
#include "config/foreign_key.h"

extern const foreign_key foreign_peers[], foreign_nxdt[], foreign_args[], foreign_axolotl[],
        foreign_scripts[], foreign_launchers[];
extern const int n_foreign_peers, n_foreign_nxdt, n_foreign_args, n_foreign_axolotl,
        n_foreign_scripts, n_foreign_launchers;
