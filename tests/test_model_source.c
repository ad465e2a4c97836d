// Models as sources of tensors, and folders of tensors written in shards.
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "source/model_source.h"
#include "ckpt/model_writer.h"
#include "ckpt/tensor_writer.h"

// --- numbers
// Every f16 comes back; every value between two neighbours goes to the nearer one, ties to even.
TEST(halves_round_to_nearest_even) {
    for (uint32_t h = 0; h < 0x7C00; h++) {
        const float low = f16_to_f32((uint16_t)h);
        assert_int_equal(f32_to_f16(low), h);
        assert_int_equal(f32_to_f16(-low), h | 0x8000);
        if (h == 0x7BFF) break;
        const float high = f16_to_f32((uint16_t)(h + 1)), middle = low + (high - low) / 2;
        assert_int_equal(f32_to_f16(middle), h + (h & 1));
        assert_int_equal(f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_true(
            f16_to_f32(1) == 0x1p-24f && f16_to_f32(0x3C00) == 1 && f16_to_f32(0x7BFF) == 65504);
    assert_int_equal(f32_to_f16(nextafterf(65520, 0)), 0x7BFF);
    assert_int_equal(f32_to_f16(65520), 0x7C00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(f32_to_f16(0x1p-26f), 0);
    assert_true(isnan(f16_to_f32(f32_to_f16((float)NAN))) && isinf(f16_to_f32(0xFC00)));
}

TEST(what_a_type_cannot_hold) {
    uint16_t out[2];
    OK(tensor_round("w", ST_F16, (float[]){65519, -65519}, 2, out));
    FAILS(tensor_round("w", ST_F16, (float[]){1, 65520}, 2, out), DRV_E_DATA,
            "tensor \"w\" has the value 65520, which F16 cannot hold");
    OK(tensor_round("w", ST_BF16, (float[]){65520, 3e38f}, 2, out));
    FAILS(tensor_round("w", ST_BF16, (float[]){3.4e38f, 0}, 2, out), DRV_E_DATA,
            "which BF16 cannot hold");
}

// --- written in shards, read by rows
static const st_entry entries[] = {{"a", 2, {5, 3}, ST_BF16}, {"odd \"name\"\n", 1, {7, 0}, ST_F16},
        {"c", 2, {4, 6}, ST_F32}, {"none", 1, {0, 0}, ST_F32}, {"e", 1, {2, 0}, ST_BF16}};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

static float value_of(int t, int64_t i) {
    return (float)(noise((uint64_t)t, (uint64_t)i) * 10);
}

static drv_status write_folder(arena *a, const char *path, int64_t shard_bytes) {
    out_folder o;
    tensor_writer *w;
    OK(out_folder_begin(a, path, &o));
    OK(tensor_writer_open(&o, "model", entries, N_ENTRIES, shard_bytes, &w));
    for (int t = 0; t < N_ENTRIES; t++)
        for (int64_t i = 0; i < st_entry_elements(&entries[t]); i++) {
            char bytes[4];
            OK(tensor_round("t", entries[t].type, (float[]){value_of(t, i)}, 1, bytes));
            OK(tensor_writer_add(w, bytes, st_type_bytes(entries[t].type)));
        }
    OK(tensor_writer_close(w, DRV_OK));
    OK(out_folder_sync(&o));
    return out_folder_commit(&o, path);
}

static float rounded(st_type type, float x) {
    return type == ST_BF16  ? bf16_to_f32(f32_to_bf16(x))
           : type == ST_F16 ? f16_to_f32(f32_to_f16(x))
                            : x;
}

static void check_rows(const model_source *s, int t) {
    const source_tensor *from = model_source_find(s, entries[t].name);
    assert_non_null(from);
    assert_int_equal(from->type, entries[t].type);
    assert_int_equal(from->rows, entries[t].dim[0]);
    float x[64];
    uint16_t raw[64];
    for (int64_t row = 0; row < from->rows; row++) {
        OK(source_read_f32(s, from, row, 1, x));
        for (int64_t k = 0; k < from->cols; k++)
            assert_true(x[k] == rounded(from->type, value_of(t, row * from->cols + k)));
        OK(source_read_raw(s, from, row, 1, raw));
        if (from->type == ST_F32) assert_memory_equal(raw, x, (size_t)from->row_bytes);
        for (int64_t k = 0; k < from->cols && from->type == ST_BF16; k++)
            assert_true(bf16_to_f32(raw[k]) == x[k]);
    }
}

TEST(shards_and_rows) {
    static const struct {
        int64_t limit;
        int n_files; // shards, and their index
    } cases[] = {{0, 1}, {1 << 20, 1}, {144, 1}, {143, 3}, {140, 3}, {60, 4}, {1, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = path_join(a, temporary_dir(a), "out");
        char **names;
        int n;
        OK(write_folder(a, path, cases[i].limit));
        OK(dir_list(a, path, &names, &n));
        if (n != cases[i].n_files) fail_msg("limit %lld: %d files", (long long)cases[i].limit, n);
        assert_false(file_exists(arena_printf(a, "%s" FILE_ASIDE, path)));
        model_source s;
        OK(model_source_open(a, path, &s));
        assert_int_equal(s.n, N_ENTRIES);
        for (int t = 0; t < N_ENTRIES; t++)
            check_rows(&s, t);
        model_source_close(&s);
    }
}

// A folder that others use: files of the same names are replaced, an earlier model goes with its
// proof and figures, the rest stays.
TEST(into_a_folder_in_use) {
    const char *dir = temporary_dir(a);
    static const char *const before[] = {"README.md", "model-00001-of-00009.safetensors",
            "model.safetensors.index.json", "config.json", "verify.json", "trainer.json"};
    static const char *const after[] = {"README.md", "config.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        OK(file_write_atomic(path_join(a, dir, before[i]), "old", 3));
    out_folder o;
    OK(out_folder_begin(a, arena_printf(a, "%s/", dir), &o));
    OK(out_folder_put(&o, "config.json", "new", 3));
    OK(out_folder_put(&o, "model.safetensors", "new", 3));
    OK(out_folder_commit_into(&o, dir));
    char **names, *text;
    int n;
    size_t n_text;
    OK(dir_list(a, dir, &names, &n));
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        assert_string_equal(names[i], after[i]);
        OK(file_read(a, path_join(a, dir, names[i]), &text, &n_text));
        assert_string_equal(text, i ? "new" : "old");
    }
}

// A link stands for its folder; a folder in a folder of that name is moved file by file; a link to
// nothing is refused before the work.
TEST(into_a_folder_by_a_link) {
    const char *dir = temporary_dir(a), *target = path_join(a, dir, "target"),
               *link = path_join(a, dir, "link"), *nowhere = path_join(a, dir, "nowhere");
    out_folder o;
    OK(dir_make(target));
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(symlink("none", nowhere), 0);
    FAILS(model_write_check(dir, nowhere, true), DRV_E_USAGE, "is a link to nothing");
    for (int i = 0; i < 2; i++) {
        OK(model_write_check(dir, link, i > 0));
        out_folder_name(a, link, &o);
        OK(out_folder_make(&o));
        OK(out_folder_put(&o, "below/file", i ? "new" : "old", 3));
        OK(out_folder_place(&o, i > 0));
        char *text;
        size_t n;
        OK(file_read(a, path_join(a, target, "below/file"), &text, &n));
        assert_string_equal(text, i ? "new" : "old");
        assert_false(file_exists(arena_printf(a, "%s" FILE_ASIDE, target)));
    }
}

// Only what has drover's own ending is in the way.
TEST(a_users_tmp_stays) {
    const char *out = path_join(a, temporary_dir(a), "out"),
               *theirs = path_join(a, arena_printf(a, "%s.tmp", out), "config.json");
    out_folder o;
    OK(dir_make(path_parent(a, theirs)));
    OK(file_write_atomic(theirs, "mine", 4));
    for (int i = 0; i < 2; i++) { // the first one is killed
        OK(out_folder_begin(a, out, &o));
        OK(out_folder_put(&o, i ? "new" : "old", "text", 4));
    }
    OK(out_folder_commit(&o, out));
    assert_int_equal(file_size(theirs), 4);
    assert_false(file_exists(path_join(a, out, "old")));
    assert_int_equal(file_size(path_join(a, out, "new")), 4);
}

// The current folder stays the same folder. What a killed writer left does not count as files.
TEST(into_the_current_folder) {
    const char *dir = temporary_dir(a);
    const int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    out_folder o;
    assert_int_equal(chdir(dir), 0);
    OK(dir_make(OUT_FOLDER_TMP));
    OK(model_write_check("/", ".", false));
    out_folder_name(a, ".", &o);
    OK(out_folder_make(&o));
    OK(out_folder_put(&o, "file", "text", 4));
    OK(out_folder_place(&o, false));
    assert_int_equal(file_size("file"), 4);
    assert_false(file_exists(OUT_FOLDER_TMP));
    FAILS(model_write_check("/", ".", false), DRV_E_USAGE, "has files in it, as \"file\"");
    assert_int_equal(fchdir(before), 0);
    close(before);
}

// The C library's, which fails for folders as on a full disk if full_disk is set.
static bool full_disk;
int fsync(int fd) {
    struct stat st;
    if (!full_disk || fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode)) return 0;
    errno = ENOSPC;
    return -1;
}

// Another try would be refused, since the output is there: the message says so, and the status is
// not the one that asks for another try.
TEST(in_place_but_not_synced) {
    const char *out = path_join(a, temporary_dir(a), "out");
    for (int i = 0; i < 2; i++) { // renamed, then into the folder that is there
        out_folder o;
        out_folder_name(a, out, &o);
        OK(out_folder_make(&o));
        OK(out_folder_put(&o, "file", "text", 4));
        full_disk = true;
        FAILS(out_folder_place(&o, i > 0), DRV_E_IO, "out\" is in place, but may be gone after a");
        full_disk = false;
        assert_int_equal(file_size(path_join(a, out, "file")), 4);
    }
}

// Two writers of one folder: the second is refused, and what the first has written stays.
TEST(consolidate_takes_the_lock) {
    const char *dir = temporary_dir(a), *from = golden_path(a, "tied"),
               *out = path_join(a, dir, "out");
    file_lock lock;
    out_folder o;
    OK(model_write_open(a, from, out, false, &o, &lock));
    OK(out_folder_make(&o));
    OK(out_folder_put(&o, "file", "text", 4));
    FAILS(ckpt_consolidate(a, from, out, 0, false), DRV_E_IO, "another drover");
    assert_int_equal(file_size(path_join(a, o.tmp, "file")), 4);
    file_lock_release(&lock);
    OK(ckpt_consolidate(a, from, out, 0, false));
    assert_false(file_exists(o.lock));
}

// Copies a file that memory need not hold, and one in a folder of its own; a folder that cannot be
// made is a failure.
TEST(copies_of_files) {
    const char *dir = temporary_dir(a), *from = path_join(a, dir, "from"),
               *out = path_join(a, dir, "out");
    enum { BYTES = (4 << 20) + 5 };
    char *bytes = mem_alloc(BYTES), *copy;
    size_t n;
    out_folder o;
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)(i / 7);
    OK(file_write_atomic(from, bytes, BYTES));
    OK(out_folder_begin(a, out, &o));
    OK(out_folder_copy(&o, "a/copy", from));
    assert_int_equal(o.files[0].bytes, BYTES);
    FAILS(out_folder_copy(&o, "a/copy/below", from), DRV_E_IO, "a/copy");
    FAILS(out_folder_copy(&o, "b", path_join(a, dir, "none")), DRV_E_IO, "none");
    OK(file_read(a, path_join(a, o.tmp, "a/copy"), &copy, &n));
    assert_int_equal(n, BYTES);
    assert_memory_equal(copy, bytes, BYTES);
    out_folder_discard(&o);
    free(bytes);
}

// --- names
static drv_status open_named(arena *a, const char *const *names, model_source *out) {
    const char *dir = temporary_dir(a);
    st_entry list[8];
    str file = {0};
    int n = 0;
    for (; names[n]; n++)
        list[n] = (st_entry){names[n], 1, {1, 0}, ST_BF16};
    st_header(list, n, &file);
    for (int i = 0; i < n; i++)
        str_add(&file, "\1", 2);
    OK(file_write_atomic(path_join(a, dir, "model.safetensors"), file.p, file.n));
    str_free(&file);
    return model_source_open(a, dir, out);
}

// Trainers put their wrappers' names before those of transformers; a model without its output
// weight has no "model." (transformers' LlamaModel).
TEST(names_of_trainers) {
    static const char *const same[] = {"model.embed_tokens.weight", "model.layers.0.x.weight",
            "lm_head.weight"};
    static const char *const cases[][4] = {{"module.model.embed_tokens.weight",
                                                   "module.model.layers.0.x.weight",
                                                   "module.lm_head.weight"},
            {"_orig_mod.model.embed_tokens.weight", "_orig_mod.model.layers.0.x.weight",
                    "_orig_mod.lm_head.weight"},
            {"module.model.embed_tokens.weight", "module.model.layers.0._orig_mod.x.weight",
                    "module.lm_head.weight"},
            {"model.embed_tokens.weight",
                    "model._fsdp_wrapped_module.layers.0._checkpoint_wrapped_module.x.weight",
                    "lm_head.weight"},
            {"embed_tokens.weight", "layers.0.x.weight", "lm_head.weight"},
            {"model.language_model.embed_tokens.weight", "model.language_model.layers.0.x.weight",
                    "lm_head.weight"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_source s;
        OK(open_named(a, cases[i], &s));
        for (int k = 0; k < 3; k++)
            if (!model_source_find(&s, same[k])) fail_msg("case %zu: no \"%s\"", i, same[k]);
        model_source_close(&s);
    }
    static const char *const twice[] = {"module.model.embed_tokens.weight",
            "module.model.norm.weight", "model.norm.weight", NULL};
    model_source s;
    FAILS(open_named(a, twice, &s), DRV_E_DATA, "two tensors are \"model.norm.weight\"");
}

// --- what is not read
TEST(other_layouts_are_refused) {
    static const struct {
        const char *file, *says;
    } cases[] = {{"pytorch_model.bin", "is not a file of torch.save"},
            {"model-00001-of-00002.pt", "give its own path, with config.json in the same folder: "},
            {"pytorch_model.bin.index.json", "weight_map is missing"},
            {"params.json", "consolidated.00.pth, are not there"},
            {"consolidated.safetensors", "Mistral's own layout"},
            {"zero_to_fp32.py", "a checkpoint of DeepSpeed; python zero_to_fp32.py . OUT"},
            {"adapter_config.json", "drover ckpt merge BASE ADAPTER"},
            {"config.json", "has neither model.safetensors nor its index"}};
    model_source s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = temporary_dir(a);
        OK(file_write_atomic(path_join(a, dir, cases[i].file), "{}", 2));
        FAILS(model_source_open(a, dir, &s), DRV_E_DATA, cases[i].says);
        model_source_close(&s);
    }
    const char *file = path_join(a, temporary_dir(a), "model.safetensors");
    OK(file_write_atomic(file, "{}", 2));
    FAILS(model_source_open(a, file, &s), DRV_E_DATA, "expected its folder, with config.json");
    file = path_join(a, temporary_dir(a), "model.bin");
    OK(file_write_atomic(file, "{}", 2));
    FAILS(model_source_open(a, file, &s), DRV_E_DATA, "model.bin\" is not a file of torch.save");
    FAILS(model_source_open(a, "/no/such", &s), DRV_E_IO, "does not exist");
}

TEST(a_run_is_no_model) {
    model_source s;
    const char *run = path_join(a, temporary_dir(a), "my run");
    OK(dir_make(path_join(a, run, "checkpoints/step-000001")));
    FAILS(model_source_open(a, run, &s), DRV_E_DATA,
            "my run\" is a run directory, expected one of its checkpoints: drover ckpt list '/");
    FAILS(model_source_open(a, path_join(a, run, "checkpoints"), &s), DRV_E_DATA,
            "is a run directory");
}

TEST(a_file_that_is_shortened) {
    const char *path = path_join(a, temporary_dir(a), "out");
    OK(write_folder(a, path, 0));
    model_source s;
    float x[64];
    OK(model_source_open(a, path, &s));
    const char *file = path_join(a, path, "model.safetensors");
    assert_int_equal(truncate(file, file_size(file) - 8), 0);
    const source_tensor *last = model_source_find(&s, "e"), *first = model_source_find(&s, "a");
    FAILS(source_read_f32(&s, last, 0, 2, x), DRV_E_IO, "was shortened while it was read");
    OK(source_read_f32(&s, first, 0, 5, x));
    model_source_close(&s);
}
