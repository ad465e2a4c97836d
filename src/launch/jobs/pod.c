// Writes pods and the objects around them.
#include "launch/jobs/pod.h"

#include <string.h>

#include "base/file.h"
#include "launch/jobs/job_names.h"

enum { USER = 1000, SMALL_CPUS = 2, HEAD_CPUS = 4 };
#define SMALL_MEMORY ((int64_t)4 << 30)
#define HEAD_MEMORY  ((int64_t)16 << 30)
#define EFA          "vpc.amazonaws.com/efa"

// --- objects
yaml_writer *manifest_open(const job_spec *spec, str *out) {
    job_put_command(spec, out);
    return yaml_writer_open(out);
}

// KubeRay (from 1.5 on; older releases by ray.io/scheduler-name) makes Volcano's pod group from
// these labels.
static void put_gang_labels(yaml_writer *w, const job_spec *spec) {
    yaml_text(w, "ray.io/scheduler-name", "volcano");
    if (spec->pods.n[POD_PRIORITY_CLASS])
        yaml_text(w, "ray.io/priority-class-name", spec->pods.items[POD_PRIORITY_CLASS][0].name);
    if (spec->queue) yaml_text(w, "volcano.sh/queue-name", spec->queue);
    if (!spec->topology) return;
    yaml_text(w, "volcano.sh/network-topology-mode", "hard");
    yaml_text(w, "volcano.sh/network-topology-highest-tier-allowed", spec->topology);
}

static void put_own_labels(yaml_writer *w, const job_spec *spec, bool is_page) {
    yaml_text(w, "app.kubernetes.io/name", is_page ? PAGE_NAME : "drover");
    yaml_text(w, JOB_LABEL, spec->name);
    pod_options_pairs(w, &spec->pods, POD_LABEL);
}

static void put_labels(yaml_writer *w, const job_spec *spec, bool is_job) {
    yaml_map(w, "labels");
    put_own_labels(w, spec, false);
    if (is_job && job_is_queued(spec)) yaml_text(w, KUEUE_LABEL, spec->queue);
    if (is_job && spec->by_volcano) put_gang_labels(w, spec);
    yaml_map_end(w);
}

void manifest_begin(yaml_writer *w, const job_spec *spec, const char *version, const char *kind,
        const char *name, bool is_job) {
    yaml_document(w);
    yaml_text(w, "apiVersion", version);
    yaml_text(w, "kind", kind);
    yaml_map(w, "metadata");
    yaml_text(w, "name", name);
    if (spec->name_space) yaml_text(w, "namespace", spec->name_space);
    put_labels(w, spec, is_job);
    if (spec->is_hyperpod && strcmp(kind, "PyTorchJob") == 0) {
        yaml_put(w,
                "annotations: {" HYPERPOD_SAYS "enable-job-auto-resume: \"true\", " HYPERPOD_SAYS
                "job-max-retry-count: \"%d\"}",
                spec->tries);
    }
    yaml_map_end(w);
}

// The file keeps its name, which is also the run directory's if the config sets none. Names of
// other files in the ConfigMap are not for it.
static const char *config_key(arena *a, const job_spec *spec) {
    const char *base = path_name(spec->config);
    const bool fits = name_is_label(base) && !STR_ONE_OF(base, RAY_SCRIPT, RAY_JOB);
    return fits ? base : arena_printf(a, "%s.yaml", spec->name);
}

const char *pod_config(arena *a, const job_spec *spec) {
    return arena_printf(a, CONFIG_DIR "/%s", config_key(a, spec));
}

void manifest_config_map(yaml_writer *w, arena *a, const job_spec *spec,
        const config_map_file *more, int n_more) {
    manifest_begin(w, spec, "v1", "ConfigMap", arena_printf(a, "%s-config", spec->name), false);
    yaml_map(w, "data");
    yaml_lines(w, config_key(a, spec), spec->config_text);
    for (int i = 0; i < n_more; i++)
        yaml_lines(w, more[i].name, more[i].text);
}

// --- containers
const char *pod_word(arena *a, const char *text) {
    str doubled = {0};
    str_replace(&doubled, text, strlen(text), "$", "$$");
    return str_keep(a, &doubled);
}

void pod_words(yaml_writer *w, arena *a, const char *key, const char *const *words, int n) {
    yaml_list(w, key);
    for (int i = 0; i < n; i++)
        yaml_text(w, NULL, pod_word(a, words[i]));
    yaml_list_end(w);
}

const char *pod_quantity(arena *a, int64_t bytes) {
    const int64_t mib = bytes >> 20;
    if (mib % 1024 == 0) return arena_printf(a, "%lldGi", (long long)(mib / 1024));
    return arena_printf(a, "%lldMi", (long long)mib);
}

