// Rotary table, shared by all levels: it is computed once a pass, in double.
#include <math.h>

#include "kernels/ref/ref.h"

#define TWO_PI 6.283185307179586476925

// Llama-3.1 scaling (the models' rope_scaling of type llama3; transformers
// modeling_rope_utils.py, _compute_llama3_parameters): long wavelengths are stretched by `factor`,
// short ones kept, those between interpolated.
static double scaled(const rope_args *a, double f) {
    if (a->factor <= 0) return f;
    double turns = a->original_context * f / TWO_PI; // original context / wavelength
    if (turns > a->high_freq_factor) return f;
    if (turns < a->low_freq_factor) return f / a->factor;
    double s = (turns - a->low_freq_factor) / (a->high_freq_factor - a->low_freq_factor);
    return (1 - s) * f / a->factor + s * f;
}

void ref_rope_table(dtype dt, const rope_args *a, int64_t n, const int32_t *position, void *table) {
    const int half = a->head_dim / 2;
    const dtype acc = dtype_acc(dt);
    for (int j = 0; j < half; j++) {
        double f = scaled(a, pow(a->theta, -2.0 * j / a->head_dim));
        for (int64_t i = 0; i < n; i++) {
            double angle = position[i] * f;
            put(acc, table, i * a->head_dim + j, cos(angle));
            put(acc, table, i * a->head_dim + half + j, sin(angle));
        }
    }
}
