// Reduces lines of squeue and objects of Kubernetes to one state.
#include "launch/jobs/job_state.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "launch/jobs/pod.h"

enum { WORDS_MOST = 300, PODS_SHOWN = 4 };

const char *job_phase_name(job_phase phase) {
    static const char *const names[N_JOB_PHASES] = {"absent", "queued", "running", "done",
            "failed"};
    return names[phase];
}

// Makes another program's words fit to be shown: printable and of limited length.
static const char *shown(arena *a, const char *text, size_t n) {
    char *copy = arena_strndup(a, text, strnlen(text, n < WORDS_MOST ? n : WORDS_MOST));
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F) *p = ' ';
    return copy;
}

job_state job_state_new(void) {
    return (job_state){.phase = JOB_ABSENT, .why = "", .where = "", .id = "", .pod = ""};
}

// --- Slurm
static job_phase slurm_phase(const char *state) {
    if (STR_ONE_OF(state, "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
                "RESV_DEL_HOLD"))
        return JOB_QUEUED;
    if (STR_ONE_OF(state, "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL",
                "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"))
        return JOB_FAILED;
    return strcmp(state, "COMPLETED") == 0 ? JOB_DONE : JOB_RUNNING;
}

enum { ID, STATE, HOSTS, REASON, COMMENT, N_FIELDS };

