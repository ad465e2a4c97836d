// Regular expressions in the syntax of Python's re, as in PEFT's configs, matched by PCRE2, which
// agrees with Python on expressions that people write for names of modules.
#pragma once
#include <stdbool.h>

#include "base/status.h"

// Sets *matches to whether an expression matches a whole text, as re.fullmatch does. DRV_E_DATA: it
// is malformed (the message has the position), matching takes too long, or a text is not UTF-8.
DRV_CHECKED drv_status python_re_fullmatch(const char *regex, const char *text, bool *matches);
