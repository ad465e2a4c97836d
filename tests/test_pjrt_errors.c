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
    ((pjrt_error_code_args *)args)->code = refused_with;
    return NULL;
}

static void tell_words(void *args) {
    pjrt_error_message_args *said = args;
    said->message = "lost\nat line 7";
    said->message_size = strlen(said->message);
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

static void failing_device_may_work_again(void **state) {
    (void)state;
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
    arena *a = arena_new("test");
    const pjrt_plugin plugin = {.name = "fake", .path = "fake.so", .api = fake_api(a)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _Alignas(16) char args[512] = {0};
        refused_with = cases[i].code;
        FAILS(plugin_call(&plugin, cases[i].slot, args), cases[i].status, ": lost");
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(failing_device_may_work_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
