// Spellings of keys in earlier versions. Configs, overrides and trainer.json may still have them;
// `drover config` prints the present ones.
#pragma once
#include "config/config.h"

// Returns the present spelling of a key: `path` itself unless it is one of an earlier version.
const char *config_key_now(const char *path);
// Returns the earlier spelling of a key; NULL: it always had this one.
const char *config_key_before(const char *path);
// Says in the log which keys the config gives by an earlier spelling, a line each.
void config_say_old_keys(const run_config *cfg);
