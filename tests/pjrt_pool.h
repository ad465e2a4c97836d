// The group of one test that runs on a pool of local devices of XLA's CPU plugin.
#pragma once
#include "backend/pjrt/runtime/plugin.h"
#include "harness.h"

// The exit status of the test program; 77, skipped, without a plugin.
static inline int run_on_pool(int n_devices, const char *name, CMUnitTestFunction test) {
    enum { SKIPPED = 77 };
    arena *a = arena_new("devices");
    const backend_opts opts = {.plugin = "cpu", .cache_dir = "none"};
    const char *plugin, *path;
    device_pool *pool;
    if (plugin_find(a, "cpu", &plugin, &path) != DRV_OK) {
        fprintf(stderr, "left out: %s\n", drv_message());
        arena_free(a);
        return SKIPPED;
    }
    print_message("reads %s, outside the tree\n", path);
    if (device_pool_open(a, &opts, n_devices, &pool) != DRV_OK) {
        fprintf(stderr, "%s\n", drv_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {{name, test, NULL, NULL, pool}};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_pool_close(pool);
    arena_free(a);
    return failed;
}
