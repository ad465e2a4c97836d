// A PJRT plugin whose device fails when it is told to: FAULT_PLUGIN, a real one, but that a call
// fails once as the file FAULT_FILE says, which is then removed. Both are strings, given when this
// is compiled. The file is empty, which stands for "LoadedExecutable_Execute error", or has one
// line:
//   CALL KIND [N]   the N-th (1) call of that function while the file is there, by its name in
//   PJRT_SLOTS, fails:
//     error   it returns an internal error
//     memory  it returns "out of memory"
//     await   the event that it gives comes with an internal error, and nothing is filled
//     never   the event that it gives never comes
//     stuck   of a program: its last device fails as with await, those of the others never come,
//             and neither do those of later programs, as if each device waited for that one
//     lost    the buffers that it gives cannot be read; their events come as if all were well
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wrapped_plugin.h"

enum { FAULT, NO_MEMORY, N_ERRORS };
static const own_error errors[N_ERRORS] = {[FAULT] = {"the device fell off the bus",
                                                   PJRT_CODE_INTERNAL},
        [NO_MEMORY] = {"no 7 bytes are left", PJRT_CODE_RESOURCE_EXHAUSTED}};

// --- when to fail
typedef enum fault_kind { NO_FAULT, ERROR, MEMORY, AWAIT, NEVER, STUCK, LOST } fault_kind;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static fault_kind kind_of(const char *word) {
    static const char *const kinds[] = {[ERROR] = "error",
            [MEMORY] = "memory",
            [AWAIT] = "await",
            [NEVER] = "never",
            [STUCK] = "stuck",
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
    odd *event = find(((pjrt_object_args *)args)->object);
    if (!event) return call_real(place, args);
    pjrt_object_args real_one = {{sizeof(pjrt_object_args), NULL}, event->event};
    if (place == PLACE(Event_Destroy)) {
        drop(event);
        return event->event ? call_real(place, &real_one) : NULL;
    }
    while (event->kind == NEVER && place == PLACE(Event_Await))
        pause();
    if (event->kind == NEVER) return NULL;
    if (event->event) call_real(PLACE(Event_Await), &real_one);
    if (place == PLACE(Event_Await)) return error_of(&errors[FAULT]);
    pjrt_event_ready_args *asked = args;
    asked->callback(error_of(&errors[FAULT]), asked->arg);
    return NULL;
}

static bool takes_lost(const pjrt_execute_args *run) {
    for (size_t i = 0; i < run->n_arguments; i++)
        if (find(run->arguments[0][i])) return true;
    return false;
}

static size_t n_outputs(pjrt_loaded *loaded) {
    pjrt_get_executable_args program = {.head.size = sizeof program, .loaded = loaded};
    call_real(PLACE(LoadedExecutable_GetExecutable), &program);
    pjrt_n_outputs_args outputs = {.head.size = sizeof outputs, .executable = program.executable};
    call_real(PLACE(Executable_NumOutputs), &outputs);
    call_real(PLACE(Executable_Destroy),
            &(pjrt_object_args){{sizeof(pjrt_object_args), NULL}, program.executable});
    return outputs.n_outputs;
}

static pjrt_error *execute(fault_kind kind, pjrt_execute_args *run) {
    static bool stuck; // programs are started one after the other
    if (takes_lost(run)) return error_of(&errors[FAULT]);
    pjrt_error *error = call_real(PLACE(LoadedExecutable_Execute), run);
    for (size_t d = 0; !error && d < run->n_devices; d++) {
        if (kind == AWAIT || kind == NEVER) spoil_event(kind, &run->done[d]);
        if (kind == STUCK || stuck)
            spoil_event(!stuck && d + 1 == run->n_devices ? AWAIT : NEVER, &run->done[d]);
        for (size_t i = 0; kind == LOST && i < n_outputs(run->executable); i++)
            add(LOST, run->outputs[d][i]);
    }
    stuck |= kind == STUCK;
    return error;
}

static pjrt_error *download(fault_kind kind, pjrt_download_args *args) {
    if (find(args->buffer)) return error_of(&errors[FAULT]);
    pjrt_error *error = NULL;
    args->event = NULL;
    if (kind != AWAIT)
        error = call_real(PLACE(Buffer_ToHostBuffer), args); // else nothing is filled
    if (kind != NO_FAULT && !error) spoil_event(kind, &args->event);
    return error;
}

static pjrt_error *upload(fault_kind kind, pjrt_upload_args *args) {
    pjrt_error *error = call_real(PLACE(Client_BufferFromHostBuffer), args);
    if (kind != NO_FAULT && !error) spoil_event(kind, &args->done_with_host_buffer);
    return error;
}

static pjrt_error *destroy_buffer(pjrt_object_args *args) {
    const odd *lost = find(args->object);
    if (lost) drop(lost);
    return call_real(PLACE(Buffer_Destroy), args);
}

static pjrt_error *call(int place, const char *name, void *args) {
    const fault_kind kind = due(name);
    if (kind == ERROR || kind == MEMORY)
        return error_of(&errors[kind == ERROR ? FAULT : NO_MEMORY]);
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
        return call_real(place, args);
    }
}

#define X(name, place, args_type, last)                                                            \
    static pjrt_error *call_##name(void *args) {                                                   \
        return call(place, #name, args);                                                           \
    }
PJRT_SLOTS(X)
#undef X

const pjrt_api *GetPjrtApi(void);
const pjrt_api *GetPjrtApi(void) {
    if (real) return &api;
    if (!wrap_plugin(FAULT_PLUGIN, errors, N_ERRORS)) return NULL;
#define X(name, place, args, last)                                                                 \
    if (api.slot[place]) api.slot[place] = (void *)(uintptr_t)call_##name;
    PJRT_SLOTS(X)
#undef X
    wrap_errors();
    return &api;
}
