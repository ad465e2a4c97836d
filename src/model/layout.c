// The sizes of one rank.
#include "model/layout.h"

static void find_widths(model_layout *l) {
    l->q_width = (int64_t)l->n_heads * l->head_dim;
    l->kv_width = (int64_t)l->n_kv_heads * l->head_dim;
    l->qkv_width = l->q_width + 2 * l->kv_width;
}

model_layout layout_of(const model_config *model) {
    model_layout l = {.model = model,
            .n_layers = (int)model->num_hidden_layers,
            .n_heads = (int)model->num_attention_heads,
            .n_kv_heads = (int)model->num_key_value_heads,
            .head_dim = (int)model->head_dim,
            .hidden = model->hidden_size,
            .vocab = model->vocab_size,
            .ffn = model->intermediate_size,
            .mesh = mesh_single()};
    find_widths(&l);
    return l;
}

drv_status layout_on(const model_config *model, const mesh *place, int rank, bool sequence,
        model_layout *out) {
    const int n_tensor = place->size[AXIS_TENSOR];
    const struct {
        const char *name;
        int64_t value;
    } cut[] = {{"num_attention_heads", model->num_attention_heads},
            {"num_key_value_heads", model->num_key_value_heads},
            {"intermediate_size", model->intermediate_size}, {"vocab_size", model->vocab_size}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (cut[i].value % n_tensor != 0)
            return drv_fail(DRV_E_USAGE,
                    "key \"parallel.tensor\" is %d, expected a divisor of model.%s %lld", n_tensor,
                    cut[i].name, (long long)cut[i].value);
    model_layout l = layout_of(model);
    l.n_heads /= n_tensor;
    l.n_kv_heads /= n_tensor;
    l.ffn /= n_tensor;
    l.vocab /= n_tensor;
    l.mesh = *place;
    l.place = mesh_place(place, rank, AXIS_TENSOR);
    l.sequence = sequence && n_tensor > 1;
    find_widths(&l);
    *out = l;
    return DRV_OK;
}
