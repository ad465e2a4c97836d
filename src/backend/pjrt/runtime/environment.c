// Checks the files that each vendor's packages install, by a table of their names and folders.
#include "backend/environment.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "backend/pjrt/runtime/gpu_target.h"
#include "backend/pjrt/runtime/plugin.h"
#include "base/file.h"

typedef enum need_kind {
    DEVICE,   // device files, which show that this machine has the platform
    LIBRARY,  // a library in a folder of the loader, of the system or of the row
    PROGRAM,  // a program in PATH or in a folder of the row
    PRESENT,  // a file whose presence matters
    VARIABLE, // variables, each reported if it is set
} need_kind;

// what: patterns (glob(7)) or variables, separated by spaces, or a library or program. folders:
// further ones to search; those that begin with "+" are relative to the plugin's.
typedef struct need_row {
    const char *platform;
    need_kind kind;
    const char *what, *folders;
    bool optional;       // useful, but not required
    const char *message; // if it is missing; for PRESENT: if it exists
} need_row;

#define CUDA_LIBRARIES                                                                             \
    "+/../../nvidia/cu13/lib +/../../nvidia/cu12/lib +/../nvidia/cu13/lib /usr/local/cuda/lib64"
#define CUDA_HOW                                                                                   \
    "pip install --target DIR \"jax-cuda13-plugin[with-cuda]\" brings it, where the plugin finds it"
