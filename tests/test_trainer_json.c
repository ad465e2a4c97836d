// trainer.json: what it says is held against the folder's name and against itself.
#include "harness.h"

#include <math.h>

#include "train/trainer_json.h"

// A checkpoint of 40 steps of 8 rows of 64 tokens, with one member replaced ("" : left out),
// another left out.
static const char *write_json(arena *a, const char *key, const char *value, const char *without) {
    const char *dir = path_join(a, temporary_dir(a), "step-000040");
    static const char *const members[][2] = {{"step", "40"}, {"updates", "39"},
            {"rows_taken", "320"}, {"tokens", "20000"}, {"bad_steps", "0"}, {"evaluated", "40"},
            {"part_step", "0"}, {"part_rows", "0"}, {"part_tokens", "0"}, {"loss", "2.5"},
            {"val_loss", "null"}, {"arithmetic", "\"fp32\""}, {"config", "{}"}, {"data", "{}"},
            {"global_batch_size", "8"}, {"sequence_length", "64"}};
    str text = {0};
    str_puts(&text, "{\"seed\": 1");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *v = strcmp(members[i][0], key) == 0 ? value : members[i][1];
        if (strcmp(members[i][0], without) == 0) continue;
        if (*v) str_printf(&text, ", \"%s\": %s", members[i][0], v);
    }
    str_puts(&text, "}");
    OK(dir_make(dir));
    OK(file_write_atomic(path_join(a, dir, "trainer.json"), text.p, text.n));
    str_free(&text);
    return dir;
}

typedef struct json_case {
    const char *key, *value, *says; // says NULL: it is read
} json_case;

static void check_case(const json_case *test, const char *without) {
    arena *a = arena_new("trainer.json");
    const char *dir = write_json(a, test->key, test->value, without);
    run_state read;
    json_t *about = NULL;
    if (test->says)
        FAILS(trainer_json_read(dir, &read, &about), DRV_E_DATA, test->says);
    else
        OK(trainer_json_read(dir, &read, &about));
    json_decref(about);
    arena_free(a);
}

TEST(nothing_is_believed) {
    static const json_case cases[] = {
            {"", "", NULL},
            {"evaluated", "", NULL}, // of an earlier version
            {"loss", "", NULL},
            {"step", "", "\"step\" is missing, expected a whole number"},
            {"step", "\"40\"", "\"step\" is not one"},
            {"step", "40.0", "\"step\" is not one"},
            {"step", "41", "\"rows_taken\" is 320, expected 328 to 328"},
            {"step", "-1", "\"step\" is -1"},
            {"step", "9223372036854775807", "\"step\" is 9223372036854775807"},
            {"updates", "", "\"updates\" is missing"},
            {"updates", "41", "\"updates\" is 41, expected 0 to 40"},
            {"bad_steps", "2", "\"bad_steps\" is 2, expected 0 to 1"},
            {"rows_taken", "39", "\"rows_taken\" is 39, expected 40"},
            {"rows_taken", "328", "\"rows_taken\" is 328, expected 320 to 320"},
            {"rows_taken", "9000000000000000000", "\"rows_taken\" is 9000000000000000000"},
            {"tokens", "-1", "\"tokens\" is -1"},
            {"tokens", "20481", "\"tokens\" is 20481, expected 0 to 20480"},
            {"evaluated", "41", "\"evaluated\" is 41"},
            {"part_step", "41", "\"part_step\" is 41"},
            {"part_step", "7", "\"part_rows\" is 0, expected 7 to"},
            {"part_rows", "8", "\"part_rows\" is 8, expected 0 to 0"},
            {"global_batch_size", "0", "\"global_batch_size\" is 0"},
            {"sequence_length", "0", "\"sequence_length\" is 0, expected 1"},
            {"sequence_length", "", "\"sequence_length\" is 0, expected 1"},
            {"part_tokens", "1", "\"part_tokens\" is 1, expected 0 to 0"},
            {"loss", "\"low\"", "loss"},
            {"arithmetic", "3", "\"arithmetic\" is 3, expected a string"},
            {"config", "[]", "\"config\" is [], expected an object"},
            {"data", "\"x\"", "\"data\" is \"x\", expected an object"},
            {"data", "null", "\"data\" is null, expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], "");
}

// What an earlier version wrote says neither batch nor length: ranges alone hold.
TEST(without_a_batch_size) {
    static const json_case cases[] = {{"", "", NULL}, {"rows_taken", "320", NULL},
            {"tokens", "-1", "\"tokens\" is -1"},
            {"rows_taken", "39", "\"rows_taken\" is 39, expected 40"},
            {"tokens", "5368709121", "expected 0 to 5368709120"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], "global_batch_size");
}

TEST(a_renamed_folder) {
    const char *dir = write_json(a, "", "", ""), *other = arena_printf(a, "%s1", dir);
    run_state read;
    json_t *about = NULL;
    assert_int_equal(rename(dir, other), 0);
    FAILS(trainer_json_read(other, &read, &about), DRV_E_DATA,
            "\"step\" is 40, expected 401 as in the folder's name");
    assert_null(about);
}

TEST(written_and_read) {
    const char *dir = path_join(a, temporary_dir(a), "step-000003");
    const run_state written = {3, 2, 24, 100, 1, 3, 1, 8, 40, (double)NAN, 1.25};
    run_state read;
    json_t *about = json_pack("{s:i, s:i}", "global_batch_size", 8, "sequence_length", 16), *back;
    char *text = trainer_json_text(&written, about);
    assert_non_null(strstr(text, "\"loss\": null"));
    OK(dir_make(dir));
    OK(file_write_atomic(path_join(a, dir, "trainer.json"), text, strlen(text)));
    OK(trainer_json_read(dir, &read, &back));
    assert_true(isnan(read.loss) && read.val_loss == 1.25);
    read.loss = written.loss;
    assert_memory_equal(&read, &written, sizeof read);
    free(text);
    json_decref(about);
    json_decref(back);
}
