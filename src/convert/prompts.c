// Makes the prompts of a replay: ordinary texts, and tokens from the whole vocabulary.
#include "convert/replay.h"

#include <string.h>

enum { TEXT_TOKENS = 16, DRAWN = 3, DRAWN_TOKENS = 16, LONG_TOKENS = 64 };

static const char *const texts[] = {
        "The history of the steam engine began long before James Watt, in",
        "def fibonacci(n: int) -> list[int]:\n    \"\"\"The first n numbers.\"\"\"\n    a, b = 0, 1\n",
        "In 1969, 3 astronauts flew 384,400 km to the Moon; 2 + 2 = 4, and 17 * 3 =",
        "Ünïcödé: Die Straße führt über die Brücke. Où est la gare ? 東京は日本の首都です。",
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static void add(replay_prompts *p, int64_t id, int position) {
    p->ids[p->n] = (int32_t)id;
    p->position[p->n++] = position;
}

static int cut_to_context(const model_config *m, int64_t n) {
    return (int)(n < m->max_position_embeddings ? n : m->max_position_embeddings);
}

static void add_text(replay_prompts *p, encoder *e, const char *text, const model_config *m) {
    id_list ids = {0};
    encoder_run(e, text, strlen(text), true, &ids);
    const int n = cut_to_context(m, ids.n < TEXT_TOKENS ? ids.n : TEXT_TOKENS);
    for (int i = 0; i < n; i++)
        add(p, ids.p[i] < m->vocab_size ? ids.p[i] : 0, i);
    id_list_free(&ids);
    p->n_texts++;
}

static void ids_of_text(const tokenizer *t, const char *text, id_list *ids) {
    encoder *e = encoder_new(t);
    encoder_run(e, text, strlen(text), true, ids);
    encoder_free(e);
}

static const char *text_difference(arena *a, const tokenizer *t, const tokenizer *other,
        const char *text) {
    id_list ids[2] = {{0}, {0}};
    const char *difference = NULL;
    ids_of_text(t, text, &ids[0]);
    ids_of_text(other, text, &ids[1]);
    int64_t i = 0;
    while (i < ids[0].n && i < ids[1].n && ids[0].p[i] == ids[1].p[i])
        i++;
    if (i < ids[0].n || i < ids[1].n)
        difference = arena_printf(a, "\"%s\" has %lld and %lld tokens, different from %lld on",
                text, (long long)ids[0].n, (long long)ids[1].n, (long long)i);
    id_list_free(&ids[0]);
    id_list_free(&ids[1]);
    return difference;
}

static const char *name_of_token(arena *a, const tokenizer *t, int32_t id) {
    if (id >= tokenizer_n_vocab(t)) return "not there";
    return arena_printf(a, "\"%s\"", tokenizer_token_text(t, id));
}

const char *replay_tokenizer_difference(arena *a, const tokenizer *t, const tokenizer *other) {
    const int32_t n = tokenizer_n_vocab(t), n_other = tokenizer_n_vocab(other);
    for (int32_t id = 0; id < n || id < n_other; id++) {
        const bool both = id < n && id < n_other;
        if (!both || strcmp(tokenizer_token_text(t, id), tokenizer_token_text(other, id)) != 0)
            return arena_printf(a, "token %d is %s in one and %s in the other", id,
                    name_of_token(a, t, id), name_of_token(a, other, id));
    }
    for (int i = 0; i < N_TEXTS; i++) {
        const char *difference = text_difference(a, t, other, texts[i]);
        if (difference) return difference;
    }
    return NULL;
}

// Draws n tokens: multiples of an odd constant (2^32 over the golden ratio) cover any vocabulary.
static void add_drawn(replay_prompts *p, uint32_t first, int n, const model_config *m) {
    for (int i = 0; i < cut_to_context(m, n); i++) {
        const uint64_t hash = (uint32_t)((first + (uint32_t)i) * 2654435769u);
        add(p, (int64_t)(hash * (uint64_t)m->vocab_size >> 32), i);
    }
}

void replay_prompts_make(arena *a, const tokenizer *t, const model_config *m, replay_prompts *out) {
    enum { MOST = N_TEXTS * TEXT_TOKENS + DRAWN * DRAWN_TOKENS + LONG_TOKENS };
    *out = (replay_prompts){.ids = ARENA_ARRAY(a, int32_t, MOST),
            .position = ARENA_ARRAY(a, int32_t, MOST)};
    if (t) {
        encoder *e = encoder_new(t);
        for (int i = 0; i < N_TEXTS; i++)
            add_text(out, e, texts[i], m);
        encoder_free(e);
    }
    for (int i = 0; i < DRAWN; i++)
        add_drawn(out, 1 + 1000u * (uint32_t)i, DRAWN_TOKENS, m);
    add_drawn(out, 7001, LONG_TOKENS, m); // long enough for positions to matter
}
