// Checkpoints that several ranks write and read together: the files of one rank, whatever each has
// of a tensor, under another layout too; a rank that fails fails the save of all, with its message.
#include "ranks.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/pieces.h"

// Every way to have a part of a tensor.
typedef enum owned {
    ALIKE,
    BY_ROWS,
    BY_COLUMNS,
    BY_RUNS,
    BY_ROWS_AND_RUNS,
    BY_STAGE,     // the last stage has it
    TIED,         // the first and the last one have its rows
    TIED_AND_RUNS // and each data rank a run of them
} owned;

typedef struct spec {
    const char *name;
    int64_t rows, columns; // columns 0: a vector
    owned how;
} spec;

// The first one is not on every rank: some have received nothing yet when they read it.
static const spec specs[] = {{"first", 16, 5, BY_STAGE}, {"embedding", 96, 17, BY_ROWS},
        {"norm", 40, 0, ALIKE}, {"down", 24, 48, BY_COLUMNS}, {"moments", 31, 13, BY_RUNS},
        {"up", 40, 9, BY_ROWS_AND_RUNS}, {"vector", 77, 0, BY_RUNS}, {"one", 1, 1, ALIKE},
        {"table", 150, 16, TIED}, {"table moments", 150, 17, TIED_AND_RUNS},
        {"last", 60, 48, BY_STAGE}};
enum { N_SPECS = sizeof specs / sizeof *specs };

// Element i of a tensor.
static float value_of(int which, int64_t i) {
    return (float)noise((uint64_t)which + 3, (uint64_t)i);
}

static int64_t columns_of(const spec *s) {
    return s->columns ? s->columns : 1;
}

// The rank's share of n things.
static void cut(int64_t n, int place, int ranks, int64_t *first, int64_t *count) {
    *first = place * n / ranks;
    *count = (place + 1) * n / ranks - *first;
}

// A run of the elements of rows [row, row + rows), as a ZeRO rank has it.
static void add_run(ckpt_tensor *t, const spec *s, int64_t row, int64_t rows, int place,
        int ranks) {
    int64_t first, n;
    cut(rows * columns_of(s), place, ranks, &first, &n);
    t->n_pieces = n ? pieces_of_run(first, n, columns_of(s), t->piece) : 0;
    for (int k = 0; k < t->n_pieces; k++)
        t->piece[k].row += row;
}

static ckpt_tensor tensor_of(const spec *of, const mesh *ranks, int rank) {
    ckpt_tensor out = {.entry = {of->name, of->columns ? 2 : 1, {of->rows, of->columns}, ST_F32}};
    const int tp = mesh_place(ranks, rank, AXIS_TENSOR), dp = mesh_place(ranks, rank, AXIS_DATA),
              pp = mesh_place(ranks, rank, AXIS_PIPELINE), n_tp = ranks->size[AXIS_TENSOR],
              n_dp = ranks->size[AXIS_DATA], n_pp = ranks->size[AXIS_PIPELINE];
    const unsigned data = 1u << AXIS_DATA, tensors = 1u << AXIS_TENSOR,
                   stages = 1u << AXIS_PIPELINE, context = 1u << AXIS_CONTEXT;
    ckpt_piece piece = {.rows = of->rows, .columns = columns_of(of)};
    unsigned alike = stages | context;
    out.n_pieces = 1;
    const bool tied = of->how == TIED || of->how == TIED_AND_RUNS,
               runs = of->how == BY_RUNS || of->how == BY_ROWS_AND_RUNS || of->how == TIED_AND_RUNS;
    if (of->how == BY_ROWS || of->how == BY_ROWS_AND_RUNS || tied)
        cut(of->rows, tp, n_tp, &piece.row, &piece.rows);
    if (of->how == BY_COLUMNS) cut(piece.columns, tp, n_tp, &piece.column, &piece.columns);
    if (of->how == ALIKE || of->how == BY_STAGE || of->how == BY_RUNS) alike |= tensors;
    out.piece[0] = piece;
    if (runs)
        add_run(&out, of, piece.row, piece.rows, dp, n_dp);
    else
        alike |= data;
    if (of->how == BY_STAGE) { // the last stage alone has it
        alike &= ~stages;
        if (pp != n_pp - 1) out.n_pieces = 0;
    }
    if (tied && pp != 0 && pp != n_pp - 1) out.n_pieces = 0;
    for (int k = 0; k < out.n_pieces; k++) {
        out.piece[k].source = of->name;
        out.piece[k].first = 0;
        out.piece[k].replicated = alike;
        out.piece[k].at_ends = tied;
    }
    return out;
}