static void put_variable(yaml_writer *w, arena *a, const char *name, const char *value) {
    yaml_map(w, NULL);
    yaml_text(w, "name", name);
    yaml_text(w, "value", pod_word(a, value));
    yaml_map_end(w);
}

// Leaves out variables that the user sets: a container's list must have each name only once.
static void put_variables(yaml_writer *w, arena *a, const job_spec *spec, const char *const *list) {
    for (; list && *list; list += 2)
        if (!pod_options_set_variable(&spec->pods, list[0])) put_variable(w, a, list[0], list[1]);
}

// Writes a pair into the open map, unless the user sets that key by the option.
static void put_pair(yaml_writer *w, const job_spec *spec, pod_option option, const char *key,
        const char *value) {
    if (!pod_options_have(&spec->pods, option, key)) yaml_text(w, key, value);
}

static void put_environment(yaml_writer *w, arena *a, const job_spec *spec,
        const char *const *more) {
    const char *const *list = job_environment(a, spec, true);
    static const char *const secret_file[] = {"DROVER_JOB_SECRET_FILE", SECRET_DIR "/secret", NULL};
    const char *secret = job_secret_name(a, spec);
    if (!*list && !secret && !(more && *more) && !spec->pods.n[POD_ENV] &&
            !spec->pods.n[POD_SECRET_ENV])
        return;
    yaml_list(w, "env");
    put_variables(w, a, spec, list);
    put_variables(w, a, spec, more);
    if (secret) put_variables(w, a, spec, secret_file);
    pod_options_variables(w, a, &spec->pods);
    yaml_list_end(w);
}

static void put_resources(yaml_writer *w, arena *a, const job_spec *spec, pod_size size) {
    static const char *const parts[] = {"limits", "requests"};
    const instance_type *t = spec->instance;
    yaml_map(w, "resources");
    for (int i = 0; i < 2; i++) {
        yaml_map(w, parts[i]);
        yaml_int(w, "cpu",
                size == POD_SMALL  ? SMALL_CPUS
                : size == POD_HEAD ? HEAD_CPUS
                                   : t->pod_cpus);
        yaml_text(w, "memory",
                pod_quantity(a, size == POD_SMALL  ? SMALL_MEMORY
                                : size == POD_HEAD ? HEAD_MEMORY
                                                   : t->pod_memory));
        if (size == POD_DEVICES) {
            if (t->resource) yaml_int(w, t->resource, t->devices);
            if (t->efa) yaml_int(w, EFA, t->efa);
            if (t->huge_pages) yaml_text(w, "hugepages-2Mi", pod_quantity(a, t->huge_pages));
        }
        yaml_map_end(w);
    }
    yaml_map_end(w);
}

static void put_container_security(yaml_writer *w, bool locks_memory) {
    yaml_put(w, "securityContext: {allowPrivilegeEscalation: false, capabilities: {%sdrop: [ALL]}}",
            locks_memory ? "add: [IPC_LOCK], " : "");
}

static void put_pod_security(yaml_writer *w) {
    yaml_put(w,
            "securityContext: {fsGroup: %d, runAsGroup: %d, runAsNonRoot: true, runAsUser: %d, "
            "seccompProfile: {type: RuntimeDefault}}",
            USER, USER, USER);
}

static bool has_shm(const pod *p) {
    return p->size == POD_HOST || p->size == POD_DEVICES;
}

// A pod's token for Trainer's server alone (its audience), and the certificate of that server, as
// Trainer 2.2 and 2.3 mount them in the pods of their own step. If the gate TrainJobStatus is off
// this ConfigMap does not exist, which must not keep the pod from starting.
static void put_progress(yaml_writer *w, const job_spec *spec) {
    enum { HOUR_S = 3600 };
    yaml_put(w,
            "[{name: progress, projected: {sources: ["
            "{serviceAccountToken: {"
            "audience: \"trainer.kubeflow.org/v1alpha1/namespaces/%s/trainjobs/%s/status\", "
            "expirationSeconds: %d, path: token}}, "
            "{configMap: {name: \"%s-tls-config\", items: [{key: ca.crt, path: ca.crt}], optional: true}}]}}]",
            spec->name_space, spec->name, HOUR_S, spec->name);
}

static const char *secret_of(arena *a, const job_spec *spec, const pod *p) {
    return p->has_program ? job_secret_name(a, spec) : NULL;
}

static void put_mount(yaml_writer *w, const char *name, const char *path, bool read_only) {
    yaml_map(w, NULL);
    yaml_text(w, "name", name);
    yaml_text(w, "mountPath", path);
    if (read_only) yaml_bool(w, "readOnly", true);
    yaml_map_end(w);
}