// Returns whether a line describes a job, of drover or another. Array jobs have numbers like
// "7_[1,3,...]", heterogeneous jobs "7+0".
static bool split(arena *a, const char *line, size_t n, const char *fields[N_FIELDS]) {
    const char *end = line + n;
    for (int i = 0; i < N_FIELDS; i++) {
        const char *bar = i == COMMENT ? end : memchr(line, '|', (size_t)(end - line));
        if (!bar) return false;
        fields[i] = shown(a, line, (size_t)(bar - line));
        line = bar < end ? bar + 1 : end;
    }
    return *fields[ID] && fields[ID][strspn(fields[ID], "0123456789_[]-,%+.")] == 0 &&
           *fields[STATE] &&
           fields[STATE][strspn(fields[STATE], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == 0;
}

drv_status job_state_of_squeue(arena *a, const char *text, size_t n, const char *id,
        job_state *out) {
    const char *const ours = arena_printf(a, "drover:%s", id), *const end = text + n;
    job_state found = job_state_new();
    int n_lines = 0, n_jobs = 0;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *fields[N_FIELDS];
        const size_t length = stop ? (size_t)(stop - line) : (size_t)(end - line);
        const bool is_job = length > 0 && split(a, line, length, fields);
        const bool is_ours =
                is_job && (strcmp(fields[ID], id) == 0 || strcmp(fields[COMMENT], ours) == 0);
        n_lines += length > 0;
        n_jobs += is_job;
        const job_phase phase = is_ours ? slurm_phase(fields[STATE]) : JOB_ABSENT;
        if (is_ours && (found.phase == JOB_ABSENT || phase == JOB_RUNNING))
            found = (job_state){.phase = phase,
                    .why = phase == JOB_RUNNING && strcmp(fields[STATE], "RUNNING") == 0 ? ""
                           : strcmp(fields[REASON], "None") == 0 ? fields[STATE]
                           : phase == JOB_RUNNING
                                   ? arena_printf(a, "%s: %s", fields[STATE], fields[REASON])
                                   : fields[REASON],
                    .where = fields[HOSTS],
                    .id = fields[ID],
                    .pod = ""};
        line += length + 1;
    }
    if (n_lines > 0 && n_jobs == 0)
        return drv_fail(DRV_E_DATA, "squeue printed \"%s\", expected ID|STATE|HOSTS|REASON|...",
                shown(a, text, n < 60 ? n : 60));
    *out = found;
    return DRV_OK;
}

// --- Kubernetes
static drv_status read_json(arena *a, const char *program, const char *text, size_t n,
        json_t **out) {
    if (json_read_bytes(program, text, n, out) == DRV_OK) return DRV_OK;
    const char *why = arena_strdup(a, drv_message());
    return drv_fail(DRV_E_DATA, "%s printed text that is not JSON: %s", program, why);
}

// Returns the text at a path of keys, "" if there is none.
static const char *text_at(const json_t *object, const char *key, const char *then) {
    const json_t *value = json_object_get(object, key);
    if (then) value = json_object_get(value, then);
    const char *text = json_string_value(value);
    return text ? text : "";
}

static const char *words_of(arena *a, const char *reason, const char *message) {
    const char *first = shown(a, reason, strlen(reason)),
               *second = shown(a, message, strlen(message));
    if (!*first || !*second) return *first ? first : second;
    return arena_printf(a, "%s: %s", first, second);
}

static const json_t *condition(const json_t *object, const char *type) {
    const json_t *list = json_object_get(json_object_get(object, "status"), "conditions"), *each;
    size_t i;
    json_array_foreach(list, i, each) {
        if (strcmp(text_at(each, "type", NULL), type) == 0 &&
                strcmp(text_at(each, "status", NULL), "True") == 0)
            return each;
    }
    return NULL;
}

// Reads conditions of TrainJob, MPIJob, PyTorchJob and Job; the first of these that holds counts.
static void by_conditions(arena *a, const json_t *object, job_state *out) {
    static const struct {
        const char *type;
        job_phase phase;
    } types[] = {{"Failed", JOB_FAILED}, {"Complete", JOB_DONE}, {"Succeeded", JOB_DONE},
            {"Suspended", JOB_QUEUED}, {"Restarting", JOB_QUEUED}, {"Running", JOB_RUNNING}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const json_t *found = condition(object, types[i].type);
        if (!found) continue;
        out->phase = types[i].phase;
        if (out->phase != JOB_RUNNING)
            out->why = words_of(a, text_at(found, "reason", NULL), text_at(found, "message", NULL));
        return;
    }
}

// Reads the status word of RayJob (jobDeploymentStatus) and of Volcano's Job (state.phase).
static void by_word(arena *a, const json_t *object, job_state *out) {
    static const struct {
        const char *word;
        job_phase phase;
    } words[] = {{"Complete", JOB_DONE}, {"Completed", JOB_DONE}, {"Failed", JOB_FAILED},
            {"Terminated", JOB_FAILED}, {"Aborted", JOB_FAILED}, {"Running", JOB_RUNNING},
            {"Completing", JOB_RUNNING}, {"Terminating", JOB_RUNNING}, {"Aborting", JOB_RUNNING},
            {"Suspending", JOB_RUNNING}};
    const json_t *status = json_object_get(object, "status");
    const char *ray = text_at(status, "jobDeploymentStatus", NULL),
               *word = *ray ? ray : text_at(status, "state", "phase"),
               *reason =
                       *ray ? text_at(status, "reason", NULL) : text_at(status, "state", "reason"),
               *message = *ray ? text_at(status, "message", NULL)
                               : text_at(status, "state", "message");
    if (!*word) return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0) out->phase = words[i].phase;
    // A RayJob is "Complete" however its program has ended.
    if (out->phase == JOB_DONE && strcmp(text_at(status, "jobStatus", NULL), "FAILED") == 0)
        out->phase = JOB_FAILED;
    if (out->phase != JOB_RUNNING) out->why = words_of(a, *reason ? reason : word, message);
}

static drv_status check_labels(arena *a, const json_t *object, const job_record *record) {
    const json_t *meta = json_object_get(object, "metadata");
    const char *name = text_at(meta, "labels", JOB_LABEL),
               *by = text_at(meta, "labels", "app.kubernetes.io/name");
    if (strcmp(name, record->name) == 0 && strcmp(by, "drover") == 0) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s \"%s\" belongs to another job: its label " JOB_LABEL " is \"%s\", expected \"%s\"",
            shown(a, text_at(object, "kind", NULL), WORDS_MOST), record->name,
            shown(a, name, strlen(name)), record->name);
}

