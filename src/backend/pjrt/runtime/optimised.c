// Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto, which do not change.
#include "backend/pjrt/runtime/optimised.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

// --- the wire format of protocol buffers
typedef struct span {
    const unsigned char *p, *end;
} span;

typedef struct field {
    uint64_t number, value; // the value of a varint
    span bytes;             // content of a field with a length; else empty
} field;

static bool read_varint(span *s, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && s->p < s->end; shift += 7) {
        const unsigned char byte = *s->p++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

// Reads the number of bytes that follow a field's tag.
static bool read_length(span *s, int wire_type, field *f, uint64_t *n) {
    enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 };
    if (wire_type == LENGTH) return read_varint(s, n);
    *n = wire_type == FIXED64 ? 8 : wire_type == FIXED32 ? 4 : 0;
    return wire_type == VARINT ? read_varint(s, &f->value) : *n > 0;
}

// Reads the next field. False: there is none, or *bad is set.
static bool next_field(span *s, field *f, bool *bad) {
    uint64_t tag, n;
    *f = (field){0};
    if (s->p == s->end) return false;
    *bad |= !read_varint(s, &tag) || !read_length(s, (int)(tag & 7), f, &n) ||
            n > (uint64_t)(s->end - s->p);
    if (*bad) return false;
    f->number = tag >> 3;
    f->bytes = (span){s->p, s->p + n};
    s->p += n;
    return true;
}

// --- instructions
enum { MAX_HLO_DIMS = 8, MAX_OPERANDS = 2, HLO_F16 = 10, HLO_F32 = 11, HLO_BF16 = 16 };

typedef enum opcode {
    OP_OTHER,
    OP_PARAMETER,
    OP_DOT,
    OP_REDUCE,
    OP_MULTIPLY,
    OP_BROADCAST,
    OP_COPY,
    OP_CUSTOM_CALL,
    OP_FUSION,
    OP_TUPLE,
    OP_COLLECTIVE,
    OP_VIEW, // uses the memory of its operand
    OP_SAME, // the values of its operand in another type, order or shape
} opcode;

typedef struct hlo_shape {
    uint64_t type;
    int n; // number of dims that are not 1, which ascend
    int64_t dim[MAX_HLO_DIMS];
} hlo_shape;

typedef struct instruction {
    uint64_t id;
    opcode op;
    bool is_product, is_fp8, is_fused_attention; // a call of a library
    bool updates;                                // writes a result into an argument's memory
    hlo_shape shape;
    int n_operands;
    uint64_t operand[MAX_OPERANDS];
    span all_operands; // packed ids
} instruction;

typedef struct reader {
    uint64_t entry;      // the entry computation
    uint64_t root;       // root instruction of the current computation
    span aliases;        // HloInputOutputAliasProto
    uint64_t *in_fusion; // computations
    int n_in_fusion, cap_in_fusion;
    bool fusions_known;
    hlo_shape *weights;
    int n_weights, cap_weights;
    instruction *all; // instructions of the current computation, by id
    int n_all, cap_all;
    int64_t n_fp32;
    program_facts *out;
    bool bad;
} reader;

static bool text_is(span s, const char *text) {
    return (size_t)(s.end - s.p) == strlen(text) && memcmp(s.p, text, strlen(text)) == 0;
}

static bool text_has(span s, const char *text) {
    return memmem(s.p, (size_t)(s.end - s.p), text, strlen(text)) != NULL;
}

static int64_t count_text(span s, const char *text) {
    int64_t n = 0;
    const unsigned char *found = s.p;
    for (; (found = memmem(found, (size_t)(s.end - found), text, strlen(text))); found++)
        n++;
    return n;
}

static opcode opcode_of(span s) {
    static const struct {
        const char *name;
        opcode op;
    } rows[] = {{"parameter", OP_PARAMETER}, {"dot", OP_DOT}, {"reduce", OP_REDUCE},
            {"multiply", OP_MULTIPLY}, {"broadcast", OP_BROADCAST}, {"copy", OP_COPY},
            {"copy-start", OP_COPY}, {"custom-call", OP_CUSTOM_CALL}, {"fusion", OP_FUSION},
            {"tuple", OP_TUPLE}, {"all-gather", OP_COLLECTIVE}, {"all-gather-done", OP_COLLECTIVE},
            {"all-reduce", OP_COLLECTIVE}, {"all-reduce-done", OP_COLLECTIVE},
            {"async-done", OP_COLLECTIVE}, {"bitcast", OP_VIEW}, {"get-tuple-element", OP_VIEW},
            {"convert", OP_SAME}, {"reshape", OP_SAME}, {"transpose", OP_SAME}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(s, rows[i].name)) return rows[i].op;
    return OP_OTHER;
}

