// Weights that ranks should have alike are compared: one bit that is wrong on one rank is found,
// with the rank, the weight and the step, wherever it is; ranks that are as they should be find
// nothing.
#include "layout_run.h"

#include "train/replicas.h"

enum { RANKS = 8 };

// So many that the embedding is read in several pieces (PIECE_BYTES), in bf16 too.
#define VOCABULARY "model.vocab_size=8704"

typedef struct harm {
    const char *layout[3];
    const char *state; // of which a byte changes; NULL: none
    int rank;          // that has it
    const char *text;  // what is said; NULL: nothing
    int told;          // ranks that find it
    bool last;         // the last byte changes, not the first one
} harm;

static const harm harms[] = {{{"parallel.tensor=2", "parallel.zero=1", "training.precision=bf16"},
                                     NULL, 0, NULL, 0, false},
        {{"parallel.tensor=4", "parallel.zero=0", "training.precision=fp32"}, NULL, 0, NULL, 0,
                false},
        {{"parallel.tensor=1", "parallel.pipeline=2", "training.precision=fp32"}, NULL, 0, NULL, 0,
                false},
        // Four data ranks: three are right, whichever is not.
        {{"parallel.tensor=2", "parallel.zero=1", "training.precision=bf16"},
                "model.layers.1.mlp.down_proj.weight", 5, "after step 7 rank 5", 4, false},
        {{"parallel.tensor=2", "parallel.zero=1", "training.precision=bf16"},
                "model.layers.0.self_attn.qkv_proj.weight", 0, "after step 7 rank 0", 4, false},
        // A master that each rank has whole, of a weight that is the same after rounding.
        {{"parallel.tensor=2", "parallel.zero=0", "training.precision=bf16"},
                "master.model.layers.3.mlp.gate_up_proj.weight", 6,
                "another master of \"model.layers.3", 4, false},
        // Norms are the same on tensor ranks, of which all eight are here.
        {{"parallel.tensor=4", "parallel.context=2", "training.precision=fp32"},
                "model.norm.weight", 2, "rank 2", 5, false},
        {{"parallel.tensor=1", "parallel.context=2", "training.precision=fp32"},
                "model.embed_tokens.weight", 7, "after step 7 rank 7", 8, false},
        {{"parallel.tensor=1", "parallel.zero=1", "training.precision=bf16"},
                "model.embed_tokens.weight", 3, "after step 7 rank 3", 8, true},
        {{"parallel.tensor=1", "parallel.zero=0", "training.precision=bf16"},
                "master.model.embed_tokens.weight", 4, "after step 7 rank 4", 8, true},
        // Ranks 3 and 7 hold the same shard, each in its group.
        {{"parallel.zero=3", "parallel.zero_group=4", "training.precision=bf16"},
                "model.embed_tokens.weight", 7, "after step 7 rank 7", 2, false}};

static int n_told[sizeof harms / sizeof *harms];

static const param *weight_of(const programs *p, const char *name) { // or of a master
    return param_of_part(&p->held.params, strncmp(name, "master.", 7) == 0 ? name + 7 : name);
}

static int64_t last_byte(const programs *p, const char *state) {
    return param_elements(weight_of(p, state)) * dtype_bytes(held_state_type(&p->held, state)) - 1;
}

static drv_status one_harm(comm *self, arena *a, const harm *done, int index) {
    rank_run mine;
    char byte;
    const char *sets[] = {"model.preset=tiny", VOCABULARY, "data.sequence_length=32",
            "training.global_batch_size=8", "training.micro_batch_size=1", done->layout[0],
            done->layout[1], done->layout[2]};
    DRV_TRY(rank_run_open(self, a, sets, 8, "cpu", NULL, &mine));
    if (done->state && comm_rank(self) == done->rank) {
        const int64_t at = done->last ? last_byte(&mine.built, done->state) : 0;
        DRV_TRY(backend_read(mine.device, done->state, at, 1, &byte));
        byte ^= 1;
        DRV_TRY(backend_write(mine.device, done->state, at, 1, &byte));
    }
    const drv_status found = replicas_check(&mine.built.held, 7);
    EXPECT(self, found == DRV_OK || (found == DRV_E_DATA && done->text));
    if (found == DRV_E_DATA) {
        EXPECT(self,
                strstr(drv_message(), done->text) && strstr(drv_message(), "should be the same"));
        pthread_mutex_lock(&lock);
        n_told[index]++;
        pthread_mutex_unlock(&lock);
    }
    backend_close(mine.device);
    return comm_barrier(comm_all_ranks(self));
}

static drv_status all_harms(comm *self, void *ctx) {
    (void)ctx;
    drv_status status = DRV_OK;
    for (size_t i = 0; i < sizeof harms / sizeof *harms && status == DRV_OK; i++) {
        arena *a = arena_new("harm");
        status = one_harm(self, a, &harms[i], (int)i);
        arena_free(a);
    }
    return status;
}

TEST(what_is_wrong_on_one_rank_is_found) {
    OK(comm_run_threads(RANKS, 1, NULL, all_harms, NULL));
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++)
        if (n_told[i] != harms[i].told)
            fail_msg("case %zu: %d ranks found something, expected %d", i, n_told[i],
                    harms[i].told);
}

// --- weights that are no numbers
TEST(a_weight_that_is_no_number_is_named) {
    static const struct {
        const char *state;
        int64_t element; // -1: the last one
        uint32_t bits;   // of an fp32 value; bf16 has the upper half
        const char *text;
    } cases[] = {{"model.norm.weight", 2, 0x7FC00000, "\"model.norm.weight\""},
            {"model.embed_tokens.weight", -1, 0xFF800000, "after step 3 \"model.embed_tokens"},
            {"master.model.embed_tokens.weight", 7, 0x7F800000, "\"master.model.embed_tokens"},
            {"model.norm.weight", 1, 0x7F7F0000, NULL}}; // large, but a number
    const char *sets[] = {"model.preset=tiny", VOCABULARY, "data.sequence_length=32",
            "training.precision=bf16"};
    test_run *run = test_run_open(sets, 4);
    OK(replicas_check_finite(&run->p.held, 3));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const param *w = weight_of(&run->p, cases[i].state);
        const int64_t at = cases[i].element < 0 ? param_elements(w) - 1 : cases[i].element,
                      unit = dtype_bytes(held_state_type(&run->p.held, cases[i].state));
        const uint16_t half = (uint16_t)(cases[i].bits >> 16);
        char before[4];
        OK(backend_read(run->p.held.b, cases[i].state, at * unit, unit, before));
        OK(backend_write(run->p.held.b, cases[i].state, at * unit, unit,
                unit == 2 ? (const void *)&half : &cases[i].bits));
        if (cases[i].text)
            FAILS(replicas_check_finite(&run->p.held, 3), DRV_E_DATA, cases[i].text);
        else
            OK(replicas_check_finite(&run->p.held, 3));
        OK(backend_write(run->p.held.b, cases[i].state, at * unit, unit, before));
    }
    test_run_close(run);
}