static const need_row rows[] = {
        {"cuda", DEVICE, "/dev/nvidia[0-9]*", "", false,
                "no NVIDIA GPU (/dev/nvidia0): none is in this machine, or NVIDIA's driver is not loaded"},
        {"cuda", LIBRARY, "libcuda.so.1", "", false, "libcuda.so.1 comes with NVIDIA's driver"},
        {"cuda", LIBRARY, "libcublas.so.1[23]", CUDA_LIBRARIES " +/../../nvidia/cublas/lib", false,
                "libcublas: " CUDA_HOW},
        {"cuda", LIBRARY, "libcudnn.so.9", "+/../../nvidia/cudnn/lib " CUDA_LIBRARIES, false,
                "libcudnn.so.9: " CUDA_HOW},
        {"cuda", LIBRARY, "libnccl.so.2", "+/../../nvidia/nccl/lib", false,
                "libnccl.so.2: " CUDA_HOW},
        {"cuda", VARIABLE, "CUDA_VISIBLE_DEVICES", "", true, ""},
        {"rocm", DEVICE, "/dev/kfd", "", false,
                "no AMD GPU (/dev/kfd): none is in this machine, or the amdgpu driver is not loaded"},
        {"rocm", LIBRARY, "libamdhip64.so*", "/opt/rocm/lib", false,
                "libamdhip64.so: AMD's packages (rocm-hip-runtime) put it into /opt/rocm/lib"},
        {"rocm", VARIABLE, "ROCM_PATH ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES", "", true, ""},
        {"tpu", DEVICE, "/dev/accel[0-9]* /dev/vfio/[0-9]*", "", false,
                "no TPU (/dev/accel0 up to v4, /dev/vfio/0 from v5 on): expected a TPU VM"},
        {"tpu", PRESENT, "/tmp/libtpu_lockfile", "", true,
                "/tmp/libtpu_lockfile is there: another process may have the TPU, one at a time can"},
        {"tpu", VARIABLE,
                "TPU_LIBRARY_PATH TPU_ACCELERATOR_TYPE TPU_VISIBLE_CHIPS "
                "TPU_VISIBLE_DEVICES TPU_CHIPS_PER_PROCESS_BOUNDS TPU_PROCESS_BOUNDS "
                "TPU_WORKER_ID TPU_WORKER_HOSTNAMES TPU_SKIP_MDS_QUERY LIBTPU_INIT_ARGS",
                "", true, ""},
        {"neuron", DEVICE, "/dev/neuron[0-9]*", "", false,
                "no Trainium (/dev/neuron0): expected a trn1, trn2 or inf2 instance with AWS's driver (apt: aws-neuronx-dkms)"},
        {"neuron", LIBRARY, "libnrt.so.1", "/opt/aws/neuron/lib", false,
                "libnrt.so.1: AWS's apt package aws-neuronx-runtime-lib puts it into /opt/aws/neuron/lib"},
        {"neuron", LIBRARY, "libnccom.so.2", "/opt/aws/neuron/lib", true,
                "libnccom.so.2, which several cores need: AWS's apt package aws-neuronx-collectives"},
        {"neuron", PROGRAM, "neuronx-cc", "/opt/aws/neuron/bin /opt/aws_neuronx_venv*/bin", false,
                "neuronx-cc, the compiler: pip install neuronx-cc (AWS's index), and its folder in PATH"},
        {"neuron", VARIABLE,
                "NEURON_RT_VISIBLE_CORES NEURON_RT_NUM_CORES NEURON_RT_ROOT_COMM_ID "
                "NEURON_RT_STOCHASTIC_ROUNDING_EN NEURON_LOGICAL_NC_CONFIG NEURON_CC_FLAGS "
                "NEURON_COMPILE_CACHE_URL NEURON_PJRT_PROCESSES_NUM_DEVICES "
                "NEURON_PJRT_PROCESS_INDEX NEURON_INTERNAL_PJRT_C_API_VERSION",
                "", true, ""},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

// A check of one platform.
typedef struct look_at {
    arena *a;
    const char *root, *plugin; // plugin: its folder; NULL: none
    need *list;
    int n, cap;
} look_at;

// Returns the first path that matches a pattern; NULL: none.
static const char *first_path(const look_at *look, const char *pattern) {
    glob_t found;
    const char *path = NULL;
    if (glob(arena_printf(look->a, "%s%s", look->root, pattern), 0, NULL, &found) == 0) {
        path = arena_strdup(look->a, found.gl_pathv[0]);
        globfree(&found);
    }
    return path;
}

// Searches folders that are separated by `separator`.
static const char *in_folders(const look_at *look, const char *folders, const char *separator,
        const char *name) {
    const char *path = NULL;
    for (char *rest = arena_strdup(look->a, folders), *dir;
            !path && (dir = strsep(&rest, separator));) {
        if (*dir == '+' && !look->plugin) continue;
        if (*dir == '+') dir = arena_printf(look->a, "%s%s", look->plugin, dir + 1);
        if (*dir) path = first_path(look, path_join(look->a, dir, name));
    }
    return path;
}

static const char *find_need(const look_at *look, const need_row *row) {
    static const char loader[] = "/usr/lib /usr/lib64 /usr/lib/x86_64-linux-gnu "
                                 "/usr/lib/aarch64-linux-gnu /lib /lib64 /usr/local/lib "
                                 "/usr/local/nvidia/lib64";
    const char *usual = getenv(row->kind == PROGRAM ? "PATH" : "LD_LIBRARY_PATH"), *path = NULL;
    if (row->kind == DEVICE || row->kind == PRESENT) {
        for (char *rest = arena_strdup(look->a, row->what), *one;
                !path && (one = strsep(&rest, " "));)
            path = first_path(look, one);
        return path;
    }
    if (usual) path = in_folders(look, usual, ":", row->what);
    if (!path) path = in_folders(look, row->folders, " ", row->what);
    return path || row->kind == PROGRAM ? path : in_folders(look, loader, " ", row->what);
}

static void add(look_at *look, const char *platform, need_state state, const char *text) {
    ARENA_GROW(look->a, look->list, look->n, look->cap);
    look->list[look->n++] = (need){platform, state, text};
}

static void look_at_variables(look_at *look, const need_row *row) {
    for (char *rest = arena_strdup(look->a, row->what), *name; (name = strsep(&rest, " "));) {
        const char *value = getenv(name);
        if (value && *value)
            add(look, row->platform, NEED_TOLD, arena_printf(look->a, "%s=%s", name, value));
    }
}

static void look_at_row(look_at *look, const need_row *row) {
    if (row->kind == VARIABLE) {
        look_at_variables(look, row);
        return;
    }
    const char *path = find_need(look, row);
    if (row->kind == PRESENT) {
        if (path) add(look, row->platform, NEED_TOLD, row->message);
    } else if (path)
        add(look, row->platform, NEED_MET, path);
    else
        add(look, row->platform, row->optional ? NEED_TOLD : NEED_UNMET, row->message);
}

// Checks the plugin, and the tools that its compiler needs.
static void look_at_plugin(look_at *look, const char *platform) {
    const char *name, *path, *tools;
    look->plugin = NULL;
    if (plugin_find(look->a, platform, &name, &path) != DRV_OK) {
        add(look, platform, NEED_UNMET, arena_strdup(look->a, drv_message()));
    } else {
        look->plugin = arena_strndup(look->a, path, (size_t)(strrchr(path, '/') - path));
        add(look, platform, NEED_MET, path);
    }
    if (strcmp(platform, "cuda") != 0) return;
    if (cuda_tools_find(look->a, look->plugin ? path : "./none", &tools) == DRV_OK)
        add(look, platform, NEED_MET,
                arena_printf(look->a, "ptxas and libdevice.10.bc in %s", tools));
    else
        add(look, platform, NEED_UNMET, arena_strdup(look->a, drv_message()));
}

static bool is_here(look_at *look, const char *platform) {
    const char *name, *path;
    if (plugin_find(look->a, platform, &name, &path) == DRV_OK) return true;
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].kind == DEVICE && strcmp(rows[i].platform, platform) == 0 &&
                find_need(look, &rows[i]))
            return true;
    return false;
}

int environment_look(arena *a, const char *root, const char *wanted, need **out) {
    look_at look = {.a = a, .root = root};
    for (int p = 0; p < N_PLUGIN_NAMES; p++) {
        const char *platform = plugin_names[p];
        if (strcmp(platform, "cpu") == 0) continue; // the CPU needs nothing
        if (wanted ? strcmp(wanted, platform) != 0 : !is_here(&look, platform)) continue;
        look_at_plugin(&look, platform);
        for (int i = 0; i < N_ROWS; i++)
            if (strcmp(rows[i].platform, platform) == 0) look_at_row(&look, &rows[i]);
    }
    *out = look.list;
    return look.n;
}