// --- a rank
typedef struct job {
    mesh mesh;
    const char *dir;
    int fails; // this rank cannot read its state; -1: none
    st_type type;
    drv_status code;  // of the save, on all ranks
    const char *says; // and its message; NULL: what the save returns is returned
} job;

typedef struct rank_state { // found by the tensor's name; where pieces lie is told by their values
    const job *j;
    int rank;
    ckpt_tensor list[N_SPECS];
} rank_state;

// Piece k of a tensor begins where the ones before it end.
static void lay_out(rank_state *st) {
    for (int i = 0; i < N_SPECS; i++) {
        int64_t first = 0;
        st->list[i] = tensor_of(&specs[i], &st->j->mesh, st->rank);
        for (int k = 0; k < st->list[i].n_pieces; k++) {
            st->list[i].piece[k].first = first;
            first += piece_elements(&st->list[i].piece[k]);
        }
    }
}

static float element_of(const ckpt_tensor *t, int which, int64_t i) {
    int64_t run;
    for (int k = 0; k < t->n_pieces; k++) {
        const int64_t n = piece_elements(&t->piece[k]);
        if (i < n)
            return value_of(which, piece_index(&t->piece[k], tensor_columns(&t->entry), i, &run));
        i -= n;
    }
    return 0;
}

static drv_status read_piece(void *ctx, const char *source, int64_t first, int64_t n,
        float *values) {
    const rank_state *st = ctx;
    if (st->j->fails == st->rank) return drv_fail(DRV_E_IO, "no room on this host");
    for (int i = 0; i < N_SPECS; i++)
        for (int64_t k = 0; strcmp(specs[i].name, source) == 0 && k < n; k++)
            values[k] = element_of(&st->list[i], i, first + k);
    return DRV_OK;
}

static drv_status save_rank(comm *self, void *ctx) {
    job *work = ctx;
    rank_state st = {.j = work, .rank = comm_rank(self)};
    lay_out(&st);
    const ckpt_content content = {.model = st.list,
            .optimizer = st.list,
            .n_model = N_SPECS,
            .n_optimizer = N_SPECS,
            .model_type = work->type,
            .config_json = "{}",
            .trainer_json = "{\"step\": 1}"};
    const ckpt_ranks ranks = {self, work->mesh};
    ckpt_saver *s = ckpt_saver_new(work->dir, 2, &ranks, read_piece, &st);
    drv_status status = DRV_OK;
    for (int64_t step = 1; step <= 3 && status == DRV_OK; step++) {
        status = ckpt_start(s, step, &content);
        while (!ckpt_was_read(s, 60)) {
        }
        if (status == DRV_OK) status = ckpt_wait(s);
    }
    // All know of a failure, and by the same words.
    if (work->says && (status != work->code || !strstr(drv_message(), work->says)))
        status = drv_fail(DRV_E_DATA, "rank %d: %d, %s", st.rank, (int)status, drv_message());
    else if (work->says)
        status = DRV_OK;
    ckpt_saver_free(s);
    return status;
}

static mesh mesh_of(int pp, int dp, int tp) {
    return (mesh){.size = {pp, dp, 1, tp}};
}

static void run_job(job *j, drv_status (*fn)(comm *c, void *ctx)) {
    OK(comm_run_threads(mesh_ranks(&j->mesh), 1, NULL, fn, j));
}

static const mesh meshes[] = {{.size = {1, 1, 1, 1}}, {.size = {1, 1, 1, 2}},
        {.size = {1, 2, 1, 1}}, {.size = {1, 2, 1, 2}}, {.size = {1, 1, 1, 4}},
        {.size = {1, 4, 1, 1}}, {.size = {2, 1, 1, 2}}, {.size = {2, 2, 1, 2}},
        {.size = {1, 3, 1, 2}}, {.size = {1, 1, 2, 1}}, {.size = {3, 1, 1, 1}},
        {.size = {4, 1, 1, 1}}, {.size = {3, 1, 1, 2}}, {.size = {3, 2, 1, 1}},
        {.size = {3, 1, 2, 1}}, {.size = {4, 2, 1, 1}}};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

static void expect_same_file(arena *a, const char *one, const char *two, const char *name) {
    char *x, *y;
    size_t n, m;
    OK(file_read(a, path_join(a, one, name), &x, &n));
    OK(file_read(a, path_join(a, two, name), &y, &m));
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s: %s is not that of one rank", two, name);
}

static _Atomic int64_t most_moved; // bytes that a rank sends or receives in an exchange of runs

