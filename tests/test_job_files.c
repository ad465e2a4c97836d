// Jobs for schedulers, piece by piece: words through a real shell, texts through a reader of YAML,
// names against regular expressions, times against Slurm's, types of machines from files, files
// that come together.
#include "harness.h"

#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "launch/jobs/instance_types.h"
#include "launch/jobs/job_files.h"
#include "launch/jobs/job_names.h"
#include "launch/jobs/job_spec.h"
#include "launch/jobs/pod_options.h"
#include "launch/jobs/shell_words.h"
#include "launch/jobs/yaml_writer.h"

static const char *const odd[] = {"", "a b", "it's", "\"quoted\"", "$HOME", "$(id)", "`id`", "a\nb",
        "a\n\n", "#x", "x # y", "-n", "~", "*", "a\\b", "\\", "'", "''", "{a: 1}", "[x]", "- x",
        "key: x", "&a", "*a", "!x", "%x", "@x", "|", ">", "?", ":", "true", "No", "y", "on", "null",
        "1", "4e-4", "0x10", "1_000", "22:30", "2001-01-01", ".inf", ".", "a\tb", "\ta", " a", "a ",
        "é", "\u2028", "\x01\x7f", "A=B", "${x}", "a\n  b\n\n# c: \"d\"\n", "a \nb\n", "\nb\n",
        "é\nb\n", "a\u2028b\n", "\ufeffa\n", "\x01\n", "!!", "/x", "x,y", "=", "<<", "yes", "0b1",
        "+1"};
enum { N_ODD = sizeof odd / sizeof *odd };

// --- the shell
TEST(shell_gives_words_back) {
    const char *path = path_join(a, temporary_dir(a), "words.sh");
    str script = {0}, expected = {0};
    str_puts(&script, "printf '%s\\0' ");
    shell_words(&script, odd, N_ODD);
    for (int i = 0; i < N_ODD; i++)
        str_add(&expected, odd[i], strlen(odd[i]) + 1);
    OK(file_write_atomic(path, script.p, script.n));
    FILE *got = popen(arena_printf(a, "sh %s", path), "r");
    char *bytes = arena_alloc(a, 1 << 16);
    const size_t n = fread(bytes, 1, 1 << 16, got);
    assert_int_equal(pclose(got), 0);
    assert_int_equal(n, expected.n);
    assert_memory_equal(bytes, expected.p, n);
    str_free(&script);
    str_free(&expected);
}

// --- YAML
static const char *scalar_of(yaml_document_t *doc, int id, bool is_text) {
    const yaml_node_t *found = yaml_document_get_node(doc, id);
    assert_int_equal(found->type, YAML_SCALAR_NODE);
    if (is_text && found->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        assert_non_null(strchr("abcdefghijklmnopqrstuvwxyzA/", *found->data.scalar.value));
    assert_int_equal(strlen((const char *)found->data.scalar.value), found->data.scalar.length);
    return (const char *)found->data.scalar.value;
}

// By libyaml's own parser: two lists of the odd texts, and a map with them as keys.
static void check_texts(const char *bytes, size_t n_bytes) {
    yaml_parser_t parser;
    yaml_document_t doc;
    assert_true(yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, n_bytes);
    if (!yaml_parser_load(&parser, &doc)) fail_msg("%s in:\n%s", parser.problem, bytes);
    const yaml_node_pair_t *top = yaml_document_get_root_node(&doc)->data.mapping.pairs.start;
    for (int list = 0; list < 2; list++) {
        const yaml_node_t *found = yaml_document_get_node(&doc, top[list].value);
        for (int i = 0; i < N_ODD; i++)
            assert_string_equal(scalar_of(&doc, found->data.sequence.items.start[i], true), odd[i]);
    }
    const yaml_node_pair_t *pair =
            yaml_document_get_node(&doc, top[2].value)->data.mapping.pairs.start;
    for (int i = 0; i < N_ODD; i++)
        assert_string_equal(scalar_of(&doc, pair[i].key, true), odd[i]);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
}

TEST(yaml_gives_texts_back) {
    str text = {0};
    yaml_writer *w = yaml_writer_open(&text);
    yaml_document(w);
    yaml_list(w, "texts");
    for (int i = 0; i < N_ODD; i++)
        yaml_text(w, NULL, odd[i]);
    yaml_list_end(w);
    yaml_list(w, "lines");
    for (int i = 0; i < N_ODD; i++)
        yaml_lines(w, NULL, odd[i]);
    yaml_list_end(w);
    yaml_map(w, "keys");
    for (int i = 0; i < N_ODD; i++)
        yaml_int(w, odd[i], i);
    yaml_writer_close(w);
    check_texts(text.p, text.n);
    str_free(&text);
}

// What a reader of YAML 1.1 takes for something else than a text must be in quotes.
TEST(yaml_quotes_what_means_more) {
    static const char *const quoted[] = {"y", "No", "on", "true", "null", "1", "4e-4", "22:30",
            "0x10", ".inf", "~", "", "2001-01-01"};
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        str text = {0}, expected = {0};
        yaml_writer *w = yaml_writer_open(&text);
        yaml_document(w);
        yaml_text(w, "k", quoted[i]);
        yaml_writer_close(w);
        str_printf(&expected, "k: \"%s\"\n", quoted[i]);
        assert_non_null(strstr(text.p, expected.p));
        str_free(&text);
        str_free(&expected);
    }
}