drv_status job_state_of_object(arena *a, const char *text, size_t n, const job_record *record,
        job_state *out) {
    job_state found = job_state_new();
    json_t *object;
    if (text[strspn(text, " \r\n\t")] == 0 && strlen(text) == n) { // --ignore-not-found
        *out = found;
        return DRV_OK;
    }
    DRV_TRY(read_json(a, "kubectl", text, n, &object));
    drv_status status = DRV_OK;
    if (!json_is_object(json_object_get(object, "metadata")))
        status = drv_fail(DRV_E_DATA, "kubectl printed no object with metadata");
    if (status == DRV_OK) status = check_labels(a, object, record);
    if (status == DRV_OK) {
        found.phase = JOB_QUEUED; // it has no status yet
        by_conditions(a, object, &found);
        by_word(a, object, &found);
        *out = found;
    }
    json_decref(object);
    return status;
}

// Returns why a pod that has not ended is not running: its scheduling, or its containers.
static const char *pod_waits_for(arena *a, const json_t *pod_status) {
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    const json_t *each;
    size_t i;
    for (int k = 0; k < 2; k++)
        json_array_foreach(json_object_get(pod_status, lists[k]), i, each) {
            const json_t *waiting = json_object_get(json_object_get(each, "state"), "waiting");
            if (waiting)
                return words_of(a, text_at(waiting, "reason", NULL),
                        text_at(waiting, "message", NULL));
        }
    json_array_foreach(json_object_get(pod_status, "conditions"), i, each) {
        if (strcmp(text_at(each, "type", NULL), "PodScheduled") == 0 &&
                strcmp(text_at(each, "status", NULL), "False") == 0)
            return words_of(a, text_at(each, "reason", NULL), text_at(each, "message", NULL));
    }
    return "";
}

// Chooses the pod whose words are shown: a running one before an ended one, then the launcher.
static bool is_better(const job_state *state, const char *name, bool runs) {
    static const char *const firsts[] = {"launcher", "master"};
    if (!*state->pod || runs != state->pod_runs) return !*state->pod || runs;
    for (int i = 0; i < 2; i++)
        if (strstr(name, firsts[i]) && !strstr(state->pod, firsts[i])) return true;
    return false;
}

typedef struct pod_count {
    int n_alive, n_running;
    str names;
} pod_count;

static void add_pod(arena *a, const json_t *object, job_state *state, pod_count *count) {
    const json_t *status = json_object_get(object, "status");
    const char *raw = text_at(object, "metadata", "name"), *name = shown(a, raw, strlen(raw)),
               *phase = text_at(status, "phase", NULL);
    const bool runs = strcmp(phase, "Running") == 0,
               over = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
    count->n_alive += !over;
    count->n_running += runs;
    if (runs && count->n_running <= PODS_SHOWN)
        str_printf(&count->names, "%s%s", count->names.n ? ", " : "", name);
    if ((runs || over) && is_better(state, name, runs)) state->pod = name, state->pod_runs = runs;
    if (runs || over || *state->why) return;
    const char *why = pod_waits_for(a, status);
    if (*why) state->why = arena_printf(a, "%s: %s", name, why);
}

drv_status job_state_add_pods(arena *a, const char *text, size_t n, job_state *state,
        int *n_alive) {
    json_t *object, *each;
    size_t i;
    pod_count count = {0};
    DRV_TRY(read_json(a, "kubectl", text, n, &object));
    const json_t *items = json_object_get(object, "items");
    if (!json_is_array(items)) {
        json_decref(object);
        return drv_fail(DRV_E_DATA, "kubectl printed no list of pods");
    }
    json_array_foreach(items, i, each) {
        add_pod(a, each, state, &count);
    }
    if (count.n_running > 0 && state->phase == JOB_QUEUED) state->phase = JOB_RUNNING;
    if (count.n_running > PODS_SHOWN)
        str_printf(&count.names, " and %d more", count.n_running - PODS_SHOWN);
    if (count.names.n) state->where = arena_strdup(a, count.names.p);
    *n_alive = count.n_alive;
    str_free(&count.names);
    json_decref(object);
    return DRV_OK;
}
