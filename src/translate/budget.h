// Limits of a translation: files that call each other, words, bytes and time are counted over
// all of them together, so that none runs away.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct budget {
    int n_files;
    int64_t n_words, n_bytes; // words of scripts and keys of YAML; bytes of texts that were copied
    double until_s;           // by clock_s
} budget;

budget budget_begin(void);
// Reads a file. DRV_E_USAGE: it is one too many, or too long.
DRV_CHECKED drv_status budget_read(budget *self, arena *a, const char *path, char **text,
        size_t *n);
// Take so many words or bytes; `where` begins the message. DRV_E_USAGE: they are too many, or the
// time is over. self NULL: nothing is counted.
DRV_CHECKED drv_status budget_words(budget *self, const char *where, int64_t n);
DRV_CHECKED drv_status budget_bytes(budget *self, const char *where, size_t n);
