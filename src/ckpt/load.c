// Loads the tensors of a model into the state of a run, and requires exactly the expected ones.
// Each of several ranks reads some rows of a tensor and sends the others their pieces, so that each
// byte is read once, whatever the layout.
#include <stdlib.h>
#include <string.h>

#include "base/round.h"
#include "base/stop.h"
#include "source/foreign_state.h"
#include "ckpt/pieces.h"

enum { PIECE = 1 << 18, SHARED_PIECE = 1 << 21 }; // bytes in fp32 that a rank reads at a time

// --- unexpected tensors
static drv_status refuse_unexpected(arena *a, const model_source *s, const ckpt_tensor *list, int n,
        bool beside_masters) {
    name_map expected = {.a = a};
    for (int i = 0; i < n; i++)
        name_map_set(&expected, list[i].entry.name, (void *)(uintptr_t)&list[i]);
    for (int i = 0; i < s->n; i++) {
        const source_tensor *t = &s->tensors[i];
        bool drops;
        if (name_map_get(&expected, t->name)) continue;
        if (beside_masters && str_starts(t->name, CKPT_MASTER)) continue;
        DRV_TRY(model_source_drops(s, t, &drops));
        if (!drops)
            return drv_fail(DRV_E_DATA,
                    "%s: tensor \"%.80s\" has no place in the model of the config", t->file,
                    t->name);
    }
    return DRV_OK;
}

// --- filling
static void print_dims(const int64_t *dim, int n, str *out) {
    str_puts(out, "[");
    for (int i = 0; i < n; i++)
        str_printf(out, i ? ", %lld" : "%lld", (long long)dim[i]);
    str_puts(out, "]");
}

static drv_status check_shape(const source_tensor *from, const st_entry *to) {
    bool same = from->n_dims == to->n_dims;
    for (int i = 0; same && i < to->n_dims; i++)
        same = from->dim[i] == to->dim[i];
    if (same) return DRV_OK;
    str shape = {0};
    print_dims(from->dim, from->n_dims, &shape);
    str_puts(&shape, ", expected ");
    print_dims(to->dim, to->n_dims, &shape);
    drv_status status =
            drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has shape %s", from->file, to->name, shape.p);
    str_free(&shape);
    return status;
}

typedef struct filling {
    const ckpt_ranks *ranks;
    int rank, n_ranks;
    const model_source *source;
    const ckpt_sink *sink;
    const source_tensor *from; // under way
    const ckpt_tensor *to;
    ckpt_tensor *all;   // of all ranks: who has which piece of it
    int64_t chunk_rows; // that a rank reads in a round
    float *rows, *out, *in;
    int64_t out_cap, in_cap;       // elements
    int64_t *out_bytes, *in_bytes; // by rank
    drv_status status;             // of this rank
} filling;

// Returns `row` of the rows [row, row + *n) that a rank reads in a round.
static int64_t rows_of(const filling *f, int rank, int64_t round, int64_t *n) {
    const int64_t row = (round * f->n_ranks + rank) * f->chunk_rows, left = f->from->rows - row;
    *n = left < 0 ? 0 : left < f->chunk_rows ? left : f->chunk_rows;
    return row;
}

typedef struct range { // of elements of a piece
    int64_t first, n;
} range;

static range part_in(const filling *f, const ckpt_piece *p, int64_t row, int64_t n_rows) {
    const int64_t columns = f->from->cols, first = piece_before(p, columns, row * columns);
    return (range){first, piece_before(p, columns, (row + n_rows) * columns) - first};
}

static int64_t elements_in(const filling *f, const ckpt_tensor *t, int64_t row, int64_t n_rows) {
    int64_t n = 0;
    for (int k = 0; k < t->n_pieces; k++)
        n += part_in(f, &t->piece[k], row, n_rows).n;
    return n;
}

static float *room(float *p, int64_t *cap, int64_t n) {
    if (p && n <= *cap) return p;
    *cap = n > 0 ? n : 1; // never NULL, to which C adds nothing, not even 0
    return mem_realloc(p, sizeof *p * (size_t)*cap);
}

