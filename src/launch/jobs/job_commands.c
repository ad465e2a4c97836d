// Makes the command lines of sbatch, squeue, scancel and kubectl.
#include "launch/jobs/job_commands.h"

#include <string.h>

#include "base/file.h"
#include "launch/jobs/job_state.h"
#include "launch/jobs/pod.h"

bool job_is_slurm(const job_record *record) {
    return !record->kind->is_kubernetes;
}

const char *job_program(const job_record *record) {
    return record->kind->is_kubernetes ? "kubectl" : "sbatch";
}

program_words job_kubectl(const job_record *record) {
    program_words c = {0};
    program_add(&c, "kubectl");
    if (record->name_space) program_add(&c, "--namespace", record->name_space);
    return c;
}

static const char *resource(const job_record *record) {
    return record->work == WORK_TRAIN ? record->kind->resource : "job.batch";
}

static const char *selector(arena *a, const job_record *record) {
    return arena_printf(a, "--selector=" JOB_LABEL "=%s,app.kubernetes.io/name=drover",
            record->name);
}

program_words job_submit_command(arena *a, const job_record *record, const char *dir,
        bool only_test) {
    program_words c = {0};
    if (record->kind->is_kubernetes) {
        c = job_kubectl(record);
        program_add(&c, "apply");
        if (only_test) program_add(&c, "--dry-run=server");
        program_add(&c, "-f");
    } else {
        program_add(&c, "sbatch", only_test ? "--test-only" : "--parsable");
    }
    program_add(&c, job_record_path(a, dir, record));
    if (job_record_has_page(record)) program_add(&c, "-f", path_join(a, dir, PAGE_FILE));
    return c;
}

program_words job_ask_command(const job_record *record) {
    program_words c = {0};
    if (job_is_slurm(record)) {
        program_add(&c, "squeue", "--me", "--noheader", "--format", SQUEUE_FORMAT);
    } else {
        c = job_kubectl(record);
        program_add(&c, "get", resource(record), record->name, "--ignore-not-found",
                "--output=json");
    }
    return c;
}

program_words job_pods_command(arena *a, const job_record *record) {
    program_words c = job_kubectl(record);
    program_add(&c, "get", "pods", selector(a, record), "--output=json");
    return c;
}

program_words job_logs_command(arena *a, const job_record *record, const char *pod_name,
        int n_lines) {
    program_words c = job_kubectl(record);
    program_add(&c, "logs", arena_printf(a, "--tail=%d", n_lines), pod_name);
    return c;
}

program_words job_cat_command(const job_record *record, const char *pod_name, const char *path) {
    program_words c = job_kubectl(record);
    program_add(&c, "exec", pod_name, "--", "cat", path);
    return c;
}

program_words job_save_command(const char *id) {
    program_words c = {0};
    program_add(&c, "scancel", "--signal=USR1", id);
    return c;
}

program_words job_end_command(const job_record *record, const char *id) {
    program_words c = {0};
    if (job_is_slurm(record)) {
        program_add(&c, "scancel", id);
    } else {
        c = job_kubectl(record);
        program_add(&c, "delete", resource(record), record->name, "--ignore-not-found",
                "--wait=false");
    }
    return c;
}

const char *const *job_objects(arena *a, const job_record *record, int *n) {
    const char **list = ARENA_ARRAY(a, const char *, MAX_JOB_OBJECTS);
    *n = 0;
    list[(*n)++] = arena_printf(a, "%s/%s", resource(record), record->name);
    if (record->work == WORK_TRAIN && strcmp(record->kind->name, "trainjob") == 0)
        list[(*n)++] = arena_printf(a, "trainingruntime.trainer.kubeflow.org/%s", record->name);
    if (record->work == WORK_TRAIN && strcmp(record->kind->name, "ray") == 0)
        list[(*n)++] = arena_printf(a, "raycluster.ray.io/%s", record->name);
    list[(*n)++] = arena_printf(a, "configmap/%s-config", record->name);
    if (record->has_secret) list[(*n)++] = arena_printf(a, "secret/%s-secret", record->name);
    if (!job_record_has_page(record)) return list;
    list[(*n)++] = arena_printf(a, "deployment.apps/%s-page", record->name);
    list[(*n)++] = arena_printf(a, "service/%s-page", record->name);
    list[(*n)++] = arena_printf(a, "secret/%s-page", record->name);
    return list;
}

program_words job_objects_command(arena *a, const job_record *record) {
    program_words c = job_kubectl(record);
    const char *types = "";
    int n;
    const char *const *objects = job_objects(a, record, &n);
    for (int i = 0; i < n; i++)
        types = arena_printf(a, "%s%s%.*s", types, i ? "," : "", (int)strcspn(objects[i], "/"),
                objects[i]);
    program_add(&c, "get", types, selector(a, record), "--output=name");
    return c;
}

program_words job_remove_command(const job_record *record, const char *object) {
    program_words c = job_kubectl(record);
    program_add(&c, "delete", object, "--ignore-not-found", "--wait=false");
    return c;
}
