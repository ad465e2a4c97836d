// safetensors that lie, and checkpoints that were harmed.
#include "harness.h"

#include <math.h>
#include <unistd.h>

static void parse_says(const char *header, int64_t length, size_t n_data, const char *says) {
    arena *a = arena_new("st");
    const size_t n = strlen(header);
    char *p = arena_alloc(a, 8 + n + n_data);
    uint64_t l = length < 0 ? n : (uint64_t)length;
    memcpy(p, &l, 8);
    memcpy(p + 8, header, n);
    st_file f;
    if (says)
        FAILS(st_parse(a, "x.safetensors", p, 8 + n + n_data, &f), DRV_E_DATA, says);
    else
        OK(st_parse(a, "x.safetensors", p, 8 + n + n_data, &f));
    arena_free(a);
}

TEST(safetensors_that_lie) {
#define T(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    parse_says(T("F32", "[2]", "[0,8]"), -1, 8, NULL);
    parse_says(T("F32", "[]", "[0,4]"), -1, 4, NULL);
    parse_says(T("F32", "[0]", "[0,0]"), -1, 0, NULL);
    parse_says(T("F32", "[2]", "[0,8]"), -1, 7, "is it truncated?");
    parse_says(T("F32", "[2]", "[8,0]"), -1, 8, "bytes 8 to 0");
    parse_says(T("F32", "[2]", "[-8,0]"), -1, 8, "bytes -8");
    parse_says(T("F32", "[3]", "[0,8]"), -1, 8, "do not fit shape");
    parse_says(T("F32", "[1]", "[0,8]"), -1, 8, "do not fit shape");
    parse_says(T("F32", "[-2]", "[0,8]"), -1, 8, "negative or too large");
    parse_says(T("F32", "[4294967296,4294967296,4]", "[0,8]"), -1, 8, "negative or too large");
    parse_says(T("F99", "[2]", "[0,8]"), -1, 8, "dtype is missing or unknown");
    parse_says(T("F32", "2", "[0,8]"), -1, 8, "shape is not a list");
    parse_says(T("F32", "[2]", "[0]"), -1, 8, "not two numbers");
    parse_says("{\"t\":", -1, 8, "not valid JSON");
    parse_says("[]", -1, 8, "not a JSON object");
    parse_says("{}", 1 << 30, 8, "header length");
    parse_says("{}", 11, 8, "header length is 11, but the file has 18 bytes");
    parse_says("{}        ", 10, 0, NULL);
    parse_says("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":"
               "\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
            -1, 12, "overlaps");
    // What the reference reader refuses too: bytes that belong to no tensor, metadata of other types.
    parse_says(T("F32", "[2]", "[0,8]"), -1, 9, "1 bytes after the last tensor");
    parse_says(T("F32", "[2]", "[4,12]"), -1, 12, "bytes 0 to 4 of the data, before tensor \"t\"");
    parse_says("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":"
               "\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
            -1, 4, "bytes 2 to 3");
    parse_says("{}", -1, 4, "4 bytes after");
    parse_says("{\"__metadata__\":{\"format\":\"pt\"}}", -1, 0, NULL);
    parse_says("{\"__metadata__\":{\"format\":1}}", -1, 0, "\"format\" is not a string");
    parse_says("{\"__metadata__\":[]}", -1, 0, "__metadata__ is not a JSON object");
    parse_says("{\"__metadata__\":null}", -1, 0, NULL);
    parse_says(" {} ", -1, 0, NULL);
    parse_says("", -1, 0, "not valid JSON");
    parse_says("{\"t\":1,\"t\":1}", -1, 0, "duplicate");
    parse_says(T("F4", "[3]", "[0,2]"), -1, 2, "do not fit shape");
    parse_says(T("F6_E2M3", "[4]", "[0,3]"), -1, 3, NULL);
}

