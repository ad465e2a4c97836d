// Partial configurations of other trainers, many launchers: what comes out is what each framework
// makes of them. tools/translate_cases.py wrote the cases from the frameworks' own sources.
#include <math.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "config/value.h"
#include "harness.h"
#include "translate/translate.h"

static int64_t n_rows; // of the case's data set

static drv_status count_data(const char *const *sets, int n_sets, data_counts *out) {
    (void)sets;
    (void)n_sets;
    *out = (data_counts){.rows = n_rows, .tokens = n_rows * 64 + 1};
    return DRV_OK;
}

static const char *const *strings_of(arena *a, const json_t *list, int *n) {
    *n = (int)json_array_size(list);
    const char **words = ARENA_ARRAY(a, const char *, *n + 1);
    for (int i = 0; i < *n; i++)
        words[i] = json_string_value(json_array_get(list, (size_t)i));
    return words;
}

static const value *find(const value *v, const char *path) {
    if (v->path && strcmp(v->path, path) == 0) return v;
    for (int i = 0; i < v->n; i++) {
        const value *found = find(&v->items[i], path);
        if (found) return found;
    }
    return NULL;
}

static bool is_wanted(const value *got, const json_t *want) {
    double x;
    if (json_is_null(want)) return !got;
    if (!got || got->kind != VALUE_TEXT) return false;
    if (json_is_string(want)) return strcmp(got->text, json_string_value(want)) == 0;
    return str_to_f64(got->text, &x) && fabs(x - json_number_value(want)) <= 1e-12 * fabs(x);
}

static drv_status run_case(arena *a, const char *dir, const json_t *partial, str *config) {
    static const char *const sets[] = {"model.preset=llama-3.1-8b"}, *const accepts[] = {"all"};
    const char *yaml = json_string_value(json_object_get(partial, "yaml")),
               *files[] = {path_join(a, dir, "case.yaml")};
    translate_opts opts = {.kind = json_string_value(json_object_get(partial, "kind")),
            .files = files,
            .n_files = yaml != NULL,
            .sets = sets,
            .n_sets = 1,
            .accepts = accepts,
            .n_accepts = 1,
            .ranks = json_integer_value(json_object_get(partial, "ranks")),
            .count_data = count_data};
    opts.words = strings_of(a, json_object_get(partial, "words"), &opts.n_words);
    n_rows = json_integer_value(json_object_get(partial, "rows"));
    if (n_rows > 0) opts.data = "data/set";
    str report = {0};
    if (yaml) {
        FILE *file = fopen(files[0], "w");
        assert_non_null(file);
        fputs(yaml, file);
        assert_int_equal(fclose(file), 0);
    }
    const drv_status status = translate(a, &opts, config, &report);
    str_free(&report);
    return status;
}

TEST(each_is_what_its_framework_makes_of_it) {
    arena *all = arena_new("cases");
    const char *dir = temporary_dir(all);
    FILE *file = fopen(golden_path(all, "translate_cases.jsonl"), "r");
    char line[4096];
    int n_cases = 0;
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); n_cases++) {
        json_t *c = json_loads(line, 0, NULL);
        const char *key;
        json_t *want;
        str config = {0};
        value root;
        assert_non_null(c);
        if (run_case(a, dir, c, &config) != DRV_OK)
            fail_msg("case %d: %s: %s", n_cases + 1, drv_message(), line);
        OK(yaml_read(a, "translation", config.p, config.n, &root));
        json_object_foreach(json_object_get(c, "want"), key, want) {
            const value *got = find(&root, key);
            if (!is_wanted(got, want) && !(json_is_null(want) && strcmp(key, "parallel.data") == 0))
                fail_msg("case %d: %s is %s, expected %s: %s", n_cases + 1, key,
                        got && got->text ? got->text : "not there",
                        json_dumps(want, JSON_ENCODE_ANY), line);
        }
        str_free(&config);
        json_decref(c);
    }
    fclose(file);
    assert_true(n_cases >= 300);
    arena_free(all);
}
