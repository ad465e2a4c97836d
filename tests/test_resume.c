// What a run may be resumed with: every field of the model is compared, what changed on purpose is
// said in a line of its own, configs of earlier parts stay.
#include "harness.h"

#include <math.h>

#include "base/log.h"
#include "ckpt/block_hash.h"
#include "config/key.h"
#include "data/set/dataset_writer.h"
#include "train/resume.h"
#include "train/train.h"
#include "setup/carry.h"

// --- the model
static model_config some_model(void) {
    return (model_config){.vocab_size = 400,
            .hidden_size = 64,
            .intermediate_size = 172,
            .num_hidden_layers = 2,
            .num_attention_heads = 8,
            .num_key_value_heads = 4,
            .head_dim = 8,
            .max_position_embeddings = 512,
            .rms_norm_eps = 1e-5,
            .rope_theta = 10000,
            .initializer_range = 0.02,
            .rope_type = ROPE_LLAMA3,
            .rope_factor = 8,
            .rope_low_freq_factor = 1,
            .rope_high_freq_factor = 4,
            .rope_original_context = 256,
            .bos_token_id = 1,
            .pad_token_id = 2,
            .eos_token_id = {3},
            .n_eos = 1};
}

// The folder of a checkpoint of this model.
static const char *write_config(arena *a, const model_config *m) {
    const char *dir = path_join(a, temporary_dir(a), "step-000001");
    OK(dir_make(dir));
    OK(json_write_file(path_join(a, dir, "config.json"), model_config_json(m)));
    return dir;
}

static void change(model_config *m, const key *k) {
    void *at = (char *)m + k->offset;
    if (k->type == &type_int || k->type == &type_ids)
        ++*(int64_t *)at;
    else if (k->type == &type_real)
        *(double *)at *= 1.0000001;
    else if (k->type == &type_bool)
        *(bool *)at = !*(bool *)at;
    else
        m->rope_type = ROPE_DEFAULT;
}

static bool is_free(const char *field) {
    static const char *const fields[] = {"initializer_range", "max_position_embeddings",
            "bos_token_id", "eos_token_id", "pad_token_id",
            "max_window_layers"}; // the last one says nothing without a window
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(field, fields[i]) == 0) return true;
    return false;
}

TEST(every_field_of_the_model_is_compared) {
    const model_config saved = some_model();
    const char *dir = write_config(a, &saved);
    OK(resume_check_model(dir, &saved, false, false));
    for (int i = 0; i < n_model_keys; i++) {
        model_config other = saved;
        const char *field = model_keys[i].path;
        change(&other, &model_keys[i]);
        if (is_free(field))
            OK(resume_check_model(dir, &other, false, false));
        else if (model_config_family(&other) != model_config_family(&saved))
            FAILS(resume_check_model(dir, &other, false, false), DRV_E_USAGE, "architectures is ");
        else // of rope_scaling's parts the whole is named
            FAILS(resume_check_model(dir, &other, false, false), DRV_E_USAGE,
                    arena_printf(a, "%.*s is ", (int)strcspn(field, "."), field));
    }
}

TEST(which_layers_have_a_window) {
    model_config saved = some_model();
    saved.qk_norm = true;
    saved.sliding_window = 16;
    model_config other = saved;
    other.max_window_layers = 1;
    const char *dir = write_config(a, &saved);
    OK(resume_check_model(dir, &saved, false, false));
    FAILS(resume_check_model(dir, &other, false, false), DRV_E_USAGE, "max_window_layers is ");
}

// A field that one of the two does not have is a difference as well, whichever it is.
TEST(a_field_of_one_alone) {
    const model_config scaled = some_model();
    model_config plain = scaled;
    plain.rope_type = ROPE_DEFAULT;
    FAILS(resume_check_model(write_config(a, &plain), &scaled, false, false), DRV_E_USAGE,
            "rope_scaling is absent, but the config's model has {");
    FAILS(resume_check_model(write_config(a, &scaled), &plain, false, false), DRV_E_USAGE,
            "but the config's model has absent");
}

