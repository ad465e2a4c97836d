// 10,000 random names of jobs, queues, namespaces, claims, images and mounts, of every kind and
// size: each set is refused by one line, or all of its names have the form that schedulers demand,
// by regular expressions, also of the last pod, and stand in the files as they were given.
// Legend: a arena.
#include "harness.h"

#include <regex.h>

#include "launch/jobs/job_names.h"
#include "launch/jobs/job_record.h"
#include "launch/jobs/job_spec.h"

enum { SETS = 10000, NAME_BYTES = 72, LABEL = 63 };

#define LABEL_1035 "^[a-z]([-a-z0-9]*[a-z0-9])?$"
#define LABEL_1123 "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
#define SUBDOMAIN  "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
#define QUEUE      "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
#define IMAGE                                                                                      \
    "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]([a-z0-9_./-]*[a-z0-9])?(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"
#define MOUNT "^/[^:]+$"

static size_t below(uint64_t seed, uint64_t index, size_t n) {
    return (size_t)((noise(seed, index) + 1) / 2 * (double)n);
}

// Mostly letters of names, now and then one that is none; of any length, often short.
static const char *draw(arena *a, uint64_t seed, uint64_t which, const char *first) {
    static const char likely[] = "abcxyz0189-", odd[] = "A_.:/@ $'\"\n#\xff;`%";
    char text[NAME_BYTES + 1];
    const uint64_t base = which * 1000;
    const size_t n = below(seed, base, 4) ? 1 + below(seed, base + 1, 12)
                                          : below(seed, base + 2, NAME_BYTES);
    for (size_t i = 0; i < n; i++) {
        const bool is_odd = below(seed, base + 10 + 3 * i, 60) == 0;
        text[i] = is_odd ? odd[below(seed, base + 11 + 3 * i, sizeof odd - 1)]
                         : likely[below(seed, base + 12 + 3 * i, sizeof likely - 1)];
    }
    return arena_printf(a, "%s%.*s", first, (int)n, text);
}

static void must_match(const char *text, const char *pattern, size_t most) {
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, text, 0, NULL, 0) != 0 || strlen(text) > most)
        fail_msg("\"%s\" was taken against %s", text, pattern);
    regfree(&compiled);
}

static void check_accepted(arena *a, const job_spec *spec) {
    const job_kind *kind = spec->kind;
    job_files files = {0};
    must_match(spec->name, LABEL_1035, LABEL);
    if (spec->queue) must_match(spec->queue, QUEUE, LABEL);
    if (kind->is_kubernetes) {
        if (spec->name_space) must_match(spec->name_space, LABEL_1123, LABEL);
        must_match(spec->claim, SUBDOMAIN, 253);
        must_match(spec->image, IMAGE, 1024);
    }
    if (spec->mount) must_match(spec->mount, MOUNT, 1024);
    if (kind->last_pod)
        must_match(arena_printf(a, "%s%s%d", spec->name, kind->last_pod,
                           spec->nodes + kind->first_pod < 0 ? 0 : spec->nodes + kind->first_pod),
                LABEL_1035, LABEL);
    OK(job_write(a, spec, &files));
    const char *text = files.file[0].text.p;
    const char *line = strcmp(kind->name, "slurm") == 0
                               ? arena_printf(a, "#SBATCH --job-name=%s\n", spec->name)
                               : arena_printf(a, "name: %s\n", spec->name);
    // A name that YAML takes for something else is in quotes, as "y" and "null".
    if (!strstr(text, line)) assert_non_null(strstr(text, arena_printf(a, "\"%s\"", spec->name)));
    const job_record record = job_record_of(a, spec, &files);
    str json = {0};
    job_record again;
    job_record_text(&record, &json);
    OK(job_record_parse(a, "launch.json", json.p, json.n, &again));
    assert_string_equal(again.name, spec->name);
    str_free(&json);
    job_files_free(&files);
}

TEST(names_are_valid_or_refused) {
    static const int sizes[] = {1, 2, 16, 128, 4096};
    int taken[16] = {0}, n_refused = 0;
    for (uint64_t seed = 0; seed < SETS; seed++) {
        const job_kind *kind = &job_kinds[seed % (uint64_t)n_job_kinds];
        const bool in_pods = kind->is_kubernetes;
        job_spec spec = {.kind = kind,
                .name = draw(a, seed, 1, ""),
                .image = in_pods ? draw(a, seed, 2, "r") : NULL,
                .queue = below(seed, 1, 2) ? draw(a, seed, 3, "q") : NULL,
                .name_space = in_pods && below(seed, 2, 2) ? draw(a, seed, 4, "n") : NULL,
                .claim = in_pods ? draw(a, seed, 5, "c") : NULL,
                .mount = kind == job_kinds ? NULL : draw(a, seed, 6, "/m"), // the first is slurm
                .instance = instance_find("cpu"),
                .is_node_launch = kind->is_node_launch,
                .nodes = sizes[below(seed, 3, 5)],
                .ranks = 1,
                .grace_s = 60,
                .shm = (int64_t)1 << 30,
                .config = "run.yaml",
                .config_text = "model: {preset: tiny}\n",
                .run_dir = "runs/run",
                .command = "drover"};
        const drv_status status = job_check(&spec);
        if (status == DRV_OK) {
            check_accepted(a, &spec);
            taken[seed % (uint64_t)n_job_kinds]++;
        } else {
            assert_int_equal(status, DRV_E_USAGE);
            assert_non_null(strstr(drv_message(), "--"));
            assert_null(strchr(drv_message(), '\n'));
            n_refused++;
        }
    }
    for (int i = 0; i < n_job_kinds; i++) // neither is rare: both sides are tried
        if (taken[i] < 100) fail_msg("%s: %d were taken", job_kinds[i].name, taken[i]);
    assert_true(n_refused > 1000);
}

static const char *rows_of_a(void) {
    static char text[300];
    memset(text, 'a', sizeof text - 1);
    return text;
}

// As of distribution's reference/reference_test.go.
TEST(images) {
    static const char *const good[] = {"drover", "a/b", "r/d:1",
            "Registry.Example:5000/a/b-c:V1.0_x", "localhost/a", "a__b/c--d",
            "x@sha256:0123456789abcdef0123456789abcdef",
            "h.io/x:t@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    static const char *const bad[] = {"", "a b", "UPPER", "a//b", "a/", "/a", ":x", "x:", "a:b:c",
            "a_/b", "-a", "a.", "h/UP", "x@sha256:12", "x@sha256", "a$b", "x:-t", "x:\n",
            "h:port/x", ".h/x"};
    static char at_most[2][300], above[2][300]; // the path, the tag
    for (int i = 0; i < 2; i++) {
        const int n = i ? 128 : 255;
        snprintf(at_most[i], sizeof at_most[i], "%s%.*s", i ? "h/x:" : "h/", n, rows_of_a());
        snprintf(above[i], sizeof above[i], "%sa", at_most[i]);
        assert_true(name_is_image(at_most[i]));
        assert_false(name_is_image(above[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!name_is_image(good[i])) fail_msg("\"%s\" was refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (name_is_image(bad[i])) fail_msg("\"%s\" was taken", bad[i]);
}
