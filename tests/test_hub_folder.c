// Folders as the hub has them: the splits of paths against Hugging Face datasets
// (tools/golden_splits.py), and which files of a folder are read.
#include "harness.h"

#include "data/read/data_split.h"
#include "base/log.h"
#include "data/read/inputs.h"

static void splits_as_datasets_has_them(void **state) {
    arena *a = arena_new("splits");
    char *text, *save = NULL;
    size_t n;
    int n_paths = 0;
    OK(file_read(a, golden_path(a, "splits.txt"), &text, &n));
    strtok_r(text, "\n", &save); // the version
    for (char *line; (line = strtok_r(NULL, "\n", &save)); n_paths++) {
        char *path = strchr(line, ' ');
        *path++ = 0;
        const char *found = data_split_name(data_split_of_path(path));
        if (strcmp(found, line) != 0) fail_msg("%s: %s, expected %s", path, found, line);
    }
    assert_true(n_paths >= 400);
    arena_free(a);
}

// Makes a folder of the files (each with its own path as text) and lists what is read of it.
static const char *read_of(arena *a, const char *const *files, const inputs_opts *opts) {
    static char parent[256];
    static int n_folders;
    if (!*parent) snprintf(parent, sizeof parent, "%s", temporary_dir(a));
    const char *dir = arena_printf(a, "%s/%d/test", parent, n_folders++);
    input_file *list;
    int n;
    str out = {0};
    for (; *files; files++) {
        const char *path = path_join(a, dir, *files), *slash = strrchr(path, '/');
        const char *text = strcmp(*files, "README.md") == 0 ? "---\nlicense: mit\n---\n" : *files;
        OK(dir_make(arena_strndup(a, path, (size_t)(slash - path))));
        OK(file_write_atomic(path, text, strlen(text)));
    }
    OK(inputs_list(a, &dir, 1, opts, &list, &n));
    for (int i = 0; i < n; i++)
        str_printf(&out, "%s%s", i ? " " : "", list[i].path + strlen(dir) + 1);
    const char *text = arena_strdup(a, out.p);
    str_free(&out);
    return text;
}

