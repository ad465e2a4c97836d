// What is said of an optimised program, on planted cases: modules that are written here field by
// field, and programs that XLA's CPU plugin compiles, where there is one.
#include "harness.h"

#include "backend/pjrt/runtime/optimised.h"
#include "backend/pjrt/runtime/pjrt_client.h"
#include "base/str.h"

// --- a module, as xla/service/hlo.proto numbers its fields
enum { F32 = 11, BF16 = 16 };

static void put_varint(str *s, uint64_t x) {
    unsigned char bytes[10];
    size_t n = 0;
    for (; x > 127; x >>= 7)
        bytes[n++] = (unsigned char)(x | 128);
    bytes[n++] = (unsigned char)x;
    str_add(s, bytes, n);
}

static void put_number(str *s, int field, uint64_t x) {
    put_varint(s, (uint64_t)field << 3);
    put_varint(s, x);
}

static void put_bytes(str *s, int field, const char *bytes, size_t n) {
    put_varint(s, (uint64_t)field << 3 | 2);
    put_varint(s, n);
    str_add(s, bytes, n);
}

static void put_part(str *s, int field, str *part) {
    put_bytes(s, field, part->p, part->n);
    str_free(part);
}

typedef struct op {
    const char *code, *target;
    int type;
    int64_t rows, columns;
    int id, operand[7], calls;
} op;

static void put_op(str *computation, const op *o) {
    str shape = {0}, dims = {0}, operands = {0}, out = {0};
    put_number(&shape, 2, (uint64_t)o->type);
    put_varint(&dims, (uint64_t)o->rows);
    if (o->columns) put_varint(&dims, (uint64_t)o->columns);
    put_part(&shape, 3, &dims);
    put_bytes(&out, 2, o->code, strlen(o->code));
    put_part(&out, 3, &shape);
    if (o->target) put_bytes(&out, 28, o->target, strlen(o->target));
    put_number(&out, 35, (uint64_t)o->id);
    for (int i = 0; i < 7 && o->operand[i]; i++)
        put_varint(&operands, (uint64_t)o->operand[i]);
    put_part(&out, 36, &operands);
    if (o->calls) put_number(&out, 38, (uint64_t)o->calls);
    put_part(computation, 2, &out);
}

static void put_computation(str *module, int id, const op *ops, int n) {
    str c = {0};
    for (int i = 0; i < n; i++)
        put_op(&c, &ops[i]);
    put_number(&c, 5, (uint64_t)id);
    put_part(module, 3, &c);
}

// A weight of 4 x 8 with one of each fault, beside what looks like it and is none.
static str planted(void) {
    static const op fused[] = {{"parameter", NULL, F32, 4, 16, 1, {0}, 0},
            {"parameter", NULL, F32, 8, 16, 2, {0}, 0},
            {"broadcast", NULL, F32, 4, 128, 3, {1}, 0}, // [4,8,16], as far as it matters
            {"convert", NULL, F32, 4, 128, 4, {3}, 0}, {"broadcast", NULL, F32, 4, 128, 5, {2}, 0},
            {"multiply", NULL, F32, 4, 128, 6, {4, 5}, 0}, {"reduce", NULL, F32, 4, 8, 7, {6}, 0},
            {"multiply", NULL, F32, 4, 128, 8, {4, 1}, 0}, // of one that is not repeated
            {"reduce", NULL, F32, 4, 8, 9, {8}, 0},
            {"reduce", NULL, F32, 4, 0, 10, {6}, 0}, // the gradient of a norm
            {"copy", NULL, F32, 4, 8, 11, {1}, 0}};  // inside of a fusion: nothing is written
    static const op entry[] = {{"parameter", NULL, F32, 4, 8, 1, {0}, 0},
            {"parameter", NULL, BF16, 4, 4, 2, {0}, 0}, {"parameter", NULL, F32, 8, 1, 3, {0}, 0},
            {"bitcast", NULL, F32, 8, 4, 4, {1}, 0},
            {"copy", NULL, F32, 8, 4, 5, {4}, 0}, // of the weight
            {"copy", NULL, F32, 8, 1, 6, {3}, 0}, // of a vector
            {"fusion", NULL, F32, 4, 8, 7, {1, 2}, 70},
            {"copy", NULL, F32, 4, 8, 8, {7}, 0}, // of a result
            {"custom-call", "__cublas$lt$matmul", BF16, 4, 4, 9, {2, 2}, 0},
            {"custom-call", "__cublas$lt$matmul", F32, 4, 4, 10, {1, 5}, 0},
            {"custom-call", "__cublas$lt$matmul$f8", BF16, 4, 4, 15, {2, 2}, 0},
            {"dot", NULL, F32, 4, 4, 11, {1, 5}, 0}, {"dot", NULL, F32, 4, 4, 12, {2, 2}, 0},
            {"custom-call", "__cudnn$fmhaSoftmax", BF16, 4, 4, 13, {2, 2}, 0},
            {"custom-call", "__cudnn$fmhaSoftmaxBackward", BF16, 4, 4, 14, {2, 2}, 0}};
    str module = {0}, out = {0};
    put_computation(&module, 70, fused, sizeof fused / sizeof *fused);
    put_computation(&module, 71, entry, sizeof entry / sizeof *entry);
    put_number(&module, 6, 71);
    put_part(&out, 1, &module);
    return out;
}