// All of a tensor, as every rank of one has it.
static ckpt_tensor whole(st_entry entry, const char *source, int64_t first) {
    int64_t columns = 1;
    for (int i = 1; i < entry.n_dims; i++)
        columns *= entry.dim[i];
    return (ckpt_tensor){.entry = entry,
            .piece = {{.rows = entry.dim[0],
                    .columns = columns,
                    .source = source,
                    .first = first,
                    .replicated = (1u << N_AXES) - 1}},
            .n_pieces = 1};
}

static drv_status zeros(void *ctx, const char *source, int64_t first, int64_t n, float *values) {
    (void)ctx, (void)source;
    memset(values, (int)(first + 1) & 0x3F, sizeof *values * (size_t)n);
    return DRV_OK;
}

static void save_as(const char *dir, int64_t from, int64_t to, int64_t keep, bool is_adapter) {
    const ckpt_tensor model[] = {whole((st_entry){"w", 2, {3, 4}, ST_F32}, "w", 0),
            whole((st_entry){"n", 1, {5, 0}, ST_F32}, "n", 0)},
                      optimizer[] = {whole((st_entry){"exp_avg.w", 2, {3, 4}, ST_F32}, "m", 0)};
    const ckpt_carried carried = {.name = "tokenizer.json", .bytes = "{}", .n = 2};
    const ckpt_content c = {.model = model,
            .optimizer = optimizer,
            .n_model = 2,
            .n_optimizer = 1,
            .config_json = "{}",
            .trainer_json = "{\"step\": 1}",
            .is_adapter = is_adapter,
            .carried = &carried,
            .n_carried = 1};
    ckpt_saver *s = ckpt_saver_new(dir, keep, NULL, zeros, NULL);
    for (int64_t i = from; i <= to; i++) {
        OK(ckpt_start(s, i, &c));
        while (!ckpt_was_read(s, 60)) {
        }
    }
    OK(ckpt_wait(s));
    ckpt_saver_free(s);
}

static void save_range(const char *dir, int64_t from, int64_t to, int64_t keep) {
    save_as(dir, from, to, keep, false);
}

static const char *save_some(arena *a, int64_t from, int64_t to, int64_t keep) {
    const char *dir = temporary_dir(a);
    save_range(dir, from, to, keep);
    return dir;
}

// A LoRA run's checkpoint is a PEFT folder: no copy of the base.
TEST(adapters_are_checkpoints) {
    const char *dir = temporary_dir(a), *path, *json;
    save_as(dir, 1, 1, 0, true);
    OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
    assert_true(file_exists(path_join(a, path, "adapter_model.safetensors")));
    assert_true(file_exists(path_join(a, path, "adapter_config.json")));
    assert_false(file_exists(path_join(a, path, "model.safetensors")));
    assert_false(file_exists(path_join(a, path, "config.json")));
    json = "{\"version\": 2, \"step\": 1, \"files\": {\"config.json\": {}, \"trainer.json\": {}, \"optimizer.safetensors\": {}}}";
    OK(file_write_atomic(path_join(a, path, "manifest.json"), json, strlen(json)));
    FAILS(ckpt_verify(path), DRV_E_DATA, "manifest.json does not list model.safetensors");
}

// Broken checkpoints, newer or older, are never removed and do not count, nor do newer ones that
// are whole; one in the way is renamed.
TEST(retention_spares_the_broken) {
    const char *dir = save_some(a, 4, 10, 0);
    static const char *const broken[] = {"step-000005", "step-000007", "step-000008",
            "step-000009"};
    for (int i = 0; i < 4; i++)
        OK(file_write_atomic(path_join(a, path_join(a, dir, broken[i]), "trainer.json"), "{", 1));
    save_range(dir, 8, 8, 2);
    char **names;
    int n;
    OK(dir_list(a, dir, &names, &n));
    static const char *const left[] = {"step-000005", "step-000006", "step-000007", "step-000008",
            "step-000008.refused", "step-000009", "step-000010"};
    assert_int_equal(n, 7);
    for (int i = 0; i < n; i++)
        assert_string_equal(names[i], left[i]);
    OK(ckpt_verify(path_join(a, dir, "step-000008")));
}