// --- the optimizer
// What the moments of a small model are read from: all 0 but element 3 of this tensor.
typedef struct moments {
    const char *tensor;
    float value;
    st_type type;     // of that tensor
    const char *more; // a tensor that no parameter has; NULL: none
    const char *says; // NULL: it is read
} moments;

static void check_moments(const test_run *run, const moments *want) {
    arena *a = arena_new("moments");
    int n_moments;
    str file = {0};
    const ckpt_tensor *list = state_optimizer(a, &run->p.held, &n_moments);
    st_entry *entries = ARENA_ARRAY(a, st_entry, n_moments + 1);
    for (int i = 0; i < n_moments; i++) {
        entries[i] = list[i].entry;
        if (strcmp(entries[i].name, want->tensor) == 0) entries[i].type = want->type;
    }
    if (want->more) entries[n_moments++] = (st_entry){want->more, 1, {4, 0}, ST_F32};
    st_header(entries, n_moments, &file);
    for (int i = 0; i < n_moments; i++)
        for (int64_t k = 0; k < st_entry_elements(&entries[i]); k++) {
            const float x = k == 3 && strcmp(entries[i].name, want->tensor) == 0 ? want->value : 0;
            str_add(&file, &x, (size_t)st_type_bytes(entries[i].type));
        }
    const char *dir = temporary_dir(a);
    OK(file_write_atomic(path_join(a, dir, "optimizer.safetensors"), file.p, file.n));
    test_run *to = (test_run *)(uintptr_t)run;
    if (want->says)
        FAILS(state_load_moments(&to->p.held, dir), DRV_E_DATA, want->says);
    else
        OK(state_load_moments(&to->p.held, dir));
    str_free(&file);
    arena_free(a);
}

