// Words of splits in names.
#include "data/read/data_split.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    data_split split;
} words[] = {{"train", SET_TRAIN}, {"training", SET_TRAIN}, {"validation", SET_VALIDATION},
        {"valid", SET_VALIDATION}, {"dev", SET_VALIDATION}, {"val", SET_VALIDATION},
        {"test", SET_TEST}, {"testing", SET_TEST}, {"eval", SET_TEST}, {"evaluation", SET_TEST}};

static const char separators[] = "-._ 0123456789";

// Finds the first keyword in a name of n letters. `ends`: it may be the end of the name, as in the
// name of a folder; after a keyword in the name of a file comes at least the extension.
static data_split find_word(const char *name, size_t n, bool ends) {
    for (size_t at = 0; at < n;) {
        size_t k = 0;
        while (at + k < n && !strchr(separators, name[at + k]))
            k++;
        for (size_t i = 0; (ends || at + k < n) && i < sizeof words / sizeof *words; i++)
            if (strlen(words[i].word) == k && strncasecmp(words[i].word, name + at, k) == 0)
                return words[i].split;
        at += k + 1;
    }
    return SET_UNSPLIT;
}

data_split data_split_of_path(const char *path) {
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        const data_split split = find_word(path, (size_t)(slash - path), true);
        if (split != SET_UNSPLIT) return split;
    }
    return find_word(path, strlen(path), false);
}

data_split data_split_of_name(const char *name) {
    return find_word(name, strlen(name), true);
}

const char *data_split_name(data_split split) {
    static const char *const names[N_DATA_SPLITS] = {"none", "train", "validation", "test"};
    return names[split];
}
