// eval --choices: multiple choice instead of a data set.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status eval_choices(arena *mem, const cli_args *args);
