// The sizes of one rank.
#include "model/layout.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/round.h"

static void find_widths(model_layout *l) {
    l->q_width = (int64_t)l->n_heads * l->head_dim;
    l->kv_width = (int64_t)l->n_kv_heads * l->head_dim;
    l->qkv_width = l->q_width + 2 * l->kv_width;
}

model_layout layout_of(const model_config *model) {
    model_layout l = {.model = model,
            .n_layers = (int)model->num_hidden_layers,
            .n_chunks = 1,
            .chunk = {{0, (int)model->num_hidden_layers, 0}},
            .embeds = true,
            .heads = true,
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

drv_status layout_on(const model_config *model, const mesh *ranks, int rank, bool sequence,
        model_layout *out) {
    const int n_tensor = ranks->size[AXIS_TENSOR];
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
    model_layout layout = layout_of(model);
    layout.n_heads /= n_tensor;
    layout.n_kv_heads /= n_tensor;
    layout.ffn /= n_tensor;
    layout.vocab /= n_tensor;
    layout.mesh = *ranks;
    layout.place = mesh_place(ranks, rank, AXIS_TENSOR);
    layout.sequence = sequence && n_tensor > 1;
    find_widths(&layout);
    *out = layout;
    return DRV_OK;
}

// --- stages
double layout_head_in_layers(const model_config *model) {
    const double h = (double)model->hidden_size,
                 q = (double)(model->num_attention_heads * model->head_dim),
                 kv = (double)(model->num_key_value_heads * model->head_dim);
    const double layer = h * (2 * q + 2 * kv + 3 * (double)model->intermediate_size);
    return h * (double)model->vocab_size / layer;
}

void layout_share_layers(const model_config *model, int n_stages, int *out) {
    const int all = (int)model->num_hidden_layers, others = n_stages - 1;
    const double head = layout_head_in_layers(model);
    int last = all;
    double best = 0;
    for (int n = others ? 1 : all; n <= all - others; n++) { // of the last stage
        const double slowest_other = others ? (double)div_up(all - n, others) : 0;
        const double slowest = fmax(slowest_other, n + head);
        if (n > 1 && best > 0 && slowest > best) continue;
        best = slowest;
        last = n;
    }
    out[others] = last;
    const int each = others ? (all - last) / others : 0, rest = others ? (all - last) % others : 0;
    for (int i = 0; i < others; i++)
        out[i] = each + (i >= others - rest);
}

model_layout layout_all_layers(const model_layout *l) {
    model_layout all = *l;
    all.n_layers = (int)l->model->num_hidden_layers;
    all.n_chunks = 1;
    all.chunk[0] = (layer_chunk){0, all.n_layers, 0};
    all.embeds = all.heads = true;
    return all;
}

drv_status layout_cut_layers(model_layout *layout, int rank, int n_chunks) {
    const int ranks = layout->mesh.size[AXIS_PIPELINE],
              place = mesh_place(&layout->mesh, rank, AXIS_PIPELINE), n_stages = ranks * n_chunks,
              all = (int)layout->model->num_hidden_layers;
    if (all < n_stages)
        return drv_fail(DRV_E_USAGE,
                "the %d layers of the model are fewer than %d stages: parallel.pipeline %d x "
                "parallel.virtual_stages %d",
                all, n_stages, ranks, n_chunks);
    int *n = mem_alloc(sizeof *n * (size_t)n_stages), first = 0;
    layout_share_layers(layout->model, n_stages, n);
    layout->n_layers = 0;
    layout->n_chunks = n_chunks;
    for (int stage = 0; stage < n_stages; first += n[stage++]) {
        if (stage % ranks != place) continue;
        layout->chunk[stage / ranks] = (layer_chunk){first, n[stage], layout->n_layers};
        layout->n_layers += n[stage];
    }
    free(n);
    layout->embeds = place == 0;
    layout->heads = place == ranks - 1;
    return DRV_OK;
}
