// dlopen and dlsym for tables of functions.
#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// RTLD_GLOBAL and RTLD_DEFAULT: a test puts functions of its own in the place of a library's.
static bool open_library(const library *self) {
    if (!dlopen(self->file, RTLD_LAZY | RTLD_GLOBAL)) return false;
    for (int i = 0; i < self->n_calls; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, self->calls[i].name);
        if (!symbol) return false;
        // ISO C has no cast from an object to a function.
        memcpy((char *)self->table + self->calls[i].offset, &symbol, sizeof symbol);
    }
    return true;
}

bool library_ready(library *self) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    if (!self->ready) {
        self->ready = open_library(self);
        if (!self->ready) snprintf(self->why, sizeof self->why, "%s", dlerror());
    }
    const bool ready = self->ready;
    pthread_mutex_unlock(&one_at_a_time);
    return ready;
}
