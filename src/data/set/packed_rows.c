// Best-fit decreasing (Johnson 1974) by counting sort and lists of rows by the room that is left in
// them, so it takes time in proportion to the pieces; and the windows of long documents.
#include "data/set/packed_rows.h"

#include <stdlib.h>
#include <string.h>

void piece_windows(piece_list *list, int64_t begin, int64_t end, int64_t row_tokens,
        int64_t stride) {
    for (int64_t predicted = begin + 1; predicted < end;) { // the next token to predict
        const int64_t room = predicted == begin + 1 ? row_tokens : stride;
        const int64_t next = end - predicted < room ? end : predicted + room;
        const int64_t first = next - 1 - row_tokens < begin ? begin : next - 1 - row_tokens;
        MEM_GROW(list->p, list->n, list->cap);
        list->p[list->n++] =
                (row_piece){first, (int32_t)(next - 1 - first), (int32_t)(predicted - 1 - first)};
        predicted = next;
    }
}

// Rows by the tokens that still fit: a stack for each number, and a bit for each stack that is not
// empty.
typedef struct room {
    int64_t *top;  // by tokens; -1: empty
    int64_t *next; // of a row, the one below it
    uint64_t *bits;
    int64_t n; // largest number of tokens
} room;

static void push(room *r, int64_t tokens, int64_t row) {
    r->next[row] = r->top[tokens];
    r->top[tokens] = row;
    r->bits[tokens / 64] |= 1ull << tokens % 64;
}

// Removes and returns a row with the least room of at least `tokens`, *left; -1: there is none.
static int64_t pop(room *r, int64_t tokens, int64_t *left) {
    int64_t word = tokens / 64;
    uint64_t bits = r->bits[word] & ~0ull << tokens % 64;
    while (!bits && word < r->n / 64)
        bits = r->bits[++word];
    if (!bits) return -1;
    *left = 64 * word + __builtin_ctzll(bits);
    const int64_t row = r->top[*left];
    r->top[*left] = r->next[row];
    if (r->top[*left] < 0) r->bits[word] &= ~(1ull << *left % 64);
    return row;
}

// Returns the indices of the pieces, the longest first; pieces of one length keep their order.
static int64_t *longest_first(const piece_list *list, int64_t row_tokens) {
    int64_t *begin = mem_zeroed(sizeof *begin * (size_t)(row_tokens + 2)),
            *order = mem_alloc(sizeof *order * (size_t)(list->n + 1));
    for (int64_t i = 0; i < list->n; i++)
        begin[row_tokens - list->p[i].n + 1]++;
    for (int64_t i = 1; i <= row_tokens + 1; i++)
        begin[i] += begin[i - 1];
    for (int64_t i = 0; i < list->n; i++)
        order[begin[row_tokens - list->p[i].n]++] = i;
    free(begin);
    return order;
}

// Finds a row for each piece, in any numbering, and returns the number of rows.
static int64_t place(const piece_list *list, int64_t row_tokens, int64_t *row_of) {
    int64_t *order = longest_first(list, row_tokens), n_rows = 0;
    room r = {.top = mem_alloc(sizeof *r.top * (size_t)(row_tokens + 1)),
            .next = mem_alloc(sizeof *r.next * (size_t)(list->n + 1)),
            .bits = mem_zeroed(sizeof *r.bits * (size_t)(row_tokens / 64 + 1)),
            .n = row_tokens};
    memset(r.top, 0xFF, sizeof *r.top * (size_t)(row_tokens + 1));
    for (int64_t i = 0; i < list->n; i++) {
        const int64_t tokens = list->p[order[i]].n;
        int64_t left = row_tokens, row = pop(&r, tokens, &left);
        if (row < 0) row = n_rows++;
        row_of[order[i]] = row;
        push(&r, left - tokens, row);
    }
    free(r.top);
    free(r.next);
    free(r.bits);
    free(order);
    return n_rows;
}

void packing_make(const piece_list *list, int64_t row_tokens, packed_rows *out) {
    int64_t *row_of = mem_alloc(sizeof *row_of * (size_t)(list->n + 1)), n = 0;
    *out = (packed_rows){.n_rows = place(list, row_tokens, row_of),
            .pieces = mem_alloc(sizeof *out->pieces * (size_t)(list->n + 1))};
    int64_t *number = mem_alloc(sizeof *number * (size_t)(out->n_rows + 1)); // of a row, in order
    memset(number, 0xFF, sizeof *number * (size_t)(out->n_rows + 1));
    out->row = mem_zeroed(sizeof *out->row * (size_t)(out->n_rows + 2));
    for (int64_t i = 0; i < list->n; i++) {
        if (number[row_of[i]] < 0) number[row_of[i]] = n++;
        row_of[i] = number[row_of[i]];
        out->row[row_of[i] + 2]++;
        out->n_tokens += list->p[i].n;
    }
    for (int64_t row = 1; row <= n; row++)
        out->row[row + 1] += out->row[row];
    for (int64_t i = 0; i < list->n;
            i++) // row[k + 1] runs from the first piece of row k to its end
        out->pieces[out->row[row_of[i] + 1]++] = list->p[i];
    free(number);
    free(row_of);
}

void packing_free(packed_rows *p) {
    free(p->pieces);
    free(p->row);
    *p = (packed_rows){0};
}
