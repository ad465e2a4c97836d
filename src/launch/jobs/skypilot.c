// A task of SkyPilot: one file, `drover launch node` on each node. A managed job (sky jobs launch)
// is started again when a machine is lost, and by status: 75 always, any other never.
#include <string.h>

#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"
#include "launch/jobs/shell_words.h"

#define SKY_DIR "~/drover" // of the config on each node

static const char *config_on_node(arena *a, const job_spec *spec) {
    const char *path = pod_config(a, spec);
    return arena_printf(a, SKY_DIR "/%s", strrchr(path, '/') + 1);
}

// The shell expands $HOME, and nothing that a user wrote.
static void put_program(arena *a, const job_spec *spec, str *out) {
    int n;
    const char *const *words = job_words(a, spec, "", &n);
    str_puts(out, "exec");
    for (int i = 0; i < n; i++) {
        str_puts(out, " ");
        if (*words[i] || spec->work == WORK_DATA) {
            shell_word(out, words[i]);
            continue;
        }
        str_puts(out, "\"$HOME\"/drover/");
        shell_word(out, strrchr(config_on_node(a, spec), '/') + 1);
        if (spec->work == WORK_TRAIN)
            str_puts(out, " --nodes \"$SKYPILOT_NUM_NODES\" --node-rank \"$SKYPILOT_NODE_RANK\" "
                          "--master \"$(head -n 1 <<<\"$SKYPILOT_NODE_IPS\")\"");
    }
    str_puts(out, "\n");
}

static const char *script(arena *a, const job_spec *spec) {
    str out = {0};
    if (job_secret_name(a, spec))
        str_puts(&out, "umask 077\n"
                       "secret=$(mktemp -p /dev/shm)\n"
                       "printf %s \"$DROVER_JOB_SECRET\" >\"$secret\"\n"
                       "unset DROVER_JOB_SECRET\n"
                       "export DROVER_JOB_SECRET_FILE=$secret\n"
                       "umask 022\n");
    if (spec->mount) {
        str_puts(&out, "cd ");
        shell_word(&out, spec->mount);
        str_puts(&out, "\n");
    }
    put_program(a, spec, &out);
    const char *text = arena_strdup(a, out.p);
    str_free(&out);
    return text;
}

static void put_resources(yaml_writer *w, arena *a, const job_spec *spec) {
    const instance_type *t = spec->instance;
    yaml_map(w, "resources");
    if (t->label) {
        yaml_text(w, "infra", "aws");
        yaml_text(w, "instance_type", t->name);
    } else {
        yaml_text(w, "cpus", arena_printf(a, "%d+", t->cpus));
        yaml_text(w, "memory", arena_printf(a, "%lld+", (long long)(t->pod_memory >> 30)));
    }
    if (spec->image) yaml_text(w, "image_id", arena_printf(a, "docker:%s", spec->image));
    yaml_map(w, "job_recovery");
    yaml_int(w, "max_restarts_on_errors", 0);
    yaml_list(w, "recover_on_exit_codes");
    yaml_int(w, NULL, 75);
    yaml_list_end(w);
    yaml_map_end(w);
    yaml_map_end(w);
}

drv_status skypilot_write(arena *a, const job_spec *spec, job_files *files) {
    static const char *const names[] = {"skypilot.yaml", "compile.yaml", "data.yaml"};
    const char *const *environment = job_environment(a, spec, false);
    yaml_writer *w = manifest_open(spec, job_files_add(files, names[spec->work], false));
    yaml_document(w);
    yaml_text(w, "name", spec->name);
    yaml_int(w, "num_nodes", spec->nodes);
    put_resources(w, a, spec);
    if (*environment) {
        yaml_map(w, "envs");
        for (; *environment; environment += 2)
            yaml_text(w, environment[0], environment[1]);
        yaml_map_end(w);
    }
    if (job_secret_name(a, spec)) {
        yaml_map(w, "secrets");
        yaml_null(w, "DROVER_JOB_SECRET"); // to be given to `sky jobs launch --secret`
        yaml_map_end(w);
    }
    if (spec->config_text) {
        yaml_map(w, "file_mounts");
        yaml_text(w, config_on_node(a, spec), spec->config);
        yaml_map_end(w);
    }
    if (spec->claim) {
        yaml_map(w, "volumes");
        yaml_text(w, spec->mount, spec->claim);
        yaml_map_end(w);
    }
    yaml_lines(w, "run", script(a, spec));
    yaml_document_end(w);
    yaml_writer_close(w);
    return DRV_OK;
}