// However ranks share the values, in an exchange a rank sends and receives a block at most, beside
// the heads of runs, of which the shortest have twelve elements.
TEST(files_are_those_of_one_rank) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
            "manifest.json"};
    static const st_type types[] = {ST_F32, ST_BF16};
    for (int t = 0; t < 2; t++) {
        const char *one = NULL;
        for (int i = 0; i < N_MESHES; i++) {
            job j = {.mesh = meshes[i], .dir = temporary_dir(a), .fails = -1, .type = types[t]};
            most_moved = 0;
            run_job(&j, save_rank);
            if (most_moved > 1024 + 1024 / 2)
                fail_msg("mesh %d: a rank sends or receives %lld bytes at once, expected 1024", i,
                        (long long)most_moved);
            const char *folder = path_join(a, j.dir, "step-000003");
            OK(ckpt_verify(folder));
            if (!one) one = folder;
            for (int k = 0; k < 3; k++)
                expect_same_file(a, one, folder, files[k]);
            assert_false(file_exists(path_join(a, j.dir, "step-000001"))); // two are kept
            assert_true(file_exists(path_join(a, j.dir, "step-000002")));
        }
    }
}

// --- loading
static drv_status check_piece(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    _Atomic int64_t *left = ctx;
    int which = 0;
    while (strcmp(specs[which].name, t->entry.name) != 0)
        which++;
    for (int64_t i = 0; i < n; i++) {
        int64_t run;
        const int64_t place = piece_index(piece, tensor_columns(&t->entry), first + i, &run);
        if (values[i] != value_of(which, place))
            return drv_fail(DRV_E_DATA, "%s: element %lld of a piece", t->entry.name,
                    (long long)(first + i));
    }
    *left -= n;
    return DRV_OK;
}

static drv_status load_rank(comm *c, void *ctx) {
    const job *j = ctx;
    rank_state st = {.j = j, .rank = comm_rank(c)};
    arena *a = arena_new("load");
    const ckpt_ranks ranks = {c, j->mesh};
    const char *newest;
    _Atomic int64_t left = 0;
    lay_out(&st);
    for (int i = 0; i < N_SPECS; i++)
        for (int k = 0; k < st.list[i].n_pieces; k++)
            left += piece_elements(&st.list[i].piece[k]);
    DRV_TRY(ckpt_newest(a, &ranks, j->dir, INT64_MAX, &newest));
    EXPECT(c, newest && ckpt_step_of(newest) == 3);
    const ckpt_sink sink = {.write = check_piece, .ctx = &left, .exact = true};
    DRV_TRY(ckpt_fill(&ranks, newest, "model", st.list, N_SPECS, &sink));
    EXPECT(c, left == 0);
    arena_free(a);
    return DRV_OK;
}

TEST(any_layout_reads_what_any_wrote) {
    for (int i = 0; i < N_MESHES; i++) {
        job j = {.mesh = meshes[i], .dir = temporary_dir(a), .fails = -1};
        run_job(&j, save_rank);
        for (int k = 0; k < N_MESHES; k++) {
            j.mesh = meshes[k];
            run_job(&j, load_rank);
        }
    }
}

// --- what goes wrong
TEST(one_rank_fails_for_all) {
    for (int who = 0; who < 4; who++) {
        job j = {.mesh = mesh_of(1, 2, 2),
                .dir = temporary_dir(a),
                .fails = who,
                .code = DRV_E_IO,
                .says = ": no room on this host; older"};
        run_job(&j, save_rank);
        char **names;
        int n;
        OK(dir_list(a, j.dir, &names, &n));
        assert_int_equal(n, 0); // nothing is left, not even step-000001.drover-tmp
    }
}

static drv_status refuse_rank(comm *c, void *ctx) {
    const job *j = ctx;
    const ckpt_ranks ranks = {c, j->mesh};
    arena *a = arena_new("verify");
    const char *folder = path_join(a, j->dir, "step-000003");
    const drv_status status = ckpt_verify_shared(&ranks, folder);
    arena_free(a);
    EXPECT(c, status == DRV_E_DATA && strstr(drv_message(), "model.safetensors: content has hash"));
    return DRV_OK;
}

// Whoever has the block with the flipped bit, all see it.
TEST(all_see_a_flipped_bit) {
    job j = {.mesh = mesh_of(1, 1, 4), .dir = temporary_dir(a), .fails = -1};
    run_job(&j, save_rank);
    const char *path = path_join(a, path_join(a, j.dir, "step-000003"), "model.safetensors");
    char *good;
    size_t n;
    OK(file_read(a, path, &good, &n));
    for (size_t at = 3; at < n; at += n / 7) {
        good[at] ^= 1;
        OK(file_write_atomic(path, good, n));
        run_job(&j, refuse_rank);
        good[at] ^= 1;
    }
}