TEST(yaml_parts_are_as_calls_write_them) {
    static const char expected[] =
            "---\n"
            "a:\n  b: 1\n  c:\n  - x\n  - \"2\"\n  - \"on\"\n  - \"-f\"\n  \"true\": {}\n"
            "d: []\n"
            "e:\n- f: true\n  g:\n    h: j/k\n- i\n";
    str text = {0};
    yaml_writer *w = yaml_writer_open(&text);
    yaml_document(w);
    yaml_put(w, "a: {b: %d, c: [x, \"2\", on, -f], \"%s\": {}}\nd: []", 1, "true");
    yaml_list(w, "e");
    yaml_put(w, "[{f: true, g: {h: %s}}, i]", "j/k");
    yaml_writer_close(w);
    assert_string_equal(text.p, expected);
    str_free(&text);
}

// --- manifests
static bool is_key(yaml_document_t *doc, int id, const char *name) {
    const yaml_node_t *found = yaml_document_get_node(doc, id);
    return strcmp((const char *)found->data.scalar.value, name) == 0;
}

static const char *key_of(yaml_document_t *doc, int id) {
    return (const char *)yaml_document_get_node(doc, id)->data.scalar.value;
}

// Returns the name of a variable in a container's list.
static const char *name_in(yaml_document_t *doc, int id) {
    const yaml_node_t *map = yaml_document_get_node(doc, id);
    assert_true(is_key(doc, map->data.mapping.pairs.start->key, "name"));
    return key_of(doc, map->data.mapping.pairs.start->value);
}

static void check_variables(yaml_document_t *doc, int id, const char *file) {
    const yaml_node_t *list = yaml_document_get_node(doc, id);
    for (const int *x = list->data.sequence.items.start; x < list->data.sequence.items.top; x++)
        for (const int *y = list->data.sequence.items.start; y < x; y++)
            if (strcmp(name_in(doc, *x), name_in(doc, *y)) == 0)
                fail_msg("%s: \"%s\" twice in env", file, name_in(doc, *x));
}

// Each key is there once, and each variable of a container.
static void check_once(yaml_document_t *doc, const char *file) {
    for (int id = 1; yaml_document_get_node(doc, id); id++) {
        const yaml_node_t *map = yaml_document_get_node(doc, id);
        if (map->type != YAML_MAPPING_NODE) continue;
        const yaml_node_pair_t *first = map->data.mapping.pairs.start;
        for (const yaml_node_pair_t *x = first; x < map->data.mapping.pairs.top; x++) {
            for (const yaml_node_pair_t *y = first; y < x; y++)
                if (is_key(doc, x->key, key_of(doc, y->key)))
                    fail_msg("%s: key \"%s\" twice", file, key_of(doc, x->key));
            if (is_key(doc, x->key, "env")) check_variables(doc, x->value, file);
        }
    }
}

static void check_file(const job_file *file) {
    yaml_parser_t parser;
    yaml_document_t doc;
    int n = 0;
    if (!str_ends(file->name, ".yaml")) return;
    assert_true(yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)file->text.p, file->text.n);
    for (;; n++) {
        if (!yaml_parser_load(&parser, &doc)) fail_msg("%s: %s", file->name, parser.problem);
        const bool is_end = !yaml_document_get_root_node(&doc);
        check_once(&doc, file->name);
        yaml_document_delete(&doc);
        if (is_end) break;
    }
    assert_true(n > 0);
    yaml_parser_delete(&parser);
}

static void give(arena *a, job_spec *spec, pod_option option, const char *value) {
    OK(pod_options_take(a, &spec->pods, option, &value, 1));
}

