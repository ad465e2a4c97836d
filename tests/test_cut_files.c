// Files from outside that another process cuts short between the look at their size and the reading
// of their bytes: each reader gives an error, and no signal ends the process.
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/pjrt/runtime/plugin.h"
#include "base/log.h"
#include "data/set/dataset_writer.h"
#include "data/set/pair_marks.h"
#include "data/set/reference_file.h"
#include "data/set/rows.h"
#include "data/sft/sft.h"
#include "infer/choices.h"
#include "launch/launch.h"
#include "tok/model_file.h"
#include "tok/tokenizer.h"

// In the place of the C library's: a file has fewer bytes than it seems to have.
static off_t bytes_that_are_gone;
// The index of a data set that is cut once it has been checked, as its tokens are opened.
static const char *index_to_cut;
static int n_looks;

int fstat(int descriptor, struct stat *out) {
    if (index_to_cut && ++n_looks == 2) assert_int_equal(truncate(index_to_cut, 4096), 0);
    const int result = fstatat(descriptor, "", out, AT_EMPTY_PATH);
    out->st_size += bytes_that_are_gone;
    return result;
}

static drv_status read_choices(arena *a, const char *path) {
    choice_set set;
    return choices_read(a, path, &set);
}

static drv_status open_tokenizer(arena *a, const char *path) {
    tokenizer *t;
    return tokenizer_open(a, path, &t);
}

static drv_status convert_model_file(arena *a, const char *path) {
    return model_file_convert(path, temporary_dir(a));
}

static drv_status hash_tokenizer(arena *a, const char *path) {
    uint64_t hash;
    DRV_TRY(dataset_tokenizer_hash(path, &hash));
    return drv_fail(DRV_E_DATA, "the hash is that of what is left");
}

static drv_status read_reference(arena *a, const char *path) {
    double values[2];
    return reference_file_read(path, "", 1, values);
}

static drv_status verify_pairs(arena *a, const char *path) {
    const dataset set = {.prefix = arena_strndup(a, path, strlen(path) - strlen(".pairs")),
            .about = {.pairs = 4096, .pairs_hash = "0"}};
    return pair_marks_verify(&set);
}

static drv_status open_dataset(arena *a, const char *path) {
    dataset *set;
    return dataset_open(a, arena_strndup(a, path, strlen(path) - strlen(".idx")), &set);
}

static drv_status rows_of(arena *a, const char *path, rows **out) {
    row_source_spec *s = ARENA_NEW(a, row_source_spec);
    *s = (row_source_spec){arena_strndup(a, path, strlen(path) - strlen(".idx")), 1};
    const rows_opts o = {.sources = s,
            .n_sources = 1,
            .row_tokens = 8,
            .n_vocab = 10,
            .packing = PACKING_DOCUMENTS};
    return rows_open(a, &o, out);
}

static drv_status open_rows(arena *a, const char *path) {
    rows *r;
    index_to_cut = path;
    return rows_of(a, path, &r);
}

static drv_status count_answers(arena *a, const char *path) {
    dataset *set;
    dataset_answers answers;
    index_to_cut = path;
    DRV_TRY(dataset_open(a, arena_strndup(a, path, strlen(path) - strlen(".idx")), &set));
    return dataset_count_answers(set, 8, &answers);
}

// Opens the set of an index that ends after its first page from then on.
static dataset *open_cut(arena *a, const char *path, const char *hash_of_pairs) {
    dataset *set;
    OK(dataset_open(a, arena_strndup(a, path, strlen(path) - strlen(".idx")), &set));
    set->about.pairs = set->n_documents / 2;
    set->about.pairs_hash = hash_of_pairs;
    assert_int_equal(truncate(path, 4096), 0);
    return set;
}

static drv_status show_document(arena *a, const char *path) {
    int64_t first, n;
    return dataset_find_document(open_cut(a, path, NULL), 0, &first, &n);
}

static drv_status name_bad_token(arena *a, const char *path) {
    return dataset_scan_vocab(open_cut(a, path, NULL), 1, NULL);
}

static drv_status write_pairs(arena *a, const char *path) {
    char hash[17];
    const dataset *set = open_cut(a, path, NULL);
    return pair_marks_write(set, set->about.pairs, hash);
}

static drv_status read_pairs(arena *a, const char *path) {
    pair_mark mark;
    return pair_marks_read(open_cut(a, path, NULL), 0, 1, &mark);
}

static drv_status verify_marks(arena *a, const char *path) {
    char hash[17];
    dataset *set;
    OK(dataset_open(a, arena_strndup(a, path, strlen(path) - strlen(".idx")), &set));
    OK(pair_marks_write(set, set->n_documents / 2, hash));
    dataset_close(set);
    return pair_marks_verify(open_cut(a, path, hash));
}

// Returns rows of a set whose index ends after its first page from then on.
static rows *cut_rows(arena *a, const char *path) {
    rows *r;
    OK(rows_of(a, path, &r));
    assert_int_equal(truncate(path, 4096), 0);
    return r;
}

static drv_status read_row(arena *a, const char *path) {
    int32_t row[3][8];
    int64_t counted = 0;
    return rows_next(cut_rows(a, path), &(row_out){row[0], row[1], row[2], .counted = &counted});
}

