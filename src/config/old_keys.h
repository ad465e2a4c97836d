// The names of keys in earlier versions. Configs, overrides and trainer.json may still have them;
// `drover config` prints the present names.
#pragma once
#include "config/config.h"

// Returns the present name of a key; `path` itself if it was not renamed.
const char *config_key_now(const char *path);
// Returns the earlier name of a key; NULL: it was not renamed.
const char *config_key_before(const char *path);
// Logs a line for each key that the config gives by an earlier name.
void config_say_old_keys(const run_config *cfg);