// What a rank receives of the n-th exchange is rubbish, as it is from a rank that is killed:
// numbers are written over what arrives first.
static struct {
    bool sizes;         // of an exchange of sizes; else of one of runs
    _Atomic int in;     // exchanges from now; 0 or less: none
    uint32_t number[2]; // a run's place and its bytes, or the halves of a size
} rubbish;

drv_status __real_comm_all_to_all(comm_group *g, const void *in, const int64_t *in_bytes, void *out,
        const int64_t *out_bytes, int64_t n);
drv_status __wrap_comm_all_to_all(comm_group *g, const void *in, const int64_t *in_bytes, void *out,
        const int64_t *out_bytes, int64_t n);
drv_status __wrap_comm_all_to_all(comm_group *g, const void *in, const int64_t *in_bytes, void *out,
        const int64_t *out_bytes, int64_t n) {
    const drv_status status = __real_comm_all_to_all(g, in, in_bytes, out, out_bytes, n);
    int64_t received = out_bytes ? 0 : n, sent = 0;
    for (int i = 0; out_bytes && i < group_size(g); i++) {
        received += out_bytes[i];
        sent += in_bytes[i];
    }
    if (received > sent) sent = received;
    for (int64_t most = most_moved; out_bytes && sent > most;)
        if (atomic_compare_exchange_weak(&most_moved, &most, sent)) break;
    if (status == DRV_OK && rubbish.sizes == !out_bytes && received > 0 && rubbish.in-- == 1)
        memcpy(out, rubbish.number, sizeof rubbish.number);
    return status;
}

TEST(rubbish_from_a_rank_is_refused) {
    static const struct {
        bool sizes;
        uint32_t number[2];
        const char *says;
    } cases[] = {{false, {0, 1 << 20}, "other ranks sent bytes that do not belong to the block"},
            {false, {0, UINT32_MAX}, "other ranks sent bytes that do not belong to the block"},
            {false, {UINT32_MAX, 4}, "other ranks sent bytes that do not belong to the block"},
            {false, {1021, 4}, "other ranks sent bytes that do not belong to the block"},
            {true, {0, 1 << 8}, " bytes for a block of 1024"},    // 2^40
            {true, {0, 1u << 31}, " bytes for a block of 1024"}}; // the least number
    const char *dir = temporary_dir(a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int when = 1; when <= 3; when++) {
            job j = {.mesh = mesh_of(1, 2, 2),
                    .dir = path_join(a, dir, arena_printf(a, "%zu.%d", i, when)),
                    .fails = -1,
                    .code = DRV_E_DEVICE,
                    .says = cases[i].sizes ? NULL : cases[i].says};
            OK(dir_make(j.dir));
            rubbish.sizes = cases[i].sizes;
            memcpy(rubbish.number, cases[i].number, sizeof rubbish.number);
            rubbish.in = when;
            if (j.says) // the ranks still know of each other: all say the same, nothing is left
                run_job(&j, save_rank);
            else
                FAILS(comm_run_threads(mesh_ranks(&j.mesh), 1, NULL, save_rank, &j), DRV_E_DEVICE,
                        cases[i].says);
            assert_true(rubbish.in <= 0); // it has come
            assert_false(file_exists(path_join(a, j.dir, "step-000001")));
        }
    }
}

// The syncs that fail: none, those of folders in place, or those of folders that are not.
typedef enum failing_syncs { NONE_FAILS, IN_PLACE_FAILS, ASIDE_FAILS } failing_syncs;
static _Atomic failing_syncs failing;
static _Atomic int n_file_syncs;
int fsync(int fd) { // instead of the C library's
    char link[64], folder[4096];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, folder, sizeof folder - 1);
    if (fstat(fd, &st) != 0 || n < 0) return -1;
    folder[n] = 0;
    if (!S_ISDIR(st.st_mode)) n_file_syncs++;
    const bool aside = str_ends(folder, FILE_ASIDE);
    if (!S_ISDIR(st.st_mode) || failing != (aside ? ASIDE_FAILS : IN_PLACE_FAILS)) return 0;
    errno = EIO;
    return -1;
}

typedef struct unsynced_case {
    failing_syncs fails;
    bool damaged; // the checkpoint that is in place is damaged before the last save
} unsynced_case;
static const unsynced_case unsynced_cases[] = {{IN_PLACE_FAILS, false}, {IN_PLACE_FAILS, true},
        {ASIDE_FAILS, false}};
static const unsynced_case *unsynced; // the one under test

