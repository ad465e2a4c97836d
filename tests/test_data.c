// Data sets, rows and the builder: what is read is what was written, nothing is dropped, order and
// resume are exact, broken files are refused by name.
#include "harness.h"

#include <fcntl.h>
#include <unistd.h>

#include "data/set/build.h"
#include "data/set/dataset_writer.h"
#include "read_row.h"
#include "tok/bpe_trainer.h"

static const char *write_set(arena *a, const char *name, const int *sizes, int n, int32_t first) {
    const char *prefix = path_join(a, temporary_dir(a), name);
    dataset_writer *w;
    int32_t next = first, ids[1000];
    OK(dataset_writer_open(a, prefix, 60000, 0, 0, false, &w));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < sizes[i]; k++)
            ids[k] = next++;
        OK(dataset_writer_add(w, ids, sizes[i]));
        OK(dataset_writer_end_document(w));
    }
    OK(dataset_writer_finish(w));
    return prefix;
}

static rows_opts opts_of(const row_source_spec *s, int n, int64_t width, bool shuffle) {
    return (rows_opts){.sources = s,
            .n_sources = n,
            .row_tokens = width,
            .n_vocab = 60000,
            .seed = 5,
            .shuffle = shuffle,
            .packing = PACKING_DOCUMENTS};
}

static void round_trip(void **state) {
    arena *a = arena_new("data");
    const char *prefix = write_set(a, "set", (int[]){3, 0, 5, 1}, 4, 10);
    dataset *d;
    OK(dataset_open(a, prefix, &d));
    assert_int_equal(d->n_documents, 4);
    assert_int_equal(d->n_tokens, 9);
    assert_int_equal(d->code, 8);
    const int64_t starts[] = {0, 3, 3, 8, 9};
    for (int i = 0; i < 5; i++)
        assert_int_equal(dataset_document_start(d, i), starts[i]);
    assert_int_equal(dataset_document_of(d, 2), 0);
    assert_int_equal(dataset_document_of(d, 3), 2);
    assert_int_equal(dataset_document_of(d, 8), 3);
    int32_t ids[9];
    OK(dataset_read(d, 0, 9, 60000, ids));
    for (int i = 0; i < 9; i++)
        assert_int_equal(ids[i], 10 + i);
    FAILS(dataset_read(d, 0, 9, 15, ids), DRV_E_DATA,
            "token 5 (in document 2) is 15, expected 0 to 14");
    dataset_close(d);
    arena_free(a);
}

// Byte for byte as Megatron writes it: the header of reference data sets, arrays at offset 34.
static void index_bytes(void **state) {
    arena *a = arena_new("data");
    const char *prefix = write_set(a, "set", (int[]){3, 2}, 2, 0);
    char *p;
    size_t n;
    OK(file_read(a, arena_printf(a, "%s.idx", prefix), &p, &n));
    const unsigned char want[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            8, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2,
            0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(n, sizeof want);
    assert_memory_equal(p, want, n);
    arena_free(a);
}

// One epoch of shuffled rows holds every token once, and predicts all but the first of each
// document and each document's last.
static void nothing_is_dropped(void **state) {
    arena *a = arena_new("rows");
    const int sizes[] = {13, 1, 40, 7, 90, 2, 33};
    const char *prefix = write_set(a, "set", sizes, 7, 0);
    const row_source_spec spec = {prefix, 1};
    rows_opts opts = opts_of(&spec, 1, 16, true);
    rows *stream;
    OK(rows_open(a, &opts, &stream));
    assert_int_equal(rows_per_epoch(stream), (186 + 15) / 16);
    int seen[186] = {0}, predicted[187] = {0};
    int32_t tokens[16], position[16], labels[16];
    int64_t counted = 0;
    for (int64_t i = 0; i < rows_per_epoch(stream); i++) {
        OK(read_row(stream, tokens, position, labels, &counted));
        for (int k = 0; k < 16; k++) {
            if (labels[k] >= 0) {
                predicted[labels[k]]++;
                assert_int_equal(labels[k], tokens[k] + 1);
            }
            if (position[k] > 0 && labels[k] >= 0) assert_int_equal(tokens[k], tokens[k - 1] + 1);
            assert_true(position[k] <= k);
            if (!(tokens[k] == 0 && k > 0)) seen[tokens[k]]++; // the padding repeats token 0
        }
    }
    for (int i = 0; i < 186; i++)
        assert_int_equal(seen[i], 1);
    int64_t at = 0, want = 0;
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < sizes[i]; k++)
            assert_int_equal(predicted[at + k], k > 0);
        at += sizes[i];
        want += sizes[i] - 1;
    }
    assert_int_equal(counted, want);
    rows_close(stream);
    arena_free(a);
}

