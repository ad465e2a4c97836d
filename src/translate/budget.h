// The limits of a translation: files, words, bytes and time are counted over all files that call
// each other, so that a translation always ends.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct budget {
    int n_files;
    int64_t n_words, n_bytes; // words of scripts and keys of YAML; bytes of copied texts
    double until_s;           // by clock_s
} budget;

budget budget_begin(void);
// Reads a file. DRV_E_USAGE: there are too many files, or it is too long.
DRV_CHECKED drv_status budget_read(budget *self, arena *a, const char *path, char **text,
        size_t *n);
// Count `n` words or bytes; `where` begins the message. DRV_E_USAGE: there are too many, or the
// time is over. self NULL: nothing is counted.
DRV_CHECKED drv_status budget_words(budget *self, const char *where, int64_t n);
DRV_CHECKED drv_status budget_bytes(budget *self, const char *where, size_t n);