static void add_dim(hlo_shape *shape, int64_t dim) {
    int at = shape->n;
    if (dim == 1 || shape->n == MAX_HLO_DIMS) return;
    for (; at > 0 && shape->dim[at - 1] > dim; at--)
        shape->dim[at] = shape->dim[at - 1];
    shape->dim[at] = dim;
    shape->n++;
}

static hlo_shape read_shape(reader *r, span s) {
    enum { ELEMENT_TYPE = 2, DIMENSIONS = 3 };
    hlo_shape shape = {0};
    field f;
    uint64_t dim;
    while (next_field(&s, &f, &r->bad)) {
        if (f.number == ELEMENT_TYPE) shape.type = f.value;
        if (f.number != DIMENSIONS) continue;
        if (f.bytes.p == f.bytes.end) add_dim(&shape, (int64_t)f.value);
        while (f.bytes.p < f.bytes.end && read_varint(&f.bytes, &dim)) // packed
            add_dim(&shape, (int64_t)dim);
    }
    return shape;
}

static void read_ids(const field *f, void (*add)(void *ctx, uint64_t id), void *ctx) {
    span packed = f->bytes;
    uint64_t id;
    if (packed.p == packed.end) add(ctx, f->value);
    while (packed.p < packed.end && read_varint(&packed, &id))
        add(ctx, id);
}

static void take_operand(void *ctx, uint64_t id) {
    instruction *in = ctx;
    if (in->n_operands < MAX_OPERANDS) in->operand[in->n_operands++] = id;
}

static void take_fused(void *ctx, uint64_t id) {
    reader *r = ctx;
    if (r->fusions_known) return;
    MEM_GROW(r->in_fusion, r->n_in_fusion, r->cap_in_fusion);
    r->in_fusion[r->n_in_fusion++] = id;
}

static instruction read_instruction(reader *r, span s) {
    enum { OPCODE = 2, SHAPE = 3, CALL_TARGET = 28, ID = 35, OPERANDS = 36, CALLED = 38 };
    instruction in = {0};
    field f;
    while (next_field(&s, &f, &r->bad)) {
        if (f.number == OPCODE) in.op = opcode_of(f.bytes);
        if (f.number == SHAPE) in.shape = read_shape(r, f.bytes);
        if (f.number == ID) in.id = f.value;
        if (f.number == OPERANDS) read_ids(&f, take_operand, &in);
        if (f.number == OPERANDS) in.all_operands = f.bytes;
        if (f.number == CALLED && in.op == OP_FUSION) read_ids(&f, take_fused, r);
        if (f.number != CALL_TARGET) continue;
        in.is_fused_attention = text_has(f.bytes, "__cudnn$fmha");
        in.is_product = text_has(f.bytes, "matmul") || text_has(f.bytes, "gemm");
        in.is_fp8 = text_has(f.bytes, "$matmul$f8");
    }
    in.is_product |= in.op == OP_DOT;
    return in;
}

static int by_id(const void *x, const void *y) {
    const uint64_t a = ((const instruction *)x)->id, b = ((const instruction *)y)->id;
    return a < b ? -1 : a > b;
}

// Reads a computation, and returns its id.
static uint64_t read_computation(reader *r, span s) {
    enum { INSTRUCTIONS = 2, ID = 5, ROOT_ID = 6 };
    uint64_t id = 0;
    field f;
    r->n_all = 0;
    while (next_field(&s, &f, &r->bad)) {
        if (f.number == ID) id = f.value;
        if (f.number == ROOT_ID) r->root = f.value;
        if (f.number != INSTRUCTIONS) continue;
        MEM_GROW(r->all, r->n_all, r->cap_all);
        r->all[r->n_all++] = read_instruction(r, f.bytes);
    }
    if (r->n_all) qsort(r->all, (size_t)r->n_all, sizeof *r->all, by_id);
    return id;
}