// A user gives by options what drover sets itself, and calls the config as it calls files of its
// own: the user's values count, and nothing is there twice.
TEST(the_users_values_count) {
    static const char *const own[] = {"NCCL_SOCKET_IFNAME=eth7", "FI_PROVIDER=tcp",
            "DROVER_JOB_SECRET_FILE=/mine", "PRTE_MCA_plm_ssh_args=-4"};
    for (int i = 0; i < n_job_kinds; i++) {
        const job_kind *kind = &job_kinds[i];
        job_files files = {0};
        job_spec spec = {.kind = kind,
                .name = "run",
                .image = "r/d:1",
                .queue = "queue",
                .topology = kind->counts_tiers ? "2" : "zone",
                .has_page = true,
                .claim = "claim",
                .mount = "/shared",
                .instance = instance_find("p5.48xlarge"),
                .is_hyperpod = true,
                .is_node_launch = kind->is_node_launch,
                .nodes = 2,
                .ranks = 8,
                .fewest = 2,
                .grace_s = 600,
                .shm = 1 << 30,
                .config = "a/job.json",
                .config_text = "{}\n",
                .run_dir = "runs/job",
                .command = "drover"};
        if (!kind->is_kubernetes) continue;
        OK(pod_options_take(a, &spec.pods, POD_ENV, own, sizeof own / sizeof *own));
        give(a, &spec, POD_NODE_SELECTOR, "node.kubernetes.io/instance-type=mine");
        give(a, &spec, POD_ANNOTATION, "kueue.x-k8s.io/podset-required-topology=mine");
        OK(job_check(&spec));
        OK(job_write(a, &spec, &files));
        for (int k = 0; k < files.n; k++) {
            check_file(&files.file[k]);
            assert_null(strstr(files.file[k].text.p, "^lo,docker,veth"));
        }
        job_files_free(&files);
    }
}