// 4 rows of 8 tokens and the token that the last one predicts; one token trains nothing.
static void last_token_begins_no_row(void **state) {
    arena *a = arena_new("data");
    const row_source_spec s = {write_set(a, "set", (int[]){33}, 1, 0), 1},
                          alone = {write_set(a, "one", (int[]){1}, 1, 0), 1};
    rows *r;
    rows_opts o = opts_of(&s, 1, 8, true), one = opts_of(&alone, 1, 8, true);
    OK(rows_open(a, &o, &r));
    assert_int_equal(rows_per_epoch(r), 4);
    for (int i = 0; i < 4; i++) {
        int32_t tokens[8], position[8], labels[8];
        int64_t counted = 0;
        OK(read_row(r, tokens, position, labels, &counted));
        assert_int_equal(counted, 8);
    }
    rows_close(r);
    FAILS(rows_open(a, &one, &r), DRV_E_DATA, "nothing to predict");
    arena_free(a);
}

static void order_and_resume(void **state) {
    arena *a = arena_new("rows");
    int sizes[50];
    for (int i = 0; i < 50; i++)
        sizes[i] = 1 + i * 7 % 23;
    row_source_spec spec[] = {{write_set(a, "one", sizes, 50, 0), 3},
            {write_set(a, "two", sizes, 50, 1000), 1}};
    rows_opts opts = opts_of(spec, 2, 8, true);
    rows *stream, *again;
    OK(rows_open(a, &opts, &stream));
    OK(rows_open(a, &opts, &again));
    enum { N = 200 };
    int32_t first[N][8], id[8], position[8], label[8];
    int64_t counted = 0;
    int from_two = 0;
    for (int i = 0; i < N; i++) {
        OK(read_row(stream, first[i], position, label, &counted));
        from_two += first[i][0] >= 1000;
        // Blends are exact: after i rows each source is within one of its share.
        assert_true(abs(4 * from_two - (i + 1)) <= 4);
    }
    for (int i = 0; i < N; i += 37) {
        rows_seek(again, i);
        OK(read_row(again, id, position, label, &counted));
        assert_memory_equal(id, first[i], sizeof id);
    }
    int differ = 0; // the second epoch has another order
    const int64_t epoch = rows_per_epoch(stream) / 2;
    for (int i = 0; i < 20; i++)
        differ += memcmp(first[i], first[i + epoch], sizeof id) != 0;
    assert_true(differ > 10);
    rows_close(stream);
    rows_close(again);
    arena_free(a);
}

static void splits_are_apart(void **state) {
    arena *a = arena_new("rows");
    int sizes[100];
    for (int i = 0; i < 100; i++)
        sizes[i] = 5;
    const row_source_spec spec = {write_set(a, "set", sizes, 100, 0), 1};
    rows_opts train = opts_of(&spec, 1, 8, false), valid = train;
    train.split[0] = valid.split[0] = 0.9;
    train.split[1] = valid.split[1] = 0.1;
    valid.part = PART_VALID;
    rows *r;
    int32_t tokens[8], position[8], labels[8];
    int64_t counted = 0;
    OK(rows_open(a, &train, &r));
    assert_int_equal(rows_per_epoch(r), (450 + 7) / 8);
    for (int64_t i = 0; i < rows_per_epoch(r); i++) {
        OK(read_row(r, tokens, position, labels, &counted));
        for (int k = 0; k < 8; k++)
            assert_true(tokens[k] < 450 && labels[k] < 450);
    }
    rows_close(r);
    OK(rows_open(a, &valid, &r));
    OK(read_row(r, tokens, position, labels, &counted));
    assert_int_equal(tokens[0], 450);
    rows_close(r);
    arena_free(a);
}

