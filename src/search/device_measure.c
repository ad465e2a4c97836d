// Sums over the rows of a step's profile, over the peaks.
#include "search/device_measure.h"

#include "ir/op.h"

#define UNKNOWN_RATE 1e11

typedef struct amount {
    double work, seconds;
} amount;

static void add(amount *to, double work, double seconds) {
    to->work += work;
    to->seconds += seconds;
}

// The part of a peak that was reached; 1 where nothing of it was measured.
static double reached(const amount *of, double peak) {
    return of->seconds > 0 && peak > 0 && of->work > 0 ? of->work / of->seconds / peak : 1;
}

device_profile device_profile_of_step(const step_profile *step, const machine_roof *roof,
        int64_t memory_bytes) {
    amount products = {0, 0}, attention = products, bytes = products, links = products;
    double launches = 0;
    for (int i = 0; i < step->n_rows; i++) {
        const profile_row *row = &step->rows[i];
        const op_row *op = op_rows[row->op];
        launches += (double)row->count;
        if (row->program == PROFILE_BETWEEN_RANKS)
            add(&links, row->sent, row->seconds);
        else if (!op->flops)
            add(&bytes, row->bytes, row->seconds);
        else
            add(op->flops_of == FLOPS_ATTENTION ? &attention : &products, row->flops, row->seconds);
    }
    const double memory = roof->bytes_per_s > 0 ? roof->bytes_per_s
                          : bytes.seconds > 0   ? bytes.work / bytes.seconds
                                                : UNKNOWN_RATE,
                 link = links.seconds > 0 ? links.work / links.seconds : UNKNOWN_LINK;
    return (device_profile){.memory = memory_bytes,
            .bf16_flops = roof->flops_per_s,
            .bytes_per_s = memory,
            .links = {.inside = link, .between = link, .ranks_per_host = 1},
            .reached_fp8 = 1,
            .reached_products = reached(&products, roof->flops_per_s),
            .reached_attention = reached(&attention, roof->flops_per_s),
            .reached_memory = reached(&bytes, memory),
            .reached_inside = 1,
            .reached_between = 1,
            .launch_s = launches > 0 && step->outside_s > 0 ? step->outside_s / launches : 0};
}

void device_profile_print(const device_profile *d, const char *source, str *out) {
    str_printf(out, "source: \"%s\"\nmemory: %lld\n", source, (long long)d->memory);
    str_printf(out, "peak: {bf16_tflops: %.6g, fp8_tflops: %.6g}\nmemory_gb_s: %.6g\n",
            d->bf16_flops / 1e12, d->fp8_flops / 1e12, d->bytes_per_s / 1e9);
    str_printf(out, "links: {inside_gb_s: %.6g, between_gb_s: %.6g, ranks_per_host: %lld}\n",
            d->links.inside / 1e9, d->links.between / 1e9, (long long)d->links.ranks_per_host);
    str_printf(out, "reached: {products: %.6g, products_fp8: %.6g, attention: %.6g, memory: %.6g, ",
            d->reached_products, d->reached_fp8, d->reached_attention, d->reached_memory);
    str_printf(out, "inside: %.6g, between: %.6g}\n", d->reached_inside, d->reached_between);
    str_printf(out, "small_product: %.6g\nlaunch_us: %.6g\nmessage_us: %.6g\n", d->small_product,
            d->launch_s * 1e6, d->message_s * 1e6);
    str_printf(out, "overlap: {tensor: %.6g, context: %.6g, data: %.6g}\n", d->overlap_tensor,
            d->overlap_context, d->overlap_data);
}