// Each character of Unicode in the command that a manifest begins with, which may have any.
TEST(any_command_is_a_comment) {
    for (uint32_t first = 1; first < 0x110000; first += 1 << 12) {
        str command = {0}, text = {0};
        for (uint32_t c = first; c < first + (1 << 12); c++) {
            const char bytes[] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                    (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
            if (c < 0x80)
                str_add(&command, &(char){(char)c}, 1);
            else if (c < 0x800)
                str_add(&command, (char[]){(char)(0xc0 | c >> 6), bytes[3]}, 2);
            else if (c < 0x10000)
                str_add(&command, (char[]){(char)(0xe0 | c >> 12), bytes[2], bytes[3]}, 3);
            else
                str_add(&command, bytes, 4);
        }
        str_puts(&command, "\xff: [");
        job_put_command(&(job_spec){.command = command.p}, &text);
        str_puts(&text, "---\na: b\n");
        check_file(&(job_file){.name = "comment.yaml", .text = text});
        str_free(&command);
        str_free(&text);
    }
}

// --- names
// 10,000 of each: of letters that are likely, so that many are right.
TEST(names_are_what_patterns_say) {
    static const char letters[] = "abzAZ09--..__//:@ $'\n#";
    static const struct {
        const char *pattern;
        bool (*is)(const char *);
    } cases[] = {
            {"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                    name_is_dns_subdomain},
            {"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", name_is_label},
            {"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                    name_is_label_key},
            {"^([A-Za-z0-9](-*[A-Za-z0-9])*([.][A-Za-z0-9](-*[A-Za-z0-9])*)*(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$",
                    name_is_image}, // digests are longer
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        regex_t pattern;
        int right = 0;
        assert_int_equal(regcomp(&pattern, cases[k].pattern, REG_EXTENDED | REG_NOSUB), 0);
        for (uint64_t seed = 0; seed < 10000; seed++) {
            char name[16] = "";
            const int n = (int)(seed % 9);
            for (int i = 0; i < n; i++)
                name[i] = letters[(
                        size_t)((noise(seed, (uint64_t)i) + 1) / 2 * (double)(sizeof letters - 1))];
            const bool is = regexec(&pattern, name, 0, NULL, 0) == 0;
            if (cases[k].is(name) != is) fail_msg("\"%s\" against %s", name, cases[k].pattern);
            right += is;
        }
        assert_true(right > 200);
        regfree(&pattern);
    }
    assert_true(name_is_dns_label("a-9", 3));
    assert_false(name_is_dns_label("a-9b", 3));
    assert_false(name_is_dns_label("9a", 63));
    assert_false(name_is_dns_label("a-", 63));
    assert_false(name_is_dns_label("", 63));
    assert_false(name_is_text("\xff"));
    assert_true(name_is_text("é"));
    assert_true(name_is_mount("/shared"));
    assert_false(name_is_mount("/"));
    assert_false(name_is_mount("/a/.."));
    assert_false(name_is_mount("/a:b"));
}

TEST(files_have_names) {
    static const char *const cases[][2] = {{"a/Llama_3.1.yaml", "llama-3-1"}, {"run.yml", "run"},
            {"9x.yaml", "x"}, {"---.yaml", "run"}, {"a b#c.yaml", "a-b-c"}, {"x-.yaml", "x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(name_of_file(a, cases[i][0]), cases[i][1]);
}

// --- types of machines
static drv_status read_type(arena *a, const char *text, instance_type *out) {
    return instance_read(a, "i.yaml", text, strlen(text), out);
}

// Legend: a arena, t type.
TEST(types_from_files) {
    instance_type t;
    OK(read_type(a, "{cpus: 8, memory_gib: 1.5}", &t));
    assert_int_equal(t.pod_memory, (int64_t)3 << 29);
    assert_int_equal(instance_ranks(&t), 1);
    OK(read_type(a,
            "{name: g6, family: gpu, devices: 4, device_memory_gib: 24, cpus: 48, memory_gib: 180, "
            "label: node-type, label_value: g6, efa: 1, huge_pages_gib: 2}",
            &t));
    assert_int_equal(instance_ranks(&t), 4);
    assert_string_equal(t.resource, "nvidia.com/gpu");
    OK(read_type(a,
            "{family: gpu, devices: 8, device: \"h100,memory=64GB\", cpus: 8, memory_gib: 8}", &t));
    assert_string_equal(t.device, "h100,memory=64GB");
    static const struct {
        const char *text, *says;
    } wrong[] = {{"{cpus: 8}", "\"memory_gib\" is missing"},
            {"{memory_gib: 8}", "\"cpus\" is missing"},
            {"cpus: 8\nmemory_gb: 8",
                    "i.yaml:2: unknown key \"memory_gb\", did you mean \"memory_gib\""},
            {"{cpus: 0, memory_gib: 8}", "a whole number from 1 to 65536"},
            {"{cpus: 8, memory_gib: -1}", "GiB above 0"},
            {"{cpus: 8, memory_gib: nan}", "GiB above 0"},
            {"{cpus: [8], memory_gib: 1}", "a whole number"},
            {"{cpus: 8, memory_gib: 8, devices: 2}", "both family and devices"},
            {"{cpus: 8, memory_gib: 8, family: gpu, devices: 2}", "device_memory_gib"},
            {"{cpus: 8, memory_gib: 8, family: gpu, devices: 2, device: h100, device_memory_gib: 2}",
                    "one of the keys \"device_memory_gib\""},
            {"{cpus: 8, memory_gib: 8, family: gpu, devices: 2, device: [h100]}",
                    "profile of a device"},
            {"{cpus: 8, memory_gib: 8, device: h100}", "device without family"},
            {"{cpus: 8, memory_gib: 8, family: tpu}", "none, neuron or gpu"},
            {"{cpus: 8, memory_gib: 8, resource: \"a b\"}", "a name as nvidia.com/gpu"},
            {"{cpus: 8, memory_gib: 8, resource: a/b}", "no resource"},
            {"{cpus: 8, memory_gib: 8, label: a}", "both label and label_value"},
            {"{cpus: 8, cpus: 8, memory_gib: 8}", "given twice"},
            {"{cpus: 8, memory_gib: 8, name: \"$(id)\"}", "a label of at most 63"},
            {"{cpus: 8", "not YAML"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(read_type(a, wrong[i].text, &t), DRV_E_USAGE, wrong[i].says);
}

// --- files
TEST(files_come_together) {
    const char *dir = temporary_dir(a), *out = path_join(a, dir, "a/b");
    job_files files = {0};
    struct stat info;
    char **names, *text;
    size_t n_bytes;
    int n;
    str_puts(job_files_add(&files, "x", false), "one");
    str_puts(job_files_add(&files, "y", true), "two");
    OK(job_files_write(a, &files, arena_printf(a, "%s/", out)));
    OK(file_read(a, path_join(a, out, "y"), &text, &n_bytes));
    assert_string_equal(text, "two");
    assert_int_equal(stat(path_join(a, out, "y"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0755);
    FAILS(job_files_write(a, &files, out), DRV_E_USAGE, "is there already");
    OK(dir_make(path_join(a, dir, "empty")));
    OK(job_files_write(a, &files, path_join(a, dir, "empty")));
    OK(file_write_atomic(path_join(a, dir, "file"), "z", 1));
    FAILS(job_files_write(a, &files, path_join(a, dir, "file")), DRV_E_USAGE, "is there already");
    FAILS(job_files_write(a, &files, "."), DRV_E_USAGE, "is there already");
    OK(dir_list(a, dir, &names, &n)); // nothing half made is left
    assert_int_equal(n, 3);
    job_files_free(&files);
}