static void training_alone(void **state) {
    static const struct {
        const char *files[8], *expected;
    } cases[] = {
            {{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet",
                     "data/test-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet",
                     "README.md", "LICENSE.txt", "dataset_infos.json"},
                    "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet"},
            {{"train.jsonl", "dev.jsonl", "extra.jsonl", "README.md"}, "train.jsonl"},
            {{"train/a.txt", "train/b.txt.gz", "test/a.txt", "LICENSE"},
                    "train/a.txt train/b.txt.gz"},
            {{"wiki.train.txt", "wiki.valid.txt", "wiki.test.txt"}, "wiki.train.txt"},
            {{"en/train.jsonl.zst", "fr/train.jsonl.zst", "fr/eval.jsonl.zst"},
                    "en/train.jsonl.zst fr/train.jsonl.zst"},
            {{"data/train-00000-of-00001.parquet", "data/unsupervised-00000-of-00001.parquet"},
                    "data/train-00000-of-00001.parquet"},
            {{"data/train_sft-00000-of-00001.arrow", "data/test_sft-00000-of-00001.arrow"},
                    "data/train_sft-00000-of-00001.arrow"},
            // Nothing to choose: no training split, or no other.
            {{"test.jsonl", "validation.jsonl"}, "test.jsonl validation.jsonl"},
            {{"train.jsonl", "more.jsonl"}, "more.jsonl train.jsonl"},
            {{"part-0.parquet", "part-1.parquet", "README.md", "LICENSE.txt"},
                    "part-0.parquet part-1.parquet"},
            {{"a.txt", "README.md", "LICENSE.txt"}, "a.txt"}, // by the card
            // Texts that are no data set of the hub.
            {{"training.md", "testing.md", "install.md"}, "install.md testing.md training.md"},
            {{"a.txt", "LICENSE.txt", "readme.txt"}, "LICENSE.txt a.txt readme.txt"},
            {{"notes/train.txt", "notes/test.md", "b.txt"}, "b.txt notes/test.md notes/train.txt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("folder");
        assert_string_equal(read_of(a, cases[i].files, &(inputs_opts){0}), cases[i].expected);
        arena_free(a);
    }
    arena *a = arena_new("folder");
    const char *const code[] = {"train.py", "test.py", "model.py", NULL}, *py[] = {"py", NULL};
    assert_string_equal(read_of(a, code, &(inputs_opts){.endings = py}),
            "model.py test.py train.py");
    arena_free(a);
}

// Folders of random splits and kinds, under names as above: what is read is what the names in the
// golden file say is training, if there is another split of the same kind.
static void random_folders(void **state) {
    static const char *const words[N_DATA_SPLITS][3] = {{"rows", "en", "shard"},
            {"train", "training", "x.train"}, {"dev", "validation", "my_val"},
            {"test", "eval", "a-test"}};
    static const struct {
        const char *before, *after;
        bool shards;
    } forms[] = {{"", ".", false}, {"data/", "-00000-of-00001.", true}, {"", "/part.", false},
            {"en/", "_2.", false}};
    static const char *const endings[] = {"jsonl", "parquet", "txt"};
    const rng_key key = {.seed = 3, .purpose = RNG_TEST};
    for (uint64_t k = 0; k < 300; k++) {
        arena *a = arena_new("folder");
        const uint64_t bits = rng_u64(&key, k);
        const char *ending = endings[bits % 3];
        const size_t form = (bits >> 2) % 4;
        const char *files[2 * N_DATA_SPLITS + 2] = {NULL};
        int n = 0;
        bool other = false, train = false;
        for (int split = 0; split < N_DATA_SPLITS; split++) {
            if (!(bits >> (8 + split) & 1)) continue;
            const char *word = words[split][(bits >> (16 + 2 * split)) % 3];
            files[n++] = arena_printf(a, "%s%s%s%s", forms[form].before, word, forms[form].after,
                    ending);
            other |= split > SET_TRAIN;
            train |= split == SET_TRAIN;
        }
        if (n == 0) files[n++] = "rows.jsonl";
        const char *got = read_of(a, files, &(inputs_opts){0});
        for (int i = 0; i < n; i++) {
            const bool is_train = data_split_of_path(files[i]) == SET_TRAIN;
            const bool alone = train && (other || forms[form].shards);
            if ((strstr(got, files[i]) != NULL) != (!alone || is_train))
                fail_msg("folder %llu: %s of \"%s\"", (unsigned long long)k, files[i], got);
        }
        arena_free(a);
    }
}

static int set_up(void **state) {
    log_mute_thread(true);
    return 0;
}

// Of the hub's cache one snapshot is read, not all that were ever downloaded.
static void one_snapshot_of_a_cache(void **state) {
    static const char *const only_one[] = {"blobs/0", "refs/pr/1", "snapshots/0/a.jsonl", NULL};
    static const char *const no_cache[] = {"snapshots/0/a.jsonl", "snapshots/1/a.jsonl", NULL};
    static const char *const of_datasets[] = {"0.0.0/1/x-train.arrow",
            "0.0.0/1/cache-0123456789abcdef.arrow",
            "0.0.0/1/cache-fedcba9876543210_00000_of_00002.arrow", "0.0.0/1/dataset_info.json",
            "0.0.0/2.incomplete/x-train-00000-of-00001.arrow", NULL};
    static const char *const made_alone[] = {"cache-0123456789abcdef.arrow", NULL};
    arena *a = arena_new("cache");
    assert_string_equal(read_of(a, of_datasets, &(inputs_opts){0}), "0.0.0/1/x-train.arrow");
    assert_string_equal(read_of(a, made_alone, &(inputs_opts){0}), made_alone[0]);
    assert_string_equal(read_of(a, only_one, &(inputs_opts){0}), "snapshots/0/a.jsonl");
    assert_string_equal(read_of(a, no_cache, &(inputs_opts){0}),
            "snapshots/0/a.jsonl snapshots/1/a.jsonl");
    const char *dir = path_join(a, temporary_dir(a), "cache");
    input_file *files;
    int n;
    for (int i = 0; i < 2; i++)
        OK(dir_make(arena_printf(a, "%s/snapshots/%d", dir, i)));
    OK(dir_make(arena_printf(a, "%s/refs", dir)));
    for (int i = 0; i < 2; i++)
        OK(file_write_atomic(arena_printf(a, "%s/snapshots/%d/x.jsonl", dir, i), "{}", 2));
    FAILS(inputs_list(a, &dir, 1, &(inputs_opts){0}, &files, &n), DRV_E_USAGE,
            "has 2 snapshots of a data set");
    OK(file_write_atomic(arena_printf(a, "%s/refs/main", dir), "1\n", 2));
    OK(inputs_list(a, &dir, 1, &(inputs_opts){0}, &files, &n));
    assert_int_equal(n, 1);
    assert_true(str_ends(files[0].path, "/cache/snapshots/1/x.jsonl"));
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits_as_datasets_has_them),
            cmocka_unit_test(training_alone), cmocka_unit_test(one_snapshot_of_a_cache),
            cmocka_unit_test(random_folders)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
