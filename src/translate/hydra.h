// Reads a YAML file as Hydra and OmegaConf do: first the files of its defaults list, then
// overrides, then ${a.b}, ${.sibling}, ${..uncle} and ${multiply:a,b} in values.
#pragma once
#include "config/value.h"
#include "translate/budget.h"

// Reads `file` and the files of its folder that `defaults` names. A later file wins; the file's own
// keys count where "_self_" stands, else last. Values are not interpolated yet. DRV_E_USAGE: it is
// not YAML, a default is not a file of the same folder, they form a cycle, or they exceed the budget.
DRV_CHECKED drv_status hydra_read(arena *a, budget *left, const char *file, value *out);

// "a.b=value", "+a.b=value", "++a.b=value": sets a key. "~a.b": removes it. The value is in YAML's
// flow style. DRV_E_USAGE: it is none of these.
DRV_CHECKED drv_status hydra_override(arena *a, budget *left, value *root, const char *text,
        const char *where);

// Replaces each ${...}. DRV_E_USAGE, with file and line: an unknown name, a cycle, more than 64
// levels, another resolver, a result of more than 64 KiB.
DRV_CHECKED drv_status hydra_interpolate(arena *a, budget *left, value *root);