static drv_status bound_documents(arena *a, const char *path) {
    assert_int_equal(rows_most_documents(cut_rows(a, path)), 0);
    return drv_fail(DRV_E_IO, "the bound is not known");
}

static drv_status open_plugin(arena *a, const char *path) {
    pjrt_plugin *plugin;
    return plugin_open(a, path, &plugin);
}

static drv_status read_secret(arena *a, const char *path) {
    job_secret secret;
    bool found;
    setenv("DROVER_JOB_SECRET_FILE", path, 1);
    return launch_read_secret(&secret, &found);
}

// Readers, and what is left of the file; the rest up to `size` is gone when it is read.
static const struct reader {
    const char *file, *left;
    size_t n_left;
    off_t size;
    drv_status (*read)(arena *a, const char *path);
} readers[] = {{"choices.jsonl", "{\"context\": ", 12, 16384, read_choices},
        {"tokenizer.json", "{\"model\": ", 10, 16384, open_tokenizer},
        {"opened.model", "", 0, 16384, open_tokenizer},
        {"converted.model", "", 0, 16384, convert_model_file},
        {"cut.tiktoken", "IQ== 0\nIg=", 10, 16384, convert_model_file},
        {"hashed.json", "{", 1, 16384, hash_tokenizer},
        {"reference", "{}", 2, 16384, read_reference},
        {"set.pairs", "", 0, 4096 * sizeof(pair_mark), verify_pairs},
        {"plugin.so", "", 0, 16384, open_plugin}, {"secret", "0123456789", 10, 16384, read_secret}};

// Returns the status of the process that reads the file: 0 if the reader gave an error.
static int read_in_child(arena *a, const struct reader *r, const char *path) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL); // not a sanitizer's
        bytes_that_are_gone = r->size - (off_t)r->n_left;
        const drv_status failed = r->read(a, path);
        fprintf(stderr, "%s: %s\n", r->file, failed ? drv_message() : "read");
        _exit(failed == DRV_OK);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static bool gives_an_error(arena *a, const struct reader *r, const char *path) {
    const int status = read_in_child(a, r, path);
    if (status)
        fprintf(stderr, "%s: signal %d, exit status %d\n", r->file, WTERMSIG(status),
                WEXITSTATUS(status));
    return status == 0;
}

TEST(files_that_are_cut_short_while_they_are_read) {
    const char *dir = temporary_dir(a);
    int n_right = 0, n = sizeof readers / sizeof *readers;
    for (int i = 0; i < n; i++) {
        const char *path = path_join(a, dir, readers[i].file);
        OK(file_write_atomic(path, readers[i].left, readers[i].n_left));
        assert_int_equal(chmod(path, 0600), 0);
        n_right += gives_an_error(a, &readers[i], path);
    }
    assert_int_equal(n_right, n);
}

static const char *write_dataset(arena *a, int64_t left_of_lengths, drv_status *status) {
    enum { N = 4096 };
    const char *prefix = path_join(a, temporary_dir(a), "set");
    const int32_t ids[] = {1, 1};
    const char roles[] = {ROLE_LAST_ANSWER, ROLE_LAST_ANSWER};
    dataset_writer *writer;
    OK(dataset_writer_open(a, prefix, 10, 0, 0, true, &writer));
    for (int i = 0; i < N; i++) {
        OK(dataset_writer_add(writer, ids, 2));
        OK(dataset_writer_add_roles(writer, roles, 2));
        OK(dataset_writer_end_document(writer));
    }
    OK(dataset_writer_sync(writer));
    if (left_of_lengths >= 0)
        assert_int_equal(truncate(arena_printf(a, "%s.lengths" FILE_ASIDE, prefix),
                                 left_of_lengths),
                0);
    *status = dataset_writer_finish(writer);
    dataset_writer_close(writer, false);
    return arena_printf(a, "%s.idx", prefix);
}

TEST(an_index_that_is_cut_short_while_it_is_read) {
    enum { PAGE = 4096 };
    drv_status status;
    const char *path = write_dataset(a, -1, &status);
    const struct reader r = {.file = "set.idx",
            .n_left = PAGE,
            .size = file_size(path),
            .read = open_dataset};
    OK(status);
    assert_int_equal(truncate(path, PAGE), 0);
    assert_true(gives_an_error(a, &r, path));
}

TEST(an_index_that_is_cut_short_after_it_was_checked) {
    static const struct reader of[] = {{.file = "rows", .read = open_rows},
            {.file = "answers", .read = count_answers}, {.file = "document", .read = show_document},
            {.file = "token", .read = name_bad_token},
            {.file = "pairs written", .read = write_pairs},
            {.file = "pairs read", .read = read_pairs},
            {.file = "pairs verified", .read = verify_marks}, {.file = "a row", .read = read_row},
            {.file = "a bound", .read = bound_documents}};
    int n_right = 0, n = sizeof of / sizeof *of;
    for (int i = 0; i < n; i++) {
        drv_status status;
        const char *path = write_dataset(a, -1, &status);
        OK(status);
        n_right += gives_an_error(a, &of[i], path);
    }
    assert_int_equal(n_right, n);
}

TEST(lengths_that_are_cut_short_before_the_index_is_made) {
    drv_status status;
    const char *path = write_dataset(a, 4, &status);
    FAILS(status, DRV_E_IO, "cut short while it was read");
    assert_false(file_exists(path));
}