// Saves step 1 for the i-th time and checks what is there afterwards.
static drv_status save_unsynced(comm *self, int i, ckpt_saver *s, const ckpt_content *content,
        const char *folder) {
    const bool fails = i < 2, is_there = !fails || unsynced->fails == IN_PLACE_FAILS,
               writes = i == 0 || unsynced->fails == ASIDE_FAILS || (i == 2 && unsynced->damaged);
    DRV_TRY(ckpt_start(s, 1, content));
    const drv_status status = ckpt_wait(s);
    EXPECT(self, status == (fails ? DRV_E_IO : DRV_OK));
    EXPECT(self, !fails || !is_there || strstr(drv_message(), "in place, but may be gone after a"));
    DRV_TRY(comm_barrier(comm_all_ranks(self)));
    EXPECT(self, (n_file_syncs > 0) == writes);
    EXPECT(self, file_exists(folder) == is_there && (!is_there || ckpt_verify(folder) == DRV_OK));
    return DRV_OK;
}

// Saves a step three times: a sync fails twice, and then succeeds.
static drv_status save_thrice(comm *self, void *ctx) {
    job *work = ctx;
    rank_state st = {.j = work, .rank = comm_rank(self)};
    arena *a = arena_new("unsynced");
    lay_out(&st);
    const ckpt_content content = {.model = st.list,
            .optimizer = st.list,
            .n_model = N_SPECS,
            .n_optimizer = N_SPECS,
            .config_json = "{}",
            .trainer_json = "{\"step\": 1}"};
    const ckpt_ranks ranks = {self, work->mesh};
    ckpt_saver *s = ckpt_saver_new(work->dir, 2, &ranks, read_piece, &st);
    const char *folder = path_join(a, work->dir, "step-000001"),
               *weights = path_join(a, folder, "model.safetensors");
    for (int i = 0; i < 3; i++) {
        DRV_TRY(comm_barrier(comm_all_ranks(self))); // all ranks have looked at the save before
        if (st.rank == 0) failing = i < 2 ? unsynced->fails : NONE_FAILS;
        if (st.rank == 0) n_file_syncs = 0;
        if (st.rank == 0 && i == 2 && unsynced->damaged) EXPECT(self, truncate(weights, 9) == 0);
        DRV_TRY(save_unsynced(self, i, s, &content, folder));
    }
    ckpt_saver_free(s);
    arena_free(a);
    return DRV_OK;
}

// A checkpoint whose last sync failed is the run's own: another save of the step repeats the sync.
// If a sync fails before it is in place, nothing is left of it, and it is written again.
TEST(syncs_that_fail) {
    for (int i = 0; i < 6; i++) {
        job j = {.mesh = mesh_of(1, 1, 1 + i / 3), .dir = temporary_dir(a), .fails = -1};
        unsynced = &unsynced_cases[i % 3];
        run_job(&j, save_thrice);
        char **names;
        int n;
        OK(dir_list(a, j.dir, &names, &n));
        assert_int_equal(n, 1 + unsynced->damaged); // the damaged one is kept
        assert_string_equal(names[0], "step-000001");
    }
}

// Manifests of version 1 hashed each file as a whole.
TEST(manifests_of_version_1_are_read) {
    const char *dir = path_join(a, temporary_dir(a), "step-000007");
    static const char *const texts[][2] = {{"model.safetensors", "abc"}, {"config.json", ""},
            {"trainer.json", "abc"}, {"optimizer.safetensors", ""}};
    static const char abc[] = "06b05ab6733a618578af5f94892f3950", // XXH3-128, from xxhsum -H128
            empty[] = "99aa06d3014798d86001c324468d497f";
    OK(dir_make(dir));
    str manifest = {0};
    str_puts(&manifest, "{\"version\": 1, \"step\": 7, \"files\": {");
    for (int i = 0; i < 4; i++) {
        const size_t n = strlen(texts[i][1]);
        OK(file_write_atomic(path_join(a, dir, texts[i][0]), texts[i][1], n));
        str_printf(&manifest, "%s\"%s\": {\"bytes\": %zu, \"xxh3_128\": \"%s\"}", i ? ", " : "",
                texts[i][0], n, n ? abc : empty);
    }
    str_puts(&manifest, "}}");
    OK(file_write_atomic(path_join(a, dir, "manifest.json"), manifest.p, manifest.n));
    OK(ckpt_verify(dir));
    OK(file_write_atomic(path_join(a, dir, "trainer.json"), "abd", 3));
    FAILS(ckpt_verify(dir), DRV_E_DATA, "trainer.json: content has hash");
    str_free(&manifest);
}

int main(void) {
    setenv("DROVER_CKPT_BLOCK_BYTES", "1024", 1); // tensors of several blocks
    return tests_run();
}
