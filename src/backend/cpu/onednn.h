// Products by oneDNN: for bf16 on processors with AMX tiles, and as the yardstick of our own
// kernels (gemm_peak). One product is one primitive on one thread; each thread brings its scratch,
// since with the library's own two threads gave wrong sums.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "kernels/kernels.h"

typedef struct onednn onednn;                 // an engine, and a stream for each thread
typedef struct onednn_product onednn_product; // belongs to its onednn

// Whether it is there, and its threads can be kept to the caller's: it was built with OpenMP or
// with none. The first call opens it.
bool onednn_can_run(void);

DRV_CHECKED drv_status onednn_open(arena *a, onednn **out);
void onednn_close(onednn *o);
const char *onednn_version(arena *a); // "2.6.0", "not there"

DRV_CHECKED drv_status onednn_new(arena *a, onednn *o, const gemm_shape *shape,
        onednn_product **out);
void onednn_run(const onednn_product *p, int thread, const void *a, const void *b, void *c);
