// Built-in shapes. Sources: the models' config.json on the Hugging Face hub (meta-llama, mistralai,
// Qwen, HuggingFaceTB/SmolLM2-135M, SmolLM3-3B). llama-15m is the shape of karpathy/tinyllamas
// stories15M; tiny is ours, for tests.
#include <string.h>

#include "config/model_config.h"

#define LLAMA3_ROPE(by)                                                                            \
    .rope_type = ROPE_LLAMA3, .rope_factor = by, .rope_low_freq_factor = 1,                        \
    .rope_high_freq_factor = 4, .rope_original_context = 8192
#define COMMON .initializer_range = 0.02, .bos_token_id = -1, .pad_token_id = -1
#define TIED   .tie_word_embeddings = true
#define QWEN2  .qkv_bias = true
#define QWEN3  .qk_norm = true

static const struct {
    const char *name;
    // vocabulary, width, feed-forward, layers, heads, KV heads, head, context, eps, theta
    model_config m;
} presets[] = {
        {"llama-2-7b", {32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-2-13b", {32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-2-70b", {32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-3-8b", {128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5, 5e5, COMMON}},
        {"llama-3-70b", {128256, 8192, 28672, 80, 64, 8, 128, 8192, 1e-5, 5e5, COMMON}},
        {"llama-3.1-8b",
                {128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5, 5e5, LLAMA3_ROPE(8), COMMON}},
        {"llama-3.1-70b",
                {128256, 8192, 28672, 80, 64, 8, 128, 131072, 1e-5, 5e5, LLAMA3_ROPE(8), COMMON}},
        {"llama-3.1-405b", {128256, 16384, 53248, 126, 128, 8, 128, 131072, 1e-5, 5e5,
                                   LLAMA3_ROPE(8), COMMON}},
        {"llama-3.2-1b", {128256, 2048, 8192, 16, 32, 8, 64, 131072, 1e-5, 5e5, TIED,
                                 LLAMA3_ROPE(32), COMMON}},
        {"llama-3.2-3b", {128256, 3072, 8192, 28, 24, 8, 128, 131072, 1e-5, 5e5, TIED,
                                 LLAMA3_ROPE(32), COMMON}},
        {"mistral-7b-v0.1", {32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5, 1e4,
                                    .sliding_window = 4096, COMMON}},
        {"mistral-7b-v0.3", {32768, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5, 1e6, COMMON}},
        {"qwen2.5-0.5b", {151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1e6, QWEN2, TIED, COMMON}},
        {"qwen2.5-1.5b",
                {151936, 1536, 8960, 28, 12, 2, 128, 131072, 1e-6, 1e6, QWEN2, TIED, COMMON}},
        {"qwen2.5-3b",
                {151936, 2048, 11008, 36, 16, 2, 128, 32768, 1e-6, 1e6, QWEN2, TIED, COMMON}},
        {"qwen2.5-7b", {152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, QWEN2, COMMON}},
        {"qwen2.5-14b", {152064, 5120, 13824, 48, 40, 8, 128, 131072, 1e-5, 1e6, QWEN2, COMMON}},
        {"qwen2.5-32b", {152064, 5120, 27648, 64, 40, 8, 128, 131072, 1e-5, 1e6, QWEN2, COMMON}},
        {"qwen2.5-72b", {152064, 8192, 29568, 80, 64, 8, 128, 131072, 1e-5, 1e6, QWEN2, COMMON}},
        {"qwen3-0.6b", {151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6, 1e6, QWEN3, TIED, COMMON}},
        {"qwen3-1.7b", {151936, 2048, 6144, 28, 16, 8, 128, 40960, 1e-6, 1e6, QWEN3, TIED, COMMON}},
        {"qwen3-4b", {151936, 2560, 9728, 36, 32, 8, 128, 40960, 1e-6, 1e6, QWEN3, TIED, COMMON}},
        {"qwen3-8b", {151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e-6, 1e6, QWEN3, COMMON}},
        {"qwen3-14b", {151936, 5120, 17408, 40, 40, 8, 128, 40960, 1e-6, 1e6, QWEN3, COMMON}},
        {"qwen3-32b", {151936, 5120, 25600, 64, 64, 8, 128, 40960, 1e-6, 1e6, QWEN3, COMMON}},
        {"smollm3-3b", {128256, 2048, 11008, 36, 16, 4, 128, 65536, 1e-6, 5e6, TIED,
                               .no_rope_layer_interval = 4, COMMON}},
        {"llama-135m", {49152, 576, 1536, 30, 9, 3, 64, 8192, 1e-5, 1e5, TIED, COMMON}},
        {"llama-15m", {32000, 288, 768, 6, 6, 6, 48, 1024, 1e-5, 1e4, TIED, COMMON}},
        {"tiny", {512, 64, 172, 5, 8, 4, 8, 512, 1e-5, 1e4, TIED, COMMON}},
};

enum { N_PRESETS = sizeof presets / sizeof *presets };
const int n_model_presets = N_PRESETS;

const char *model_preset_name(int i) {
    DRV_ASSERT(i >= 0 && i < N_PRESETS, "there are %d presets", N_PRESETS);
    return presets[i].name;
}

bool model_preset(const char *name, model_config *out) {
    for (int i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *out = presets[i].m;
            return true;
        }
    return false;
}
