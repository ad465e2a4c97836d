// The pieces are a trie whose edges lie in a hash table.
#include "tok/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

typedef struct edge { // from a node by a byte
    uint64_t key;     // node << 8 | byte, + 1; 0: no edge
    int32_t to;
} edge;

struct unigram {
    edge *edges;
    uint64_t mask;
    int32_t *ids;   // by node; -1: no piece ends there
    double *scores; // by id
    double unknown_score;
    int32_t unknown;
    bool byte_fallback;
    int32_t byte_id[256];
    bool escapes_spaces;
};

// --- the trie
static edge *find_edge(const unigram *u, int32_t node, unsigned char byte) {
    const uint64_t key = ((uint64_t)(uint32_t)node << 8 | byte) + 1;
    uint64_t at = pair_hash(key) & u->mask;
    while (u->edges[at].key && u->edges[at].key != key)
        at = (at + 1) & u->mask;
    return &u->edges[at];
}

static int32_t step(const unigram *u, int32_t node, unsigned char byte) { // -1: no such node
    const edge *found = find_edge(u, node, byte);
    return found->key ? found->to : -1;
}

static void add_piece(unigram *u, str_view piece, int32_t id, int32_t *n_nodes) {
    int32_t node = 0;
    for (size_t i = 0; i < piece.n; i++) {
        edge *next = find_edge(u, node, (unsigned char)piece.p[i]);
        if (!next->key) {
            *next = (edge){((uint64_t)(uint32_t)node << 8 | (unsigned char)piece.p[i]) + 1,
                    *n_nodes};
            u->ids[(*n_nodes)++] = -1;
        }
        node = next->to;
    }
    u->ids[node] = id;
}

// A piece counts in a text if it is neither reserved nor unused. Where U+2581 is a space a piece
// with a space is found in no text.
static bool is_found(const piece_model *m, int32_t id) {
    const str_view piece = m->pieces[id];
    return (m->types[id] == PIECE_NORMAL || m->types[id] == PIECE_USER_DEFINED) &&
           !(m->escapes_spaces && memchr(piece.p, ' ', piece.n));
}

// Scores as that program has them (version 0.2.3, which adds them up in double): a user-defined
// piece has the best score for each of its bytes, and that starts from the smallest positive
// number.
static void fill_scores(const piece_model *m, unigram *u) {
    float least = 3.402823466e+38f, best = 1.175494351e-38f;
    for (int32_t id = 0; id < m->n; id++) {
        if (m->types[id] != PIECE_NORMAL) continue;
        if (m->scores[id] < least) least = m->scores[id];
        if (m->scores[id] > best) best = m->scores[id];
    }
    for (int32_t id = 0; id < m->n; id++)
        u->scores[id] = m->types[id] == PIECE_USER_DEFINED
                                ? (double)((float)m->pieces[id].n * best) - 0.1
                                : (double)m->scores[id];
    u->unknown_score = (double)(least - 10.0f);
}

unigram *unigram_make(arena *a, const piece_model *pieces) {
    unigram *made = ARENA_NEW(a, unigram);
    size_t n_bytes = 0;
    int32_t n_nodes = 1;
    for (int32_t id = 0; id < pieces->n; id++)
        n_bytes += pieces->pieces[id].n;
    uint64_t size = 64;
    while (size < 2 * (uint64_t)n_bytes)
        size *= 2;
    *made = (unigram){.edges = ARENA_ARRAY(a, edge, size),
            .mask = size - 1,
            .ids = ARENA_ARRAY(a, int32_t, n_bytes + 1),
            .scores = ARENA_ARRAY(a, double, pieces->n + 1),
            .unknown = pieces->unknown,
            .byte_fallback = pieces->byte_fallback,
            .escapes_spaces = pieces->escapes_spaces};
    made->ids[0] = -1;
    fill_scores(pieces, made);
    str text = {0};
    for (int32_t id = 0; id < pieces->n; id++) {
        if (pieces->types[id] == PIECE_BYTE) made->byte_id[piece_byte(pieces->pieces[id])] = id;
        if (!is_found(pieces, id)) continue;
        str_clear(&text);
        if (pieces->escapes_spaces)
            str_replace(&text, pieces->pieces[id].p, pieces->pieces[id].n, SPACE_MARK, " ");
        else
            str_add(&text, pieces->pieces[id].p, pieces->pieces[id].n);
        add_piece(made, (str_view){text.p, text.n}, id, &n_nodes);
    }
    str_free(&text);
    return made;
}

// --- encoding
typedef struct best_path { // of the text up to a byte
    int64_t begin;         // of its last piece; -1: none so far
    double score;
    int32_t id;
} best_path;

static void improve(best_path *end, double score, int64_t begin, int32_t id) {
    if (end->begin < 0 || score > end->score) *end = (best_path){begin, score, id};
}

static size_t character_bytes(const unsigned char *s) {
    const unsigned char *next = s;
    utf8_next(&next);
    return (size_t)(next - s);
}

static void find_paths(const unigram *u, const unsigned char *s, size_t n, best_path *best) {
    for (size_t i = 0; i <= n; i++)
        best[i] = (best_path){-1, 0, -1};
    for (size_t begin = 0, n_char; begin < n; begin += n_char) {
        const double so_far = best[begin].score;
        bool single = false;
        n_char = character_bytes(s + begin);
        int32_t node = 0;
        for (size_t end = begin; end < n && (node = step(u, node, s[end])) >= 0; end++) {
            const int32_t id = u->ids[node];
            if (id < 0) continue;
            improve(&best[end + 1], u->scores[id] + so_far, (int64_t)begin, id);
            single |= end + 1 - begin == n_char;
        }
        if (!single)
            improve(&best[begin + n_char], u->unknown_score + so_far, (int64_t)begin, u->unknown);
    }
}

static void put_id(id_list *out, offset_list *begins, int32_t id, int64_t begin) {
    id_list_add(out, id);
    if (!begins) return;
    MEM_GROW(begins->p, begins->n, begins->cap);
    begins->p[begins->n++] = begin;
}

static void put_bytes(const unigram *u, const unsigned char *s, int64_t begin, int64_t end,
        id_list *out, offset_list *begins) {
    static const unsigned char mark[] = SPACE_MARK;
    if (u->escapes_spaces && s[begin] == ' ')
        for (int i = 0; i < 3; i++)
            put_id(out, begins, u->byte_id[mark[i]], begin);
    else
        for (int64_t i = begin; i < end; i++)
            put_id(out, begins, u->byte_id[s[i]], begin);
}

void unigram_encode(const unigram *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins) {
    const unsigned char *bytes = text;
    if (n_bytes == 0) return;
    best_path *best = mem_alloc(sizeof *best * (n_bytes + 1));
    find_paths(model, bytes, n_bytes, best);
    int64_t next = (int64_t)n_bytes,
            end = next; // each path is turned round: best[i].begin is its end
    for (int64_t at = next; at > 0;) {
        const int64_t begin = best[at].begin;
        best[at].begin = next; // of the piece that follows it
        next = at;
        at = begin;
    }
    for (int64_t begin = 0; begin < (int64_t)n_bytes; begin = end) {
        end = next;
        const int32_t id = best[end].id;
        next = best[end].begin;
        const bool unknown = id == model->unknown;
        if (unknown && model->byte_fallback)
            put_bytes(model, bytes, begin, end, out, begins);
        else if (!unknown || begin == 0 || out->n == 0 || out->p[out->n - 1] != id)
            put_id(out, begins, id, begin);
    }
    free(best);
}