// A checkpoint in the way that is whole is not ours to move.
TEST(another_attempts_stays) {
    const char *dir = save_some(a, 3, 3, 0);
    const ckpt_content c = {.config_json = "{}", .trainer_json = "{\"step\": 3}"};
    ckpt_saver *s = ckpt_saver_new(dir, 0, NULL, zeros, NULL);
    OK(ckpt_start(s, 3, &c));
    FAILS(ckpt_wait(s), DRV_E_IO, "is there, written by another drover");
    ckpt_saver_free(s);
    char **names;
    int n;
    OK(dir_list(a, dir, &names, &n));
    assert_int_equal(n, 1);
    OK(ckpt_verify(path_join(a, dir, "step-000003")));
}

TEST(newest_and_retention) {
    const char *dir = save_some(a, 8, 12, 3), *path;
    char **names;
    int n;
    OK(ckpt_list(a, dir, &names, &n));
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "step-000010");
    OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
    assert_string_equal(path, path_join(a, dir, "step-000012"));
}

// What only resuming needs may be gone for those who read no more than weights; it may not be broken.
TEST(weights_alone) {
    static const char *const files[] = {"optimizer.safetensors", "trainer.json",
            "model.safetensors"};
    for (int i = 0; i < 3; i++) {
        const char *dir = save_some(a, 1, 2, 0), *last = path_join(a, dir, "step-000002"),
                   *gone = path_join(a, last, files[i]), *path;
        assert_int_equal(unlink(gone), 0);
        OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
        assert_string_equal(path, path_join(a, dir, "step-000001"));
        OK(ckpt_newest_weights(a, dir, &path));
        assert_string_equal(path, i < 2 ? last : path_join(a, dir, "step-000001"));
        assert_int_equal(ckpt_verify_weights(last), i < 2 ? DRV_OK : DRV_E_IO);
        assert_int_equal(ckpt_verify(last), DRV_E_IO);
        OK(file_write_atomic(gone, "{", 1));
        OK(ckpt_newest_weights(a, dir, &path));
        assert_string_equal(path, path_join(a, dir, "step-000001"));
    }
}

// A flipped bit in any seventh byte, a cut or a missing file is seen, and the older checkpoint is
// used.
TEST(harmed) {
    const char *dir = save_some(a, 1, 2, 0), *last = path_join(a, dir, "step-000002"), *path;
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
            "trainer.json", "config.json", "manifest.json"};
    for (int i = 0; i < 5; i++) {
        char *file = path_join(a, last, files[i]), *good;
        size_t n;
        OK(file_read(a, file, &good, &n));
        for (size_t at = 0; at < n;
                at += i == 4 ? n : 7) { // some bytes of the manifest are only layout
            char *bad = arena_alloc(a, n);
            memcpy(bad, good, n);
            bad[at] = (char)(bad[at] ^ 1 << at % 8);
            OK(file_write_atomic(file, bad, n));
            assert_true(ckpt_verify(last) == DRV_E_DATA);
        }
        OK(file_write_atomic(file, good, n - 1));
        assert_true(i == 4 || ckpt_verify(last) == DRV_E_DATA);
        unlink(file);
        assert_true(ckpt_verify(last) == DRV_E_IO);
        OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
        assert_string_equal(path, path_join(a, dir, "step-000001"));
        OK(file_write_atomic(file, good, n));
        OK(ckpt_verify(last));
    }
}

