// The hooks of build/tests/flipping_drover, which is drover with these functions before its own
// (CMakeLists.txt): FLIP="weight|gradient|moment STATE STEP ELEMENT BIT" turns a bit of a float of
// the back end's state over before the step uses it, "batch - STEP ELEMENT BIT" one of a token;
// several are separated by ";".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/step.h"

drv_status __real_stepper_gradients(stepper *s, const batch *b, double *loss);
drv_status __wrap_stepper_gradients(stepper *s, const batch *b, double *loss);
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

// The one of the list that turns over `what` in this step; element -1: none does.
static flip asked(const char *what, long long step) {
    const char *text = getenv("FLIP");
    for (flip out; text && *text; text += strcspn(text, ";"), text += *text == ';') {
        if (sscanf(text, "%15s %127s %lld %lld %d", out.what, out.state, &out.step, &out.element,
                    &out.bit) != 5)
            abort();
        if (strcmp(out.what, what) == 0 && out.step == step) return out;
    }
    return (flip){.element = -1};
}

static drv_status flip_bit(stepper *s, const char *what) {
    const flip this = asked(what, s->step);
    uint32_t word;
    if (this.element < 0) return DRV_OK;
    DRV_TRY(backend_read(s->p->held.b, this.state, 4 * this.element, 4, &word));
    word ^= 1u << this.bit;
    return backend_write(s->p->held.b, this.state, 4 * this.element, 4, &word);
}

drv_status __wrap_stepper_gradients(stepper *s, const batch *b, double *loss) {
    DRV_TRY(flip_bit(s, "weight"));
    return __real_stepper_gradients(s, b, loss);
}

drv_status __wrap_stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm) {
    DRV_TRY(flip_bit(s, "gradient"));
    DRV_TRY(flip_bit(s, "moment"));
    return __real_stepper_update(s, hyper, grad_norm, param_norm);
}

drv_status __wrap_batch_reader_next(batch_reader *reader, bool more, batch **out) {
    static long long step;
    DRV_TRY(__real_batch_reader_next(reader, more, out));
    const flip this = asked("batch", ++step);
    if (this.element >= 0) (*out)->tokens[this.element] ^= 1 << this.bit;
    return DRV_OK;
}
