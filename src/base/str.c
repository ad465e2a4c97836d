// Growable text, numbers from and to text, the nearest of several names.
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

void str_reserve(str *s, size_t more) {
    DRV_MEMORY(more < PTRDIFF_MAX - s->n, "%zu bytes wanted for a text", more);
    if (s->n + more + 1 <= s->cap) return;
    size_t cap = s->cap ? s->cap * 2 : 64;
    while (cap < s->n + more + 1)
        cap *= 2;
    s->p = mem_realloc(s->p, cap);
    s->cap = cap;
}

void str_add(str *s, const void *bytes, size_t n) {
    str_reserve(s, n);
    if (n) memcpy(s->p + s->n, bytes, n);
    s->n += n;
    s->p[s->n] = 0;
}

void str_puts(str *s, const char *text) {
    str_add(s, text, strlen(text));
}

void str_replace(str *s, const void *bytes, size_t n, const char *from, const char *to) {
    const size_t n_from = strlen(from);
    for (const char *p = bytes, *end = p + n; p < end;) {
        const char *found = memmem(p, (size_t)(end - p), from, n_from);
        str_add(s, p, (size_t)((found ? found : end) - p));
        if (!found) return;
        str_puts(s, to);
        p = found + n_from;
    }
}

void str_add_shell(str *s, const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-/+=:,@%";
    if (*path && *path != '-' && path[strspn(path, plain)] == 0) {
        str_puts(s, path);
        return;
    }
    str_puts(s, *path == '-' ? "./'" : "'");
    str_replace(s, path, strlen(path), "'", "'\\''");
    str_puts(s, "'");
}

void str_add_json(str *s, const char *p, size_t n) {
    str_puts(s, "\"");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < ' ')
            str_printf(s, "\\u%04x", c);
        else
            str_add(s, &p[i], 1);
    }
    str_puts(s, "\"");
}

