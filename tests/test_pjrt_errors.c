// What a plugin refuses, and what that says of another try: a device that fails while it computes
// may work again, a program that it refuses is refused again.
#include "harness.h"

#include "backend/pjrt/runtime/plugin.h"

static int refused_with; // the code of the error that every function gives

static pjrt_error *refuse(void *args) {
    (void)args;
    return (pjrt_error *)(uintptr_t)&refused_with;
}

static pjrt_error *tell_code(void *args) {
    ((pjrt_number_args *)args)->number = refused_with;
    return NULL;
}

static void tell_words(void *args) {
    pjrt_text_args *said = args;
    said->text = "lost\nat line 7";
    said->text_size = strlen(said->text);
}

static void forget(void *args) {
    (void)args;
}

// A table of functions, as a plugin has it.
static pjrt_api *fake_api(arena *a) {
    pjrt_api *api = ARENA_NEW(a, pjrt_api);
    api->size = sizeof *api;
    for (int slot = 0; slot < N_PJRT_SLOTS; slot++)
        api->slot[pjrt_slot_table[slot].index] = (void *)(uintptr_t)refuse;
    api->slot[pjrt_slot_table[PJRT_SLOT_Error_GetCode].index] = (void *)(uintptr_t)tell_code;
    api->slot[pjrt_slot_table[PJRT_SLOT_Error_Message].index] = (void *)(uintptr_t)tell_words;
    api->slot[pjrt_slot_table[PJRT_SLOT_Error_Destroy].index] = (void *)(uintptr_t)forget;
    return api;
}

TEST(failing_device_may_work_again) {
    enum { CANCELLED = 1, UNKNOWN = 2, FAILED_PRECONDITION = 9, UNAVAILABLE = 14, DATA_LOSS = 15 };
    static const struct {
        pjrt_slot slot;
        int code;
        drv_status status;
    } cases[] = {
            {PJRT_SLOT_LoadedExecutable_Execute, PJRT_CODE_INTERNAL, DRV_E_FAULT},
            {PJRT_SLOT_Event_Await, PJRT_CODE_INTERNAL, DRV_E_FAULT},
            {PJRT_SLOT_Event_Await, UNAVAILABLE, DRV_E_FAULT},
            {PJRT_SLOT_Event_Await, UNKNOWN, DRV_E_FAULT},
            {PJRT_SLOT_Buffer_ToHostBuffer, DATA_LOSS, DRV_E_FAULT},
            {PJRT_SLOT_Client_BufferFromHostBuffer, PJRT_CODE_ABORTED, DRV_E_FAULT},
            {PJRT_SLOT_Event_Await, CANCELLED, DRV_E_FAULT},
            {PJRT_SLOT_Event_Await, PJRT_CODE_DEADLINE_EXCEEDED, DRV_E_FAULT},
            {PJRT_SLOT_LoadedExecutable_Execute, PJRT_CODE_INVALID_ARGUMENT, DRV_E_DEVICE},
            {PJRT_SLOT_LoadedExecutable_Execute, PJRT_CODE_UNIMPLEMENTED, DRV_E_DEVICE},
            {PJRT_SLOT_LoadedExecutable_Execute, FAILED_PRECONDITION, DRV_E_DEVICE},
            {PJRT_SLOT_LoadedExecutable_Execute, PJRT_CODE_RESOURCE_EXHAUSTED, DRV_E_DEVICE},
            {PJRT_SLOT_Client_Compile, PJRT_CODE_INTERNAL, DRV_E_DEVICE},
            {PJRT_SLOT_Client_Create, UNAVAILABLE, DRV_E_DEVICE},
    };
    const pjrt_plugin plugin = {.name = "fake", .path = "fake.so", .api = fake_api(a)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _Alignas(16) char args[512] = {0};
        refused_with = cases[i].code;
        FAILS(plugin_call(&plugin, cases[i].slot, args), cases[i].status, ": lost");
    }
}

// --- events: what is to be called when each comes
enum { MAX_EVENTS = 4 };
static pjrt_event_ready_args asked[MAX_EVENTS];
static int n_asked, n_destroyed, n_forgotten;

static pjrt_error *note_ready(void *args) {
    asked[n_asked++] = *(pjrt_event_ready_args *)args;
    return NULL;
}

static pjrt_error *come_at_once(void *args) {
    const pjrt_event_ready_args *event = args;
    event->callback(NULL, event->arg);
    return NULL;
}

static pjrt_error *destroy_event(void *args) {
    (void)args;
    n_destroyed++;
    return NULL;
}

static void count_forgotten(void *args) {
    (void)args;
    n_forgotten++;
}

static void set_slot(pjrt_api *api, pjrt_slot slot, pjrt_error *(*function)(void *)) {
    api->slot[pjrt_slot_table[slot].index] = (void *)(uintptr_t)function;
}

// An event that has not come in time: the device has failed, and nothing is given to it or waited
// for any more, but for what is there already. An event that comes after all harms nobody.
TEST(silent_device_is_given_up) {
    pjrt_api *api = fake_api(a);
    device_health health = {0};
    const pjrt_plugin plugin = {.name = "fake",
            .path = "fake.so",
            .api = api,
            .give_up_s = 0.05,
            .health = &health};
    pjrt_event *event = (pjrt_event *)(uintptr_t)&n_asked;
    set_slot(api, PJRT_SLOT_Event_OnReady, come_at_once);
    set_slot(api, PJRT_SLOT_Event_Destroy, destroy_event);
    api->slot[pjrt_slot_table[PJRT_SLOT_Error_Destroy].index] = (void *)(uintptr_t)count_forgotten;
    OK(plugin_wait(&plugin, NULL, event));
    set_slot(api, PJRT_SLOT_Event_OnReady, note_ready);
    FAILS(plugin_wait(&plugin, NULL, event), DRV_E_FAULT,
            "has not answered for 0.05 s (pjrt.give_up_s)");
    assert_true(health.silent);
    FAILS(plugin_wait(&plugin, NULL, event), DRV_E_FAULT, "has not answered");
    _Alignas(16) char args[512] = {0};
    FAILS(plugin_call(&plugin, PJRT_SLOT_LoadedExecutable_Execute, args), DRV_E_FAULT,
            "has not answered");
    set_slot(api, PJRT_SLOT_Event_OnReady, come_at_once);
    OK(plugin_wait(&plugin, NULL, event));
    assert_int_equal(n_asked, 2);
    assert_int_equal(n_destroyed, 4);
    assert_int_equal(n_forgotten, 0);
    asked[0].callback(NULL, asked[0].arg);
    asked[1].callback((pjrt_error *)(uintptr_t)&refused_with, asked[1].arg);
    assert_int_equal(n_forgotten, 1); // what it came with
}
