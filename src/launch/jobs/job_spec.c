// Checks a job, and makes the parts that all kinds share.
#include "launch/jobs/job_spec.h"

#include <stdio.h>
#include <string.h>

#include "base/status_line.h"
#include "base/str.h"
#include "launch/jobs/job_names.h"

enum { NAME_MOST = 63, MAP_MOST = 900 << 10, MAX_TIER = 1000 };

const char *const preflight_words[N_PREFLIGHT_USES] = {"off", "warn", "exclude"};

// --- checks
static drv_status check_name(const job_spec *spec) {
    const job_kind *kind = spec->kind;
    if (!name_is_dns_label(spec->name, NAME_MOST))
        return drv_fail(DRV_E_USAGE,
                "--name: \"%s\" is not a name for a job, expected at most %d of a-z, 0-9 and -, a letter first",
                spec->name, NAME_MOST);
    if (strlen(spec->name) > kind->most_name)
        return drv_fail(DRV_E_USAGE,
                "--name: \"%s\" has %zu characters, expected at most %zu for %s", spec->name,
                strlen(spec->name), kind->most_name, kind->name);
    if (!kind->last_pod) return DRV_OK;
    const int number = spec->nodes + kind->first_pod;
    const int n = snprintf(NULL, 0, "%s%s%d", spec->name, kind->last_pod, number < 0 ? 0 : number);
    if (n <= NAME_MOST) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "--name: the last pod would be \"%s%s%d\", %d characters, expected at most %d; a name of at most %d",
            spec->name, kind->last_pod, number, n, NAME_MOST,
            (int)strlen(spec->name) - (n - NAME_MOST));
}

static drv_status check_kubernetes(const job_spec *spec) {
    if (!spec->image)
        return drv_fail(DRV_E_USAGE, "launch %s: --image is missing: a container image with drover",
                spec->kind->name);
    if (!spec->claim)
        return drv_fail(DRV_E_USAGE,
                "launch %s: --pvc is missing: the PersistentVolumeClaim with data and run directory",
                spec->kind->name);
    if (spec->name_space &&
            (!name_is_dns_subdomain(spec->name_space) || strchr(spec->name_space, '.') ||
                    strlen(spec->name_space) > NAME_MOST))
        return drv_fail(DRV_E_USAGE,
                "--namespace: \"%s\" is not a namespace, expected at most %d of a-z, 0-9 and -",
                spec->name_space, NAME_MOST);
    if (spec->config_text && strlen(spec->config_text) > MAP_MOST)
        return drv_fail(DRV_E_USAGE, "\"%s\" has %zu bytes, expected at most %d in a ConfigMap",
                spec->config, strlen(spec->config_text), MAP_MOST);
    if (spec->shm >= spec->instance->pod_memory)
        return drv_fail(DRV_E_USAGE, "--shm: %s of /dev/shm, expected less than the %s of a pod",
                str_bytes((double)spec->shm), str_bytes((double)spec->instance->pod_memory));
    return DRV_OK;
}

static drv_status check_texts(const job_spec *spec) {
    for (int i = 0; i < spec->n_sets; i++)
        if (!name_is_text(spec->sets[i]))
            return drv_fail(DRV_E_USAGE, "--set \"%s\" is not text in UTF-8", spec->sets[i]);
    for (int i = 0; i < spec->n_words; i++)
        if (!name_is_text(spec->words[i]))
            return drv_fail(DRV_E_USAGE, "the argument \"%s\" is not text in UTF-8",
                    spec->words[i]);
    if (spec->config && !name_is_text(spec->config))
        return drv_fail(DRV_E_USAGE, "the path \"%s\" is not text in UTF-8", spec->config);
    return DRV_OK;
}

static drv_status check_topology(const job_spec *spec) {
    int64_t number;
    if (!spec->topology) return DRV_OK;
    if (!job_counts_tiers(spec)) {
        if (name_is_label_key(spec->topology)) return DRV_OK;
        return drv_fail(DRV_E_USAGE,
                "--topology: \"%s\", expected a label of nodes, as topology.kubernetes.io/zone",
                spec->topology);
    }
    if (str_to_i64(spec->topology, &number) && number >= 1 && number <= MAX_TIER) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "--topology: \"%s\", expected a number from 1 to %d: %s",
            spec->topology, MAX_TIER,
            spec->kind->is_kubernetes ? "the highest tier of Volcano's HyperNodes"
                                      : "leaf switches of Slurm");
}

static drv_status check_ray(const job_spec *spec) {
    if (!spec->ray_cluster) return DRV_OK;
    if (!name_is_dns_label(spec->ray_cluster, NAME_MOST))
        return drv_fail(DRV_E_USAGE, "--cluster: \"%s\", expected the name of a RayCluster",
                spec->ray_cluster);
    if (strcmp(spec->ray_cluster, spec->name) == 0)
        return drv_fail(DRV_E_USAGE,
                "--cluster: \"%s\" is the name of the job, too; expected another --name",
                spec->name);
    if (spec->by_volcano)
        return drv_fail(DRV_E_USAGE,
                "--gang is for a cluster that starts with the job, expected no --cluster");
    if (spec->queue)
        return drv_fail(DRV_E_USAGE,
                "--queue is for a job with a cluster of its own, expected no --cluster");
    if (spec->topology)
        return drv_fail(DRV_E_USAGE,
                "--topology is for the pods of a new cluster, expected no --cluster");
    if (spec->pods.n[POD_SECRET_ENV])
        return drv_fail(DRV_E_USAGE,
                "--secret-env is for the pods of a new cluster, expected no --cluster");
    return DRV_OK;
}