static void put_mounts(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    yaml_list(w, "volumeMounts");
    put_mount(w, "shared", spec->mount, false);
    if (has_shm(p)) put_mount(w, "shm", "/dev/shm", false);
    if (spec->config_text && !p->is_page) put_mount(w, "config", CONFIG_DIR, true);
    if (secret_of(a, spec, p)) put_mount(w, "secret", SECRET_DIR, true);
    if (p->is_page) put_mount(w, "password", PAGE_DIR, true);
    if (p->has_progress) put_mount(w, "progress", "/var/run/secrets/kubeflow/trainer", true);
    yaml_list_end(w);
}

static void put_secret(yaml_writer *w, const char *volume, const char *secret) {
    enum { MODE = 0440 }; // readable by root and the pod's group
    yaml_put(w, "[{name: %s, secret: {secretName: \"%s\", defaultMode: %d}}]", volume, secret,
            MODE);
}

static void put_volumes(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    const char *secret = secret_of(a, spec, p);
    yaml_list(w, "volumes");
    yaml_put(w, "[{name: shared, persistentVolumeClaim: {claimName: \"%s\"}}]", spec->claim);
    if (has_shm(p))
        yaml_put(w, "[{name: shm, emptyDir: {medium: Memory, sizeLimit: \"%s\"}}]",
                pod_quantity(a, spec->shm));
    if (spec->config_text && !p->is_page)
        yaml_put(w, "[{name: config, configMap: {name: \"%s-config\"}}]", spec->name);
    if (secret) put_secret(w, "secret", secret);
    if (p->is_page) put_secret(w, "password", arena_printf(a, "%s-page", spec->name));
    if (p->has_progress) put_progress(w, spec);
    yaml_list_end(w);
}

static void put_shell(yaml_writer *w, arena *a, const char *script) {
    const char *words[] = {"/bin/sh", "-c", script};
    pod_words(w, a, "command", words, 3);
}

int pod_health_port(const job_spec *spec) {
    return spec->spares == 0 && spec->fewest == spec->nodes ? spec->health_port : 0;
}

enum { PROBE_S = 30 };

static void put_probe(yaml_writer *w, const char *key, int port, int failures) {
    yaml_put(w,
            "%s: {httpGet: {path: /healthz, port: %d}, periodSeconds: %d, timeoutSeconds: 5, "
            "failureThreshold: %d}",
            key, port, PROBE_S, failures);
}

// A run answers once its data and programs are ready, but not between two attempts.
static void put_health(yaml_writer *w, const pod *p) {
    yaml_put(w, "ports: [{name: http, containerPort: %d}]", p->health_port);
    if (p->start_s) put_probe(w, "startupProbe", p->health_port, p->start_s / PROBE_S);
    put_probe(w, "livenessProbe", p->health_port, p->unhealthy_s / PROBE_S);
}

static void put_container(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    yaml_map(w, NULL);
    yaml_text(w, "name", p->container);
    yaml_text(w, "image", spec->image);
    if (p->n_command) pod_words(w, a, "command", p->command, p->n_command);
    yaml_text(w, "workingDir", spec->mount);
    if (p->has_program) put_environment(w, a, spec, p->environment);
    if (p->health_port) put_health(w, p);
    if (p->ssh_port)
        yaml_put(w, "readinessProbe: {tcpSocket: {port: %d}, periodSeconds: 2}", p->ssh_port);
    if (p->pre_stop) {
        yaml_map(w, "lifecycle"), yaml_map(w, "preStop"), yaml_map(w, "exec");
        put_shell(w, a, p->pre_stop);
        yaml_map_end(w), yaml_map_end(w), yaml_map_end(w);
    }
    put_resources(w, a, spec, p->size);
    put_container_security(w, p->size == POD_DEVICES && spec->instance->efa);
    put_mounts(w, a, spec, p);
    yaml_map_end(w);
}

static void put_waiting(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    yaml_list(w, "initContainers");
    yaml_map(w, NULL);
    yaml_text(w, "name", "wait");
    yaml_text(w, "image", spec->image);
    put_shell(w, a, p->wait_first);
    put_resources(w, a, spec, POD_SMALL);
    put_container_security(w, false);
    if (p->wait_mounts) {
        yaml_list(w, "volumeMounts");
        for (const char *const *mount = p->wait_mounts; *mount; mount += 2)
            put_mount(w, mount[0], mount[1], true);
        yaml_list_end(w);
    }
    yaml_map_end(w);
    yaml_list_end(w);
}

static void put_toleration(yaml_writer *w, const char *key) {
    yaml_put(w, "[{key: \"%s\", operator: Exists, effect: NoSchedule}]", key);
}

