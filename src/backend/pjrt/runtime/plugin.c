// Opens a plugin, calls it, and reads its attributes.
#include "backend/pjrt/runtime/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/pjrt/runtime/plugin_file.h"
#include "base/clock.h"
#include "base/bus_error.h"
#include "base/file.h"
#include "base/task.h"

const pjrt_slot_info pjrt_slot_table[N_PJRT_SLOTS] = {
#define X(name, index, args, last) {#name, index, PJRT_SIZE(args, last)},
        PJRT_SLOTS(X)
#undef X
};

// No program can run without these functions; plugin_has checks for the others.
static const pjrt_slot needed[] = {PJRT_SLOT_Error_Destroy, PJRT_SLOT_Error_Message,
        PJRT_SLOT_Error_GetCode, PJRT_SLOT_Plugin_Initialize, PJRT_SLOT_Event_Destroy,
        PJRT_SLOT_Event_Await, PJRT_SLOT_Client_Create, PJRT_SLOT_Client_Destroy,
        PJRT_SLOT_Client_PlatformName, PJRT_SLOT_Client_AddressableDevices,
        PJRT_SLOT_Client_Compile, PJRT_SLOT_Client_BufferFromHostBuffer,
        PJRT_SLOT_Device_GetDescription, PJRT_SLOT_DeviceDescription_Id,
        PJRT_SLOT_DeviceDescription_Kind, PJRT_SLOT_Executable_Destroy,
        PJRT_SLOT_Executable_NumOutputs, PJRT_SLOT_LoadedExecutable_Destroy,
        PJRT_SLOT_LoadedExecutable_GetExecutable, PJRT_SLOT_LoadedExecutable_Execute,
        PJRT_SLOT_Buffer_Destroy, PJRT_SLOT_Buffer_ElementType, PJRT_SLOT_Buffer_Dimensions,
        PJRT_SLOT_Buffer_ToHostBuffer};

bool plugin_has(const pjrt_plugin *p, pjrt_slot slot) {
    const size_t index = (size_t)pjrt_slot_table[slot].index;
    return offsetof(pjrt_api, slot) + (index + 1) * sizeof(void *) <= p->api->size &&
           p->api->slot[index];
}

// Calls a slot as a function that takes the arguments and returns an error or NULL.
typedef pjrt_error *pjrt_function(void *args);
static pjrt_error *call_slot(const pjrt_plugin *p, pjrt_slot slot, void *args) {
    pjrt_function *function;
    memcpy(&function, &p->api->slot[pjrt_slot_table[slot].index], sizeof function);
    ((pjrt_head *)args)->size = pjrt_slot_table[slot].args_size;
    return function(args);
}

static void call_void(const pjrt_plugin *p, pjrt_slot slot, void *args) {
    void (*function)(void *);
    memcpy(&function, &p->api->slot[pjrt_slot_table[slot].index], sizeof function);
    ((pjrt_head *)args)->size = pjrt_slot_table[slot].args_size;
    function(args);
}

// The first line of a plugin's text is kept, up to this many bytes.
enum { MAX_WORDS = 300 };

static bool gives_work(pjrt_slot slot) {
    return slot == PJRT_SLOT_LoadedExecutable_Execute || slot == PJRT_SLOT_Buffer_ToHostBuffer ||
           slot == PJRT_SLOT_Client_BufferFromHostBuffer;
}

// Returns whether a code means that the device failed, not that it refused a program or argument,
// which it would refuse again.
static bool is_fault(pjrt_slot slot, int code) {
    static const int codes[] = {PJRT_CODE_CANCELLED, PJRT_CODE_UNKNOWN, PJRT_CODE_DEADLINE_EXCEEDED,
            PJRT_CODE_ABORTED, PJRT_CODE_INTERNAL, PJRT_CODE_UNAVAILABLE, PJRT_CODE_DATA_LOSS};
    const bool works =
            gives_work(slot) || slot == PJRT_SLOT_Event_Await || slot == PJRT_SLOT_Event_OnReady;
    bool fails = false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        fails |= codes[i] == code;
    return works && fails;
}

// NULL is allowed.
static void destroy_error(const pjrt_plugin *p, pjrt_error *error) {
    if (error) call_void(p, PJRT_SLOT_Error_Destroy, &(pjrt_object_args){.object = error});
}

// Copies the first line of an error's message, destroys the error, and returns its code.
static int take_error(const pjrt_plugin *p, pjrt_error *error, char words[MAX_WORDS + 1]) {
    pjrt_text_args said = {.object = error};
    pjrt_number_args coded = {.object = error};
    call_void(p, PJRT_SLOT_Error_Message, &said);
    destroy_error(p, call_slot(p, PJRT_SLOT_Error_GetCode, &coded));
    size_t n = 0;
    while (n < said.text_size && n < MAX_WORDS && said.text[n] != '\n')
        n++;
    if (n > 0) memcpy(words, said.text, n); // of no bytes the text may be NULL
    words[n] = '\0';
    destroy_error(p, error);
    return coded.number;
}

