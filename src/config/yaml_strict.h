// YAML that configurations never need and that readers of YAML understand in different ways is
// refused by its line, before it is read: libyaml's reading of it differs from the YAML test suite
// (https://github.com/yaml/yaml-test-suite, cases named in yaml_strict.c).
#pragma once
#include <stddef.h>

#include "base/status.h"

// `file` NULL: the text of a --set. Text that is not YAML at all is left to the reader. DRV_E_USAGE.
DRV_CHECKED drv_status yaml_check(const char *file, const char *text, size_t n);
