// Reports the slow parts of compiled programs.
#include <stdio.h>

#include "base/log.h"
#include "programs/programs.h"

void program_facts_warn(const char *program, const program_facts *f) {
    const struct {
        int64_t n;
        const char *what;
    } rows[] = {{f->fused_asked - f->fused, "of the calls of fused attention were taken apart"},
            {f->summed_products, "of the gradients of weights are not matrix products"},
            {f->fp32_products, "of the matrix products are computed in fp32, expected bf16"},
            {f->fp8_asked - f->fp8, "of the matrix products in fp8 are computed in bf16"},
            {f->weight_copies, "copies of whole weights were put in"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].n > 0)
            log_warn("program \"%s\": %lld %s, which costs time; `drover compile --explain` says more",
                    program, (long long)rows[i].n, rows[i].what);
}

void program_facts_print(FILE *to, const program_facts *f) {
    fprintf(to, "  fused attention: %lld calls, expected %lld\n", (long long)f->fused,
            (long long)f->fused_asked);
    fprintf(to, "  matrix products: %lld, written as %lld; in fp32 for bf16: %lld\n",
            (long long)f->products, (long long)f->products_asked, (long long)f->fp32_products);
    if (f->fp8_asked)
        fprintf(to, "  matrix products in fp8: %lld, expected %lld\n", (long long)f->fp8,
                (long long)f->fp8_asked);
    fprintf(to, "  gradients of weights that are not matrix products: %lld\n",
            (long long)f->summed_products);
    fprintf(to, "  copies of whole weights: %lld\n", (long long)f->weight_copies);
    if (f->updated_weights)
        fprintf(to, "  kernels of the update: %lld for %lld weights\n",
                (long long)f->update_kernels, (long long)f->updated_weights);
}

void programs_warn(const programs *p) {
    program_facts f;
    bool matters;
    for (int i = -1; i < p->held.n_all; i++) {
        const executable *e = i < 0 ? p->whole_step : *p->held.all[i].run;
        if (e && backend_program_facts(p->held.b, e, &f, &matters) && matters)
            program_facts_warn(i < 0 ? "whole_step" : p->held.all[i].graph->name, &f);
    }
}