// --- patterns
static instruction *find(const reader *r, uint64_t id) {
    const instruction wanted = {.id = id};
    return r->n_all ? bsearch(&wanted, r->all, (size_t)r->n_all, sizeof wanted, by_id) : NULL;
}

// Returns an operand, or the instruction from which it has its values. NULL: there is none.
static const instruction *source(const reader *r, const instruction *in, int operand) {
    for (int steps = 0; in && steps < 64; steps++) {
        in = operand < in->n_operands ? find(r, in->operand[operand]) : NULL;
        operand = 0;
        if (!in || (in->op != OP_SAME && in->op != OP_VIEW)) return in;
    }
    return NULL;
}

static bool is_float(const hlo_shape *s) {
    return s->type == HLO_F32 || s->type == HLO_F16 || s->type == HLO_BF16;
}

static bool is_within(const hlo_shape *small, const hlo_shape *large) {
    int at = 0;
    for (int i = 0; i < large->n && at < small->n; i++)
        at += large->dim[i] == small->dim[at];
    return at == small->n;
}

// Returns whether a shape has the dims of a weight, in any order; `more`: or those and others.
static bool is_like_weight(const reader *r, const hlo_shape *s, bool more) {
    for (int i = 0; i < r->n_weights; i++)
        if ((more || s->n == r->weights[i].n) && is_within(&r->weights[i], s)) return true;
    return false;
}

// Returns whether a reduction is a product of matrices, each repeated along the other's dims.
static bool is_summed_product(const reader *r, const instruction *in) {
    const instruction *product = in->op == OP_REDUCE ? source(r, in, 0) : NULL;
    if (!product || product->op != OP_MULTIPLY || !is_like_weight(r, &in->shape, true))
        return false;
    const instruction *a = source(r, product, 0), *b = source(r, product, 1);
    return a && b && a != b && a->op == OP_BROADCAST && b->op == OP_BROADCAST;
}

static bool is_fp32_product(const reader *r, const instruction *in) {
    if (!in->is_product || in->n_operands < 2) return false;
    const instruction *a = find(r, in->operand[0]), *b = find(r, in->operand[1]);
    return a && b && a->shape.type == HLO_F32 && b->shape.type == HLO_F32;
}

// Returns whether an instruction copies a weight that the program or a loop's body gets.
static bool is_weight_copy(const reader *r, const instruction *in) {
    const instruction *of = in->op == OP_COPY ? source(r, in, 0) : NULL;
    return of && of->op == OP_PARAMETER && is_like_weight(r, &in->shape, false);
}

// Returns whether the memory of an argument becomes result k.
static bool is_in_place(reader *r, uint64_t k) {
    enum { ENTRIES = 1, RESULT = 1 };
    span entries = r->aliases;
    field entry, f;
    uint64_t result;
    while (next_field(&entries, &entry, &r->bad))
        while (entry.number == ENTRIES && next_field(&entry.bytes, &f, &r->bad))
            if (f.number == RESULT && read_varint(&f.bytes, &result) && result == k) return true;
    return false;
}

// Marks the kernels that write results in place, which are those of the update. If a result is a
// copy, this marks the kernel whose value it copies. A collective that gathers a weight is not
// marked.
static void mark_updates(reader *r, uint64_t computation) {
    const instruction *root = computation == r->entry ? find(r, r->root) : NULL;
    uint64_t id, k = 0;
    if (!root || root->op != OP_TUPLE) return;
    for (span ids = root->all_operands; ids.p < ids.end && read_varint(&ids, &id); k++) {
        instruction *in = is_in_place(r, k) ? find(r, id) : NULL;
        for (int steps = 0; in && in->op != OP_PARAMETER && steps < 64; steps++) {
            in->updates = in->op != OP_VIEW && in->op != OP_COLLECTIVE;
            if (in->op != OP_VIEW && in->op != OP_COPY) break;
            in = in->n_operands ? find(r, in->operand[0]) : NULL;
        }
    }
}

static bool is_in_fusion(const reader *r, uint64_t computation) {
    for (int i = 0; i < r->n_in_fusion; i++)
        if (r->in_fusion[i] == computation) return true;
    return false;
}