static drv_status refuse(const pjrt_plugin *p, pjrt_slot slot, pjrt_error *error) {
    char words[MAX_WORDS + 1];
    const int code = take_error(p, error, words);
    if (code == PJRT_CODE_RESOURCE_EXHAUSTED)
        return drv_fail(DRV_E_DEVICE,
                "plugin \"%s\": %s: out of memory: %s; a smaller training.micro_batch_size or "
                "data.sequence_length, or training.recompute full, needs less",
                p->name, pjrt_slot_table[slot].name, words);
    return drv_fail(is_fault(slot, code) ? DRV_E_FAULT : DRV_E_DEVICE,
            "plugin \"%s\": %s: %s (code %d)", p->name, pjrt_slot_table[slot].name, words, code);
}

static bool is_silent(const pjrt_plugin *p) {
    return p->health && p->health->silent;
}

static drv_status fail_silent(const pjrt_plugin *p) {
    if (p->health->failed)
        return drv_fail(DRV_E_FAULT, "plugin \"%s\": the device has failed and no longer answers",
                p->name);
    return drv_fail(DRV_E_FAULT,
            "plugin \"%s\": the device has not answered for %g s (pjrt.give_up_s)", p->name,
            p->give_up_s);
}

drv_status plugin_call(const pjrt_plugin *p, pjrt_slot slot, void *args) {
    if (is_silent(p) && gives_work(slot)) return fail_silent(p);
    if (!plugin_has(p, slot))
        return drv_fail(DRV_E_DEVICE, "plugin \"%s\" (%s) has no %s, expected one", p->name,
                p->path, pjrt_slot_table[slot].name);
    pjrt_error *error = call_slot(p, slot, args);
    return error ? refuse(p, slot, error) : DRV_OK;
}

// --- waiting. The plugin calls back from its own thread when an event occurs, perhaps after the
// waiting rank has given up. Whichever of the two is last frees the arrival.
typedef struct arrival {
    const pjrt_plugin *p;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool came, given_up;
    pjrt_error *error;
} arrival;

static arrival *arrival_new(const pjrt_plugin *p) {
    arrival *a = mem_zeroed(sizeof *a);
    a->p = p;
    pthread_mutex_init(&a->lock, NULL);
    cond_init_monotonic(&a->changed);
    return a;
}

static void arrival_free(arrival *a) {
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    free(a);
}

static void event_came(pjrt_error *error, void *arg) {
    arrival *a = arg;
    pthread_mutex_lock(&a->lock);
    const bool last = a->given_up;
    a->came = true;
    a->error = error;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (!last) return;
    destroy_error(a->p, error);
    arrival_free(a);
}

// Returns whether the event occurred within the time.
static bool wait_for(arrival *a, double seconds) {
    const struct timespec until = monotonic_after(seconds);
    bool late = false;
    pthread_mutex_lock(&a->lock);
    while (!a->came && !late)
        late = pthread_cond_timedwait(&a->changed, &a->lock, &until) == ETIMEDOUT;
    const bool came = a->came;
    pthread_mutex_unlock(&a->lock);
    return came;
}

// Returns whether the event has occurred after all; otherwise event_came frees the arrival.
static bool give_up(arrival *a) {
    pthread_mutex_lock(&a->lock);
    const bool came = a->came;
    a->given_up = !came;
    pthread_mutex_unlock(&a->lock);
    return came;
}

// Returns the seconds to wait for an event. After the device has failed, other work may never end;
// once it is silent, only events that have occurred already count.
static double limit_of(const pjrt_plugin *p) {
    const double failed_s = 5;
    if (is_silent(p)) return 0;
    const double limit = p->give_up_s > 0 ? p->give_up_s : HUGE_VAL;
    return p->health->failed ? fmin(limit, failed_s) : limit;
}

// Waits until the event occurs, the time is over, or a rank fails.
static drv_status wait_limited(const pjrt_plugin *p, const comm *ranks, arrival *a) {
    const double look_s = 0.1, start = clock_s();
    drv_status status = DRV_OK;
    for (bool came = false; !came && status == DRV_OK;) {
        const double left = start + limit_of(p) - clock_s();
        came = wait_for(a, fmax(0, fmin(left, look_s)));
        if (!came && ranks) status = comm_check(ranks);
        if (!came && status == DRV_OK && left <= 0) status = fail_silent(p);
    }
    return status;
}

static drv_status wait_called_back(const pjrt_plugin *p, const comm *ranks, pjrt_event *event) {
    arrival *a = arrival_new(p);
    drv_status status = plugin_call(p, PJRT_SLOT_Event_OnReady,
            &(pjrt_event_ready_args){.event = event, .callback = event_came, .arg = a});
    if (status == DRV_OK) {
        status = wait_limited(p, ranks, a);
        if (status != DRV_OK && !give_up(a)) {
            p->health->silent = true;
            return status;
        }
        status = a->error ? refuse(p, PJRT_SLOT_Event_Await, a->error) : DRV_OK;
    }
    arrival_free(a);
    return status;
}

