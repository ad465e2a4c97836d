// Weights held against each other: what rounding does is let through in every type, and one harmed
// place is found and named, however little the logits show of it.
#include "harness.h"

#include <math.h>

#include "convert/convert.h"
#include "convert/weights.h"

// All of a tensor (row -1), a row (col -1) or an element is multiplied on the way into another
// folder.
typedef struct harm {
    const char *tensor;
    int64_t row, col;
    float factor;
} harm;

static bool is_harmed(void *ctx, const source_tensor *t) {
    const harm *h = ctx;
    return h->tensor && str_ends(t->name, h->tensor);
}

static drv_status harm_rows(void *ctx, const source_tensor *t, int64_t row, int64_t n,
        float *values) {
    const harm *h = ctx;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < t->cols; k++)
            if ((h->row < 0 || row + i == h->row) && (h->col < 0 || k == h->col))
                values[i * t->cols + k] *= h->factor;
    return DRV_OK;
}

static void write_copy(arena *a, const model *from, const harm *harmed, st_type type,
        const char *out) {
    st_entry *list = ARENA_ARRAY(a, st_entry, from->n_tensors);
    harm copy = *harmed;
    model_written written;
    for (int i = 0; i < from->n_tensors; i++)
        list[i] = from->tensors[i].entry;
    const model_write_opts opts = {.verb = "copy",
            .has_type = true,
            .type = type,
            .change = {is_harmed, harm_rows, &copy}};
    OK(model_write(a, &from->source, list, from->n_tensors, out, &opts, &written));
}

static const char *difference_of(arena *mem, const char *a, const char *b, bool exact_a) {
    const char *difference;
    model of_a, of_b;
    OK(model_open(mem, a, &of_a));
    OK(model_open(mem, b, &of_b));
    OK(weights_difference(mem, &of_a, &of_b, exact_a, &difference));
    model_close(&of_a);
    model_close(&of_b);
    return difference;
}

// Of each type, in both orders: names a place exactly where there is harm.
TEST(one_harmed_place) {
    static const struct {
        harm harmed;
        const char *said;
    } cases[] = {{{0}, NULL},
            {{"embed_tokens.weight", 90, 0, 0}, "model.embed_tokens.weight [90, 0] is "},
            {{"embed_tokens.weight", 95, -1, -1}, "model.embed_tokens.weight [95, "},
            {{"1.mlp.down_proj.weight", 31, 79, -1},
                    "model.layers.1.mlp.down_proj.weight [31, 79] is "},
            {{"0.self_attn.v_proj.weight", 15, -1, 1.1F},
                    "model.layers.0.self_attn.v_proj.weight [15, "},
            {{"1.input_layernorm.weight", 31, -1, 1.05F},
                    "model.layers.1.input_layernorm.weight [31] is "}};
    static const st_type types[] = {ST_F32, ST_F16, ST_BF16};
    model from;
    const char *base = golden_path(a, "tied");
    OK(model_open(a, base, &from));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 3; k++) {
            const char *made = path_join(a, temporary_dir(a), "made");
            write_copy(a, &from, &cases[i].harmed, types[k], made);
            for (int order = 0; order < 3;
                    order++) { // as made of the base, as two models, and back
                const char *difference = order < 2 ? difference_of(a, base, made, order == 0)
                                                   : difference_of(a, made, base, false);
                if (!difference != !cases[i].said ||
                        (difference && !str_starts(difference, cases[i].said)))
                    fail_msg("case %zu as %s, order %d: %s", i, st_type_name(types[k]), order,
                            difference ? difference : "no difference");
            }
        }
    model_close(&from);
}

// Two copies of one model rounded to unlike types.
TEST(rounded_twice) {
    model from;
    const char *folders[2];
    OK(model_open(a, golden_path(a, "untied_llama3"), &from));
    for (int k = 0; k < 2; k++) {
        folders[k] = path_join(a, temporary_dir(a), k ? "bf16" : "f16");
        write_copy(a, &from, &(harm){0}, k ? ST_BF16 : ST_F16, folders[k]);
    }
    assert_null(difference_of(a, folders[0], folders[1], false));
    assert_null(difference_of(a, folders[1], folders[0], false));
    const char *f16_of_bf16 = difference_of(a, folders[1], folders[0], true);
    assert_non_null(f16_of_bf16); // nothing was rounded from bf16 to f16
    assert_non_null(strstr(f16_of_bf16, "further apart than rounding from BF16 to F16 explains"));
    model_close(&from);
}

// One bit of every weight: sums in fp32 then differ by more than that bit, as those of two merges.
TEST(a_bit_of_every_weight) {
    const char *base = golden_path(a, "untied_llama3"),
               *made = path_join(a, temporary_dir(a), "made");
    comparison result;
    model of_base, of_made;
    OK(model_open(a, base, &of_base));
    write_copy(a, &of_base, &(harm){"weight", -1, -1, 1 + 0x1p-23F}, ST_F32, made);
    OK(model_open(a, made, &of_made));
    OK(compare_models(a, &of_base, &of_made, false, &result));
    if (result.problem) fail_msg("%s", result.problem);
    assert_true(result.rms > 0 && result.rms < 1e-5);
    model_close(&of_made);
    model_close(&of_base);
}

// What an adapter changes is not the base's: a merge differs only there.
TEST(beside_an_adapter) {
    const char *base = golden_path(a, "tied"), *merged = path_join(a, temporary_dir(a), "merged"),
               *folder = golden_path(a, "adapters/plain"), *difference;
    const model_write_opts opts = {.verb = "merge"};
    convert_result result;
    model of_base, of_merged;
    adapter ad;
    OK(convert_merge(a, base, folder, merged, &opts, false, &result));
    assert_non_null(difference_of(a, base, merged, true));
    OK(model_open(a, base, &of_base));
    OK(model_open(a, merged, &of_merged));
    OK(adapter_open(a, folder, &ad));
    of_base.adapter = &ad;
    OK(weights_difference(a, &of_base, &of_merged, true, &difference));
    assert_null(difference);
    adapter_close(&ad);
    model_close(&of_merged);
    model_close(&of_base);
}
