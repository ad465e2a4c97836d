// What `drover config` prints is a configuration, and the same one: for all presets, for every key,
// and for texts that YAML reads as something else.
#include "config/foreign_key.h"
#include "config/key.h"
#include "harness.h"

static const char *print(arena *a, const run_config *cfg, bool with_help) {
    str text = {0};
    config_print(cfg, with_help, &text);
    const char *copy = arena_strdup(a, text.p);
    str_free(&text);
    return copy;
}

// Prints, loads what was printed, prints that: equal, with help and without.
static void reads_back(arena *a, const run_config *cfg, run_config *again) {
    static const char *folder;
    if (!folder) folder = temporary_dir(a);
    const char *path = path_join(a, folder, "run.yaml");
    for (int with_help = 0; with_help < 2; with_help++) {
        const char *text = print(a, cfg, with_help);
        FILE *file = fopen(path, "w"); // without the syncs of file_write_atomic
        assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
        assert_int_equal(fclose(file), 0);
        if (config_load(a, path, NULL, 0, again) != DRV_OK)
            fail_msg("%s in:\n%s", drv_message(), text);
        assert_string_equal(text, print(a, again, with_help));
        assert_null(model_config_difference(a, &cfg->model, &again->model));
    }
}

TEST(every_key_is_printed_with_default_and_meaning) {
    run_config cfg;
    OK(config_load(a, NULL, (const char *[]){"model.preset=llama-3.1-8b"}, 1, &cfg));
    const char *text = print(a, &cfg, true);
    for (int i = 0; i < key_count(); i++) {
        const key k = key_of_index(a, i);
        const char *dot = strrchr(k.path, '.');
        if (!strstr(text, arena_printf(a, "%s: ", dot ? dot + 1 : k.path)) || !strstr(text, k.help))
            fail_msg("%s is not printed in:\n%s", k.path, text);
        assert_true(k.initial || k.initial_note);
    }
    assert_non_null(strstr(text, "\n    factor: 8 "));
    assert_non_null(strstr(text, "\n  lr: 0.0003 "));
    assert_non_null(strstr(text, "\n  eps: 1.0e-08 "));
    assert_non_null(strstr(text, "\n  betas: [0.9, 0.95] "));
    assert_non_null(strstr(text, "(default: 3.0e-4)"));
}

TEST(presets_read_back) {
    for (int i = 0; i < n_model_presets; i++) {
        run_config cfg, again;
        const char *sets[] = {arena_printf(a, "model.preset=%s", model_preset_name(i)),
                "data.train=[{prefix: a, weight: 2}, {prefix: b, weight: 0.1}, c]",
                "data.split=[9, 1, 0]", "optimizer.lr=1.1e-4", "optimizer.betas=[0.1, 0.123456789]",
                "training.recompute=full", "training.precision=fp32", "schedule.type=wsd",
                "schedule.decay_steps=7", "model.num_hidden_layers=7", "model.bos_token_id=1",
                "model.eos_token_id=[2, 3]", "data.pack=stream", "parallel.data=2",
                "checkpoint.keep=0"};
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
        assert_int_equal(cfg.model.num_hidden_layers, 7);
        reads_back(a, &cfg, &again);
    }
}

// Any valid UTF-8 without NUL, with what YAML treats apart taken often.
static const char *nasty_text(arena *a, uint64_t seed) {
    static const char *const parts[] = {"\"", "'", "\\", "\n", "\t", "#", " #", ": ", "- ", "{",
            "}", "[", "]", ",", "&x", "*x", "!", "%", "@", "`", "null", "~", "true", "1e5", " ",
            "  ", "\r", "\x01", "\x7F", "\xC2\x85", "\xC2\xA0", "\xE2\x80\xA8", "\xE2\x80\xA9",
            "\xEF\xBB\xBF", "\xEF\xBF\xBF", "\xF0\x9F\xA6\x99", "\xC3\xA4", "a", "data/web", "\\n"};
    str text = {0};
    const int n = (int)((noise(seed, 0) + 1) * 6);
    str_puts(&text, "");
    for (int i = 0; i < n; i++)
        str_puts(&text, parts[(size_t)((noise(seed, 1 + (uint64_t)i) + 1) / 2 *
                                       (double)(sizeof parts / sizeof *parts))]);
    const char *copy = arena_strdup(a, text.p);
    str_free(&text);
    return copy;
}

TEST(any_text_reads_back) {
    for (uint64_t seed = 0; seed < 500; seed++) {
        run_config cfg, again;
        OK(config_load(a, NULL, (const char *[]){"model.preset=tiny"}, 1, &cfg));
        data_source sources[] = {{nasty_text(a, 3 * seed), 1, ""},
                {nasty_text(a, 3 * seed + 1), 0.5, ""}};
        cfg.train = sources;
        cfg.n_train = *sources[0].prefix && *sources[1].prefix ? 1 + (int)(seed % 2) : 0;
        cfg.tokenizer = nasty_text(a, 3 * seed + 2);
        cfg.run_dir = "x";
        reads_back(a, &cfg, &again);
        if (strcmp(again.tokenizer, cfg.tokenizer) != 0)
            fail_msg("seed %d: tokenizer \"%s\" reads back as \"%s\"", (int)seed, cfg.tokenizer,
                    again.tokenizer);
        assert_int_equal(again.n_train, cfg.n_train);
        for (int i = 0; i < cfg.n_train; i++)
            assert_string_equal(again.train[i].prefix, cfg.train[i].prefix);
    }
}

// The keys that other trainers' are translated to exist.
TEST(answers_to_other_trainers_are_keys) {
    str text = {0};
    foreign_keys_print(&text);
    int n = 0;
    for (const char *p = text.p; (p = strstr(p, " | `")); n++) {
        p += strlen(" | `");
        const char *path = arena_strndup(a, p, strcspn(p, "`"));
        if (key_find(path) < 0) fail_msg("\"%s\" is not a key", path);
    }
    assert_true(n > 40);
    str_free(&text);
}
