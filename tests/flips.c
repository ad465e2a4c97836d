// The hooks of build/tests/flipping_drover, which is drover with these functions before its own
// (CMakeLists.txt): FLIP="weight|gradient|moment STATE STEP ELEMENT BIT" turns a bit of a float of
// the back end's state over before the step uses it, "batch - STEP ELEMENT BIT" one of a token.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/step.h"

drv_status __real_stepper_gradients(stepper *s, const batch *b, drv_status (*between)(void *ctx),
        void *ctx, double *loss);
drv_status __wrap_stepper_gradients(stepper *s, const batch *b, drv_status (*between)(void *ctx),
        void *ctx, double *loss);
drv_status __real_stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm);
drv_status __wrap_stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm);
drv_status __real_batch_reader_next(batch_reader *reader, bool more, batch **out);
drv_status __wrap_batch_reader_next(batch_reader *reader, bool more, batch **out);

typedef struct flip {
    char what[16], state[128];
    long long step, element;
    int bit;
} flip;

static flip asked(void) {
    const char *text = getenv("FLIP");
    flip out = {.step = -1};
    if (text && sscanf(text, "%15s %127s %lld %lld %d", out.what, out.state, &out.step,
                        &out.element, &out.bit) != 5)
        abort();
    return out;
}

static drv_status flip(stepper *s, const char *what) {
    const flip this = asked();
    uint32_t word;
    if (strcmp(this.what, what) != 0 || this.step != s->step) return DRV_OK;
    DRV_TRY(backend_read(s->p->held.b, this.state, 4 * this.element, 4, &word));
    word ^= 1u << this.bit;
    return backend_write(s->p->held.b, this.state, 4 * this.element, 4, &word);
}

drv_status __wrap_stepper_gradients(stepper *s, const batch *b, drv_status (*between)(void *ctx),
        void *ctx, double *loss) {
    DRV_TRY(flip(s, "weight"));
    return __real_stepper_gradients(s, b, between, ctx, loss);
}

drv_status __wrap_stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm) {
    DRV_TRY(flip(s, "gradient"));
    DRV_TRY(flip(s, "moment"));
    return __real_stepper_update(s, hyper, grad_norm, param_norm);
}

drv_status __wrap_batch_reader_next(batch_reader *reader, bool more, batch **out) {
    static long long step;
    const flip this = asked();
    DRV_TRY(__real_batch_reader_next(reader, more, out));
    step++;
    if (strcmp(this.what, "batch") == 0 && this.step == step)
        (*out)->tokens[this.element] ^= 1 << this.bit;
    return DRV_OK;
}
