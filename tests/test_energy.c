// Energy by a tree of files as RAPL's, and by functions in the place of NVML's: what counts, wraps,
// vanishes and is refused.
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "harness.h"
#include "measure/energy.h"

static unsigned n_devices;
static unsigned long long millijoules[2];
static int nvml_result, n_open;

// This program's go before those of a library (base/library.h).
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
const char *nvmlErrorString(int result);

int nvmlInit_v2(void) {
    n_open++;
    return 0;
}

int nvmlShutdown(void) {
    n_open--;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = n_devices;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &millijoules[index];
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
    *mj = *(unsigned long long *)device;
    return nvml_result;
}

const char *nvmlErrorString(int result) {
    return result == 3 ? "Not Supported" : "Unknown Error";
}

static void put(arena *a, const char *dir, const char *name, const char *text) {
    OK(dir_make(dir));
    OK(file_write_atomic(path_join(a, dir, name), text, strlen(text)));
}

static void put_zone(arena *a, const char *root, const char *folder, const char *name,
        const char *joules) {
    const char *dir = path_join(a, root, folder);
    put(a, dir, "name", arena_printf(a, "%s\n", name));
    put(a, dir, "max_energy_range_uj", "1000000000\n"); // 1,000 J
    put(a, dir, "energy_uj", arena_printf(a, "%s000000\n", joules));
}

typedef struct machine {
    arena *a;
    char root[32];
    energy_opts opts;
    energy *used;
} machine;

static machine make(const char *nvml) {
    machine host = {.a = arena_new("test"), .root = "/tmp/drover-energy-XXXXXX"};
    assert_non_null(mkdtemp(host.root));
    host.opts.nvml = nvml;
    n_devices = 0;
    nvml_result = 0;
    return host;
}

static void start(machine *host) {
    host->opts.powercap = host->root;
    OK(energy_open(host->a, &host->opts, &host->used));
}

static void check(machine *host, double joules) {
    const double read = energy_read(host->used);
    if (isnan(joules) ? !isnan(read) : fabs(read - joules) > 1e-6)
        fail_msg("%g J, expected %g (%s)", read, joules, energy_source(host->used));
}

static void shut(machine *host) {
    energy_close(host->used);
    assert_int_equal(n_open, 0);
    OK(dir_remove(host->root));
    arena_free(host->a);
}

TEST(packages_and_memory_count_once_and_wrap) {
    machine host = make("libnobody.so.7");
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "100");
    put_zone(host.a, host.root, "intel-rapl:0:0", "core", "50");
    put_zone(host.a, host.root, "intel-rapl:0:1", "dram", "10");
    put_zone(host.a, host.root, "intel-rapl:1", "psys", "500");
    put_zone(host.a, host.root, "intel-rapl-mmio:0", "package-0", "100");
    start(&host);
    assert_string_equal(energy_source(host.used), "RAPL (package-0, dram)");
    check(&host, 0);
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "900");
    put_zone(host.a, host.root, "intel-rapl:0:0", "core", "70");
    put_zone(host.a, host.root, "intel-rapl:0:1", "dram", "15");
    put_zone(host.a, host.root, "intel-rapl:1", "psys", "999");
    check(&host, 805);
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "20"); // it has wrapped
    check(&host, 805 + 120);
    check(&host, 925);
    put(host.a, path_join(host.a, host.root, "intel-rapl:0"), "energy_uj", "rubbish\n");
    check(&host, (double)NAN);
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "30");
    check(&host, (double)NAN); // what it used meanwhile is not known
    shut(&host);
}

TEST(devices_count) {
    machine host = make("libm.so.6");
    n_devices = 2;
    millijoules[0] = 5000, millijoules[1] = 70000;
    start(&host);
    assert_true(str_starts(energy_source(host.used), "NVML (2 devices); RAPL not readable: "));
    millijoules[0] += 1500, millijoules[1] += 250;
    check(&host, 1.75);
    millijoules[1] = 250; // the driver was loaded anew
    check(&host, 2);
    nvml_result = 3;
    check(&host, (double)NAN);
    shut(&host);
}

TEST(both_count_together) {
    machine host = make("libm.so.6");
    n_devices = 1;
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "100");
    start(&host);
    assert_string_equal(energy_source(host.used), "RAPL (package-0), NVML (1 device)");
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "101");
    millijoules[0] += 2000;
    check(&host, 3);
    shut(&host);
}

TEST(what_cannot_be_read_is_said) {
    machine host = make("libnobody.so.7");
    OK(dir_remove(host.root));
    start(&host);
    assert_true(str_starts(energy_source(host.used), "not readable: /tmp/drover-energy-"));
    check(&host, (double)NAN);
    shut(&host);

    host = make("libm.so.6"); // NVML is there, and its devices do not tell
    n_devices = 1, nvml_result = 3;
    start(&host);
    assert_non_null(strstr(energy_source(host.used),
            "has no processor's counter; NVML not readable: Not Supported"));
    check(&host, (double)NAN);
    shut(&host);

    host = make("libnobody.so.7"); // a part must not pass for the whole
    put_zone(host.a, host.root, "intel-rapl:0", "package-0", "100");
    put_zone(host.a, host.root, "intel-rapl:1", "package-1", "100");
    OK(dir_remove(path_join(host.a, host.root, "intel-rapl:1/energy_uj")));
    start(&host);
    assert_non_null(strstr(energy_source(host.used), "intel-rapl:1/energy_uj: No such file"));
    check(&host, (double)NAN);
    shut(&host);
}
