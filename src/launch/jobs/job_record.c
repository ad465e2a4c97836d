// Writes and reads launch.json.
// Legend: r record or reader.
#include "launch/jobs/job_record.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "launch/jobs/job_names.h"

enum { VERSION = 1, MAX_BYTES = 1 << 16, MAX_NUMBER = 1 << 24, MAX_PATH = 4096 };

static const char *const works[] = {"train", "compile", "data"};

job_record job_record_of(arena *a, const job_spec *spec, const job_files *files) {
    job_record r = {.kind = spec->kind,
            .work = spec->work,
            .name = spec->name,
            .name_space = spec->name_space,
            .run_dir = spec->work == WORK_TRAIN ? spec->run_dir : NULL,
            .mount = spec->mount,
            .nodes = spec->nodes,
            .ranks = spec->ranks,
            .grace_s = spec->grace_s,
            .is_node_launch = spec->is_node_launch,
            .has_secret = job_secret_name(a, spec) != NULL,
            .id = "",
            .folder = ""};
    for (int i = 0; i < files->n; i++)
        r.files[i] = files->file[i].name;
    r.n_files = files->n;
    return r;
}

// --- writing
static json_t *object_of(const job_record *r) {
    json_t *object = json_object(), *files = json_array(), *submitted = json_null();
    for (int i = 0; i < r->n_files; i++)
        json_array_append_new(files, json_string(r->files[i]));
    if (r->time_s > 0)
        submitted = json_pack("{s:f,s:s,s:s}", "time", r->time_s, "id", r->id, "folder", r->folder);
    json_object_set_new(object, "version", json_integer(VERSION));
    json_object_set_new(object, "kind", json_string(r->kind->name));
    json_object_set_new(object, "job", json_string(works[r->work]));
    json_object_set_new(object, "name", json_string(r->name));
    json_object_set_new(object, "namespace", json_of_text(r->name_space));
    json_object_set_new(object, "nodes", json_integer(r->nodes));
    json_object_set_new(object, "ranks_per_node", json_integer(r->ranks));
    json_object_set_new(object, "launch_node", json_boolean(r->is_node_launch));
    json_object_set_new(object, "secret", json_boolean(r->has_secret));
    json_object_set_new(object, "grace_s", json_integer(r->grace_s));
    json_object_set_new(object, "run_dir", json_of_text(r->run_dir));
    json_object_set_new(object, "mount", json_of_text(r->mount));
    json_object_set_new(object, "files", files);
    json_object_set_new(object, "submitted", submitted);
    return object;
}

void job_record_text(const job_record *record, str *out) {
    json_print_to(out, object_of(record), JSON_INDENT(1));
    str_puts(out, "\n");
}

drv_status job_record_write(arena *a, const char *dir, const job_record *record) {
    str text = {0};
    job_record_text(record, &text);
    const drv_status status = file_write_atomic(path_join(a, dir, JOB_RECORD), text.p, text.n);
    str_free(&text);
    return status;
}

// --- reading
typedef struct reader {
    arena *a;
    const char *path;
    const json_t *object;
} reader;

static drv_status refuse(const reader *r, const char *key, const char *expected) {
    return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is %s, expected %s", r->path, key,
            json_object_get(r->object, key) ? "not valid" : "missing", expected);
}

static drv_status take_text(const reader *r, const char *key, const char **out) {
    const json_t *value = json_object_get(r->object, key);
    if (json_is_null(value)) return DRV_OK;
    if (!json_is_string(value) || json_string_length(value) > MAX_PATH ||
            strlen(json_string_value(value)) != json_string_length(value))
        return refuse(r, key, "a text or null");
    *out = arena_strdup(r->a, json_string_value(value));
    return DRV_OK;
}

static drv_status take_int(const reader *r, const char *key, int *out) {
    const json_t *value = json_object_get(r->object, key);
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > MAX_NUMBER)
        return refuse(r, key, "a whole number from 1 on");
    *out = (int)number;
    return DRV_OK;
}

static drv_status take_bool(const reader *r, const char *key, bool *out) {
    const json_t *value = json_object_get(r->object, key);
    if (!json_is_boolean(value)) return refuse(r, key, "true or false");
    *out = json_is_true(value);
    return DRV_OK;
}

static drv_status take_kind(const reader *r, job_record *out) {
    const char *kind = NULL, *work = NULL;
    int i = 0;
    DRV_TRY(take_text(r, "kind", &kind));
    DRV_TRY(take_text(r, "job", &work));
    while (i < n_job_kinds && (!kind || strcmp(job_kinds[i].name, kind) != 0))
        i++;
    const int k = str_index(work, works, 3);
    if (i == n_job_kinds) return refuse(r, "kind", "a kind of drover launch");
    if (k < 0) return refuse(r, "job", "train, compile or data");
    out->kind = &job_kinds[i];
    out->work = (job_work)k;
    return DRV_OK;
}