// Packs a rank's part of the rows that were read, piece by piece.
static float *pack(const filling *f, const ckpt_tensor *t, int64_t row, int64_t n_rows, float *to) {
    const int64_t columns = f->from->cols;
    for (int k = 0; k < t->n_pieces; k++) {
        const ckpt_piece *p = &t->piece[k];
        const range part = part_in(f, p, row, n_rows);
        for (int64_t i = 0, run; i < part.n; i += run) {
            const int64_t element = piece_index(p, columns, part.first + i, &run);
            if (run > part.n - i) run = part.n - i;
            memcpy(to + i, f->rows + element - row * columns, sizeof *to * (size_t)run);
        }
        to += part.n;
    }
    return to;
}

static drv_status give(filling *f, int64_t row, int64_t n_rows, const float *values) {
    for (int k = 0; k < f->to->n_pieces; k++) {
        const ckpt_piece *p = &f->to->piece[k];
        const range part = part_in(f, p, row, n_rows);
        if (part.n == 0) continue;
        DRV_TRY(f->sink->write(f->sink->ctx, f->to, p, part.first, part.n, values));
        values += part.n;
    }
    return DRV_OK;
}

static void read_rows(filling *f, int64_t row, int64_t n) {
    if (f->status == DRV_OK) f->status = stop_check("weights were loaded");
    if (f->status == DRV_OK && n) f->status = source_read_f32(f->source, f->from, row, n, f->rows);
}

// A rank that has failed keeps sending, so that the others can end the tensor.
static drv_status fill_round(filling *fill, int64_t round) {
    int64_t n_rows, total_out = 0, total_in = 0;
    const int64_t row = rows_of(fill, fill->rank, round, &n_rows);
    read_rows(fill, row, n_rows);
    for (int r = 0; r < fill->n_ranks; r++) {
        int64_t n_theirs;
        const int64_t theirs = rows_of(fill, r, round, &n_theirs);
        const int64_t out = elements_in(fill, &fill->all[r], row, n_rows),
                      in = elements_in(fill, fill->to, theirs, n_theirs);
        fill->out_bytes[r] = out * (int64_t)sizeof *fill->out;
        fill->in_bytes[r] = in * (int64_t)sizeof *fill->in;
        total_out += out;
        total_in += in;
    }
    fill->out = room(fill->out, &fill->out_cap, total_out);
    fill->in = room(fill->in, &fill->in_cap, total_in);
    float *to = fill->out;
    for (int r = 0; r < fill->n_ranks; r++)
        to = pack(fill, &fill->all[r], row, n_rows, to);
    DRV_TRY(comm_all_to_all(comm_all_ranks(fill->ranks->comm), fill->out, fill->out_bytes, fill->in,
            fill->in_bytes, 0));
    const float *values = fill->in;
    for (int r = 0; r < fill->n_ranks && fill->status == DRV_OK; r++) {
        const int64_t theirs = rows_of(fill, r, round, &n_rows);
        fill->status = give(fill, theirs, n_rows, values);
        values += elements_in(fill, fill->to, theirs, n_rows);
    }
    return DRV_OK;
}

// Fills a tensor on one rank, and skips rows of which it has no piece.
static drv_status fill_alone(filling *f) {
    for (int64_t row = 0, n; row < f->from->rows && f->status == DRV_OK; row += f->chunk_rows) {
        n = f->from->rows - row < f->chunk_rows ? f->from->rows - row : f->chunk_rows;
        const int64_t wanted = elements_in(f, f->to, row, n);
        if (wanted == 0) continue;
        read_rows(f, row, n);
        f->out = room(f->out, &f->out_cap, wanted);
        if (f->status != DRV_OK) break;
        const bool whole = wanted == n * f->from->cols;
        if (!whole) pack(f, f->to, row, n, f->out);
        f->status = give(f, row, n, whole ? f->rows : f->out);
    }
    return f->status;
}

static drv_status fill_together(filling *f) {
    DRV_TRY(comm_all_gather(comm_all_ranks(f->ranks->comm), f->to, sizeof *f->to, NULL, f->all));
    const int64_t rounds = div_up(f->from->rows, f->chunk_rows * f->n_ranks);
    for (int64_t k = 0; k < rounds; k++)
        DRV_TRY(fill_round(f, k));
    return ckpt_agree(f->ranks, f->status);
}