// One member of the manifest at a time becomes something else: what another version means is not
// guessed, and what is no number or no hash is no value by accident.
TEST(manifests_of_other_versions_and_types) {
    static const struct {
        const char *member, *value, *says; // says NULL: it is valid
    } cases[] = {{"version", "2", NULL}, {"version", "3", "\"version\" is 3, expected 1 or 2"},
            {"version", "\"2\"", "\"version\" is \"2\""}, {"version", "-1", "\"version\" is -1"},
            {"version", "0", "\"version\" is 0"}, {"version", "2.0", "\"version\" is 2.0"},
            {"version", "1180591620717411303424", "\"version\" is 1.18059"},
            {"version", "null", "\"version\" is null"}, {"version", "[2]", "\"version\" is [2]"},
            {"version", NULL, "\"version\" is missing"}, {"format", "\"other\"", "\"format\" is"},
            {"format", "1", "\"format\" is 1"}, {"step", "\"1\"", "\"step\" is \"1\""},
            {"step", "-1", "\"step\" is -1"}, {"step", "true", "\"step\" is true"},
            {"step", NULL, "\"step\" is missing"},
            {"block_bytes", "\"8388608\"", "\"block_bytes\" is"},
            {"block_bytes", "0", "\"block_bytes\" is 0"}, {"block_bytes", "null", "is null"},
            {"block_bytes", "1e6", "\"block_bytes\" is 1000000.0"},
            {"block_bytes", "1", "\"block_bytes\" is 1, expected a multiple of 64 up to 2^30"},
            {"block_bytes", "96", "\"block_bytes\" is 96"},
            {"block_bytes", "1073741888", "\"block_bytes\" is 1073741888"},
            {"files", "[]", "\"files\" is []"}, {"files", "\"all\"", "\"files\" is"},
            {"files", NULL, "\"files\" is missing"}};
    const char *dir = save_some(a, 1, 1, 0), *last = path_join(a, dir, "step-000001"),
               *path = path_join(a, last, "manifest.json");
    json_t *good;
    OK(json_read_file(path, &good));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *other = json_copy(good);
        json_object_del(other, cases[i].member);
        char *rest = json_dumps(other, JSON_COMPACT);
        const char *text = cases[i].value ? arena_printf(a, "{\"%s\": %s, %s", cases[i].member,
                                                    cases[i].value, rest + 1)
                                          : rest;
        OK(file_write_atomic(path, text, strlen(text)));
        if (cases[i].says)
            FAILS(ckpt_verify(last), DRV_E_DATA, cases[i].says);
        else
            OK(ckpt_verify(last));
        assert_null(cases[i].says ? strchr(drv_message(), '\n') : NULL);
        free(rest);
        json_decref(other);
    }
    json_decref(good);
    OK(file_write_atomic(path, "[1]", 3));
    FAILS(ckpt_verify(last), DRV_E_DATA, "manifest.json: expected a JSON object");
}

// Blocks so small that a reader would hold more digests than a file is worth are refused unread,
// and the checkpoint before is used.
TEST(too_many_blocks) {
    enum { BYTES = 64 * ((1 << 22) + 1) };
    const char *dir = save_some(a, 1, 2, 0), *last = path_join(a, dir, "step-000002"),
               *path = path_join(a, last, "manifest.json"), *found;
    json_t *manifest;
    OK(json_read_file(path, &manifest));
    json_object_set_new(manifest, "block_bytes", json_integer(64));
    json_object_set_new(json_object_get(json_object_get(manifest, "files"),
                                "optimizer.safetensors"),
            "bytes", json_integer(BYTES));
    OK(json_write_file(path, manifest));
    assert_int_equal(truncate(path_join(a, last, "optimizer.safetensors"), BYTES), 0);
    FAILS(ckpt_verify(last), DRV_E_DATA, "optimizer.safetensors: 4194305 blocks of 64 bytes");
    OK(ckpt_newest(a, NULL, dir, INT64_MAX, &found));
    assert_string_equal(found, path_join(a, dir, "step-000001"));
}

static drv_status no_space(void *ctx, const char *source, int64_t first, int64_t n, float *values) {
    (void)ctx, (void)source, (void)first, (void)n, (void)values;
    return drv_fail(DRV_E_IO, "no space left");
}

