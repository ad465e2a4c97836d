// Reads counters of energy: those of RAPL, which wrap around, and of NVML.
#include "measure/energy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/library.h"
#include "base/str.h"
#include "base/task.h"

enum { MAX_ZONES = 64, MAX_DEVICES = 64, TEXT = 256, EVERY_S = 10 };

// The NVML functions that are called (NVIDIA's nvml.h, version 11 and later).
typedef struct nvml_calls {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    int (*nvmlDeviceGetCount_v2)(unsigned *count);
    int (*nvmlDeviceGetHandleByIndex_v2)(unsigned index, void **device);
    int (*nvmlDeviceGetTotalEnergyConsumption)(void *device, unsigned long long *millijoules);
    const char *(*nvmlErrorString)(int result);
} nvml_calls;

typedef struct zone {    // of RAPL
    const char *path;    // of its counter
    int64_t last, range; // microjoules; it wraps around at `range`
} zone;

struct energy {
    zone zones[MAX_ZONES];
    int n_zones, n_devices;
    nvml_calls nvml;
    bool nvml_open;
    void *devices[MAX_DEVICES];
    unsigned long long last_mj[MAX_DEVICES];
    double joules; // until now; NaN: not readable
    char rapl_words[TEXT], nvml_words[TEXT], source[2 * TEXT + 64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_thread, closing;
};

// --- RAPL
// Returns false, with errno set, if the file cannot be read or is not a number.
static bool read_count(const char *path, int64_t *out) {
    char text[32];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    const int why = errno;
    close(fd);
    errno = n < 0 ? why : EINVAL;
    if (n <= 0) return false;
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    return str_to_i64(text, out) && *out >= 0;
}

// Returns whether a zone counts: packages, and memory outside of them. Parts of a package (core,
// uncore) and the whole platform (psys) would be counted twice; intel-rapl-mmio repeats the others.
static bool counts(const char *folder, const char *name) {
    const char *number = folder + strlen("intel-rapl:");
    if (!str_starts(folder, "intel-rapl:")) return false;
    return strchr(number, ':') ? strcmp(name, "dram") == 0 : str_starts(name, "package");
}

static void add_zone(energy *self, arena *a, const char *root, const char *folder) {
    char *name, words[64];
    size_t n;
    zone made = {0};
    const char *dir = path_join(a, root, folder);
    if (file_read(a, path_join(a, dir, "name"), &name, &n) != DRV_OK) return;
    name[strcspn(name, "\n")] = 0;
    if (!counts(folder, name) || self->n_zones == MAX_ZONES) return;
    made.path = path_join(a, dir, "energy_uj");
    if (!read_count(made.path, &made.last) ||
            !read_count(path_join(a, dir, "max_energy_range_uj"), &made.range)) {
        self->n_zones = 0; // part of the zones must not pass for all
        snprintf(self->rapl_words, TEXT, "not readable: %s: %s", made.path, strerror(errno));
        return;
    }
    snprintf(words, sizeof words, "%s%.40s", self->n_zones ? ", " : "", name);
    strncat(self->rapl_words, words, TEXT - 1 - strlen(self->rapl_words));
    self->zones[self->n_zones++] = made;
}

static bool failed(const char *words) {
    return str_starts(words, "not readable");
}

static void open_rapl(energy *self, arena *a, const char *root) {
    char **names;
    int n = 0;
    if (dir_list(a, root, &names, &n) != DRV_OK) {
        snprintf(self->rapl_words, TEXT, "not readable: %s: %s", root, strerror(errno));
        return;
    }
    for (int i = 0; i < n && !failed(self->rapl_words); i++)
        add_zone(self, a, root, names[i]);
    if (!self->n_zones && !failed(self->rapl_words))
        snprintf(self->rapl_words, TEXT, "not readable: %s has no processor's counter", root);
}

static bool read_zone(energy *self, zone *read) {
    int64_t now;
    if (!read_count(read->path, &now)) {
        snprintf(self->rapl_words, TEXT, "not readable any more: %s: %s", read->path,
                strerror(errno));
        return false;
    }
    const int64_t used = now >= read->last ? now - read->last : now + read->range - read->last;
    read->last = now;
    if (used > 0) self->joules += 1e-6 * (double)used;
    return true;
}

// --- NVML
static void say_nvml(energy *self, int result) {
    snprintf(self->nvml_words, TEXT, "not readable: %s", self->nvml.nvmlErrorString(result));
}

static int open_devices(energy *self) {
    unsigned n = 0;
    int bad = self->nvml.nvmlDeviceGetCount_v2(&n);
    for (unsigned i = 0; i < n && i < MAX_DEVICES && !bad; i++) {
        bad = self->nvml.nvmlDeviceGetHandleByIndex_v2(i, &self->devices[i]);
        if (!bad)
            bad = self->nvml.nvmlDeviceGetTotalEnergyConsumption(self->devices[i],
                    &self->last_mj[i]);
    }
    if (!bad) self->n_devices = n < MAX_DEVICES ? (int)n : MAX_DEVICES;
    return bad;
}

static void open_nvml(energy *self, const char *file) {
#define CALL(name)                                                                                 \
    { #name, offsetof(nvml_calls, name) }
    static const library_call calls[] = {CALL(nvmlInit_v2), CALL(nvmlShutdown),
            CALL(nvmlDeviceGetCount_v2), CALL(nvmlDeviceGetHandleByIndex_v2),
            CALL(nvmlDeviceGetTotalEnergyConsumption), CALL(nvmlErrorString)};
    library nvml = {.file = file,
            .calls = calls,
            .n_calls = sizeof calls / sizeof *calls,
            .table = &self->nvml};
    if (!library_ready(&nvml)) return; // no NVIDIA devices here, so nothing is missing
    int bad = self->nvml.nvmlInit_v2();
    self->nvml_open = bad == 0;
    if (!bad) bad = open_devices(self);
    if (bad)
        say_nvml(self, bad);
    else if (self->n_devices)
        snprintf(self->nvml_words, TEXT, "%d device%s", self->n_devices,
                str_plural(self->n_devices));
}

static bool read_device(energy *self, int i) {
    unsigned long long now = 0;
    const int bad = self->nvml.nvmlDeviceGetTotalEnergyConsumption(self->devices[i], &now);
    if (bad) say_nvml(self, bad);
    if (bad) return false;
    // The counter starts when the driver is loaded, so it starts again if the driver was reloaded.
    self->joules += 1e-3 * (double)(now >= self->last_mj[i] ? now - self->last_mj[i] : now);
    self->last_mj[i] = now;
    return true;
}

// --- both
static void say_source(energy *self) {
    const bool rapl = self->n_zones > 0, nvml = self->n_devices > 0;
    char *out = self->source;
    const size_t size = sizeof self->source;
    if (rapl && nvml)
        snprintf(out, size, "RAPL (%s), NVML (%s)", self->rapl_words, self->nvml_words);
    else if (rapl)
        snprintf(out, size, "RAPL (%s)%s%s", self->rapl_words, *self->nvml_words ? "; NVML " : "",
                self->nvml_words);
    else if (nvml)
        snprintf(out, size, "NVML (%s); RAPL %s", self->nvml_words, self->rapl_words);
    else
        snprintf(out, size, "%s%s%s", self->rapl_words, *self->nvml_words ? "; NVML " : "",
                self->nvml_words);
}

// Call with the lock held. Once a counter cannot be read, the sum stays unknown.
static void read_all(energy *self) {
    bool good = isfinite(self->joules);
    for (int i = 0; i < self->n_zones && good; i++)
        good = read_zone(self, &self->zones[i]);
    for (int i = 0; i < self->n_devices && good; i++)
        good = read_device(self, i);
    if (!good) self->joules = (double)NAN;
}

static void *read_main(void *arg) {
    energy *self = arg;
    struct timespec next;
    pthread_mutex_lock(&self->lock);
    while (!self->closing) {
        read_all(self);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += EVERY_S;
        while (!self->closing && pthread_cond_timedwait(&self->changed, &self->lock, &next) == 0) {
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static drv_status start_thread(energy *self) {
    DRV_TRY(thread_start(&self->thread, read_main, self));
    self->has_thread = true;
    return DRV_OK;
}

drv_status energy_open(arena *a, const energy_opts *opts, energy **out) {
    energy *self = ARENA_NEW(a, energy);
    memset(self, 0, sizeof *self);
    pthread_mutex_init(&self->lock, NULL);
    cond_init_monotonic(&self->changed);
    open_rapl(self, a, opts && opts->powercap ? opts->powercap : "/sys/class/powercap");
    open_nvml(self, opts && opts->nvml ? opts->nvml : "libnvidia-ml.so.1");
    say_source(self);
    if (!self->n_zones && !self->n_devices) self->joules = (double)NAN;
    const drv_status status = isfinite(self->joules) ? start_thread(self) : DRV_OK;
    if (status == DRV_OK)
        *out = self;
    else
        energy_close(self);
    return status;
}

double energy_read(energy *self) {
    pthread_mutex_lock(&self->lock);
    read_all(self);
    const double joules = self->joules;
    pthread_mutex_unlock(&self->lock);
    return joules;
}

const char *energy_source(const energy *self) {
    return self->source;
}

void energy_close(energy *self) {
    if (!self) return;
    if (self->has_thread) {
        pthread_mutex_lock(&self->lock);
        self->closing = true;
        pthread_cond_signal(&self->changed);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    if (self->nvml_open) self->nvml.nvmlShutdown();
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
}