static drv_status check_type(const ckpt_sink *sink, const source_tensor *from, const st_entry *to) {
    if (!sink->exact || from->type == ST_F32 || from->type == to->type) return DRV_OK;
    if (from->type == ST_BF16 && sink->takes_bf16) return DRV_OK;
    const bool of_other_run = from->type == ST_BF16; // no damage: another config wrote it
    return drv_fail(of_other_run ? DRV_E_USAGE : DRV_E_DATA,
            "%s: tensor \"%s\" is %s, expected F32 to resume from%s", from->file, to->name,
            from->type_name,
            of_other_run
                    ? "; a run without masters (optimizer.master_dtype: bf16) resumes from BF16"
                    : "");
}

static drv_status fill_tensor(filling *f, const source_tensor *from, const ckpt_tensor *to) {
    f->from = from;
    f->to = to;
    DRV_TRY(check_type(f->sink, from, &to->entry));
    f->chunk_rows = source_piece_rows(from, f->n_ranks > 1 ? SHARED_PIECE : PIECE);
    f->rows = mem_alloc(sizeof *f->rows * (size_t)(f->chunk_rows * from->cols));
    const drv_status status = f->n_ranks > 1 ? fill_together(f) : fill_alone(f);
    free(f->rows);
    return status;
}

static drv_status fill_all(const ckpt_ranks *ranks, const model_source *s, const ckpt_tensor *list,
        int n, const ckpt_sink *sink) {
    filling f = {.ranks = ranks,
            .rank = ckpt_rank(ranks),
            .n_ranks = ckpt_size(ranks),
            .source = s,
            .sink = sink};
    f.all = mem_alloc(sizeof *f.all * (size_t)f.n_ranks);
    f.out_bytes = mem_alloc(sizeof *f.out_bytes * (size_t)f.n_ranks);
    f.in_bytes = mem_alloc(sizeof *f.in_bytes * (size_t)f.n_ranks);
    drv_status status = DRV_OK;
    for (int i = 0; i < n && status == DRV_OK; i++)
        status = fill_tensor(&f, model_source_find(s, list[i].entry.name), &list[i]);
    free(f.all);
    free(f.out_bytes);
    free(f.in_bytes);
    free(f.out);
    free(f.in);
    return status;
}

static drv_status check_expected(const model_source *s, const ckpt_tensor *list, int n) {
    for (int i = 0; i < n; i++) {
        const char *name = list[i].entry.name;
        const source_tensor *from = model_source_find(s, name);
        if (from)
            DRV_TRY(check_shape(from, &list[i].entry));
        else
            return drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\"%s", s->path, name,
                    strcmp(name, "lm_head.weight") == 0
                            ? "; if it is tied to the embedding, config.json must have tie_word_embeddings: true"
                            : "");
    }
    return DRV_OK;
}

static drv_status check(const model_source *s, const ckpt_tensor *list, int n,
        bool beside_masters) {
    arena *a = arena_new("expected tensors");
    const drv_status status = refuse_unexpected(a, s, list, n, beside_masters);
    arena_free(a);
    return status == DRV_OK ? check_expected(s, list, n) : status;
}

drv_status ckpt_check(const model_source *s, const ckpt_tensor *list, int n) {
    return check(s, list, n, false);
}

static drv_status open_source(arena *a, const char *path, bool is_model, const ckpt_sink *sink,
        model_source *out) {
    foreign_progress ignored;
    if (sink->resumes)
        return is_model ? model_source_open_resumed(a, path, out)
                        : model_source_open_optimizer(a, path, NULL, out, &ignored);
    if (!is_model) return model_source_open_folder(a, path, "optimizer", out);
    return sink->exact ? model_source_open_masters(a, path, out) : model_source_open(a, path, out);
}

drv_status ckpt_fill(const ckpt_ranks *ranks, const char *path, const char *which,
        const ckpt_tensor *list, int n, const ckpt_sink *sink) {
    arena *a = arena_new("load");
    model_source s;
    const bool is_model = strcmp(which, "model") == 0;
    drv_status status = open_source(a, path, is_model, sink, &s);
    if (status == DRV_OK) status = check(&s, list, n, !is_model);
    status = ckpt_agree(ranks, status);
    if (status == DRV_OK) status = fill_all(ranks, &s, list, n, sink);
    model_source_close(&s);
    arena_free(a);
    return status;
}

drv_status ckpt_fill_alone(const model_source *s, const ckpt_tensor *list, int n,
        const ckpt_sink *sink) {
    DRV_TRY(check_expected(s, list, n));
    return fill_all(NULL, s, list, n, sink);
}
