// Recognises what people write for a model of the Hugging Face hub.
#include "base/hub_name.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"

static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

// Returns the name without a prefix that says that it is on the hub; *said: whether it had one.
static const char *without_prefix(const char *name, bool *said) {
    static const char *const prefixes[] = {"https://huggingface.co/", "http://huggingface.co/",
            "https://hf.co/", "huggingface.co/", "hf.co/", "hf://", "hf:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (str_starts(name, prefixes[i])) {
            *said = true;
            return name + strlen(prefixes[i]);
        }
    *said = false;
    return name;
}

const char *hub_hint(arena *a, const char *name) {
    bool said;
    if (*name == '~') return "; \"~\" is expanded by a shell only, so write the path in full";
    const char *repo = without_prefix(name, &said);
    const size_t org = strspn(repo, allowed);
    if (org == 0 || repo[0] == '.') return "";
    const bool has_org = repo[org] == '/';
    const size_t part = has_org ? strspn(repo + org + 1, allowed) : 0;
    const size_t n = part ? org + 1 + part : org; // the first models on the hub have no ORG
    const char *rest = repo + n;
    // "@REVISION" and the "/tree/REVISION" of an address name a branch, tag or commit.
    const char *revision = *rest == '@' ? rest + 1 : str_starts(rest, "/tree/") ? rest + 6 : NULL;
    if (!part && !said) return "";
    if (has_org && !part) return "";
    if (*rest && strcmp(rest, "/") != 0 && !(revision && *revision)) return "";
    // There is a local folder ORG, so only NAME does not exist in it.
    if (!said && file_is_dir(arena_strndup(a, repo, org))) return "";
    return arena_printf(a, "; to fetch it from the hub: drover model get hf:%.*s%s%s", (int)n, repo,
            revision ? " --revision " : "", revision ? path_for_shell(a, revision) : "");
}
