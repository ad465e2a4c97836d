// Subverbs of drover data that look at a data set: its prefix is the first argument.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status data_look_info(arena *a, const cli_args *args);
DRV_CHECKED drv_status data_look_show(arena *a, const cli_args *args);
// DRV_E_DATA: names the document and what is wrong with it.
DRV_CHECKED drv_status data_look_verify(arena *a, const cli_args *args);