static const char asked[] =
        "%1 = \"stablehlo.dot_general\"(%a, %b) {} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32> loc(unknown)\n"
        "%2 = \"stablehlo.dot_general\"(%a, %b) {} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc(unknown)\n"
        "%3 = \"stablehlo.convert\"(%q) : (tensor<4x4xf8E4M3FN>) -> tensor<4x4xbf16> loc(unknown)\n"
        "%4 = \"stablehlo.convert\"(%r) : (tensor<4x4xf8E5M2>) -> tensor<4x4xbf16> loc(unknown)\n"
        "%5 = \"stablehlo.convert\"(%s) : (tensor<4x4xbf16>) -> tensor<4x4xf8E5M2> loc(unknown)\n"
        "custom_call __cudnn$fmhaSoftmax\n custom_call __cudnn$fmhaSoftmaxBackward\n __cudnn$fmhaSoftmax";

TEST(each_kind_is_counted) {
    program_facts f;
    str hlo = planted();
    assert_true(optimised_read(hlo.p, hlo.n, asked, strlen(asked), &f));
    assert_int_equal(f.fused_asked, 3);
    assert_int_equal(f.fused, 2);
    assert_int_equal(f.products_asked, 2);
    assert_int_equal(f.products, 5);
    assert_int_equal(f.fp8_asked, 1);
    assert_int_equal(f.fp8, 1);
    assert_int_equal(f.fp32_products, 1); // two, of which one was asked for
    assert_int_equal(f.summed_products, 1);
    assert_int_equal(f.weight_copies, 1);
    str_free(&hlo);
}

// Says that result k takes the memory of argument k.
static void put_alias(str *aliases, int k) {
    str result = {0}, entry = {0};
    put_varint(&result, (uint64_t)k);
    put_part(&entry, 1, &result);
    put_number(&entry, 2, (uint64_t)k);
    put_part(aliases, 1, &entry);
}

// Results 0 to 5 of 7 are in place: two of one kernel, one of another that is copied, a bf16 copy
// that is rounded by itself, an argument as it was, and a weight that is gathered.
static str planted_update(void) {
    static const op fused[] = {{"parameter", NULL, F32, 4, 8, 1, {0}, 0}},
                    entry[] = {{"parameter", NULL, F32, 4, 8, 1, {0}, 0},
                            {"fusion", NULL, F32, 4, 8, 2, {1}, 70},
                            {"get-tuple-element", NULL, F32, 4, 8, 3, {2}, 0},
                            {"get-tuple-element", NULL, F32, 4, 8, 4, {2}, 0},
                            {"bitcast", NULL, F32, 8, 4, 5, {4}, 0},
                            {"fusion", NULL, F32, 4, 8, 6, {1}, 70},
                            {"copy", NULL, F32, 4, 8, 7, {6}, 0},
                            {"convert", NULL, BF16, 4, 8, 8, {3}, 0},
                            {"fusion", NULL, F32, 4, 8, 9, {1}, 70},
                            {"all-gather", NULL, F32, 8, 8, 11, {9}, 0},
                            {"tuple", NULL, F32, 4, 8, 10, {3, 5, 7, 8, 1, 11, 9}, 0}};
    str module = {0}, c = {0}, aliases = {0}, out = {0};
    put_computation(&module, 70, fused, 1);
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++)
        put_op(&c, &entry[i]);
    put_number(&c, 5, 71);
    put_number(&c, 6, 10);
    put_part(&module, 3, &c);
    put_number(&module, 6, 71);
    for (int k = 0; k < 6; k++)
        put_alias(&aliases, k);
    put_part(&module, 8, &aliases);
    put_part(&out, 1, &module);
    return out;
}

