// The sizes of one rank.
#include "model/layout.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/round.h"

static void find_widths(model_layout *l) {
    l->q_width = (int64_t)l->n_heads * l->head_dim;
    l->kv_width = (int64_t)l->n_kv_heads * l->head_dim / l->replicas;
    l->qkv_width = l->q_width + 2 * l->kv_width;
}

model_layout layout_of(const model_config *model) {
    model_layout l = {.model = model,
            .n_layers = (int)model->num_hidden_layers,
            .n_chunks = 1,
            .chunk = {{0, (int)model->num_hidden_layers, 0}},
            .embeds = true,
            .has_head = true,
            .n_heads = (int)model->num_attention_heads,
            .n_kv_heads = (int)model->num_key_value_heads,
            .head_dim = (int)model->head_dim,
            .hidden = model->hidden_size,
            .vocab = model->vocab_size,
            .ffn = model->intermediate_size,
            .mesh = mesh_single(),
            .replicas = 1,
            .blocks = 1,
            .all_blocks = 1,
            .head_blocks = 1,
            .vocab_part = model->vocab_size};
    find_widths(&l);
    return l;
}

// A size that reduction blocks divide equally; only the last block of the vocabulary may be shorter.
typedef struct cut_size {
    const char *name;
    int64_t value;
} cut_size;
enum { N_CUT_SIZES = 2 };

static void find_cut_sizes(const model_config *m, cut_size out[N_CUT_SIZES]) {
    out[0] = (cut_size){"num_attention_heads", m->num_attention_heads};
    out[1] = (cut_size){"intermediate_size", m->intermediate_size};
}

// Returns whether blocks have whole key-value heads, or equal parts of one head's columns.
static bool cuts_kv_heads(const model_config *m, int64_t value) {
    const int64_t heads = m->num_key_value_heads;
    return heads % value == 0 || (value % heads == 0 && m->head_dim % (value / heads) == 0);
}

static bool may_have_blocks(const model_config *m, int blocks) {
    cut_size cut[N_CUT_SIZES];
    find_cut_sizes(m, cut);
    for (int i = 0; i < N_CUT_SIZES; i++)
        if (cut[i].value % blocks != 0) return false;
    return cuts_kv_heads(m, blocks) && m->vocab_size > (blocks - 1) * div_up(m->vocab_size, blocks);
}

static int default_blocks(const model_config *model, int tensor_ranks) {
    enum { WANTED = 8 };
    int blocks = tensor_ranks;
    while (2 * blocks <= WANTED && may_have_blocks(model, 2 * blocks))
        blocks *= 2;
    return blocks;
}

static drv_status check_cut(const model_config *model, const char *key, int value) {
    cut_size cut[N_CUT_SIZES];
    find_cut_sizes(model, cut);
    for (int i = 0; i < N_CUT_SIZES; i++)
        if (cut[i].value % value != 0)
            return drv_fail(DRV_E_USAGE, "key \"%s\" is %d, expected a divisor of model.%s %lld",
                    key, value, cut[i].name, (long long)cut[i].value);
    if (!cuts_kv_heads(model, value))
        return drv_fail(DRV_E_USAGE,
                "key \"%s\" is %d, expected a divisor of model.num_key_value_heads %lld, or a "
                "multiple that cuts a head of %lld evenly",
                key, value, (long long)model->num_key_value_heads, (long long)model->head_dim);
    if (!may_have_blocks(model, value))
        return drv_fail(DRV_E_USAGE,
                "key \"%s\" is %d, expected so few that each has rows of the vocabulary of %lld",
                key, value, (long long)model->vocab_size);
    return DRV_OK;
}

// Checks that each rank has a complete subtree.
static drv_status check_blocks(const model_config *model, int blocks, int ranks) {
    const int each = blocks / ranks;
    if (blocks % ranks != 0 || (ranks > 1 && (each & (each - 1))))
        return drv_fail(DRV_E_USAGE,
                "key \"parallel.tensor_blocks\" is %d, expected parallel.tensor %d x 1, 2, 4, ...",
                blocks, ranks);
    return check_cut(model, "parallel.tensor_blocks", blocks);
}

drv_status layout_on(const model_config *model, const mesh *ranks, int rank,
        const layout_opts *opts, model_layout *out) {
    const int n_tensor = ranks->size[AXIS_TENSOR],
              blocks = opts->blocks ? opts->blocks : default_blocks(model, n_tensor);
    DRV_TRY(check_cut(model, "parallel.tensor", n_tensor));
    DRV_TRY(check_blocks(model, blocks, n_tensor));
    model_layout layout = layout_of(model);
    const int all_kv_heads = layout.n_kv_heads;
    layout.n_heads /= n_tensor;
    layout.n_kv_heads = all_kv_heads > n_tensor ? all_kv_heads / n_tensor : 1;
    layout.replicas = layout.n_kv_heads * n_tensor / all_kv_heads;
    layout.ffn /= n_tensor;
    layout.mesh = *ranks;
    layout.place = mesh_place(ranks, rank, AXIS_TENSOR);
    layout.sequence = opts->sequence && n_tensor > 1;
    layout.all_blocks = blocks;
    layout.blocks = blocks / n_tensor;
    layout.head_blocks = blocks > all_kv_heads ? blocks / all_kv_heads / layout.replicas : 1;
    layout.vocab_part = div_up(model->vocab_size, blocks) * layout.blocks;
    const int64_t left = model->vocab_size - layout.place * layout.vocab_part;
    layout.vocab = left < layout.vocab_part ? left : layout.vocab_part;
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

bool layout_has_more_layers(const int *layers, int n_ranks, int n_chunks, int rank) {
    for (int v = 0; v < n_chunks; v++)
        if (layers[v * n_ranks + rank] > layers[v * n_ranks + rank - 1]) return true;
    return false;
}

model_layout layout_all_layers(const model_layout *l) {
    model_layout all = *l;
    all.n_layers = (int)l->model->num_hidden_layers;
    all.n_chunks = 1;
    all.chunk[0] = (layer_chunk){0, all.n_layers, 0};
    all.embeds = all.has_head = true;
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
    layout->has_head = place == ranks - 1;
    return DRV_OK;
}
