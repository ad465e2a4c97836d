// Rotary table, shared by all levels: it is computed once a pass, in double.
#include "base/elementary.h"
#include "kernels/ref/ref.h"

#define TWO_PI 6.283185307179586476925

// Llama-3.1 scaling (the models' rope_scaling of type llama3; transformers
// modeling_rope_utils.py, _compute_llama3_parameters): long wavelengths are stretched by `factor`,
// short ones kept, those between interpolated.
static double scaled(const rope_args *args, double f) {
    if (args->factor <= 0) return f;
    double turns = args->original_context * f / TWO_PI; // original context / wavelength
    if (turns > args->high_freq_factor) return f;
    if (turns < args->low_freq_factor) return f / args->factor;
    double s = (turns - args->low_freq_factor) / (args->high_freq_factor - args->low_freq_factor);
    return (1 - s) * f / args->factor + s * f;
}

double rope_frequency(const rope_args *args, int j) {
    return scaled(args, drv_pow(args->theta, -2.0 * j / args->head_dim));
}

void ref_rope_table(dtype dt, const rope_args *args, int64_t n, const int32_t *position,
        void *table) {
    const int half = args->head_dim / 2;
    const dtype acc = dtype_acc(dt);
    for (int j = 0; j < half; j++) {
        const double f = rope_frequency(args, j);
        for (int64_t i = 0; i < n; i++) {
            double angle = position[i] * f;
            put(acc, table, i * args->head_dim + j, drv_cos(angle));
            put(acc, table, i * args->head_dim + half + j, drv_sin(angle));
        }
    }
}