// Names go into the command lines of other programs, so they must be well-formed.
static drv_status take_names(const reader *r, job_record *out) {
    DRV_TRY(take_text(r, "name", &out->name));
    DRV_TRY(take_text(r, "namespace", &out->name_space));
    DRV_TRY(take_text(r, "run_dir", &out->run_dir));
    DRV_TRY(take_text(r, "mount", &out->mount));
    if (!out->name || !name_is_dns_label(out->name, out->kind->most_name))
        return refuse(r, "name", "the name of a job");
    if (out->name_space && !name_is_dns_subdomain(out->name_space))
        return refuse(r, "namespace", "the name of a namespace, or null");
    if (out->mount && !name_is_mount(out->mount)) return refuse(r, "mount", "an absolute path");
    return DRV_OK;
}

static drv_status take_file(const reader *r, const char *name, job_record *out) {
    if (!name || !name_is_label(name) || out->n_files == MAX_JOB_FILES)
        return refuse(r, "files", "names of files");
    out->files[out->n_files++] = arena_strdup(r->a, name);
    return DRV_OK;
}

// Reads a list, or an object of an earlier version, whose keys are the names.
static drv_status take_files(const reader *r, job_record *out) {
    json_t *files = json_object_get(r->object, "files"), *value;
    const char *name;
    size_t i;
    json_object_foreach(files, name, value) DRV_TRY(take_file(r, name, out));
    json_array_foreach(files, i, value) DRV_TRY(take_file(r, json_string_value(value), out));
    return out->n_files ? DRV_OK : refuse(r, "files", "names of files");
}

static drv_status take_submission(const reader *r, job_record *out) {
    const json_t *object = json_object_get(r->object, "submitted");
    const reader inner = {r->a, r->path, object};
    out->id = out->folder = "";
    if (json_is_null(object)) return DRV_OK;
    if (!json_is_object(object)) return refuse(r, "submitted", "an object or null");
    DRV_TRY(take_text(&inner, "id", &out->id));
    DRV_TRY(take_text(&inner, "folder", &out->folder));
    out->time_s = json_number_value(json_object_get(object, "time"));
    if (!(out->time_s > 0) || !isfinite(out->time_s))
        return refuse(&inner, "time", "seconds since 1970");
    if (out->id[strspn(out->id, "0123456789")] || strlen(out->id) > 18)
        return refuse(&inner, "id", "digits");
    if (*out->folder != '/') return refuse(&inner, "folder", "an absolute path");
    return DRV_OK;
}

static drv_status check_version(const reader *r) {
    const json_t *version = json_object_get(r->object, "version");
    if (!json_is_integer(version)) return refuse(r, "version", "a number");
    if (json_integer_value(version) == VERSION) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: key \"version\" is %lld, expected %d: another version of drover made it", r->path,
            (long long)json_integer_value(version), VERSION);
}

static drv_status take_all(const reader *r, job_record *out) {
    if (!json_is_object(r->object)) return drv_fail(DRV_E_USAGE, "%s: expected an object", r->path);
    DRV_TRY(check_version(r));
    DRV_TRY(take_kind(r, out));
    DRV_TRY(take_names(r, out));
    DRV_TRY(take_int(r, "nodes", &out->nodes));
    DRV_TRY(take_int(r, "ranks_per_node", &out->ranks));
    DRV_TRY(take_int(r, "grace_s", &out->grace_s));
    DRV_TRY(take_bool(r, "launch_node", &out->is_node_launch));
    DRV_TRY(take_bool(r, "secret", &out->has_secret));
    DRV_TRY(take_files(r, out));
    return take_submission(r, out);
}

drv_status job_record_parse(arena *a, const char *path, const char *text, size_t n,
        job_record *out) {
    json_t *object;
    job_record read = {0};
    if (n > MAX_BYTES)
        return drv_fail(DRV_E_USAGE, "%s: %zu bytes, expected at most %d", path, n, MAX_BYTES);
    if (json_read_bytes(path, text, n, &object) != DRV_OK)
        return drv_fail(DRV_E_USAGE, "%s", arena_strdup(a, drv_message()));
    const drv_status status = take_all(&(reader){a, path, object}, &read);
    json_decref(object);
    if (status == DRV_OK) *out = read;
    return status;
}

// Reads a file that a user may have put there, so it may hold anything.
static drv_status read_file(arena *a, const char *path, char **text, size_t *n) {
    const char *kind = file_odd_kind(path);
    if (kind) return drv_fail(DRV_E_USAGE, "\"%s\" is %s, expected a file on a disk", path, kind);
    return file_read(a, path, text, n);
}

drv_status job_record_read(arena *a, const char *dir, job_record *out) {
    const char *path = path_join(a, dir, JOB_RECORD);
    char *text;
    size_t n;
    if (!file_exists(path))
        return drv_fail(DRV_E_USAGE,
                "there is no \"%s\"; expected a folder that drover launch KIND has made", path);
    DRV_TRY(read_file(a, path, &text, &n));
    return job_record_parse(a, path, text, n, out);
}

bool job_record_has_page(const job_record *record) {
    return str_index(PAGE_FILE, record->files, record->n_files) >= 0;
}

const char *job_record_path(arena *a, const char *dir, const job_record *record) {
    return path_join(a, dir, record->files[0]);
}