static void count(reader *r, uint64_t computation) {
    const bool fused = is_in_fusion(r, computation);
    mark_updates(r, computation);
    for (int i = 0; i < r->n_all; i++) {
        const instruction *in = &r->all[i];
        r->out->fused += in->is_fused_attention;
        r->out->products += in->is_product;
        r->out->fp8 += in->is_fp8;
        r->out->update_kernels += in->updates;
        r->out->summed_products += is_summed_product(r, in);
        r->out->weight_copies += !fused && is_weight_copy(r, in);
        r->n_fp32 += is_fp32_product(r, in);
    }
}

static void take_weights(reader *r, uint64_t computation) {
    if (computation != r->entry) return;
    for (int i = 0; i < r->n_all; i++) {
        const instruction *in = &r->all[i];
        if (in->op != OP_PARAMETER || in->shape.n < 2 || !is_float(&in->shape)) continue;
        MEM_GROW(r->weights, r->n_weights, r->cap_weights);
        r->weights[r->n_weights++] = in->shape;
    }
}

// --- the module
typedef void walker(reader *r, uint64_t computation);

static void walk(reader *r, span module, walker *each) {
    enum { COMPUTATIONS = 3, ENTRY_ID = 6, ALIASES = 8 };
    field f;
    while (next_field(&module, &f, &r->bad)) {
        if (f.number == ENTRY_ID) r->entry = f.value;
        if (f.number == ALIASES) r->aliases = f.bytes;
        if (f.number != COMPUTATIONS) continue;
        const uint64_t id = read_computation(r, f.bytes);
        if (each) each(r, id);
    }
}

// Counts the products in a text, and those with operands of each type.
static void count_asked(const char *text, size_t n, program_facts *out, int64_t *fp32,
        int64_t *bf16) {
    static const char dot[] = "\"stablehlo.dot_general\"", types[] = " : (tensor<";
    const char *end = text + n;
    for (const char *found = text;
            (found = memmem(found, (size_t)(end - found), dot, strlen(dot)));) {
        out->products_asked++;
        found += strlen(dot);
        const char *line_end = memchr(found, '\n', (size_t)(end - found));
        const span line = {(const unsigned char *)found,
                (const unsigned char *)(line_end ? line_end : end)};
        const char *in = memmem(found, (size_t)(line.end - line.p), types, strlen(types));
        const char *in_end =
                in ? memmem(in, (size_t)((const char *)line.end - in), ") ->", 4) : NULL;
        if (!in_end) continue;
        const span operands = {(const unsigned char *)in, (const unsigned char *)in_end};
        *bf16 += text_has(operands, "bf16>");
        *fp32 += text_has(operands, "xf32>") && !text_has(operands, "bf16>");
    }
    const span all = {(const unsigned char *)text, (const unsigned char *)end};
    out->fused_asked = count_text(all, "__cudnn$fmha");
    out->updated_weights = count_text(all, "// updates a weight\n"); // lower_update.c
    // Each product in fp8 widens two operands.
    out->fp8_asked = (count_text(all, "f8E4M3FN>) -> ") + count_text(all, "f8E5M2>) -> ")) / 2;
}

bool optimised_read(const void *hlo, size_t n, const char *text, size_t n_text,
        program_facts *out) {
    enum { MODULE = 1 }; // of HloModuleProtoWithConfig
    *out = (program_facts){0};
    reader r = {.out = out};
    span all = {hlo, (const unsigned char *)hlo + n}, module = {0};
    field f;
    while (next_field(&all, &f, &r.bad))
        if (f.number == MODULE) module = f.bytes;
    if (!r.bad && module.p) {
        walk(&r, module, NULL); // finds the fused computations and the entry
        r.fusions_known = true;
        walk(&r, module, take_weights);
        walk(&r, module, count);
    }
    int64_t fp32_asked = 0, bf16_asked = 0;
    count_asked(text, n_text, out, &fp32_asked, &bf16_asked);
    if (bf16_asked && r.n_fp32 > fp32_asked) out->fp32_products = r.n_fp32 - fp32_asked;
    free(r.in_fusion);
    free(r.weights);
    free(r.all);
    return module.p && !r.bad;
}
