// Keys of earlier versions: configs, overrides and trainer.json that have them mean what they
// meant, and what is printed has the present names.
#include "config_text.h"

#include "base/log.h"
#include "config/old_keys.h"
#include "train/resume.h"

static const struct {
    const char *before, *now;
    int value;
} renamed[] = {
        {"lanes", "accumulation_groups", 4},
        {"leaves", "tensor_blocks", 2},
        {"context_leaves", "context_blocks", 2},
        {"addend_rows", "partial_sum_rows", 2},
};
enum { N_RENAMED = sizeof renamed / sizeof *renamed };

#define SHAPE                                                                                      \
    TINY "training: {global_batch_size: 8, micro_batch_size: 2}\n"                                 \
         "data: {sequence_length: 64}\n"

// Returns what was logged since the last call.
static const char *logged(arena *a, const char *path) {
    static size_t before;
    char *text;
    size_t n;
    OK(file_read(a, path, &text, &n));
    text += before;
    before = n;
    return text;
}

static const char *printed(arena *a, const run_config *cfg) {
    str text = {0};
    config_print(cfg, false, &text);
    const char *copy = arena_strndup(a, text.p, text.n);
    str_free(&text);
    return copy;
}

TEST(both_spellings_mean_the_same) {
    for (int i = 0; i < N_RENAMED; i++) {
        run_config old, new, set;
        const char *before = arena_printf(a, "parallel.%s=%d", renamed[i].before, renamed[i].value),
                   *sets[] = {"model.preset=tiny", "training.global_batch_size=8",
                           "training.micro_batch_size=2", "data.sequence_length=64",
                           "run_dir=runs/run", before};
        OK(load(a,
                arena_printf(a, SHAPE "parallel: {%s: %d}\n", renamed[i].before, renamed[i].value),
                &old));
        OK(load(a, arena_printf(a, SHAPE "parallel: {%s: %d}\n", renamed[i].now, renamed[i].value),
                &new));
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &set));
        const char *text = printed(a, &new),
                   *line = arena_printf(a, "\n  %s: %d\n", renamed[i].now, renamed[i].value);
        assert_non_null(strstr(text, line));
        assert_string_equal(printed(a, &old), text);
        assert_string_equal(printed(a, &set), text);
    }
}

TEST(each_spelling_counts_as_the_key) {
    for (int i = 0; i < N_RENAMED; i++) {
        const char *yaml = arena_printf(a, TINY "parallel: {%s: 1,\n  %s: 2}\n", renamed[i].before,
                renamed[i].now);
        run_config cfg;
        FAILS(load(a, yaml, &cfg), DRV_E_USAGE, "is given twice, first at");
        yaml = arena_printf(a, TINY "parallel: {%s: many}\n", renamed[i].before);
        FAILS(load(a, yaml, &cfg), DRV_E_USAGE,
                arena_printf(a, "run.yaml:2: key \"parallel.%s\" is", renamed[i].before));
    }
}

TEST(old_spellings_are_said) {
    const char *path = path_join(a, temporary_dir(a), "log.txt");
    OK(log_open_file(path));
    log_to_file_only(true);
    for (int i = 0; i < N_RENAMED; i++) {
        run_config cfg;
        OK(load(a,
                arena_printf(a, SHAPE "parallel: {%s: %d}\n", renamed[i].before, renamed[i].value),
                &cfg));
        config_say_old_keys(&cfg);
        assert_non_null(strstr(logged(a, path),
                arena_printf(a, "run.yaml:4: \"parallel.%s\" is now called \"parallel.%s\"",
                        renamed[i].before, renamed[i].now)));
        OK(load(a, arena_printf(a, SHAPE "parallel: {%s: %d}\n", renamed[i].now, renamed[i].value),
                &cfg));
        config_say_old_keys(&cfg);
        assert_string_equal(logged(a, path), "");
        // trainer.json of an earlier version
        json_t *before = json_pack("{s:{s:s}}", "config",
                       arena_printf(a, "parallel.%s", renamed[i].before), "2"),
               *now = json_pack("{s:{s:s}}", "config",
                       arena_printf(a, "parallel.%s", renamed[i].now), "2");
        resume_log_changes(before, now);
        assert_string_equal(logged(a, path), "");
        json_object_set_new(json_object_get(now, "config"),
                arena_printf(a, "parallel.%s", renamed[i].now), json_string("4"));
        resume_log_changes(before, now);
        assert_non_null(
                strstr(logged(a, path), arena_printf(a, "parallel.%s: 2 -> 4", renamed[i].now)));
        json_decref(before);
        json_decref(now);
    }
    log_close_file();
}
