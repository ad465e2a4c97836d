// Forms of names. Sources: apimachinery's pkg/util/validation; distribution's reference/regexp.go.
#include "launch/jobs/job_names.h"

#include <regex.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { LABEL = 63, SUBDOMAIN = 253 };

static bool has_only(const char *text, const char *letters) {
    return *text && text[strspn(text, letters)] == 0;
}

static bool is_in(char letter, const char *letters) {
    return letter && strchr(letters, letter);
}

bool name_is_dns_label(const char *text, size_t most) {
    const size_t n = strlen(text);
    return n <= most && has_only(text, LOWER DIGITS "-") && is_in(*text, LOWER) &&
           text[n - 1] != '-';
}

bool name_is_dns_subdomain(const char *text) {
    if (strlen(text) > SUBDOMAIN || !has_only(text, LOWER DIGITS "-.")) return false;
    for (const char *part = text; part;) {
        const size_t n = strcspn(part, ".");
        if (n == 0 || n > LABEL || part[0] == '-' || part[n - 1] == '-') return false;
        part = part[n] ? part + n + 1 : NULL;
    }
    return true;
}

bool name_is_label(const char *text) {
    static const char ends[] = LOWER UPPER DIGITS;
    const size_t n = strlen(text);
    return n <= LABEL && has_only(text, LOWER UPPER DIGITS "-_.") && is_in(*text, ends) &&
           is_in(text[n - 1], ends);
}

bool name_is_label_key(const char *text) {
    const char *slash = strchr(text, '/');
    char prefix[SUBDOMAIN + 1];
    if (!slash) return name_is_label(text);
    const size_t n = (size_t)(slash - text);
    if (n > SUBDOMAIN) return false;
    memcpy(prefix, text, n);
    prefix[n] = 0;
    return name_is_dns_subdomain(prefix) && name_is_label(slash + 1);
}

// Matches [HOST[:PORT]/]PATH[:TAG][@ALGORITHM:DIGEST]. Lengths are checked afterwards: glibc takes
// long to compile bounded repetitions.
bool name_is_image(const char *text) {
#define HOST "[A-Za-z0-9](-*[A-Za-z0-9])*"
#define PART "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
    static const char pattern[] = "^(" HOST "([.]" HOST ")*(:[0-9]+)?/)?"
                                  "(" PART "(/" PART ")*)"
                                  "(:[A-Za-z0-9_][-A-Za-z0-9_.]*)?"
                                  "(@[A-Za-z][-A-Za-z0-9_+.]*:([0-9A-Fa-f]+))?$";
    enum {
        PATH = 6,
        TAG = 12,
        DIGEST = 14,
        N_GROUPS,
        MOST_PATH = 255,
        MOST_TAG = 129,
        LEAST_DIGEST = 32
    };
    regex_t compiled;
    regmatch_t found[N_GROUPS];
    if (strlen(text) > (size_t)4 * MOST_PATH || regcomp(&compiled, pattern, REG_EXTENDED) != 0)
        return false;
    const bool has_form = regexec(&compiled, text, N_GROUPS, found, 0) == 0;
    regfree(&compiled);
    return has_form && found[PATH].rm_eo - found[PATH].rm_so <= MOST_PATH &&
           found[TAG].rm_eo - found[TAG].rm_so <= MOST_TAG &&
           (found[DIGEST].rm_so < 0 || found[DIGEST].rm_eo - found[DIGEST].rm_so >= LEAST_DIGEST);
#undef HOST
#undef PART
}

bool name_is_mount(const char *text) {
    if (*text != '/' || !text[1] || strchr(text, ':') || strlen(text) > 1024) return false;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F) return false;
    return !strstr(text, "/../") && !str_ends(text, "/..") && name_is_text(text);
}

bool name_is_text(const char *text) {
    json_t *string = json_string(text); // NULL: not UTF-8
    json_decref(string);
    return string != NULL;
}

const char *name_of_file(arena *a, const char *path) {
    char *name = arena_strdup(a, path_name(path));
    if (str_ends(name, ".yaml")) name[strlen(name) - 5] = 0;
    if (str_ends(name, ".yml")) name[strlen(name) - 4] = 0;
    size_t n = 0;
    for (const char *p = name; *p; p++) {
        const char *upper = is_in(*p, UPPER) ? strchr(UPPER, *p) : NULL;
        const char letter = upper ? LOWER[upper - UPPER] : *p;
        if (is_in(letter, LOWER) || (n > 0 && is_in(letter, DIGITS)))
            name[n++] = letter;
        else if (n > 0 && name[n - 1] != '-')
            name[n++] = '-';
    }
    while (n > 0 && name[n - 1] == '-')
        n--;
    name[n] = 0;
    return n ? name : "run";
}
