// Shards of weights (ZeRO-3, docs/adr/0046): the bits of one rank and of ZeRO 0 to 2, the memory
// and the bytes on the wire that a plan says.
#define ZERO "parallel.zero=3"
#include "zero_run.h"

// Three and six ranks have shards of other lengths, of which some are empty.
TEST(on_any_ranks) {
    static const zero_case cases[] = {{2, {0}}, {3, {0}}, {6, {"parallel.overlap=false"}}};
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "training.global_batch_size=6", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

TEST(with_recomputation) {
    static const zero_case cases[] = {{2, {0}}};
    static const char *const modes[] = {"training.recompute=selective", "training.recompute=full"};
    for (size_t i = 0; i < N_OF(modes); i++) {
        const char *sets[] = {modes[i], "training.precision=bf16", "optimizer.state_dtype=bf16",
                "training.global_batch_size=4", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

TEST(beside_other_axes) {
    static const zero_case cases[] = {{4, {"parallel.tensor=2"}}, {4, {"parallel.pipeline=2"}},
            {4, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}},
            {8, {"parallel.pipeline=2", "parallel.schedule=interleaved",
                        "parallel.virtual_stages=2", "parallel.tensor=2"}}};
    static const char *const tied[] = {"model.tie_word_embeddings=true",
            "model.tie_word_embeddings=false"};
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {tied[i], "parallel.accumulation_groups=2", "training.precision=bf16",
                NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

TEST(beside_context_ranks) {
    static const zero_case cases[] = {{2, {"parallel.context=2"}}, {4, {"parallel.context=2"}}};
    const char *sets[] = {"parallel.context_blocks=2", "training.global_batch_size=4",
            "parallel.accumulation_groups=2", NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

TEST(low_rank_branches) {
    static const zero_case cases[] = {{2, {0}}, {4, {"parallel.tensor=2"}},
            {4, {"parallel.pipeline=2"}}};
    const char *sets[] = {"lora.rank=4", "lora.dropout=0.1", "parallel.accumulation_groups=1",
            NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

TEST(with_muon) {
    static const zero_case cases[] = {{2, {0}}, {4, {"parallel.tensor=2"}}};
    static const char *const types[] = {"optimizer.type=muon", "optimizer.type=normuon"};
    for (size_t i = 0; i < N_OF(types); i++) {
        const char *sets[] = {types[i], "training.global_batch_size=4", "training.precision=bf16",
                "parallel.accumulation_groups=1", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// --- groups of neighbours that share weights (docs/adr/0048)
TEST(in_groups) {
    static const zero_case cases[] = {{4, {"parallel.zero_group=2"}},
            {2, {"parallel.zero_group=1", "training.recompute=full"}},
            {4, {"parallel.zero_group=2", "parallel.overlap=false"}},
            {8, {"parallel.zero_group=2", "parallel.tensor=2"}},
            {8, {"parallel.zero_group=2", "parallel.pipeline=2", "parallel.schedule=zb-h1"}}};
    static const char *const types[] = {"training.precision=fp32", "training.precision=bf16"};
    for (size_t i = 0; i < N_OF(types); i++) {
        const char *sets[] = {types[i], "parallel.accumulation_groups=2",
                "model.tie_word_embeddings=true", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// Sums over the row's reduction blocks, of which several lie on a rank, wait for all groups.
TEST(in_groups_beside_context_ranks) {
    static const zero_case cases[] = {{4, {"parallel.zero_group=1", "parallel.context=2"}},
            {8, {"parallel.zero_group=2", "parallel.context=2"}}};
    const char *sets[] = {"parallel.context_blocks=4", "training.global_batch_size=8",
            "parallel.accumulation_groups=4", NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

TEST(in_groups_with_muon) {
    static const zero_case cases[] = {{4, {"parallel.zero_group=2"}}};
    static const char *const types[] = {"optimizer.type=muon", "lora.rank=4"};
    for (size_t i = 0; i < N_OF(types); i++) {
        const char *sets[] = {types[i], "training.global_batch_size=4", "training.precision=bf16",
                "parallel.accumulation_groups=2", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// --- as planned
TEST(memory_and_wire) {
    static const int ranks[] = {2, 4, 4}, groups[] = {1, 1, 2};
    for (size_t i = 0; i < N_OF(ranks); i++) {
        const char *sets[] = {"training.precision=fp32", "model.tie_word_embeddings=false", NULL},
                   *zero3[] = {ZERO, groups[i] > 1 ? "parallel.zero_group=2" : NULL, NULL};
        layout_run got = run_sets(ranks[i], sets, zero3);
        const double planned = STEPS * ranks[i] * got.wire[AXIS_DATA];
        // Shards are multiples of 1,024 elements, and at least as long as small weights; a rank of
        // a group holds as many as there are groups.
        enum { N_WEIGHTS = 4 * 6 + 3 };
        const int64_t held[] = {got.weight_bytes, got.gradient_bytes, got.optimizer_bytes / 2};
        for (size_t k = 0; k < N_OF(held); k++) {
            const int shards = k < 2 ? groups[i] : 1;
            const double least = 4 * (double)got.n_weights * shards / ranks[i],
                         most = least + N_WEIGHTS * 4.0 * 1023 * shards;
            if ((double)held[k] < least || (double)held[k] > most)
                fail_msg("%d ranks: %lld bytes, expected %g to %g", ranks[i], (long long)held[k],
                        least, most);
        }
        if (fabs((double)got.sent[AXIS_DATA] - planned) > 1e-9 * planned + 0.5)
            fail_msg("%d ranks: %lld bytes sent, %g planned", ranks[i],
                    (long long)got.sent[AXIS_DATA], planned);
        free(got.weights);
    }
}

// --- who is waited for
static drv_status wait_for_layers(comm *self, arena *a, const char *dir) {
    static const char *const sets[] = {"model.preset=tiny", "data.sequence_length=40",
            "training.global_batch_size=2", "training.micro_batch_size=1", ZERO};
    enum { PATIENCE = 20000 }; // milliseconds
    rank_run mine;
    double loss;
    rank_view other = {.op = ""};
    DRV_TRY(comm_record(self, dir));
    DRV_TRY(rank_run_open(self, a, sets, N_OF(sets), "cpu", NULL, &mine));
    stepper steps = stepper_new(a, &mine.built, self, &mine.ranks);
    const batch whole = make_batch(a, &mine.cfg, 0), share = share_of_batch(a, &mine.cfg, &whole);
    const char *table = "gather_weight of model.embed_tokens";
    for (int i = 0; comm_rank(self) == 1 && i < PATIENCE && !str_starts(other.op, table); i++) {
        usleep(1000);
        comm_view_rank(self, 0, &other);
    }
    if (comm_rank(self) == 1 && !str_starts(other.op, table))
        return drv_fail(DRV_E_DATA, "rank 0 is in \"%s\", expected %s", other.op, table);
    DRV_TRY(stepper_gradients(&steps, &share, &loss));
    backend_close(mine.device);
    return DRV_OK;
}

static drv_status waiting_rank(comm *self, void *ctx) {
    arena *a = arena_new("waiting");
    const drv_status status = wait_for_layers(self, a, ctx);
    arena_free(a);
    return status;
}

// The operation in which a rank waits has the name of the weights that the others owe it; the
// record of its last operations says the layers.
TEST(waits_name_what_is_waited_for) {
    const char *dir = temporary_dir(a);
    char *text;
    size_t n;
    OK(comm_run_threads(2, 1, NULL, waiting_rank, (void *)(uintptr_t)dir));
    OK(file_read(a, path_join(a, dir, "rank-00000.txt"), &text, &n));
    if (!memmem(text, n, "gather_weight, layer 0 ", 23)) fail_msg("no layer in: %s", text);
}
