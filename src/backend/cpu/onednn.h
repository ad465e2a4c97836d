// Products by oneDNN, the yardstick of our own (drover bench gemm): no run multiplies by it. Each
// thread of our team has a slab of the result, and a primitive with scratch of its own, since with
// the library's own two threads gave wrong sums.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "kernels/kernels.h"

typedef struct onednn_product onednn_product; // for the team that there is when it is made

// Returns whether oneDNN is there, and its threads can be kept to the caller's: it was built with
// OpenMP or with none. The first call opens it.
bool onednn_can_run(void);
const char *onednn_version(arena *a); // "2.6.0", "not there"

// Makes a product; only where oneDNN can run, and without a scale. What was made is in *out when it
// fails, to be freed.
DRV_CHECKED drv_status onednn_new(arena *a, const gemm_shape *shape, onednn_product **out);
void onednn_run(const onednn_product *p, const void *a, const void *b, void *c);
void onednn_free(onednn_product *p); // NULL: nothing