TEST(kernels_of_the_update_are_counted) {
    static const char two[] = "// updates a weight\n%1 = ...\n// updates a weight\n";
    program_facts f;
    str hlo = planted_update();
    assert_true(optimised_read(hlo.p, hlo.n, two, strlen(two), &f));
    assert_int_equal(f.updated_weights, 2);
    assert_int_equal(f.update_kernels, 4); // 2, 6, 7, 8
    str_free(&hlo);
}

TEST(damaged_modules_are_refused) {
    program_facts f;
    str hlo = planted();
    for (size_t n = 0; n < hlo.n; n++) {
        char *cut = mem_alloc(n + 1); // of its own, so that reading beyond it is seen
        memcpy(cut, hlo.p, n);
        assert_false(optimised_read(cut, n, "", 0, &f));
        free(cut);
    }
    for (size_t i = 0; i < hlo.n; i++) { // may be read or not
        char kept = hlo.p[i];
        hlo.p[i] = (char)0xff;
        (void)!optimised_read(hlo.p, hlo.n, asked, strlen(asked), &f);
        hlo.p[i] = kept;
    }
    str_free(&hlo);
}

// --- what XLA makes of planted programs
#define MAIN(arguments, results)                                                                   \
    "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"        \
    " func.func public @main(" arguments ") -> " results " {\n"
#define W "tensor<64x96xf32>"
#define T "tensor<32x64x96xf32>"

static const char product[] = MAIN("%w: " W ", %x: tensor<32x64xf32>, %y: tensor<32x96xf32>",
        W) "%0 = \"stablehlo.dot_general\"(%x, %y) {dot_dimension_numbers = #stablehlo.dot<"
           "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], "
           "rhs_contracting_dimensions = [0]>} : (tensor<32x64xf32>, tensor<32x96xf32>) -> " W "\n"
           "%1 = \"stablehlo.add\"(%w, %0) : (" W ", " W ") -> " W "\n"
           "\"func.return\"(%1) : (" W ") -> ()\n }\n}\n";

static const char summed[] = MAIN("%w: " W ", %x: tensor<32x64xf32>, %y: tensor<32x96xf32>",
        W) "%0 = \"stablehlo.broadcast_in_dim\"(%x) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<32x64xf32>) -> " T
           "\n"
           "%1 = \"stablehlo.broadcast_in_dim\"(%y) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<32x96xf32>) -> " T
           "\n"
           "%2 = \"stablehlo.multiply\"(%0, %1) : (" T ", " T ") -> " T "\n"
           "%3 = \"stablehlo.constant\"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>\n"
           "%4 = \"stablehlo.reduce\"(%2, %3) ({\n ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
           "  %s = \"stablehlo.add\"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
           "  \"stablehlo.return\"(%s) : (tensor<f32>) -> ()\n"
           "}) {dimensions = array<i64: 0>} : (" T ", tensor<f32>) -> " W "\n"
           "%5 = \"stablehlo.add\"(%w, %4) : (" W ", " W ") -> " W "\n"
           "\"func.return\"(%5) : (" W ") -> ()\n }\n}\n";

// Given back without being given away.
static const char copied[] = MAIN("%w: " W, W) "\"func.return\"(%w) : (" W ") -> ()\n }\n}\n";

// Compiles a text, and reads what became of it as if `asked_for` had been.
static program_facts compiled(const device_client *c, const char *text, const char *asked_for) {
    int id = 0;
    const compile_options options = {1, &id, NULL, 0};
    device_program program = {.name = "planted", .n_out = 1};
    OK(client_compile(c, text, strlen(text), &options, &program));
    client_read_facts(c, asked_for, strlen(asked_for), &program);
    assert_true(program.has_facts);
    client_program_free(c, &program);
    return program.facts;
}

TEST(plugin_says_what_it_made) {
    pjrt_plugin *plugin;
    device_client *client;
    if (plugin_open(a, "cpu", &plugin) != DRV_OK) {
        print_message("left out: %s\n", drv_message());
        return;
    }
    print_message("reads %s, outside the tree\n", plugin->path);
    OK(client_open(a, plugin, &(client_options){0}, &client));
    program_facts f = compiled(client, product, product);
    assert_int_equal(f.products, 1);
    assert_int_equal(f.products_asked, 1);
    assert_int_equal(f.summed_products + f.weight_copies + f.fp32_products, 0);
    f = compiled(client, summed, product);
    assert_int_equal(f.products, 0);
    assert_int_equal(f.summed_products, 1);
    f = compiled(client, product,
            "\"stablehlo.dot_general\"(%a, %b) {} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> t");
    assert_int_equal(f.fp32_products, 1);
    f = compiled(client, copied, copied);
    assert_int_equal(f.weight_copies, 1);
    client_close(client);
}
