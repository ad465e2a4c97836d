// Compiles an expression for each use, since only a few hundred names are compared with a few
// expressions.
#include "base/python_re.h"

#include <stdio.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static drv_status refuse(const char *regex, int code, const char *how) {
    PCRE2_UCHAR why[128];
    pcre2_get_error_message(code, why, sizeof why);
    return drv_fail(DRV_E_DATA, "the regular expression \"%.80s\" %s: %s", regex, how,
            (const char *)why);
}

drv_status python_re_fullmatch(const char *regex, const char *text, bool *matches) {
    int code;
    PCRE2_SIZE offset;
    const uint32_t options =
            PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options, &code, &offset, NULL);
    if (!re) {
        char how[48];
        snprintf(how, sizeof how, "is malformed at character %zu", offset + 1);
        return refuse(regex, code, how);
    }
    pcre2_match_data *hit = pcre2_match_data_create(1, NULL);
    DRV_ASSERT(hit, "out of memory");
    const int found = pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, hit, NULL);
    pcre2_match_data_free(hit);
    pcre2_code_free(re);
    *matches = found >= 0;
    return found >= 0 || found == PCRE2_ERROR_NOMATCH ? DRV_OK
                                                      : refuse(regex, found, "could not be tried");
}
