// A PJRT plugin whose device fails when it is told to: FAULT_PLUGIN, a real one, but that a call
// fails once as the file FAULT_FILE says, which is then removed. Both are strings, given when this
// is compiled. The file is empty, which stands for "LoadedExecutable_Execute error", or has one
// line:
//   CALL KIND [N]   the N-th (1) call of that function while the file is there, by its name in
//   PJRT_SLOTS, fails:
//     error    it returns an internal error
//     memory   it returns "out of memory"
//     await    the event that it gives comes with an internal error, and what it was to fill is
//     left alone never    the event that it gives never comes lost     the buffers that it gives
//     cannot be read; their events come as if all were well
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
static int fault, no_memory; // their addresses are the errors

static bool is_ours(const pjrt_error *error) {
    return (const void *)error == (const void *)&fault ||
           (const void *)error == (const void *)&no_memory;
}

static pjrt_error *error_of(const int *which) {
    return (pjrt_error *)(uintptr_t)which;
}

static pjrt_error *go_on(int place, void *args) {
    pjrt_error *(*function)(void *);
    memcpy(&function, &real->slot[place], sizeof function);
    return function(args);
}

// --- when to fail
typedef enum fault_kind { NO_FAULT, ERROR, MEMORY, AWAIT, NEVER, LOST } fault_kind;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static fault_kind kind_of(const char *word) {
    static const char *const kinds[] = {[ERROR] = "error",
            [MEMORY] = "memory",
            [AWAIT] = "await",
            [NEVER] = "never",
            [LOST] = "lost"};
    for (fault_kind kind = ERROR; kind <= LOST; kind++)
        if (strcmp(word, kinds[kind]) == 0) return kind;
    fprintf(stderr, "faulty plugin: kind \"%s\" is unknown\n", word);
    abort();
}

