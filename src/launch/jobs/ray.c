// RayJob and RayCluster ray.io/v1 of KubeRay. ray_nodes.py places one actor on each node, which
// starts `drover launch node` there. The job has a cluster of its own, also written as a
// RayCluster; or (--cluster) it is submitted to a standing one, whose pods do not mount its
// ConfigMap: the submitter does, and Ray copies that folder to all nodes. Text from a user goes
// into a JSON file of the ConfigMap, since a shell reads the entrypoint.

#include "base/json.h"
#include "launch/jobs/kinds.h"
#include "launch/jobs/pod.h"

#define ENTRYPOINT      "python3 " CONFIG_DIR "/" RAY_SCRIPT " " CONFIG_DIR "/" RAY_JOB
#define SENT_ENTRYPOINT "python3 " RAY_SCRIPT " " RAY_JOB // in the folder that Ray has copied

enum { NODES_WAIT_S = 1800, KEPT_S = 600, NEW_CLUSTERS = 1 };

extern const char ray_nodes_py[]; // the file as a string, made by CMake

// Ray must not restrict an actor's devices: `drover launch node` divides them among the ranks.
static const char *const whole_devices[] = {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", "1",
        "RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES", "1", NULL};

// Names the device that a node has and that Ray reserves.
static const char *device_name(const instance_type *t) {
    return t->family == DEVICE_GPU ? "GPU" : t->family == DEVICE_NEURON ? "neuron_cores" : "CPU";
}
static int device_count(const instance_type *t) {
    return t->family == DEVICE_NONE ? t->pod_cpus : instance_ranks(t);
}

static const char *job_json(arena *a, const job_spec *spec) {
    int n;
    const char *const *words = job_words(a, spec, pod_config(a, spec), &n);
    json_t *command = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(command, json_string(words[i]));
    json_t *job = json_pack("{s:i,s:{s:i},s:o,s:i,s:i,s:i,s:b}", "nodes", spec->nodes, "bundle",
            device_name(spec->instance), device_count(spec->instance), "command", command, "tries",
            spec->tries, "wait_s", NODES_WAIT_S, "grace_s", spec->grace_s, "restarts",
            spec->restarts);
    if (spec->ray_cluster) {
        json_object_set_new(job, "sent", json_string(pod_config(a, spec)));
        json_object_set_new(job, "folder", json_string(spec->mount));
    }
    return arena_printf(a, "%s\n", json_print_in(a, job, JSON_INDENT(1)));
}

static void put_head(yaml_writer *w, arena *a, const job_spec *spec) {
    // A stopped job gets as long to save as a pod; the default is 3 s.
    const char *const environment[] = {"RAY_JOB_STOP_WAIT_TIME_S",
            arena_printf(a, "%d", spec->grace_s), NULL};
    const pod head = {.container = "ray-head",
            .size = POD_HEAD,
            .has_program = true,
            .environment = environment};
    yaml_map(w, "headGroupSpec");
    yaml_map(w, "rayStartParams");
    yaml_text(w, "dashboard-host", "0.0.0.0");
    yaml_text(w, "num-cpus", "0"); // no rank runs on this pod
    yaml_map_end(w);
    yaml_map(w, "template");
    pod_template(w, a, spec, &head);
    yaml_map_end(w), yaml_map_end(w);
}

static void put_workers(yaml_writer *w, arena *a, const job_spec *spec) {
    // No process may outlive its actor.
    const char *const environment[] = {whole_devices[0], whole_devices[1], whole_devices[2],
            whole_devices[3], "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper",
            "true", NULL};
    const pod worker = {.container = "ray-worker",
            .size = POD_DEVICES,
            .has_program = true,
            .environment = environment};
    yaml_list(w, "workerGroupSpecs");
    yaml_map(w, NULL);
    yaml_text(w, "groupName", "nodes");
    yaml_int(w, "replicas", spec->nodes);
    yaml_int(w, "minReplicas", spec->nodes);
    yaml_int(w, "maxReplicas", spec->nodes);
    yaml_map(w, "rayStartParams");
    // KubeRay tells Ray a pod's GPUs and CPUs, but not its Neuron devices. Quotes: for its shell.
    if (spec->instance->family == DEVICE_NEURON)
        yaml_text(w, "resources",
                arena_printf(a, "\"{\\\"neuron_cores\\\": %d}\"", device_count(spec->instance)));
    yaml_map_end(w);
    yaml_map(w, "template");
    pod_template(w, a, spec, &worker);
    yaml_map_end(w), yaml_map_end(w);
    yaml_list_end(w);
}

