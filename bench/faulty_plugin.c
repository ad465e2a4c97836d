// A PJRT plugin whose device fails when it is told to: FAULT_PLUGIN, a real one, but that the next
// program ends with an internal error as soon as the file FAULT_FILE exists, which is then removed.
// Both are strings, given when this is compiled.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "backend/pjrt/runtime/pjrt_abi.h"

#define PLACE(name) PLACE_##name
enum {
#define X(name, place, args, last) PLACE(name) = place,
    PJRT_SLOTS(X)
#undef X
};

static pjrt_api api;
static const pjrt_api *real;
static int fault; // its address is the error

static void *real_slot(int place) {
    return real->slot[place];
}

static bool is_ours(const pjrt_error *error) {
    return (const void *)error == (const void *)&fault;
}

static pjrt_error *execute(void *args) {
    pjrt_error *(*go_on)(void *);
    void *slot = real_slot(PLACE(LoadedExecutable_Execute));
    memcpy(&go_on, &slot, sizeof go_on);
    return unlink(FAULT_FILE) == 0 ? (pjrt_error *)(uintptr_t)&fault : go_on(args);
}

static void tell_words(void *args) {
    pjrt_error_message_args *said = args;
    static const char words[] = "the device fell off the bus";
    void (*go_on)(void *);
    void *slot = real_slot(PLACE(Error_Message));
    memcpy(&go_on, &slot, sizeof go_on);
    if (!is_ours(said->error)) {
        go_on(args);
        return;
    }
    said->message = words;
    said->message_size = strlen(words);
}

static pjrt_error *tell_code(void *args) {
    pjrt_error_code_args *said = args;
    pjrt_error *(*go_on)(void *);
    void *slot = real_slot(PLACE(Error_GetCode));
    memcpy(&go_on, &slot, sizeof go_on);
    if (!is_ours(said->error)) return go_on(args);
    said->code = PJRT_CODE_INTERNAL;
    return NULL;
}

static void forget(void *args) {
    void (*go_on)(void *);
    void *slot = real_slot(PLACE(Error_Destroy));
    memcpy(&go_on, &slot, sizeof go_on);
    if (!is_ours(((pjrt_error_args *)args)->error)) go_on(args);
}

const pjrt_api *GetPjrtApi(void);
const pjrt_api *GetPjrtApi(void) {
    const pjrt_api *(*get)(void);
    if (real) return &api;
    void *library = dlopen(FAULT_PLUGIN, RTLD_NOW | RTLD_LOCAL),
         *found = library ? dlsym(library, "GetPjrtApi") : NULL;
    if (!found) return NULL;
    memcpy(&get, &found, sizeof get);
    real = get();
    memcpy(&api, real, real->size < sizeof api ? real->size : sizeof api);
    api.slot[PLACE(LoadedExecutable_Execute)] = (void *)(uintptr_t)execute;
    api.slot[PLACE(Error_Message)] = (void *)(uintptr_t)tell_words;
    api.slot[PLACE(Error_GetCode)] = (void *)(uintptr_t)tell_code;
    api.slot[PLACE(Error_Destroy)] = (void *)(uintptr_t)forget;
    return &api;
}
