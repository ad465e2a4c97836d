// What doctor finds of an accelerator on a machine that is a folder: device files, libraries,
// compilers, variables.
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend/environment.h"

typedef struct machine_case {
    const char *platform;
    const char *files; // below the root, separated by spaces
    const char *variable, *value;
    const char *found; // a part of a line that is to be there
    need_state state;  // of that line
} machine_case;

static const machine_case cases[] = {
        {"neuron", "", NULL, NULL, "no Trainium (/dev/neuron0)", NEED_UNMET},
        {"neuron", "dev/neuron0", NULL, NULL, "/dev/neuron0", NEED_MET},
        {"neuron", "dev/neuron3", NULL, NULL, "/dev/neuron3", NEED_MET},
        {"neuron", "opt/aws/neuron/lib/libnrt.so.1", NULL, NULL, "libnrt.so.1", NEED_MET},
        {"neuron", "", NULL, NULL, "aws-neuronx-runtime-lib", NEED_UNMET},
        {"neuron", "", NULL, NULL, "libnccom.so.2, which several cores need", NEED_TOLD},
        {"neuron", "opt/aws_neuronx_venv_a/bin/neuronx-cc", NULL, NULL, "bin/neuronx-cc", NEED_MET},
        {"neuron", "", NULL, NULL, "pip install neuronx-cc", NEED_UNMET},
        {"neuron", "", "NEURON_RT_VISIBLE_CORES", "0-3", "NEURON_RT_VISIBLE_CORES=0-3", NEED_TOLD},
        {"tpu", "", NULL, NULL, "no TPU", NEED_UNMET},
        {"tpu", "dev/accel0", NULL, NULL, "/dev/accel0", NEED_MET},
        {"tpu", "dev/vfio/1", NULL, NULL, "/dev/vfio/1", NEED_MET},
        {"tpu", "dev/vfio/vfio", NULL, NULL, "no TPU", NEED_UNMET},
        {"tpu", "tmp/libtpu_lockfile", NULL, NULL, "another process may have", NEED_TOLD},
        {"tpu", "", "TPU_WORKER_ID", "2", "TPU_WORKER_ID=2", NEED_TOLD},
        {"cuda", "dev/nvidia0", NULL, NULL, "/dev/nvidia0", NEED_MET},
        {"cuda", "dev/nvidiactl", NULL, NULL, "no NVIDIA GPU", NEED_UNMET},
        {"cuda", "usr/lib/x86_64-linux-gnu/libcuda.so.1", NULL, NULL, "/libcuda.so.1", NEED_MET},
        {"cuda", "usr/local/cuda/lib64/libcublas.so.12", NULL, NULL, "libcublas.so.12", NEED_MET},
        {"rocm", "dev/kfd", NULL, NULL, "/dev/kfd", NEED_MET},
        {"rocm", "opt/rocm/lib/libamdhip64.so.7", NULL, NULL, "libamdhip64.so.7", NEED_MET},
};

static void make_files(arena *a, const char *root, const char *files) {
    for (char *rest = arena_strdup(a, files), *name; (name = strsep(&rest, " "));) {
        const char *path = path_join(a, root, name);
        if (!*name) continue;
        OK(dir_make_parent(path));
        OK(file_write_atomic(path, "", 0));
    }
}

static void check_case(const machine_case *c, int number) {
    arena *a = arena_new("machine");
    char root[] = "/tmp/drover-machine-XXXXXX";
    need *list;
    bool found = false;
    assert_non_null(mkdtemp(root));
    make_files(a, root, c->files);
    if (c->variable) setenv(c->variable, c->value, 1);
    const int n = environment_look(a, root, c->platform, &list);
    for (int i = 0; i < n; i++) {
        assert_string_equal(list[i].platform, c->platform);
        assert_null(strchr(list[i].text, '\n'));
        found = found || (strstr(list[i].text, c->found) && list[i].state == c->state);
    }
    if (!found) fail_msg("case %d, %s: no line with \"%s\"", number, c->platform, c->found);
    if (c->variable) unsetenv(c->variable);
    OK(dir_remove(root));
    arena_free(a);
}

TEST(platforms) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], (int)i);
}

// Without a name: platforms of which a device or a plugin is here, and no others.
TEST(only_what_is_here) {
    char root[] = "/tmp/drover-machine-XXXXXX";
    need *list;
    assert_non_null(mkdtemp(root));
    setenv("DROVER_PJRT_DIR", root, 1);
    assert_int_equal(environment_look(a, root, NULL, &list), 0);
    make_files(a, root, "dev/accel1");
    const int n = environment_look(a, root, NULL, &list);
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        assert_string_equal(list[i].platform, "tpu");
    OK(dir_remove(root));
}

int main(void) {
    unsetenv("LD_LIBRARY_PATH");
    return tests_run();
}