TEST(moments_are_not_trusted) {
#define FIRST  "exp_avg.model.layers.0.mlp.down_proj.weight"
#define SECOND "exp_avg_sq.model.layers.0.mlp.down_proj.weight"
    static const moments cases[] = {{FIRST, -1, ST_F32, NULL, NULL},
            {SECOND, 1, ST_F32, NULL, NULL},
            {SECOND, -1, ST_F32, NULL,
                    "\"" SECOND "\" is -1 in row 0, expected no negative number"},
            {FIRST, (float)NAN, ST_F32, NULL, "tensor \"" FIRST "\" is NaN at [0, 3]"},
            {SECOND, (float)INFINITY, ST_F32, NULL, "tensor \"" SECOND "\" is infinite at [0, 3]"},
            {FIRST, 0, ST_BF16, NULL, NULL}, // a run with optimizer.state_dtype: bf16 wrote them
            {FIRST, 0, ST_F16, NULL, "tensor \"" FIRST "\" is F16, expected F32 to resume from"},
            {FIRST, 0, ST_F32, "exp_avg.x", "tensor \"exp_avg.x\" has no place in the model"}};
    test_run *r = test_run_open((const char *[]){"model.preset=tiny"}, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_moments(r, &cases[i]);
    test_run_close(r);
}

// --- what has changed
// Messages go to a file from here on; said(...) is what is in it since the last call.
static const char *log_path;

static const char *said(arena *a) {
    static size_t before;
    char *text;
    size_t n;
    OK(file_read(a, log_path, &text, &n));
    text += before;
    before = n;
    return text;
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static json_t *about(const char *config, const char *source, const char *arithmetic) {
    json_t *o = json_loads(config, 0, NULL), *s = json_loads(source, 0, NULL);
    assert_true(o && s);
    return json_pack("{s:s, s:o, s:{s:[o]}}", "arithmetic", arithmetic, "config", o, "data",
            "sources", s);
}

#define CONFIG                                                                                     \
    "{\"tokenizer\": \"tok\", \"data.train\": \"a\", \"data.split\": \"[9, 1, 0]\", "              \
    "\"data.pack\": \"auto\", "                                                                    \
    "\"data.sequence_length\": \"64\", \"training.seed\": \"1\", "                                 \
    "\"training.global_batch_size\": \"8\", \"optimizer.lr\": \"0.1\", "                           \
    "\"schedule.type\": \"cosine\"}"
#define SOURCE                                                                                     \
    "{\"prefix\": \"a\", \"tokens\": 100, \"documents\": 7, \"idx_xxh3\": \"01\", "                \
    "\"tokenizer_xxh3\": \"02\", \"roles_xxh3\": null, \"split_by\": \"documents\"}"

static const char *replaced(arena *a, const char *text, const char *from, const char *to) {
    str out = {0};
    str_replace(&out, text, strlen(text), from, to);
    const char *copy = arena_strdup(a, out.p);
    assert_string_not_equal(copy, text);
    str_free(&out);
    return copy;
}

TEST(what_changed_is_said_in_one_line) {
    static const struct {
        const char *from, *to; // in the config, or in what is said of its data
        const char *says;
    } cases[] = {
            {"\"0.1\"", "\"0.2\"", "optimizer.lr: 0.1 -> 0.2\n"},
            {"cosine", "linear", "schedule.type: cosine -> linear\n"},
            {"\"8\"", "\"16\"", "training.global_batch_size: 8 -> 16\n"},
            {"seed\": \"1\"", "seed\": \"2\"", "training.seed: 1 -> 2; rows come in another order"},
            {"\"64\"", "\"32\"", "data.sequence_length: 64 -> 32; rows are cut again"},
            {"train\": \"a\"", "train\": \"b\"", "data.train: a -> b; rows come from other data"},
            {"[9, 1, 0]", "[8, 2, 0]",
                    "data.split: [9, 1, 0] -> [8, 2, 0]; rows come from other documents"},
            {"auto", "stream", "data.pack: auto -> stream; attention and positions differ"},
            {"\"data.pack\": \"auto\", ", "", "data.pack: auto -> none; attention"},
            {"\"tok\"", "\"tok2\"", "tokenizer: tok -> tok2; new checkpoints get the new one\n"},
            {"\"tokens\": 100", "\"tokens\": 99", "data set \"a\": tokens 100 -> 99; rows come"},
            {"\"documents\": 7", "\"documents\": 8", "data set \"a\": documents 7 -> 8; rows"},
            {"\"01\"", "\"0a\"", "data set \"a\": idx_xxh3 \"01\" -> \"0a\"; rows come"},
            {"\"02\"", "\"0b\"", "data set \"a\": tokenizer_xxh3 \"02\" -> \"0b\"; rows come"},
            {"null", "\"03\"", "data set \"a\": roles_xxh3 null -> \"03\"; rows come"},
            {"\"documents\"}", "\"tokens\"}",
                    "data set \"a\": split_by \"documents\" -> \"tokens\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool in_config = strstr(CONFIG, cases[i].from);
        json_t *before = about(CONFIG, SOURCE, "fp32"),
               *now = about(in_config ? replaced(a, CONFIG, cases[i].from, cases[i].to) : CONFIG,
                       in_config ? SOURCE : replaced(a, SOURCE, cases[i].from, cases[i].to),
                       "fp32");
        resume_log_changes(before, before);
        assert_string_equal(said(a), "");
        resume_log_changes(before, now);
        const char *text = said(a);
        if (!strstr(text, cases[i].says) || count(text, "changed since the last part: ") != 1)
            fail_msg("case %zu: \"%s\", expected one line with \"%s\"", i, text, cases[i].says);
        json_decref(before);
        json_decref(now);
    }
}

TEST(another_arithmetic_is_said) {
    json_t *before = about(CONFIG, SOURCE, "fp32"), *now = about(CONFIG, SOURCE, "AMX"),
           *old = json_pack("{s:i, s:i}", "seed", 1, "sequence_length", 64),
           *newer = json_pack("{s:i, s:i}", "seed", 2, "sequence_length", 64);
    resume_log_changes(before, now);
    assert_non_null(strstr(said(a), "arithmetic: \"fp32\" -> \"AMX\"; the last bits differ"));
    json_object_set_new(json_object_get(before, "config"), "optimizer.lr", json_integer(3));
    resume_log_changes(before, before); // what is recorded is trusted for nothing
    resume_log_changes(before, now);
    assert_non_null(strstr(said(a), "optimizer.lr: not a string -> 0.1\n"));
    resume_log_changes(old, newer); // a checkpoint of an earlier version records no config
    const char *text = said(a);
    assert_non_null(strstr(text, "seed: 1 -> 2; rows come in another order"));
    assert_int_equal(count(text, "changed since"), 1);
    json_decref(before);
    json_decref(now);
    json_decref(old);
    json_decref(newer);
}

// Earlier versions recorded the size of a micro-batch, all of which was a partial sum.
TEST(partial_sums_of_an_earlier_version) {
    json_t *before = about(CONFIG, SOURCE, "fp32"), *now = about(CONFIG, SOURCE, "fp32"),
           *config = json_object_get(before, "config");
    json_object_set_new(config, "training.micro_batch_size", json_string("4"));
    json_object_set_new(json_object_get(now, "config"), "parallel.partial_sum_rows",
            json_string("4"));
    resume_log_changes(before, now);
    assert_string_equal(said(a), "");
    json_object_set_new(json_object_get(now, "config"), "parallel.partial_sum_rows",
            json_string("1"));
    resume_log_changes(before, now);
    assert_non_null(strstr(said(a),
            "parallel.partial_sum_rows: 4 -> 1; gradients are added from other partial sums, so the last bits differ"));
    json_object_set_new(config, "parallel.partial_sum_rows",
            json_string("1")); // what it says itself
    resume_log_changes(before, now);
    assert_string_equal(said(a), "");
    json_decref(before);
    json_decref(now);
}

TEST(other_files_that_are_carried_are_said) {
    const char *dir = temporary_dir(a);
    const ckpt_carried carried[] = {{.name = "tokenizer.json", .bytes = "{}", .n = 2},
            {.name = "chat_template.jinja", .bytes = "x", .n = 1}};
    const ckpt_content now = {.carried = carried, .n_carried = 2};
    OK(file_write_atomic(path_join(a, dir, "tokenizer.json"), "{}", 2));
    OK(file_write_atomic(path_join(a, dir, "chat_template.jinja"), "x", 1));
    carry_say_changes(&now, dir);
    assert_string_equal(said(a), "");
    OK(file_write_atomic(path_join(a, dir, "chat_template.jinja"), "y", 1));
    carry_say_changes(&now, dir);
    const char *text = said(a);
    assert_non_null(
            strstr(text, "changed since the last part: chat_template.jinja differs from that of"));
    assert_int_equal(count(text, "changed since"), 1);
}

// --- config.yaml
TEST(configs_of_earlier_parts_stay) {
    const char *dir = temporary_dir(a), *set = arena_printf(a, "run_dir=%s", dir);
    static const struct {
        const char *lr;
        int64_t step;
        const char *keeps, *with; // NULL: nothing new
    } parts[] = {{"0.1", 0, NULL, NULL}, {"0.1", 5, NULL, NULL},
            {"0.2", 5, "config.until-000005.yaml", "lr: 0.1"},
            {"0.3", 5, "config.until-000005-2.yaml", "lr: 0.2"},
            {"0.4", 9, "config.until-000009.yaml", "lr: 0.3"}};
    int n_kept = 1; // config.yaml
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        run_config cfg;
        char *text, **names;
        int n;
        OK(config_load(a, NULL,
                (const char *[]){"model.preset=tiny", set,
                        arena_printf(a, "optimizer.lr=%s", parts[i].lr)},
                3, &cfg));
        OK(resume_write_config(&cfg, parts[i].step));
        OK(file_read(a, path_join(a, dir, "config.yaml"), &text, NULL));
        assert_non_null(strstr(text, arena_printf(a, "lr: %s", parts[i].lr)));
        n_kept += parts[i].keeps != NULL;
        OK(dir_list(a, dir, &names, &n));
        assert_int_equal(n, n_kept);
        if (!parts[i].keeps) continue;
        OK(file_read(a, path_join(a, dir, parts[i].keeps), &text, NULL));
        assert_non_null(strstr(text, parts[i].with));
    }
}

// --- a checkpoint that is damaged under right hashes, as a write by another program leaves it
static const char *write_tokens(arena *a) {
    const char *prefix = path_join(a, temporary_dir(a), "set");
    dataset_writer *w;
    OK(dataset_writer_open(a, prefix, 400, 0, 0, false, &w));
    for (int32_t token = 0; token < 400; token++)
        OK(dataset_writer_add(w, &token, 1));
    OK(dataset_writer_end_document(w));
    OK(dataset_writer_finish(w));
    return prefix;
}

// Puts these bytes in the place of a file, and their hash in the manifest.
static void replace_file(const char *folder, const char *name, const char *bytes, size_t n) {
    arena *a = arena_new("replace");
    const char *manifest = path_join(a, folder, "manifest.json");
    json_t *all, *entry;
    char hex[33];
    const block_digest digest = block_hash(bytes, n);
    block_hash_list(&digest, 1, hex);
    OK(file_write_atomic(path_join(a, folder, name), bytes, n));
    OK(json_read_file(manifest, &all));
    entry = json_object_get(json_object_get(all, "files"), name);
    assert_non_null(entry);
    json_object_set_new(entry, "bytes", json_integer((json_int_t)n));
    json_object_set_new(entry, "xxh3_128_blocks", json_string(hex));
    OK(json_write_file(manifest, all));
    OK(ckpt_verify(folder));
    arena_free(a);
}

static char *file_of(arena *a, const char *run_dir, const char *name, size_t *n) {
    char *bytes;
    OK(file_read(a, arena_printf(a, "%s/checkpoints/step-000003/%s", run_dir, name), &bytes, n));
    return bytes;
}

TEST(damage_of_the_newest_leaves_the_older_ones) {
    const char *run_dir = path_join(a, temporary_dir(a), "run"), *weights = "model.safetensors",
               *newest = path_join(a, run_dir, "checkpoints/step-000003");
    const char *sets[] = {"model.preset=tiny", "model.vocab_size=400", "model.num_hidden_layers=1",
            "data.sequence_length=16", arena_printf(a, "data.train=%s", write_tokens(a)),
            "training.steps=3", "training.global_batch_size=2", "training.micro_batch_size=1",
            "training.eval_every=0", "training.precision=fp32", "checkpoint.every=1",
            "checkpoint.keep=0", arena_printf(a, "run_dir=%s", run_dir)};
    const struct {
        const char *name, *bytes; // NULL: its own, with a NaN at the end
    } harm[] = {{"trainer.json", "{}"}, {"trainer.json", "step 3"},
            {"trainer.json", "{\"step\": 2, \"updates\": 2, \"rows_taken\": 4, \"tokens\": 60, "
                             "\"bad_steps\": 0}"},
            {"config.json", "{\"hidden_size\": "}, {weights, NULL},
            {"optimizer.safetensors", NULL}};
    run_config cfg;
    size_t n_want, n_got;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    OK(train(a, &cfg, false));
    const char *want = file_of(a, run_dir, weights, &n_want);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        static const unsigned char nan[] = {0, 0, 0xC0, 0x7F};
        char *bytes = file_of(a, run_dir, harm[i].name, &n_got);
        memcpy(bytes + n_got - sizeof nan, nan, sizeof nan);
        if (harm[i].bytes)
            replace_file(newest, harm[i].name, harm[i].bytes, strlen(harm[i].bytes));
        else
            replace_file(newest, harm[i].name, bytes, n_got);
        OK(train(a, &cfg, false));
        const char *got = file_of(a, run_dir, weights, &n_got);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, n_got);
        char *log;
        OK(file_read(a, path_join(a, run_dir, "log.txt"), &log, NULL));
        assert_int_equal(count(log, "step-000003\" is not used: "), (int)i + 1);
        assert_int_equal(count(log, "step-000002: step 2, "), (int)i + 1);
    }
}

int main(void) {
    arena *a = arena_new("log");
    log_path = path_join(a, temporary_dir(a), "log.txt");
    if (log_open_file(log_path) != DRV_OK) return 1;
    log_to_file_only(true);
    const int n_failed = tests_run();
    log_close_file();
    arena_free(a);
    return n_failed;
}
