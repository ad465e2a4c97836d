// Tokenizer folders whose files add to tokenizer.json, or disagree with it: the ids of texts and
// the roles that AutoTokenizer has (tools/golden_beside.py). An argument names a file of more cases.
#include "harness.h"

#include "base/json.h"
#include "base/log.h"
#include "tok/tokenizer.h"

static const char *cases_path;

static void write_json(arena *a, const char *folder, const char *name, const json_t *value) {
    char *text = json_dumps(value, 0);
    OK(file_write_atomic(path_join(a, folder, name), text, strlen(text)));
    free(text);
}

static void write_folder(arena *a, const json_t *test, const char *folder) {
    json_t *root, *files = json_object_get(test, "files"), *value;
    const json_t *added = json_object_get(test, "added");
    const char *name;
    OK(json_read_file(arena_printf(a, "%s/%s/tokenizer.json", golden_path(a, "tokenizers"),
                              json_string_value(json_object_get(test, "base"))),
            &root));
    if (json_is_array(added)) json_object_set(root, "added_tokens", (json_t *)(uintptr_t)added);
    write_json(a, folder, "tokenizer.json", root);
    json_decref(root);
    json_object_foreach(files, name, value) write_json(a, folder, name, value);
}

static void check_text(const tokenizer *t, const json_t *text, const json_t *want, int number) {
    id_list got = {0};
    encoder *e = encoder_new(t);
    encoder_run(e, json_string_value(text), json_string_length(text), false, &got);
    bool same = (size_t)got.n == json_array_size(want);
    for (int64_t i = 0; same && i < got.n; i++)
        same = got.p[i] == json_integer_value(json_array_get(want, (size_t)i));
    if (!same) {
        str ids = {0};
        for (int64_t i = 0; i < got.n; i++)
            str_printf(&ids, " %d", got.p[i]);
        fail_msg("case %d: \"%s\" gives%s, expected %s", number, json_string_value(text), ids.p,
                json_dumps(want, JSON_COMPACT));
    }
    id_list_free(&got);
    encoder_free(e);
}

// Roles that AutoTokenizer does not have are found by name here.
static void check_roles(const tokenizer *t, const json_t *want, int number) {
    const int32_t got[] = {tokenizer_role(t, ROLE_BOS), tokenizer_role(t, ROLE_EOS),
            tokenizer_role(t, ROLE_PAD), tokenizer_role(t, ROLE_UNK)};
    for (size_t i = 0; i < 4; i++) {
        const json_int_t id = json_integer_value(json_array_get(want, i));
        if (id >= 0 && id != got[i])
            fail_msg("case %d: role %zu is %d, expected %lld", number, i, got[i], (long long)id);
    }
}

TEST(as_auto_tokenizer) {
    char *rest;
    size_t n_file;
    int number = 0;
    const char *folder = temporary_dir(a);
    OK(file_read(a, cases_path ? cases_path : golden_path(a, "beside.jsonl"), &rest, &n_file));
    log_to_file_only(true);
    for (char *line; (line = strsep(&rest, "\n")) && *line; number++) {
        json_t *test = json_loads(line, 0, NULL), *texts = json_object_get(test, "texts"), *text;
        arena *work = arena_new("case");
        tokenizer *t;
        size_t i;
        OK(dir_remove(folder));
        OK(dir_make(folder));
        write_folder(work, test, folder);
        OK(tokenizer_open(work, folder, &t));
        json_array_foreach(texts, i, text)
                check_text(t, text, json_array_get(json_object_get(test, "ids"), i), number);
        check_roles(t, json_object_get(test, "roles"), number);
        tokenizer_close(t);
        arena_free(work);
        json_decref(test);
    }
    log_to_file_only(false);
    assert_true(cases_path || number >= 200);
}

int main(int argc, char **argv) {
    cases_path = argc > 1 ? argv[1] : NULL;
    return tests_run();
}
