// A PJRT plugin around a real one: its table has the real one's functions, but those that the
// including file puts in their places, and it gives errors of its own beside the real one's.
#pragma once
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backend/pjrt/runtime/pjrt_abi.h"

#define PLACE(name) PLACE_##name
enum {
#define X(name, place, args, last) PLACE(name) = place,
    PJRT_SLOTS(X)
#undef X
};

typedef struct own_error { // its address is the pjrt_error
    const char *message;
    pjrt_code code;
} own_error;

static pjrt_api api;
static const pjrt_api *real; // NULL until wrap_plugin
static const own_error *own_errors;
static size_t n_own_errors;

static pjrt_error *error_of(const own_error *which) {
    return (pjrt_error *)(uintptr_t)which;
}

// Returns the row of an error; NULL: it is the real plugin's.
static const own_error *own_error_of(const pjrt_error *error) {
    for (size_t i = 0; i < n_own_errors; i++)
        if (error == error_of(&own_errors[i])) return &own_errors[i];
    return NULL;
}

static pjrt_error *call_real(int place, void *args) {
    pjrt_error *(*function)(void *);
    memcpy(&function, &real->slot[place], sizeof function);
    return function(args);
}

static void own_message(void *args) {
    pjrt_text_args *said = args;
    const own_error *own = own_error_of(said->object);
    if (!own) {
        call_real(PLACE(Error_Message), args);
        return;
    }
    said->text = own->message;
    said->text_size = strlen(own->message);
}

static pjrt_error *own_code(void *args) {
    pjrt_number_args *said = args;
    const own_error *own = own_error_of(said->object);
    if (!own) return call_real(PLACE(Error_GetCode), args);
    said->number = (int)own->code;
    return NULL;
}

static void destroy_error(void *args) {
    if (!own_error_of(((pjrt_object_args *)args)->object)) call_real(PLACE(Error_Destroy), args);
}

// Opens the plugin and copies its table; path NULL, or false: there is none.
static bool wrap_plugin(const char *path, const own_error *errors, size_t n_errors) {
    const pjrt_api *(*get)(void);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL,
         *found = library ? dlsym(library, "GetPjrtApi") : NULL;
    if (!found) return false;
    memcpy(&get, &found, sizeof get);
    real = get();
    own_errors = errors;
    n_own_errors = n_errors;
    memcpy(&api, real, real->size < sizeof api ? real->size : sizeof api);
    return true;
}

// Puts the functions of errors in their places, after all others.
static void wrap_errors(void) {
    api.slot[PLACE(Error_Message)] = (void *)(uintptr_t)own_message;
    api.slot[PLACE(Error_GetCode)] = (void *)(uintptr_t)own_code;
    api.slot[PLACE(Error_Destroy)] = (void *)(uintptr_t)destroy_error;
}
