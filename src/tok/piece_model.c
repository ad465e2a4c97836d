// Reads the fields in place, and skips those that say how the model was trained.
#include "tok/piece_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tok/score_merges.h"
#include "tok/unicode.h"

enum { MAX_PIECES = 1 << 24 };

typedef enum wire_type { // numbers of the encoding
    WIRE_NUMBER = 0,
    WIRE_8_BYTES = 1,
    WIRE_BYTES = 2,
    WIRE_4_BYTES = 5,
} wire_type;

typedef struct proto_field {
    uint64_t number;
    wire_type wire;
    uint64_t value; // of a number
    str_view bytes; // of all others
} proto_field;

typedef struct proto_reader {
    const char *path;
    const unsigned char *begin, *p, *end; // begin: of the file
} proto_reader;

typedef struct piece_reader {
    arena *a;
    proto_reader file;
    piece_model *model;
    str_view bos, eos, pad; // names
    uint64_t model_type;
} piece_reader;

static drv_status broken(const proto_reader *r, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: not a model of sentencepiece: byte %lld: %s", r->path,
            (long long)(r->p - r->begin), what);
}

// --- the encoding
static drv_status read_number(proto_reader *r, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end) return broken(r, "the file ends within a number");
        const unsigned char byte = *r->p++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return DRV_OK;
    }
    return broken(r, "a number of more than 64 bits");
}

static drv_status read_field(proto_reader *reader, proto_field *out) {
    uint64_t key, length = 0;
    DRV_TRY(read_number(reader, &key));
    *out = (proto_field){.number = key >> 3, .wire = (wire_type)(key & 7)};
    if (out->number == 0) return broken(reader, "a field has number 0");
    switch (out->wire) {
    case WIRE_NUMBER:
        return read_number(reader, &out->value);
    case WIRE_8_BYTES:
        length = 8;
        break;
    case WIRE_4_BYTES:
        length = 4;
        break;
    case WIRE_BYTES:
        DRV_TRY(read_number(reader, &length));
        break;
    default:
        return broken(reader, "a field has an unknown type");
    }
    if (length > (uint64_t)(reader->end - reader->p))
        return broken(reader, "a field is longer than what is left");
    out->bytes = (str_view){(const char *)reader->p, (size_t)length};
    reader->p += length;
    return DRV_OK;
}

static drv_status expect_wire(const proto_reader *r, const proto_field *field, wire_type wire) {
    if (field->wire == wire) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: not a model of sentencepiece: field %llu before byte %lld has type %d, expected %d",
            r->path, (unsigned long long)field->number, (long long)(r->p - r->begin), field->wire,
            wire);
}

static drv_status take_flag(const proto_reader *r, const proto_field *field, bool *out) {
    DRV_TRY(expect_wire(r, field, WIRE_NUMBER));
    *out = field->value != 0;
    return DRV_OK;
}

static drv_status take_bytes(const proto_reader *r, const proto_field *field, str_view *out) {
    DRV_TRY(expect_wire(r, field, WIRE_BYTES));
    *out = field->bytes;
    return DRV_OK;
}

// Reads a message that is a field of another; calls `take` for each of its fields.
static drv_status read_message(piece_reader *self, const proto_reader *r, const proto_field *field,
        drv_status (*take)(piece_reader *self, const proto_reader *r, const proto_field *field)) {
    DRV_TRY(expect_wire(r, field, WIRE_BYTES));
    const unsigned char *p = (const unsigned char *)field->bytes.p;
    proto_reader inner = {r->path, r->begin, p, p + field->bytes.n};
    while (inner.p < inner.end) {
        proto_field found;
        DRV_TRY(read_field(&inner, &found));
        DRV_TRY(take(self, &inner, &found));
    }
    return DRV_OK;
}

// --- the messages
static drv_status take_of_piece(piece_reader *self, const proto_reader *r,
        const proto_field *field) {
    piece_model *m = self->model;
    const int32_t id = m->n - 1;
    if (field->number == 1) return take_bytes(r, field, &m->pieces[id]);
    if (field->number == 2) {
        DRV_TRY(expect_wire(r, field, WIRE_4_BYTES));
        memcpy(&m->scores[id], field->bytes.p, sizeof *m->scores);
        if (isfinite(m->scores[id])) return DRV_OK;
        return drv_fail(DRV_E_DATA, "%s: piece %d: its score is not finite", r->path, id);
    }
    if (field->number != 3) return DRV_OK;
    DRV_TRY(expect_wire(r, field, WIRE_NUMBER));
    if (field->value < PIECE_NORMAL || field->value > PIECE_BYTE)
        return drv_fail(DRV_E_DATA, "%s: piece %d: its type is %llu, expected 1 to 6", r->path, id,
                (unsigned long long)field->value);
    m->types[id] = (uint8_t)field->value;
    return DRV_OK;
}