// Writes where the pod may run. Small pods need no machine with devices, which is expensive.
static void put_places(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    const instance_type *t = spec->instance;
    const pod_options *more = &spec->pods;
    const bool on_devices = p->size == POD_DEVICES;
    if ((on_devices && t->label) || more->n[POD_NODE_SELECTOR]) {
        yaml_map(w, "nodeSelector");
        if (on_devices && t->label)
            put_pair(w, spec, POD_NODE_SELECTOR, t->label,
                    spec->is_hyperpod ? arena_printf(a, "ml.%s", t->label_value) : t->label_value);
        if (on_devices && spec->is_hyperpod)
            put_pair(w, spec, POD_NODE_SELECTOR, HYPERPOD_SAYS "node-health-status", "Schedulable");
        pod_options_pairs(w, more, POD_NODE_SELECTOR);
        yaml_map_end(w);
    }
    if ((on_devices && t->resource) || more->n[POD_TOLERATION]) {
        yaml_list(w, "tolerations");
        if (on_devices && t->resource) put_toleration(w, t->resource);
        if (on_devices && t->resource && t->efa) put_toleration(w, EFA);
        pod_options_tolerations(w, more);
        yaml_list_end(w);
    }
}

// Returns whether --topology is a key of nodes that places this pod: Kueue's if it starts the job.
static bool is_placed(const job_spec *spec, const pod *p) {
    return spec->topology && !job_counts_tiers(spec) && p->size == POD_DEVICES;
}

// The first pod may run anywhere; the others must run in the domain of one that exists.
static void put_affinity(yaml_writer *w, const job_spec *spec) {
    yaml_put(w,
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ["
            "{topologyKey: \"%s\", labelSelector: {matchLabels: {" JOB_LABEL
            ": \"%s\", " RANKS_LABEL ": ranks}}}]}}",
            spec->topology, spec->name);
}

static void put_metadata(yaml_writer *w, const job_spec *spec, const pod *p) {
    const bool by_kueue = is_placed(spec, p) && job_is_queued(spec);
    yaml_map(w, "metadata");
    yaml_map(w, "labels");
    put_own_labels(w, spec, p->is_page);
    if (is_placed(spec, p)) yaml_text(w, RANKS_LABEL, "ranks");
    yaml_map_end(w);
    if (spec->pods.n[POD_ANNOTATION] || by_kueue) {
        yaml_map(w, "annotations");
        if (by_kueue)
            put_pair(w, spec, POD_ANNOTATION, KUEUE_PLACES "required-topology", spec->topology);
        if (by_kueue && p->is_one_of_two)
            put_pair(w, spec, POD_ANNOTATION, KUEUE_PLACES "group-name", spec->name);
        pod_options_pairs(w, &spec->pods, POD_ANNOTATION);
        yaml_map_end(w);
    }
    yaml_map_end(w);
}

void manifest_limits(yaml_writer *w, const job_spec *spec) {
    yaml_int(w, "backoffLimit", spec->tries);
    if (spec->time_s) yaml_int(w, "activeDeadlineSeconds", spec->time_s);
    if (job_is_queued(spec)) yaml_bool(w, "suspend", true); // until Kueue admits it
}

void manifest_run_policy(yaml_writer *w, const job_spec *spec) {
    yaml_map(w, "runPolicy");
    yaml_text(w, "cleanPodPolicy", "Running");
    manifest_limits(w, spec);
    yaml_map_end(w);
}

void manifest_role(yaml_writer *w, arena *a, const job_spec *spec, const char *role, int replicas,
        const char *restart, const pod *p) {
    yaml_map(w, role);
    yaml_int(w, "replicas", replicas);
    yaml_text(w, "restartPolicy", restart);
    yaml_map(w, "template");
    pod_template(w, a, spec, p);
    yaml_map_end(w), yaml_map_end(w);
}

void pod_template(yaml_writer *w, arena *a, const job_spec *spec, const pod *p) {
    put_metadata(w, spec, p);
    yaml_map(w, "spec");
    pod_options_names(w, &spec->pods);
    yaml_bool(w, "automountServiceAccountToken", false);
    yaml_bool(w, "enableServiceLinks", false);
    if (p->restart) yaml_text(w, "restartPolicy", p->restart);
    if (p->by_volcano) yaml_text(w, "schedulerName", "volcano");
    if (p->deadline_s) yaml_int(w, "activeDeadlineSeconds", p->deadline_s);
    yaml_int(w, "terminationGracePeriodSeconds", spec->grace_s);
    put_pod_security(w);
    put_places(w, a, spec, p);
    if (is_placed(spec, p) && !job_is_queued(spec)) put_affinity(w, spec);
    if (p->wait_first) put_waiting(w, a, spec, p);
    yaml_list(w, "containers");
    put_container(w, a, spec, p);
    yaml_list_end(w);
    put_volumes(w, a, spec, p);
    yaml_map_end(w);
}