static void broken_files(void **state) {
    arena *a = arena_new("broken");
    const char *prefix = write_set(a, "set", (int[]){4, 4}, 2, 0),
               *idx = arena_printf(a, "%s.idx", prefix), *bin = arena_printf(a, "%s.bin", prefix);
    dataset *set;
    char *good;
    size_t n_index;
    OK(file_read(a, idx, &good, &n_index));
    const struct {
        size_t at;
        char value;
        const char *says;
    } cases[] = {{0, 'X', "does not begin with MMIDIDX"}, {9, 2, "version is 2, expected 1"},
            {17, 7, "dtype code is 7"}, {17, 99, "dtype code is 99"},
            {18, 3, "does not fit 3 sequences"}, {34, 5, "sequence 1"}, {42, 1, "sequence 0"},
            {58, 1, "document entry 0"}, {66, 3, "document entry 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = arena_alloc(a, n_index);
        memcpy(bad, good, n_index);
        bad[cases[i].at] = cases[i].value;
        OK(file_write_atomic(idx, bad, n_index));
        FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, cases[i].says);
    }
    OK(file_write_atomic(idx, good, 20));
    FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, "20 bytes long, cut short");
    OK(file_write_atomic(idx, good, n_index));
    OK(file_write_atomic(bin, "1234567", 7));
    FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, "7 bytes long, but its index has 8 tokens");
    unlink(bin);
    FAILS(dataset_open(a, prefix, &set), DRV_E_IO, "could not open");
    FAILS(dataset_open(a, "", &set), DRV_E_USAGE, "the name of the data set is empty");
    arena_free(a);
}

// Megatron ends the index of a multimodal data set with a byte per sequence: its mode. They are
// passed over; any other number of bytes is refused.
static void mode_bytes_are_optional(void **state) {
    enum { N_SEQUENCES = 4, N_TOKENS = 9 };
    arena *a = arena_new("modes");
    const char *prefix = write_set(a, "set", (int[]){3, 0, 5, 1}, N_SEQUENCES, 10),
               *idx = arena_printf(a, "%s.idx", prefix);
    char *plain;
    size_t n_index;
    OK(file_read(a, idx, &plain, &n_index));
    for (size_t n_modes = 0; n_modes <= 2 * N_SEQUENCES; n_modes++) {
        char *bytes = arena_alloc(a, n_index + n_modes);
        dataset *set;
        memcpy(bytes, plain, n_index);
        memset(bytes + n_index, 1, n_modes);
        OK(file_write_atomic(idx, bytes, n_index + n_modes));
        if (n_modes != 0 && n_modes != N_SEQUENCES) {
            FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, "does not fit 4 sequences");
            continue;
        }
        int32_t ids[N_TOKENS];
        OK(dataset_open(a, prefix, &set));
        assert_int_equal(set->n_documents, N_SEQUENCES);
        OK(dataset_read(set, 0, N_TOKENS, 60000, ids));
        for (int i = 0; i < N_TOKENS; i++)
            assert_int_equal(ids[i], 10 + i);
        dataset_close(set);
    }
    arena_free(a);
}

static const char *make_tokenizer(arena *a) {
    const char *dir = path_join(a, temporary_dir(a), "tok");
    static const char *const specials[] = {"<|endoftext|>"};
    bpe_trainer *t = bpe_trainer_new(&(bpe_trainer_opts){.vocab_size = 300,
            .min_frequency = 2,
            .specials = specials,
            .n_specials = 1});
    const char *text = "the cat and the dog and the hat; the rat sat on the mat and that was that";
    int64_t n;
    bpe_trainer_add(t, &(text_piece){text, strlen(text), true, true}, 0);
    OK(bpe_trainer_finish(t, dir, &n));
    bpe_trainer_free(t);
    return dir;
}

