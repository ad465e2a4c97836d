// Regular expressions in the syntax of Python's re, as PEFT's configs have them, by PCRE2, which
// reads what people write of names of modules alike.
#pragma once
#include <stdbool.h>

#include "base/status.h"

// Tells whether an expression matches all of a text, as re.fullmatch does. DRV_E_DATA: it is
// malformed, which names it and the place, or takes too long.
DRV_CHECKED drv_status python_re_fullmatch(const char *regex, const char *text, bool *matches);