TEST(failed_save_leaves_the_old) {
    const char *dir = save_some(a, 1, 1, 1), *path;
    const ckpt_tensor t = whole((st_entry){"w", 2, {3, 4}, ST_F32}, "w", 0);
    const ckpt_content c = {.model = &t,
            .optimizer = &t,
            .n_model = 1,
            .n_optimizer = 1,
            .config_json = "{}",
            .trainer_json = "{}"};
    ckpt_saver *s = ckpt_saver_new(dir, 1, NULL, no_space, NULL);
    OK(ckpt_start(s, 2, &c));
    FAILS(ckpt_wait(s), DRV_E_IO, "no space left; older checkpoints are untouched");
    ckpt_saver_free(s);
    assert_false(file_exists(path_join(a, dir, "step-000002" FILE_ASIDE)));
    OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
    assert_string_equal(path, path_join(a, dir, "step-000001"));
}

// A run that was stopped between a save and the removal of older ones: a resume removes them, but
// no newer one, nor one that is not whole.
TEST(a_resume_removes_old_ones) {
    static const char *const left[] = {"step-000002", "step-000004", "step-000005", "step-000006"};
    char **names;
    int n;
    const char *dir = save_some(a, 1, 6, 0);
    assert_int_equal(truncate(path_join(a, dir, "step-000002/model.safetensors"), 9), 0);
    ckpt_saver *s = ckpt_saver_new(dir, 2, NULL, zeros, NULL);
    ckpt_saver_retain(s, 5);
    OK(ckpt_wait(s));
    ckpt_saver_free(s);
    OK(ckpt_list(a, dir, &names, &n));
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++)
        assert_string_equal(names[i], left[i]);
}

typedef struct odd_value { // of the tensor that it is in
    int64_t at;
    float value;
} odd_value;

static drv_status ones_but_one(void *ctx, const char *source, int64_t first, int64_t n,
        float *values) {
    const odd_value *odd = ctx;
    for (int64_t i = 0; i < n; i++)
        values[i] = first + i == odd->at && strcmp(source, "w") == 0 ? odd->value : 1.0f;
    return DRV_OK;
}

// A value that is not finite, wherever it is, in either type of file; the largest is one.
TEST(what_is_no_number_is_not_saved) {
    enum { ROWS = 7, COLUMNS = 11, N = ROWS * COLUMNS };
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    const char *dir = save_some(a, 1, 1, 1), *path;
    for (int i = 0; i < 2 * N + 2; i++) {
        odd_value one = {i / 2 % N, i < 2 * N ? odd[i % 4] : i % 2 ? -0x1.fep127f : 0x1.fep127f};
        const bool fits = i >= 2 * N;
        const int64_t step = i <= 2 * N ? 2 : 3; // of one that is there there is no second
        const ckpt_tensor list[] = {whole((st_entry){"n", 1, {5, 0}, ST_F32}, "n", 0),
                whole((st_entry){"w", 2, {ROWS, COLUMNS}, ST_F32}, "w", 0)};
        const ckpt_content c = {.model = list,
                .optimizer = list,
                .n_model = 2,
                .n_optimizer = 2,
                .model_type = i % 2 ? ST_BF16 : ST_F32,
                .config_json = "{}",
                .trainer_json = "{}"};
        ckpt_saver *s = ckpt_saver_new(dir, 4, NULL, ones_but_one, &one);
        OK(ckpt_start(s, step, &c));
        if (fits)
            OK(ckpt_wait(s));
        else
            FAILS(ckpt_wait(s), DRV_E_DATA, "\"w\" has a value that is not finite");
        ckpt_saver_free(s);
        OK(ckpt_newest(a, NULL, dir, INT64_MAX, &path));
        assert_int_equal(ckpt_step_of(path), fits ? step : 1);
    }
}

static drv_status keep_value(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    (void)t, (void)piece, (void)first, (void)n;
    *(float *)ctx += values[0];
    return DRV_OK;
}

// A safetensors file of one fp32 tensor or more: name, then rows and columns (0: one dimension).
typedef struct made {
    const char *name;
    int64_t rows, cols;
    float value;
} made;

static void make_file(const char *path, const made *list, int n) {
    st_entry entries[4] = {{0}};
    str file = {0};
    for (int i = 0; i < n; i++)
        entries[i] = (st_entry){list[i].name, list[i].cols ? 2 : 1, {list[i].rows, list[i].cols},
                ST_F32};
    st_header(entries, n, &file);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < st_entry_elements(&entries[i]); k++)
            str_add(&file, &list[i].value, 4);
    OK(file_write_atomic(path, file.p, file.n));
    str_free(&file);
}

