// The time that templates see: the one given, that of the environment, or now.
#include <stdlib.h>

#include "base/str.h"
#include "chat/chat_template.h"

// Parses all of `text`. False: it does not match, or the calendar has no such day.
static bool parse(const char *text, const char *format, struct tm *out) {
    *out = (struct tm){0};
    const char *end = strptime(text, format, out);
    if (!end || *end) return false;
    struct tm normal = *out;
    normal.tm_isdst = 0;
    timegm(&normal);
    const bool same = normal.tm_mday == out->tm_mday && normal.tm_mon == out->tm_mon;
    *out = normal; // which also has the day of the week and of the year
    return same;
}

drv_status chat_date(const char *text, struct tm *out) {
    static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"};
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    int64_t seconds;
    time_t now = time(NULL);
    if (!text && epoch && *epoch) {
        if (!str_to_i64(epoch, &seconds) || seconds < 0 || seconds > 253402300799) // year 9999
            return drv_fail(DRV_E_USAGE, "SOURCE_DATE_EPOCH is \"%s\", expected seconds since 1970",
                    epoch);
        now = (time_t)seconds;
        gmtime_r(&now, out);
        return DRV_OK;
    }
    if (!text) {
        localtime_r(&now, out);
        return DRV_OK;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (parse(text, formats[i], out)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "the date is \"%s\", expected one as 2026-11-22 or 2026-11-22T10:30:00", text);
}