drv_status plugin_wait(const pjrt_plugin *p, const comm *ranks, pjrt_event *event) {
    if (!event) return DRV_OK;
    const bool calls_back = plugin_has(p, PJRT_SLOT_Event_OnReady);
    const drv_status waited = calls_back ? wait_called_back(p, ranks, event)
                                         : plugin_call(p, PJRT_SLOT_Event_Await,
                                                   &(pjrt_object_args){.object = event});
    if (waited == DRV_E_FAULT && !is_silent(p)) p->health->failed = true;
    // The message of the first failure is kept: an event that failed can still be destroyed.
    destroy_error(p, call_slot(p, PJRT_SLOT_Event_Destroy, &(pjrt_object_args){.object = event}));
    return waited;
}

static drv_status check_api(const pjrt_plugin *p) {
    const pjrt_api *api = p->api;
    if (api->version.major != PJRT_ABI_MAJOR)
        return drv_fail(DRV_E_DEVICE, "plugin \"%s\" (%s) has PJRT version %d.%d, expected %d.x",
                p->name, p->path, api->version.major, api->version.minor, PJRT_ABI_MAJOR);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!plugin_has(p, needed[i]))
            return drv_fail(DRV_E_DEVICE,
                    "plugin \"%s\" (%s, PJRT version %d.%d) has no %s, expected one", p->name,
                    p->path, api->version.major, api->version.minor,
                    pjrt_slot_table[needed[i]].name);
    return DRV_OK;
}

static drv_status check_bytes(void *ctx) {
    const file_map *map = ctx;
    return plugin_file_check(map->p, map->n);
}

// Checks the file before dlopen, so that the message gives the reason.
static drv_status check_file(const pjrt_plugin *p) {
    file_map map;
    const char *kind = file_odd_kind(p->path);
    if (kind) return drv_fail(DRV_E_DEVICE, "it is %s, expected a shared library", kind);
    DRV_TRY(file_map_open(p->path, &map));
    const drv_status status = bus_error_guard(check_bytes, &map, "it");
    file_map_close(&map);
    return status;
}

static drv_status open_library(pjrt_plugin *p) {
    DRV_TRY_CTX(check_file(p), "plugin \"%s\": could not open \"%s\"", p->name, p->path);
    void *library = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror(), *after = reason ? strstr(reason, p->path) : NULL;
        if (after == reason && reason) reason += strlen(p->path) + 2;
        return drv_fail(DRV_E_DEVICE, "plugin \"%s\": could not open \"%s\": %s", p->name, p->path,
                reason ? reason : "unknown reason");
    }
    const pjrt_api *(*get)(void);
    void *symbol = dlsym(library, "GetPjrtApi");
    memcpy(&get, &symbol, sizeof get);
    p->api = symbol ? get() : NULL;
    if (!p->api)
        return drv_fail(DRV_E_DEVICE,
                "plugin \"%s\": \"%s\" has no function GetPjrtApi, expected a PJRT plugin", p->name,
                p->path);
    return DRV_OK;
}

static void read_attributes(arena *a, pjrt_plugin *p) {
    pjrt_plugin_attributes_args args = {0};
    p->stablehlo = "";
    if (!plugin_has(p, PJRT_SLOT_Plugin_Attributes) ||
            plugin_call(p, PJRT_SLOT_Plugin_Attributes, &args) != DRV_OK)
        return;
    for (size_t i = 0; i < args.n_attributes; i++) {
        const pjrt_named_value *v = &args.attributes[i];
        const char *name = arena_strndup(a, v->name, v->name_size);
        if (strcmp(name, "stablehlo_current_version") == 0 && v->type == PJRT_VALUE_INT64_LIST &&
                v->value_size == 3)
            p->stablehlo = arena_printf(a, "%lld.%lld.%lld", (long long)v->value.int64_list[0],
                    (long long)v->value.int64_list[1], (long long)v->value.int64_list[2]);
    }
}

// Sets variables that plugins need before they are opened, unless they are set already. Neuron
// checks the size of structs by one, and needs an address where its ranks meet even for a single
// rank (AWS's guide of environment variables; zml/zml platforms/neuron).
static void set_environment(const char *plugin) {
    static const struct {
        const char *plugin, *name, *value;
    } rows[] = {{"", "TF_CPP_MIN_LOG_LEVEL", "3"}, // hides the plugins' own log
            {"neuron", "NEURON_INTERNAL_PJRT_C_API_VERSION", "0.114"},
            {"neuron", "NEURON_RT_ROOT_COMM_ID", "127.0.0.1:62182"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(plugin, rows[i].plugin)) setenv(rows[i].name, rows[i].value, 0);
}

drv_status plugin_open(arena *a, const char *wanted, pjrt_plugin **out) {
    pjrt_plugin *p = ARENA_NEW(a, pjrt_plugin);
    DRV_TRY(plugin_find(a, wanted, &p->name, &p->path));
    set_environment(p->name);
    DRV_TRY(open_library(p));
    DRV_TRY(check_api(p));
    DRV_TRY(plugin_call(p, PJRT_SLOT_Plugin_Initialize, &(pjrt_no_args){0}));
    read_attributes(a, p);
    p->has_f64 = !strstr(p->name, "neuron") && !strstr(p->name, "tpu");
    p->health = ARENA_NEW(a, device_health);
    *out = p;
    return DRV_OK;
}