static drv_status fill(const char *dir, const ckpt_tensor *list, int n) {
    float sum = 0;
    return ckpt_fill(NULL, dir, "model", list, n, &(ckpt_sink){.write = keep_value, .ctx = &sum});
}

TEST(filling) {
    const char *dir = temporary_dir(a), *file = path_join(a, dir, "model.safetensors");
    const ckpt_tensor w = whole((st_entry){"w", 2, {3, 4}, ST_F32}, "w", 0),
                      turned = whole((st_entry){"w", 2, {4, 3}, ST_F32}, "w", 0),
                      flat = whole((st_entry){"w", 1, {12, 0}, ST_F32}, "w", 0),
                      v = whole((st_entry){"v", 1, {3, 0}, ST_F32}, "v", 0);
    FAILS(fill(dir, &w, 1), DRV_E_DATA, "neither model.safetensors nor its index");
    make_file(file, &(made){"w", 3, 4, 1}, 1);
    OK(fill(dir, &w, 1));
    FAILS(fill(dir, &turned, 1), DRV_E_DATA, "\"w\" has shape [3, 4], expected [4, 3]");
    FAILS(fill(dir, &flat, 1), DRV_E_DATA, "\"w\" has shape [3, 4], expected [12]");
    FAILS(fill(dir, &v, 1), DRV_E_DATA, "tensor \"w\" has no place in the model");
    FAILS(fill(dir, (ckpt_tensor[]){w, v}, 2), DRV_E_DATA, "has no tensor \"v\"");
    make_file(file, (made[]){{"w", 3, 4, 1}, {"layers.0.rotary_emb.inv_freq", 2, 0, 1}}, 2);
    OK(fill(dir, &w, 1)); // old releases stored them
    make_file(file, (made[]){{"w", 3, 4, 1}, {"x", 3, 0, (float)NAN}, {"v", 3, 0, 1}}, 3);
    const ckpt_tensor x = whole((st_entry){"x", 1, {3, 0}, ST_F32}, "x", 0);
    FAILS(fill(dir, (ckpt_tensor[]){w, v, x}, 3), DRV_E_DATA, "tensor \"x\" is NaN at [0]");
    make_file(file, (made[]){{"w", 3, 4, -INFINITY}}, 1);
    FAILS(fill(dir, &w, 1), DRV_E_DATA, "tensor \"w\" is infinite at [0, 0]");
}

enum { N_VALUES = 150 };

// Writes a tensor of one value, but for another one at a place, and opens it.
static void write_values(arena *a, const char *dir, st_type type, uint32_t value, uint32_t other,
        int place, model_source *out) {
    const st_entry entry = {"w", 1, {N_VALUES, 0}, type};
    str bytes = {0};
    st_header(&entry, 1, &bytes);
    for (int i = 0; i < N_VALUES; i++)
        str_add(&bytes, i == place ? &other : &value, (size_t)st_type_bytes(type));
    OK(file_write_atomic(path_join(a, dir, "model.safetensors"), bytes.p, bytes.n));
    str_free(&bytes);
    OK(model_source_open(a, dir, out));
}