void str_add_json_real(str *s, double x) {
    if (isnan(x) || isinf(x)) {
        str_puts(s, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
        return;
    }
    const size_t begin = s->n;
    str_printf(s, "%.17g", x);
    if (!strpbrk(s->p + begin, ".e")) str_puts(s, ".0");
}

void str_printf(str *s, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        str_reserve(s, (size_t)n);
        vsnprintf(s->p + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_clear(str *s) {
    s->n = 0;
    if (s->p) s->p[0] = 0;
}

void str_free(str *s) {
    free(s->p);
    *s = (str){0};
}

char *str_keep(arena *a, str *s) {
    char *kept = arena_strndup(a, s->n ? s->p : "", s->n);
    str_free(s);
    return kept;
}

bool str_is(const str *s, const char *text) {
    const size_t n = strlen(text);
    return s->n == n && (n == 0 || memcmp(s->p, text, n) == 0);
}

bool str_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

int str_index(const char *s, const char *const *names, int n) {
    for (int i = 0; i < n && s; i++)
        if (names[i] && strcmp(names[i], s) == 0) return i;
    return -1;
}

bool str_unescape(char *s) {
    static const char from[] = "ntr\\", to[] = "\n\t\r\\";
    char *out = s;
    for (; *s; s++, out++) {
        *out = *s;
        if (*s != '\\') continue;
        const char *found = s[1] ? strchr(from, s[1]) : NULL;
        if (!found) return false;
        *out = to[found - from];
        s++;
    }
    *out = 0;
    return true;
}

bool str_to_i64(const char *s, int64_t *out) {
    char *end;
    errno = 0;
    long long x = strtoll(s, &end, 10);
    if (end == s || *end || errno) return false;
    *out = x;
    return true;
}

bool str_to_f64(const char *s, double *out) {
    char *end;
    errno = 0;
    double x = strtod(s, &end);
    if (end == s || *end || !isfinite(x)) return false;
    if (errno == ERANGE && (x == 0 || fabs(x) > 1)) return false; // subnormal ones are read
    *out = x;
    return true;
}

static const struct {
    char letter;
    double seconds;
} time_units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
enum { N_TIME_UNITS = sizeof time_units / sizeof *time_units, HOURS = 1, SECONDS = 3 };

// Reads "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS": whole numbers of one unit after the
// other.
static bool clock_to_seconds(const char *s, double *out) {
    const char *colon = strchr(s, ':');
    const bool has_days = strchr(s, '-');
    const int first = has_days || (colon && strchr(colon + 1, ':')) ? HOURS : HOURS + 1;
    *out = 0;
    for (int unit = has_days ? 0 : first;; unit++, s++) {
        const size_t n = strspn(s, "0123456789");
        const long number = strtol(s, NULL, 10);
        if (n == 0 || n > 9 || (unit > first && number > 59)) return false;
        *out += (double)number * time_units[unit].seconds;
        s += n;
        if (!*s) return has_days || unit == SECONDS;
        if (*s != (unit < HOURS ? '-' : ':') || unit == SECONDS) return false;
    }
}

bool str_to_seconds(const char *s, double *out) {
    double sum = 0;
    int unit = -1;
    const char *p = s;
    do { // "1h30m": each unit is smaller than the one before it
        char number[32];
        double x;
        const size_t n = strspn(p, "0123456789.");
        do
            unit++;
        while (unit < N_TIME_UNITS && time_units[unit].letter != p[n]);
        if (unit == N_TIME_UNITS) return clock_to_seconds(s, out);
        snprintf(number, sizeof number, "%.*s", (int)n, p);
        if (n >= sizeof number || !str_to_f64(number, &x)) return false;
        sum += x * time_units[unit].seconds;
        p += n + 1;
    } while (*p);
    *out = sum;
    return true;
}

bool str_to_bytes(const char *s, double *out) {
    static const char units[] = "KMGT";
    char *end;
    double bytes = strtod(s, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == s) return false;
    if (unit) {
        const double step = strcmp(end + 1, "B") == 0 ? 1000 : 1024; // 5GB as Hugging Face means it
        end += strcmp(end + 1, "iB") == 0 ? 3 : step == 1000 ? 2 : 1;
        for (const char *u = units; u <= unit; u++)
            bytes *= step;
    }
    if (*end) return false;
    *out = bytes;
    return true;
}

// Counts insertions, deletions, changes and exchanges of neighbours (optimal string alignment
// distance: Damerau 1964).
static int edit_distance(const char *typed, const char *name) {
    enum { MAX = 64 };
    const int n = (int)strlen(typed), m = (int)strlen(name);
    if (n > MAX || m > MAX) return INT_MAX; // too long for a slip of the keyboard
    int rows[3][MAX + 1];                   // of the letters i, i - 1 and i - 2 of what was typed
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3];
        const int *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const bool exchanged =
                    i > 1 && j > 1 && typed[i - 1] == name[j - 2] && typed[i - 2] == name[j - 1];
            int best = last[j - 1] + (typed[i - 1] != name[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (exchanged && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *str_nearest(const char *s, const char *const *names, int n) {
    const char *best = NULL;
    const int n_s = (int)strlen(s);
    int best_d = (n_s + 1) / 3 + 1; // a slip changes at most a third of the letters
    for (int i = 0; i < n; i++) {
        int d = edit_distance(s, names[i]);
        if (d < best_d) best_d = d, best = names[i];
    }
    return best;
}

static char *slot(void) {
    static _Thread_local char ring[8][48];
    static _Thread_local unsigned next;
    return ring[next++ & 7];
}

const char *str_bytes(double bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int u = 0;
    while (fabs(bytes) >= 1024 && u < 5)
        bytes /= 1024, u++;
    char *p = slot();
    snprintf(p, 48, u == 0 ? "%.0f %s" : "%.2f %s", bytes, unit[u]);
    return p;
}

const char *str_plural(int64_t n) {
    return n == 1 ? "" : "s";
}

const char *str_si(double x) {
    static const char *const unit[] = {"", " k", " M", " G", " T", " P", " E"};
    int u = 0;
    while (fabs(x) >= 1000 && u < 6)
        x /= 1000, u++;
    char *p = slot();
    snprintf(p, 48, u == 0 ? "%.0f%s" : "%.2f%s", x, unit[u]);
    return p;
}

const char *str_real(double x) {
    char *p = slot();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(p, 48, "%.*g", digits, x);
        if (strtod(p, NULL) == x) break;
    }
    char *e = strchr(p, 'e');
    if (e && !strchr(p, '.')) {
        memmove(e + 2, e, strlen(e) + 1);
        memcpy(e, ".0", 2);
    }
    return p;
}

const char *str_duration(double seconds) {
    char *p = slot();
    if (!(seconds >= 0) || seconds > 1e9) {
        snprintf(p, 48, "?");
        return p;
    }
    long s = lround(seconds);
    if (s >= 3600)
        snprintf(p, 48, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(p, 48, "%ld:%02ld", s / 60, s % 60);
    return p;
}

const char *str_long_duration(double seconds) {
    static const struct {
        double seconds;
        const char *one, *many;
    } units[] = {{365 * 86400.0, "year", "years"}, {86400, "day", "days"}, {3600, "h", "h"},
            {60, "min", "min"}, {1, "s", "s"}};
    enum { N = sizeof units / sizeof *units };
    char *out = slot();
    if (!(seconds >= 0) || seconds > 1e12) { // some 30,000 years: a number would mean nothing
        snprintf(out, 48, seconds > 0 ? "more than 30,000 years" : "?");
        return out;
    }
    if (seconds < 9.95) {
        snprintf(out, 48, "%.1f s", seconds);
        return out;
    }
    // The largest unit and the next one; rounding may carry into a larger one: 59.6 s are 1 min.
    int u = 0;
    while (u < N - 1 && seconds < units[u].seconds)
        u++;
    const double small = u < N - 1 ? units[u + 1].seconds : 1;
    const double rounded = round(seconds / small) * small;
    if (u > 0 && rounded >= units[u - 1].seconds) u--;
    const long many = (long)(rounded / units[u].seconds);
    const int n = snprintf(out, 48, "%ld %s", many, many == 1 ? units[u].one : units[u].many);
    if (u == N - 1) return out;
    const long rest = lround((rounded - (double)many * units[u].seconds) / units[u + 1].seconds);
    if (rest)
        snprintf(out + n, 48 - (size_t)n, " %ld %s", rest,
                rest == 1 ? units[u + 1].one : units[u + 1].many);
    return out;
}