static drv_status take_of_trainer(piece_reader *self, const proto_reader *r,
        const proto_field *field) {
    switch (field->number) {
    case 3:
        DRV_TRY(expect_wire(r, field, WIRE_NUMBER));
        self->model_type = field->value;
        return DRV_OK;
    case 24:
        return take_flag(r, field, &self->model->space_is_last);
    case 35:
        return take_flag(r, field, &self->model->byte_fallback);
    case 46:
        return take_bytes(r, field, &self->bos);
    case 47:
        return take_bytes(r, field, &self->eos);
    case 48:
        return take_bytes(r, field, &self->pad);
    default:
        return DRV_OK;
    }
}

static drv_status take_of_normalizer(piece_reader *self, const proto_reader *r,
        const proto_field *field) {
    piece_model *m = self->model;
    switch (field->number) {
    case 2:
        return take_bytes(r, field, &m->charsmap);
    case 3:
        return take_flag(r, field, &m->dummy_prefix);
    case 4:
        return take_flag(r, field, &m->removes_spaces);
    case 5:
        return take_flag(r, field, &m->escapes_spaces);
    default:
        return DRV_OK;
    }
}

static drv_status take_piece(piece_reader *self, const proto_reader *r, const proto_field *field) {
    piece_model *m = self->model;
    m->types[m->n] = PIECE_NORMAL;
    m->n++;
    DRV_TRY(read_message(self, r, field, take_of_piece));
    const str_view piece = m->pieces[m->n - 1];
    if (piece.n == 0) return drv_fail(DRV_E_DATA, "%s: piece %d is empty", r->path, m->n - 1);
    if (utf8_valid(piece.p, piece.n)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: piece %d is not UTF-8", r->path, m->n - 1);
}

static drv_status take_of_model(piece_reader *self, const proto_reader *r,
        const proto_field *field) {
    if (field->number == 1) return take_piece(self, r, field);
    if (field->number == 2) return read_message(self, r, field, take_of_trainer);
    if (field->number == 3) return read_message(self, r, field, take_of_normalizer);
    return DRV_OK;
}

// --- the whole
int piece_byte(str_view piece) {
    static const char digits[] = "0123456789ABCDEF";
    if (piece.n != 6 || memcmp(piece.p, "<0x", 3) != 0 || piece.p[5] != '>') return -1;
    const char *high = memchr(digits, piece.p[3], 16), *low = memchr(digits, piece.p[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static bool is_in_texts(piece_type type) {
    return type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED;
}

static drv_status check_piece(const piece_reader *self, const token_index *index, int32_t id) {
    piece_model *m = self->model;
    const int32_t first = token_index_find(index, m->pieces[id].p, m->pieces[id].n);
    if (first != id)
        return drv_fail(DRV_E_DATA, "%s: piece %d (\"%.*s\") is piece %d, too", self->file.path, id,
                m->pieces[id].n > 40 ? 40 : (int)m->pieces[id].n, m->pieces[id].p, first);
    if (m->types[id] == PIECE_BYTE && !m->byte_fallback)
        return drv_fail(DRV_E_DATA, "%s: piece %d is a byte, but byte_fallback is off",
                self->file.path, id);
    if (m->types[id] == PIECE_BYTE && piece_byte(m->pieces[id]) < 0)
        return drv_fail(DRV_E_DATA, "%s: piece %d is a byte, expected a name as <0x0A>",
                self->file.path, id);
    if (m->types[id] != PIECE_UNKNOWN) return DRV_OK;
    if (m->unknown >= 0)
        return drv_fail(DRV_E_DATA, "%s: pieces %d and %d are both the unknown token, expected one",
                self->file.path, m->unknown, id);
    m->unknown = id;
    return DRV_OK;
}

// Returns the id of a control piece by its name; -1: none.
static int32_t control_piece(const piece_model *m, const token_index *index, str_view name) {
    const int32_t id = token_index_find(index, name.p, name.n);
    return id >= 0 && !is_in_texts((piece_type)m->types[id]) ? id : -1;
}

static drv_status check_all(piece_reader *self) {
    piece_model *model = self->model;
    const char *path = self->file.path;
    token_index index;
    if (model->n == 0)
        return drv_fail(DRV_E_DATA, "%s: a model of sentencepiece without pieces", path);
    if (self->model_type < 1 || self->model_type > 2)
        return drv_fail(DRV_E_DATA,
                "%s: a model of sentencepiece of type %s is not supported, expected BPE or unigram",
                path,
                self->model_type == 3   ? "word"
                : self->model_type == 4 ? "char"
                                        : "?");
    model->is_unigram = self->model_type == 1;
    token_index_build(self->a, model->pieces, model->n, &index);
    for (int32_t id = 0; id < model->n; id++)
        DRV_TRY(check_piece(self, &index, id));
    if (model->unknown < 0) return drv_fail(DRV_E_DATA, "%s: no piece is the unknown token", path);
    for (int byte = 0; model->byte_fallback && byte < 256; byte++) {
        char name[8];
        const int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        const int32_t id = token_index_find(&index, name, (size_t)n);
        if (id < 0 || model->types[id] != PIECE_BYTE)
            return drv_fail(DRV_E_DATA, "%s: byte_fallback is on, but byte %s is not a piece", path,
                    name);
    }
    model->bos = control_piece(model, &index, self->bos);
    model->eos = control_piece(model, &index, self->eos);
    model->pad = control_piece(model, &index, self->pad);
    return DRV_OK;
}

static drv_status count_pieces(proto_reader r, int64_t *n) {
    for (*n = 0; r.p < r.end;) {
        proto_field field;
        DRV_TRY(read_field(&r, &field));
        *n += field.number == 1;
    }
    if (*n <= MAX_PIECES) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %lld pieces, expected at most %d", r.path, (long long)*n,
            MAX_PIECES);
}

drv_status piece_model_read(arena *a, const char *path, const void *bytes, size_t n_bytes,
        piece_model *out) {
    static const char bos[] = "<s>", eos[] = "</s>", pad[] = "<pad>";
    const unsigned char *begin = bytes;
    piece_reader self = {.a = a,
            .file = {path, begin, begin, begin + n_bytes},
            .model = out,
            .bos = {bos, sizeof bos - 1},
            .eos = {eos, sizeof eos - 1},
            .pad = {pad, sizeof pad - 1},
            .model_type = 1};
    int64_t n_pieces;
    DRV_TRY(count_pieces(self.file, &n_pieces));
    *out = (piece_model){.pieces = ARENA_ARRAY(a, str_view, n_pieces + 1),
            .scores = ARENA_ARRAY(a, float, n_pieces + 1),
            .types = ARENA_ARRAY(a, uint8_t, n_pieces + 1),
            .unknown = -1,
            .dummy_prefix = true,
            .removes_spaces = true,
            .escapes_spaces = true};
    const str_view whole = {bytes, n_bytes};
    const proto_field file = {.wire = WIRE_BYTES, .bytes = whole};
    DRV_TRY(read_message(&self, &self.file, &file, take_of_model));
    return check_all(&self);
}

void piece_model_unigram(arena *a, const piece_model *m, unigram_pieces *out) {
    float least = 3.402823466e+38f;
    bool *found = ARENA_ARRAY(a, bool, m->n + 1);
    double *scores = ARENA_ARRAY(a, double, m->n + 1);
    for (int32_t id = 0; id < m->n; id++) {
        const bool user_defined = m->types[id] == PIECE_USER_DEFINED;
        found[id] = user_defined || m->types[id] == PIECE_NORMAL;
        scores[id] = (double)(user_defined ? (float)(0.1 * ((double)m->pieces[id].n - 1))
                                           : m->scores[id]);
        if (m->types[id] == PIECE_NORMAL && m->scores[id] < least) least = m->scores[id];
    }
    *out = (unigram_pieces){.pieces = m->pieces,
            .found = found,
            .scores = scores,
            .n = m->n,
            .unknown = m->unknown,
            .unknown_score = (double)(least - 10.0f),
            .escapes_spaces = m->escapes_spaces};
}