// A value that is not finite is found wherever it lies, and the largest one passes.
TEST(finite_values) {
    static const struct {
        st_type type;
        uint32_t largest, infinite, nan;
    } cases[] = {{ST_F32, 0xFF7FFFFF, 0xFF800000, 0x7F800001}, {ST_BF16, 0xFF7F, 0xFF80, 0x7F81},
            {ST_F16, 0xFBFF, 0xFC00, 0x7C01}};
    static const int places[] = {-1, 0, 1, 63, 64, 127, 128, N_VALUES - 1};
    const char *dir = temporary_dir(a);
    for (int k = 0; k < 3 * 2 * 8; k++) {
        const int kind = k / 16, place = places[k % 8];
        const bool nan = k / 8 % 2;
        float wide[N_VALUES], raw[N_VALUES];
        model_source source;
        const char *says = arena_printf(a, "is %s at [%d]", nan ? "NaN" : "infinite", place);
        write_values(a, dir, cases[kind].type, cases[kind].largest,
                nan ? cases[kind].nan : cases[kind].infinite, place, &source);
        const drv_status as_f32 = source_read_f32(&source, source.tensors, 0, N_VALUES, wide);
        assert_int_equal(as_f32, place < 0 ? DRV_OK : DRV_E_DATA);
        if (place >= 0) assert_non_null(strstr(drv_message(), says));
        const drv_status as_raw = source_read_raw(&source, source.tensors, 0, N_VALUES, raw);
        assert_int_equal(as_raw, place < 0 ? DRV_OK : DRV_E_DATA);
        if (place >= 0) assert_non_null(strstr(drv_message(), says));
        model_source_close(&source);
    }
}

// The tied output weight may lie beside the embedding when it is the same.
TEST(filling_tied) {
    const char *dir = temporary_dir(a), *file = path_join(a, dir, "model.safetensors");
    const ckpt_tensor embedding =
            whole((st_entry){"model.embed_tokens.weight", 2, {3, 4}, ST_F32}, "e", 0);
    made list[] = {{"lm_head.weight", 3, 4, 2}, {"model.embed_tokens.weight", 3, 4, 2}};
    make_file(file, list, 2);
    OK(fill(dir, &embedding, 1));
    list[0].value = 3;
    make_file(file, list, 2);
    FAILS(fill(dir, &embedding, 1), DRV_E_DATA, "differs from \"model.embed_tokens.weight\"");
}

TEST(indexes_that_lie) {
    const char *dir = temporary_dir(a), *index = path_join(a, dir, "model.safetensors.index.json");
    const ckpt_tensor list[] = {whole((st_entry){"w", 2, {3, 4}, ST_F32}, "w", 0),
            whole((st_entry){"v", 1, {3, 0}, ST_F32}, "v", 0)};
    make_file(path_join(a, dir, "one.safetensors"), &(made){"w", 3, 4, 1}, 1);
    make_file(path_join(a, dir, "two.safetensors"), &(made){"v", 3, 0, 1}, 1);
    make_file(path_join(a, dir, "both.safetensors"), (made[]){{"w", 3, 4, 1}, {"v", 3, 0, 1}}, 2);
    static const struct {
        const char *text, *says; // NULL: it loads
    } cases[] = {
            {"{\"weight_map\": {\"w\": \"one.safetensors\", \"v\": \"two.safetensors\"}}", NULL},
            {"{}", "weight_map is missing"},
            {"[]", "weight_map is missing"},
            {"{\"weight_map\": {}}", "weight_map is empty"},
            {"{\"weight_map\": [\"one.safetensors\"]}", "weight_map is not an object"},
            {"{\"weight_map\": {\"w\": 1}}", "weight_map of \"w\" is not a file name"},
            {"{\"weight_map\": {\"w\": \"../one.safetensors\"}}", "is not a file name"},
            {"{\"weight_map\": {\"w\": \"three.safetensors\"}}",
                    "names \"three.safetensors\", which is not there"},
            {"{\"weight_map\": {\"w\": \"two.safetensors\", \"v\": \"two.safetensors\"}}",
                    "has \"w\" in two.safetensors, but that file does not contain it"},
            {"{\"weight_map\": {\"w\": \"one.safetensors\"}}", "has no tensor \"v\""},
            {"{\"weight_map\": {\"w\": \"both.safetensors\"}}", "leaves out \"v\""},
            {"{\"weight_map\": {\"w\": \"both.safetensors\", \"v\": \"two.safetensors\"}}",
                    "tensor \"v\" is in"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(file_write_atomic(index, cases[i].text, strlen(cases[i].text)));
        if (cases[i].says)
            FAILS(fill(dir, list, 2), DRV_E_DATA, cases[i].says);
        else
            OK(fill(dir, list, 2));
    }
}