static fault_kind due(const char *call) {
    static int n_calls;
    char named[64] = "LoadedExecutable_Execute", word[16] = "error";
    int nth = 1;
    fault_kind kind = NO_FAULT;
    pthread_mutex_lock(&lock);
    FILE *file = fopen(FAULT_FILE, "r");
    if (file) {
        if (fscanf(file, "%63s %15s %d", named, word, &nth) < 2 && !feof(file)) abort();
        fclose(file);
        if (strcmp(named, call) == 0 && ++n_calls >= nth && unlink(FAULT_FILE) == 0) {
            kind = kind_of(word);
            n_calls = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return kind;
}

// --- events and buffers that are not what they seem
typedef struct odd {
    fault_kind kind; // of an event: AWAIT, NEVER; of a buffer: LOST
    const void *handle;
    pjrt_event *event; // the real one; NULL: none
    struct odd *next;
} odd;
static odd *odds;

static odd *find(const void *handle) {
    odd *o;
    pthread_mutex_lock(&lock);
    for (o = odds; o && o->handle != handle; o = o->next)
        ;
    pthread_mutex_unlock(&lock);
    return o;
}

static odd *add(fault_kind kind, const void *handle) {
    odd *o = calloc(1, sizeof *o);
    if (!o) abort();
    *o = (odd){.kind = kind, .handle = handle ? handle : o};
    pthread_mutex_lock(&lock);
    o->next = odds;
    odds = o;
    pthread_mutex_unlock(&lock);
    return o;
}

// The handle may be given to another object when the real one is gone.
static void drop(const odd *o) {
    pthread_mutex_lock(&lock);
    odd **at = &odds;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    pthread_mutex_unlock(&lock);
}

static void spoil_event(fault_kind kind, pjrt_event **event) {
    odd *o = add(kind, NULL);
    o->event = *event;
    *event = (pjrt_event *)(void *)o;
}

// --- calls
static pjrt_error *event_call(int place, void *args) {
    odd *event = find(((pjrt_event_args *)args)->event);
    if (!event) return go_on(place, args);
    pjrt_event_args real_one = {{sizeof(pjrt_event_args), NULL}, event->event};
    if (place == PLACE(Event_Destroy)) {
        drop(event);
        return event->event ? go_on(place, &real_one) : NULL;
    }
    while (event->kind == NEVER && place == PLACE(Event_Await))
        pause();
    if (event->kind == NEVER) return NULL;
    if (event->event) go_on(PLACE(Event_Await), &real_one);
    if (place == PLACE(Event_Await)) return error_of(&fault);
    pjrt_event_ready_args *asked = args;
    asked->callback(error_of(&fault), asked->arg);
    return NULL;
}

static bool takes_lost(const pjrt_execute_args *run) {
    for (size_t i = 0; i < run->n_arguments; i++)
        if (find(run->arguments[0][i])) return true;
    return false;
}

static size_t n_outputs(pjrt_loaded *loaded) {
    pjrt_get_executable_args program = {.head.size = sizeof program, .loaded = loaded};
    go_on(PLACE(LoadedExecutable_GetExecutable), &program);
    pjrt_n_outputs_args outputs = {.head.size = sizeof outputs, .executable = program.executable};
    go_on(PLACE(Executable_NumOutputs), &outputs);
    go_on(PLACE(Executable_Destroy),
            &(pjrt_executable_args){{sizeof(pjrt_executable_args), NULL}, program.executable});
    return outputs.n_outputs;
}

static pjrt_error *execute(fault_kind kind, pjrt_execute_args *run) {
    if (takes_lost(run)) return error_of(&fault);
    pjrt_error *error = go_on(PLACE(LoadedExecutable_Execute), run);
    for (size_t d = 0; !error && d < run->n_devices; d++) {
        if (kind == AWAIT || kind == NEVER) spoil_event(kind, &run->done[d]);
        for (size_t i = 0; kind == LOST && i < n_outputs(run->executable); i++)
            add(LOST, run->outputs[d][i]);
    }
    return error;
}

static pjrt_error *download(fault_kind kind, pjrt_download_args *args) {
    if (find(args->buffer)) return error_of(&fault);
    pjrt_error *error = NULL;
    args->event = NULL;
    if (kind != AWAIT) error = go_on(PLACE(Buffer_ToHostBuffer), args); // else nothing is filled
    if (kind != NO_FAULT && !error) spoil_event(kind, &args->event);
    return error;
}

static pjrt_error *upload(fault_kind kind, pjrt_upload_args *args) {
    pjrt_error *error = go_on(PLACE(Client_BufferFromHostBuffer), args);
    if (kind != NO_FAULT && !error) spoil_event(kind, &args->done_with_host_buffer);
    return error;
}

static pjrt_error *destroy_buffer(pjrt_buffer_args *args) {
    const odd *lost = find(args->buffer);
    if (lost) drop(lost);
    return go_on(PLACE(Buffer_Destroy), args);
}

static pjrt_error *call(int place, const char *name, void *args) {
    const fault_kind kind = due(name);
    if (kind == ERROR || kind == MEMORY) return error_of(kind == ERROR ? &fault : &no_memory);
    switch (place) {
    case PLACE(Event_Await):
    case PLACE(Event_OnReady):
    case PLACE(Event_Destroy):
        return event_call(place, args);
    case PLACE(LoadedExecutable_Execute):
        return execute(kind, args);
    case PLACE(Buffer_ToHostBuffer):
        return download(kind, args);
    case PLACE(Client_BufferFromHostBuffer):
        return upload(kind, args);
    case PLACE(Buffer_Destroy):
        return destroy_buffer(args);
    default:
        return go_on(place, args);
    }
}

#define X(name, place, args_type, last)                                                            \
    static pjrt_error *call_##name(void *args) {                                                   \
        return call(place, #name, args);                                                           \
    }
PJRT_SLOTS(X)
#undef X

// --- errors
static void tell_words(void *args) {
    pjrt_error_message_args *said = args;
    const char *words =
            said->error == error_of(&fault) ? "the device fell off the bus" : "no 7 bytes are left";
    if (!is_ours(said->error)) {
        go_on(PLACE(Error_Message), args);
        return;
    }
    said->message = words;
    said->message_size = strlen(words);
}

static pjrt_error *tell_code(void *args) {
    pjrt_error_code_args *said = args;
    if (!is_ours(said->error)) return go_on(PLACE(Error_GetCode), args);
    said->code =
            said->error == error_of(&fault) ? PJRT_CODE_INTERNAL : PJRT_CODE_RESOURCE_EXHAUSTED;
    return NULL;
}

static void forget(void *args) {
    if (!is_ours(((pjrt_error_args *)args)->error)) go_on(PLACE(Error_Destroy), args);
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
#define X(name, place, args, last)                                                                 \
    if (api.slot[place]) api.slot[place] = (void *)(uintptr_t)call_##name;
    PJRT_SLOTS(X)
#undef X
    api.slot[PLACE(Error_Message)] = (void *)(uintptr_t)tell_words;
    api.slot[PLACE(Error_GetCode)] = (void *)(uintptr_t)tell_code;
    api.slot[PLACE(Error_Destroy)] = (void *)(uintptr_t)forget;
    return &api;
}
