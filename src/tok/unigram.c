// Stores the pieces as a trie whose edges lie in a hash table.
#include "tok/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "tok/piece_ids.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

typedef struct edge { // from a node, with a byte as its label
    uint64_t key;     // node << 8 | byte, + 1; 0: no edge
    int32_t to;
} edge;

struct unigram {
    edge *edges;
    uint64_t mask;
    int32_t *ids;         // by node; -1: no piece ends there
    unigram_pieces given; // except what is only used to build the trie
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

unigram *unigram_make(arena *a, const unigram_pieces *given) {
    unigram *made = ARENA_NEW(a, unigram);
    size_t n_bytes = 0;
    int32_t n_nodes = 1;
    for (int32_t id = 0; id < given->n; id++)
        n_bytes += given->pieces[id].n;
    uint64_t size = 64;
    while (size < 2 * (uint64_t)n_bytes)
        size *= 2;
    *made = (unigram){.edges = ARENA_ARRAY(a, edge, size),
            .mask = size - 1,
            .ids = ARENA_ARRAY(a, int32_t, n_bytes + 1),
            .given = *given};
    made->ids[0] = -1;
    str text = {0};
    for (int32_t id = 0; id < given->n; id++) {
        const str_view piece = given->pieces[id];
        // A piece with a space is found in no text where U+2581 is a space.
        if (!given->found[id] || (given->escapes_spaces && memchr(piece.p, ' ', piece.n))) continue;
        str_clear(&text);
        if (given->escapes_spaces)
            str_replace(&text, piece.p, piece.n, SPACE_MARK, " ");
        else
            str_add(&text, piece.p, piece.n);
        add_piece(made, (str_view){text.p, text.n}, id, &n_nodes);
    }
    str_free(&text);
    return made;
}

// --- encoding
typedef struct best_path { // the best split of the text up to a byte
    int64_t begin;         // of its last piece; -1: none so far
    double score;
    int32_t id;
} best_path;

static void improve(best_path *end, double score, int64_t begin, int32_t id) {
    if (end->begin < 0 || score > end->score) *end = (best_path){begin, score, id};
}

static double add_up(const unigram *u, double x, double y) {
    return u->given.of_tokenizers ? x + y : (double)((float)x + (float)y);
}

static size_t character_bytes(const unsigned char *s) {
    const unsigned char *next = s;
    utf8_next(&next);
    return (size_t)(next - s);
}

// Keeps sums in single precision small: once the first, at `begin`, is large, subtracts it from
// those up to `last`.
static void begin_anew(best_path *best, size_t begin, size_t last) {
    static const float most = 100000;
    const float so_far = (float)best[begin].score;
    if (so_far >= -most && so_far <= most) return;
    for (size_t i = begin; i <= last; i++)
        best[i].score = (double)((float)best[i].score - so_far);
}

static void find_paths(const unigram *model, const unsigned char *text, size_t n_bytes,
        best_path *best) {
    const unigram_pieces *given = &model->given;
    for (size_t i = 0; i <= n_bytes; i++)
        best[i] = (best_path){-1, 0, -1};
    for (size_t begin = 0, n_char, last = 0; begin < n_bytes; begin += n_char) {
        if (!given->of_tokenizers) begin_anew(best, begin, last);
        const double so_far = best[begin].score;
        bool single = false;
        n_char = character_bytes(text + begin);
        int32_t node = 0;
        for (size_t end = begin; end < n_bytes && (node = step(model, node, text[end])) >= 0;) {
            const int32_t id = model->ids[node];
            end++;
            if (id < 0) continue;
            improve(&best[end], add_up(model, given->scores[id], so_far), (int64_t)begin, id);
            single |= end - begin == n_char;
            if (end > last) last = end;
        }
        if (single) continue;
        improve(&best[begin + n_char], add_up(model, given->unknown_score, so_far), (int64_t)begin,
                given->unknown);
        if (begin + n_char > last) last = begin + n_char;
    }
}

// Returns the piece with these bytes; -1: none.
static int32_t piece_of(const unigram *u, const unsigned char *s, int64_t n) {
    int32_t node = 0;
    for (int64_t i = 0; i < n && node >= 0; i++)
        node = step(u, node, s[i]);
    return node >= 0 ? u->ids[node] : -1;
}

// Writes adjacent unknown characters, which count as one piece; their bytes may lack tokens.
static void put_run(const unigram *u, const unsigned char *text, int64_t begin, int64_t end,
        piece_ids *to) {
    static const unsigned char mark[] = SPACE_MARK;
    const int32_t whole = piece_of(u, text + begin, end - begin);
    piece_ids plain = *to;
    for (int64_t i = begin; i < end && to->byte_id; i++) {
        const bool space = u->given.escapes_spaces && text[i] == ' ';
        for (int k = 0; k < (space ? 3 : 1); k++)
            if (to->byte_id[space ? mark[k] : text[i]] < 0) plain.byte_id = NULL;
    }
    if (whole >= 0)
        piece_ids_add(to, whole, begin);
    else if (plain.byte_id)
        piece_ids_add_bytes(to, text, begin, end);
    else
        piece_ids_add(to, u->given.unknown, begin);
}

// Reverses the best path: best[i].begin becomes the end of the piece that begins at i. Returns the
// end of the first one.
static int64_t turn_round(best_path *best, size_t n_bytes) {
    int64_t next = (int64_t)n_bytes;
    for (int64_t at = next; at > 0;) {
        const int64_t begin = best[at].begin;
        best[at].begin = next;
        next = at;
        at = begin;
    }
    return next;
}

void unigram_encode(const unigram *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins) {
    const unigram_pieces *given = &model->given;
    piece_ids to = {.unknown = given->unknown,
            .byte_id = given->byte_id,
            .escapes_spaces = given->escapes_spaces,
            .out = out,
            .begins = begins,
            .first = out->n};
    if (n_bytes == 0) return;
    best_path *best = mem_alloc(sizeof *best * (n_bytes + 1));
    find_paths(model, text, n_bytes, best);
    int64_t end = turn_round(best, n_bytes);
    for (int64_t begin = 0; begin < (int64_t)n_bytes;) {
        const int32_t id = best[end].id;
        int64_t next = best[end].begin;
        if (given->of_tokenizers && id == given->unknown) {
            while (end < (int64_t)n_bytes && best[next].id == id)
                end = next, next = best[end].begin;
            put_run(model, text, begin, end, &to);
        } else {
            piece_ids_put(&to, id, text, begin, end);
        }
        begin = end;
        end = next;
    }
    free(best);
}