static void builder(void **state) {
    arena *a = arena_new("build");
    const char *tok = make_tokenizer(a), *dir = temporary_dir(a),
               *in = path_join(a, dir, "in.jsonl");
    const char *lines = "{\"text\": \"the cat\"}\n"
                        "\n"
                        "{\"text\": \"\xC3\xA9t\xC3\xA9\"}\n"
                        "{\"other\": 1}\n"
                        "broken\n"
                        "{\"text\": \"\"}\n"
                        "{\"text\": \"dog\\u0000\"}";
    OK(file_write_atomic(in, lines, strlen(lines)));
    const char *inputs[] = {in};
    build_opts opts = {.inputs = inputs,
            .n_inputs = 1,
            .tokenizer = tok,
            .prefix = path_join(a, dir, "out"),
            .append_eod = true};
    build_stats s;
    OK(dataset_build(a, &opts, &s));
    assert_int_equal(s.all.documents, 4);
    assert_int_equal(s.all.skipped, 2);
    dataset *d;
    OK(dataset_open(a, opts.prefix, &d));
    assert_int_equal(d->n_documents, 4);
    int32_t last;
    OK(dataset_read(d, dataset_document_start(d, 3) - 1, 1, 300, &last));
    assert_int_equal(last, 0); // the empty document is its end-of-text alone
    dataset_close(d);
    opts.reader.strict = true;
    FAILS(dataset_build(a, &opts, &s), DRV_E_DATA, "in.jsonl:4: \"text\": has no such key");
    assert_true(
            file_exists(arena_printf(a, "%s.bin", opts.prefix))); // the earlier set is untouched
    assert_false(file_exists(arena_printf(a, "%s.bin.drover-tmp", opts.prefix)));
    arena_free(a);
}

// Files that no build made are neither replaced nor removed.
static void files_of_the_user_stay(void **state) {
    static const char *const beside[] = {"bin.tmp", "idx.tmp", "roles.tmp"},
                             *const refused[] = {"bin", "roles", "pairs", "idx.json"};
    arena *a = arena_new("theirs");
    const char *tok = make_tokenizer(a), *dir = temporary_dir(a), *in = path_join(a, dir, "in.txt");
    OK(file_write_atomic(in, "the cat", 7));
    const char *inputs[] = {in};
    build_opts opts = {.inputs = inputs, .n_inputs = 1, .tokenizer = tok};
    build_stats stats;
    opts.prefix = path_join(a, dir, "x");
    for (int i = 0; i < 3; i++)
        OK(file_write_atomic(arena_printf(a, "%s.%s", opts.prefix, beside[i]), "a user's", 8));
    OK(dataset_build(a, &opts, &stats));
    for (int i = 0; i < 3; i++)
        assert_int_equal(file_size(arena_printf(a, "%s.%s", opts.prefix, beside[i])), 8);
    for (int i = 0; i < 4; i++) {
        opts.prefix = path_join(a, dir, refused[i]);
        const char *path = arena_printf(a, "%s.%s", opts.prefix, refused[i]);
        OK(file_write_atomic(path, "a user's", 8));
        FAILS(dataset_build(a, &opts, &stats), DRV_E_USAGE, "does not belong to a data set");
        assert_int_equal(file_size(path), 8);
    }
    opts.prefix = path_join(a, dir, "y");
    const char *journal = arena_printf(a, "%s.build.json", opts.prefix);
    OK(file_write_atomic(journal, "{\"name\": \"theirs\"}", 18));
    FAILS(dataset_build(a, &opts, &stats), DRV_E_USAGE,
            "y.build.json\" is not the journal of a build");
    assert_int_equal(file_size(journal), 18);
    opts.prefix = path_join(a, dir, "z");
    OK(dir_make(arena_printf(a, "%s.lengths.drover-tmp", opts.prefix)));
    FAILS(dataset_build(a, &opts, &stats), DRV_E_IO, "it is a folder, expected a file on a disk");
    arena_free(a);
}