static void put_cluster(yaml_writer *w, arena *a, const job_spec *spec) {
    put_head(w, a, spec);
    put_workers(w, a, spec);
}

static void put_config(yaml_writer *w, arena *a, const job_spec *spec) {
    const config_map_file more[] = {{RAY_JOB, job_json(a, spec)}, {RAY_SCRIPT, ray_nodes_py}};
    manifest_config_map(w, a, spec, more, 2);
}

static void put_own_cluster(yaml_writer *w, arena *a, const job_spec *spec) {
    yaml_bool(w, "shutdownAfterJobFinishes", true);
    yaml_int(w, "ttlSecondsAfterFinished", KEPT_S);
    yaml_int(w, "backoffLimit", NEW_CLUSTERS); // after a lost head; ray_nodes.py retries by status
    if (job_is_queued(spec)) yaml_bool(w, "suspend", true); // until Kueue admits it
    yaml_map(w, "rayClusterSpec");
    put_cluster(w, a, spec);
    yaml_map_end(w);
}

static void add_variables(json_t *to, const char *const *list) {
    for (; *list; list += 2)
        json_object_set_new(to, list[0], json_string(list[1]));
}

// Returns what Ray gives every process of the job: files, and the variables that pods of the job's
// own cluster would have. JSON is valid YAML.
static const char *runtime_env(arena *a, const job_spec *spec) {
    json_t *variables = json_object();
    add_variables(variables, job_environment(a, spec, true));
    add_variables(variables, whole_devices);
    for (int i = 0; i < spec->pods.n[POD_ENV]; i++)
        json_object_set_new(variables, spec->pods.items[POD_ENV][i].name,
                json_string(spec->pods.items[POD_ENV][i].value));
    json_t *object = json_pack("{s:s,s:o}", "working_dir", CONFIG_DIR, "env_vars", variables);
    return arena_printf(a, "%s\n", json_print_in(a, object, JSON_INDENT(1)));
}

// With another's cluster KubeRay accepts neither a backoffLimit nor a time to live.
static void put_standing_cluster(yaml_writer *w, arena *a, const job_spec *spec) {
    yaml_map(w, "clusterSelector");
    yaml_text(w, "ray.io/cluster", spec->ray_cluster);
    yaml_map_end(w);
    yaml_lines(w, "runtimeEnvYAML", runtime_env(a, spec));
}

static void write_job(arena *a, const job_spec *spec, str *out) {
    const pod submitter = {.container = "ray-job-submitter", .restart = "Never"};
    yaml_writer *w = manifest_open(spec, out);
    put_config(w, a, spec);
    manifest_begin(w, spec, "ray.io/v1", "RayJob", spec->name, true);
    yaml_map(w, "spec");
    yaml_text(w, "entrypoint", spec->ray_cluster ? SENT_ENTRYPOINT : ENTRYPOINT);
    yaml_text(w, "submissionMode", "K8sJobMode");
    if (spec->time_s) yaml_int(w, "activeDeadlineSeconds", spec->time_s);
    yaml_map(w, "submitterConfig"), yaml_int(w, "backoffLimit", 0), yaml_map_end(w);
    yaml_map(w, "submitterPodTemplate");
    pod_template(w, a, spec, &submitter);
    yaml_map_end(w);
    if (spec->ray_cluster)
        put_standing_cluster(w, a, spec);
    else
        put_own_cluster(w, a, spec);
    yaml_writer_close(w);
}

static void write_cluster(arena *a, const job_spec *spec, str *out) {
    yaml_writer *w = manifest_open(spec, out);
    put_config(w, a, spec);
    manifest_begin(w, spec, "ray.io/v1", "RayCluster", spec->name, true);
    yaml_map(w, "spec");
    if (job_is_queued(spec)) yaml_bool(w, "suspend", true); // until Kueue admits it
    put_cluster(w, a, spec);
    yaml_writer_close(w);
}

drv_status ray_write(arena *a, const job_spec *spec, job_files *files) {
    write_job(a, spec, job_files_add(files, spec->kind->file, false));
    if (!spec->ray_cluster) write_cluster(a, spec, job_files_add(files, "raycluster.yaml", false));
    str_puts(job_files_add(files, RAY_SCRIPT, true), ray_nodes_py);
    return DRV_OK;
}