drv_status job_check(const job_spec *spec) {
    DRV_TRY(check_name(spec));
    DRV_TRY(check_texts(spec));
    DRV_TRY(check_topology(spec));
    DRV_TRY(check_ray(spec));
    if (spec->image && !name_is_image(spec->image))
        return drv_fail(DRV_E_USAGE,
                "--image: \"%s\" is not an image, expected REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST",
                spec->image);
    if (spec->queue && !name_is_label(spec->queue))
        return drv_fail(DRV_E_USAGE,
                "--queue: \"%s\" is not the name of a queue, expected at most 63 letters, digits, -, _ and .",
                spec->queue);
    if (spec->claim && !name_is_dns_subdomain(spec->claim))
        return drv_fail(DRV_E_USAGE,
                "--pvc: \"%s\" is not the name of a claim, expected a-z, 0-9, - and .",
                spec->claim);
    if (spec->mount && !name_is_mount(spec->mount))
        return drv_fail(DRV_E_USAGE,
                "--mount: \"%s\" is not a place for a volume, expected an absolute path without \":\" and \"..\"",
                spec->mount);
    const int most = spec->instance->cpus;
    if (spec->work == WORK_TRAIN && spec->ranks > most)
        return drv_fail(DRV_E_USAGE,
                "--ranks-per-node: %d ranks, expected at most the %d CPUs of %s", spec->ranks, most,
                spec->instance->name);
    return spec->kind->is_kubernetes ? check_kubernetes(spec) : DRV_OK;
}

// --- shared parts
void job_put_command(const job_spec *spec, str *out) {
    str_puts(out, "# Made by: ");
    const size_t begin = out->n;
    text_add_clean(out, spec->command, false);
    for (char *p = out->p + begin; (p = strstr(p, "\xEF\xBF")); p += 3)
        if ((unsigned char)p[2] > 0xBD) memcpy(p, "???", 3); // U+FFFE, U+FFFF: no reader takes them
    str_puts(out, "\n");
}

bool job_is_queued(const job_spec *spec) {
    return spec->queue && spec->kind->by_kueue && !spec->by_volcano;
}

bool job_counts_tiers(const job_spec *spec) {
    return spec->kind->counts_tiers || spec->by_volcano;
}

int job_ranks(const job_spec *spec) {
    return (spec->nodes - spec->spares) * spec->ranks;
}

const char *job_secret_name(arena *a, const job_spec *spec) {
    // A standing Ray cluster does not have this job's secret: ray_nodes.py draws one.
    const bool is_needed = spec->work == WORK_TRAIN && spec->is_node_launch && spec->nodes > 1 &&
                           !spec->ray_cluster;
    return is_needed ? arena_printf(a, "%s-secret", spec->name) : NULL;
}

static void add(const char **list, int *n, const char *word) {
    list[(*n)++] = word;
}

const char *const *job_words(arena *a, const job_spec *spec, const char *config, int *n) {
    const char **list = ARENA_ARRAY(a, const char *,
            2 * spec->n_sets + spec->n_words + spec->n_node_options + 16);
    *n = 0;
    add(list, n, "drover");
    if (spec->work == WORK_DATA) {
        for (int i = 0; i < spec->n_words; i++)
            add(list, n, spec->words[i]);
        return list;
    }
    if (spec->work == WORK_COMPILE) {
        add(list, n, "compile");
    } else if (spec->is_node_launch) {
        add(list, n, "launch");
        add(list, n, "node");
    } else {
        add(list, n, "train");
    }
    add(list, n, config);
    if (spec->work == WORK_TRAIN && spec->is_node_launch) {
        add(list, n, "--ranks-per-node");
        add(list, n, arena_printf(a, "%d", spec->ranks));
        for (int i = 0; i < spec->n_node_options; i++)
            add(list, n, spec->node_options[i]);
    }
    if (spec->work == WORK_TRAIN) {
        add(list, n, "--expect-ranks");
        add(list, n, arena_printf(a, "%d", job_ranks(spec)));
    }
    for (int i = 0; i < spec->n_sets; i++) {
        add(list, n, "--set");
        add(list, n, spec->sets[i]);
    }
    return list;
}

const char *const *job_environment(arena *a, const job_spec *spec, bool in_pod) {
    const char **list = ARENA_ARRAY(a, const char *, 32);
    const instance_type *t = spec->instance;
    int n = 0;
    if (spec->work != WORK_TRAIN) return list;
    if (t->efa && spec->nodes > 1) {
        add(list, &n, "FI_PROVIDER"), add(list, &n, "efa");
        add(list, &n, "FI_EFA_USE_DEVICE_RDMA"), add(list, &n, "1");
        add(list, &n, "FI_EFA_FORK_SAFE"), add(list, &n, "1");
    }
    if (t->family == DEVICE_NEURON) {
        // The only network interface of a pod is eth0; on hosts the runtime finds it.
        if (in_pod) add(list, &n, "CCOM_SOCKET_IFNAME"), add(list, &n, "eth0");
        add(list, &n, "NEURON_RT_EXEC_TIMEOUT"), add(list, &n, "100"); // seconds, as in the seeds
    }
    if (t->family == DEVICE_GPU && spec->nodes > 1)
        add(list, &n, "NCCL_SOCKET_IFNAME"), add(list, &n, "^lo,docker,veth");
    return list;
}