// A text that ends with the token that --append-eod puts after it ends with two, as in Megatron-LM;
// a response of a pair with one, as in TRL.
static void texts_that_end_themselves(void **state) {
    static const char text
            [] = "the cat<|endoftext|>\n\nthe dog",
        pair[] = "{\"prompt\": \"the\", \"chosen\": \" cat<|endoftext|>\", \"rejected\": \" dog\"}";
    arena *a = arena_new("ended");
    const char *dir = temporary_dir(a), *inputs[] = {path_join(a, dir, "in.txt")};
    build_opts opts = {.inputs = inputs,
            .n_inputs = 1,
            .tokenizer = make_tokenizer(a),
            .prefix = path_join(a, dir, "out"),
            .reader.separator = "\n\n",
            .append_eod = true};
    build_stats stats;
    dataset *set;
    int32_t ids[2];
    OK(file_write_atomic(inputs[0], text, strlen(text)));
    OK(dataset_build(a, &opts, &stats));
    assert_int_equal(stats.all.ended_twice, 1);
    OK(dataset_open(a, opts.prefix, &set));
    OK(dataset_read(set, dataset_document_start(set, 1) - 2, 2, 300, ids));
    assert_true(ids[0] == 0 && ids[1] == 0);
    dataset_close(set);
    inputs[0] = path_join(a, dir, "in.jsonl");
    opts.append_eod = false;
    opts.reader.separator = NULL;
    opts.sft = opts.preference = true;
    opts.template = "none";
    OK(file_write_atomic(inputs[0], pair, strlen(pair)));
    OK(dataset_build(a, &opts, &stats));
    OK(dataset_open(a, opts.prefix, &set));
    for (int i = 1; i <= 2; i++) {
        OK(dataset_read(set, dataset_document_start(set, i) - 2, 2, 300, ids));
        assert_true(ids[0] != 0 && ids[1] == 0);
    }
    dataset_close(set);
    arena_free(a);
}

// A build that cannot write its index leaves the set that it would have replaced as it was. Where
// only the last rename fails, nothing is left that a later build would refuse to replace.
static void builds_that_fail_at_the_end(void **state) {
    arena *a = arena_new("end");
    const int old[] = {3, 4};
    const int32_t ids[] = {9, 8, 7};
    const char *prefix = write_set(a, "set", old, 2, 1), *index = arena_printf(a, "%s.idx", prefix),
               *about = arena_printf(a, "%s.idx.json", prefix),
               *tokens = arena_printf(a, "%s.bin", prefix),
               *in_the_way = arena_printf(a, "%s" FILE_ASIDE, index);
    dataset_writer *w;
    dataset *set;
    OK(file_write_atomic(about, "{}", 2));
    for (int last = 0; last < 2; last++) {
        if (last) assert_int_equal(unlink(index), 0);
        OK(dir_make(last ? index : in_the_way));
        OK(dataset_writer_open(a, prefix, 60000, 0, 0, false, &w));
        OK(dataset_writer_add(w, ids, 3));
        OK(dataset_writer_end_document(w));
        assert_int_equal(dataset_writer_finish(w), DRV_E_IO);
        dataset_writer_close(w, false);
        OK(dir_remove(last ? index : in_the_way));
        if (last) continue;
        OK(dataset_open(a, prefix, &set));
        assert_int_equal(set->n_tokens, 7);
        dataset_close(set);
        assert_true(file_exists(about));
    }
    assert_false(file_exists(tokens));
    arena_free(a);
}

// The same files on 1 and on 3 threads.
static void workers_do_not_matter(void **state) {
    arena *a = arena_new("workers");
    const char *tok = make_tokenizer(a), *dir = temporary_dir(a), *in = path_join(a, dir, "in.txt");
    str text = {0};
    for (int i = 0; i < 5000; i++)
        str_printf(&text, "document %d of the cat and the dog %d\n\n", i, i * i);
    OK(file_write_atomic(in, text.p, text.n));
    str_free(&text);
    const char *inputs[] = {in};
    char *bytes[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        build_stats s;
        build_opts o = {.reader = {.separator = "\n\n"},
                .inputs = inputs,
                .n_inputs = 1,
                .tokenizer = tok,
                .prefix = path_join(a, dir, i ? "b" : "a")};
        par_set_threads(i ? 3 : 1);
        OK(dataset_build(a, &o, &s));
        assert_int_equal(s.all.documents, 5000);
        OK(file_read(a, arena_printf(a, "%s.bin", o.prefix), &bytes[i], &n[i]));
    }
    par_set_threads(2);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    arena_free(a);
}

int main(void) {
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(index_bytes),
            cmocka_unit_test(nothing_is_dropped), cmocka_unit_test(last_token_begins_no_row),
            cmocka_unit_test(order_and_resume), cmocka_unit_test(splits_are_apart),
            cmocka_unit_test(broken_files), cmocka_unit_test(mode_bytes_are_optional),
            cmocka_unit_test(builder), cmocka_unit_test(files_of_the_user_stay),
            cmocka_unit_test(texts_that_end_themselves),
            cmocka_unit_test(builds_that_fail_at_the_end), cmocka_unit_test(workers_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
