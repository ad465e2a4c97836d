// Reads and hashes the weights of a base, and compares the hashes with those of an adapter.
#include "weights/lora_base.h"

#include <string.h>
#include <xxhash.h>

#include "base/stop.h"
#include "ckpt/adapter.h"
#include "ckpt/block_hash.h"
#include "weights/base_blocks.h"
#include "weights/state.h"

typedef struct hashing { // a sink in front of another
    const ckpt_sink *next;
    XXH3_state_t *state;
    json_t *hashes;
} hashing;

static drv_status hash_values(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    hashing *h = ctx;
    if (first == 0) XXH3_128bits_reset(h->state);
    XXH3_128bits_update(h->state, values, sizeof *values * (size_t)n);
    if (first + n == st_entry_elements(&t->entry)) {
        char hex[33];
        hash_state_hex(h->state, hex);
        json_object_set_new(h->hashes, t->entry.name, json_string(hex));
    }
    return h->next->write(h->next->ctx, t, piece, first, n, values);
}

drv_status lora_load_hashed(held_model *model, const char *folder, const ckpt_sink *next,
        json_t **hashes) {
    hashing h = {next, XXH3_createState(), json_object()};
    const ckpt_sink sink = {.write = hash_values, .ctx = &h};
    drv_status status = state_load_model(model, folder, &sink);
    XXH3_freeState(h.state);
    if (status == DRV_OK)
        *hashes = h.hashes;
    else
        json_decref(h.hashes);
    return status;
}

// --- hashing by several ranks
// Several ranks load only parts of tensors, so each also reads and hashes some of them whole.
enum { HASH_CHARS = 33 }; // with the final zero

typedef struct shared_hashes {
    model_source base;
    const ckpt_tensor *list; // tensors of the model, the same on all ranks
    int n, ranks;
    char (*hash)[HASH_CHARS]; // by tensor
} shared_hashes;

static int64_t first_of_rank(const shared_hashes *s, int rank) {
    return (int64_t)s->n * rank / s->ranks;
}

static drv_status hash_some(const shared_hashes *s, int rank) {
    for (int64_t i = first_of_rank(s, rank); i < first_of_rank(s, rank + 1); i++) {
        const source_tensor *t = model_source_find(&s->base, s->list[i].entry.name);
        DRV_TRY(stop_check("weights were hashed"));
        if (t) DRV_TRY(source_hash_f32(&s->base, t, s->hash[i])); // else loading reports it
    }
    return DRV_OK;
}

static drv_status exchange_hashes(arena *a, const shared_hashes *s, comm *c) {
    int64_t *bytes = ARENA_ARRAY(a, int64_t, s->ranks);
    for (int r = 0; r < s->ranks; r++)
        bytes[r] = HASH_CHARS * (first_of_rank(s, r + 1) - first_of_rank(s, r));
    return comm_all_gather(comm_all_ranks(c), s->hash + first_of_rank(s, comm_rank(c)), 0, bytes,
            s->hash);
}

static drv_status hash_together(held_model *model, const ckpt_ranks *ranks, const char *folder,
        json_t **hashes) {
    arena *a = arena_new("hashes of the base");
    shared_hashes s = {.ranks = ckpt_size(ranks)};
    s.list = state_model(a, model, true, &s.n);
    s.hash = arena_alloc(a, (size_t)s.n * HASH_CHARS);
    drv_status status = model_source_open(a, folder, &s.base);
    if (status == DRV_OK) status = hash_some(&s, ckpt_rank(ranks));
    model_source_close(&s.base);
    status = ckpt_agree(ranks, status);
    if (status == DRV_OK) status = exchange_hashes(a, &s, ranks->comm);
    *hashes = json_object();
    for (int i = 0; i < s.n && status == DRV_OK; i++)
        json_object_set_new(*hashes, s.list[i].entry.name, json_string(s.hash[i]));
    if (status != DRV_OK) json_decref(*hashes);
    arena_free(a);
    return status;
}

drv_status lora_load_base(held_model *model, const char *folder, json_t **hashes) {
    const ckpt_sink sink = state_weight_sink(model);
    ckpt_ranks ranks;
    if (state_ranks(model, &ranks)) {
        DRV_TRY(state_load_model(model, folder, &sink));
        DRV_TRY(hash_together(model, &ranks, folder, hashes));
    } else {
        DRV_TRY(lora_load_hashed(model, folder, &sink, hashes));
    }
    const drv_status status = base_blocks_load(model, folder);
    if (status != DRV_OK) json_decref(*hashes);
    return status;
}
