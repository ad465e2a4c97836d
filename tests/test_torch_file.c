// Files of torch.save: tensors in the bits that torch's own reader gives (tools/golden_torch.py),
// and files that lie.
#include "harness.h"

#include "source/safetensors.h"
#include "pickle/torch_file.h"

static const char *const forms[] = {"zip", "old", "zip_protocol_1", "zip_protocol_3",
        "zip_protocol_4", "zip_protocol_5", "old_protocol_4", "tensor"};
enum { N_FORMS = sizeof forms / sizeof *forms };

static const char *golden(arena *a, const char *form, const char *ending) {
    return golden_path(a, arena_printf(a, "torch_save/%s.%s", form, ending));
}

// Reads a tensor in two pieces, cut within a row.
static void *read_all(arena *a, torch_file *f, const torch_tensor *t) {
    const int64_t bytes = t->elements * t->type->bytes, half = t->elements / 2;
    unsigned char *out = arena_alloc(a, (size_t)bytes + 1);
    OK(torch_read(f, t, 0, half, out));
    OK(torch_read(f, t, half, t->elements - half, out + half * t->type->bytes));
    return out;
}

static void same_tensor(arena *a, torch_file *f, const st_file *expected, const st_tensor *e) {
    const torch_tensor *t = torch_find(f, e->name);
    if (!t) fail_msg("%s: no tensor \"%s\"", f->part.path, e->name);
    assert_string_equal(t->type->st_name, e->type_name);
    assert_int_equal(t->n_dims, e->n_dims);
    for (int i = 0; i < e->n_dims; i++)
        assert_int_equal(t->dim[i], e->dim[i]);
    void *bytes = arena_alloc(a, (size_t)e->bytes + 1);
    OK(st_read_raw(expected, e, 0, e->bytes, bytes));
    if (memcmp(bytes, read_all(a, f, t), (size_t)e->bytes) != 0)
        fail_msg("%s: tensor \"%s\" has other bits", f->part.path, e->name);
}

TEST(tensors_are_those_of_torch) {
    for (int i = 0; i < N_FORMS; i++) {
        torch_file f;
        st_file expected;
        OK(torch_open(a, golden(a, forms[i], "pt"), NULL, &f));
        OK(st_open(a, golden(a, forms[i], "safetensors"), &expected));
        assert_int_equal(f.n, expected.n);
        for (int k = 0; k < expected.n; k++)
            same_tensor(a, &f, &expected, &expected.tensors[k]);
        torch_close(&f);
        st_close(&expected);
    }
}

// Legend: f the file.
TEST(keys_lead_to_parts) {
    for (int i = 0; i < N_FORMS - 1; i++) {
        torch_file f;
        const char *path = golden(a, forms[i], "pt");
        OK(torch_open(a, path, &(torch_opts){.key = "model"}, &f));
        assert_non_null(torch_find(&f, "layers.0.weight"));
        assert_null(torch_find(&f, "model.layers.0.weight"));
        assert_int_equal(pickle_find(f.top, "iteration")->integer, 70000);
        assert_int_equal(pickle_find(f.top, "negative")->integer, -3);
        assert_int_equal(pickle_find(f.top, "large")->integer, 1LL << 40);
        assert_true(pickle_find(f.top, "optimizer.param_groups.0.lr")->real == 1e-3);
        assert_true(pickle_find(f.top, "optimizer.param_groups.0.betas.1")->real == 0.95);
        assert_int_equal(pickle_find(f.top, "args.hidden_size")->integer, 64);
        assert_true(pickle_is_text(pickle_find(f.top, "args.name"), "a model"));
        assert_int_equal(pickle_find(f.top, "args.dtype")->kind, PICKLE_NAME);
        assert_string_equal(pickle_find(f.top, "args.dtype")->name->module, "torch");
        assert_string_equal(pickle_find(f.top, "args.dtype")->name->name, "bfloat16");
        assert_int_equal(pickle_find(f.top, "none")->kind, PICKLE_NONE);
        assert_int_equal(pickle_find(f.top, "yes")->kind, PICKLE_BOOL);
        assert_null(pickle_find(f.top, "iterations"));
        torch_close(&f);
        FAILS(torch_open(a, path, &(torch_opts){.key = "models"}, &f), DRV_E_DATA,
                "has nothing under the key \"models\", expected one of its keys: \"model\", ");
    }
}
