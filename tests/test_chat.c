// Chat templates: random ones as transformers renders them (tests/golden/chat, made by
// tools/make_chat_golden.py), those of 20 model families where ../shared/data/chat lies beside the
// project, and templates that ask for too much.
#include "harness.h"

#include "base/json.h"
#include "chat/chat_model.h"

static drv_status render(arena *a, const char *name, const char *source, size_t n,
        const chat_input *in, chat_output *out) {
    chat_template *t;
    DRV_TRY(chat_template_open(a, name, source, n, &t));
    return chat_render(a, t, in, out);
}

// A golden record holds messages, tools, bos, eos and expected or error.
static chat_input input_of(const json_t *record, special_text specials[2]) {
    const char *bos = json_string_value(json_object_get(record, "bos")),
               *eos = json_string_value(json_object_get(record, "eos"));
    chat_input in = {.messages = json_object_get(record, "messages"),
            .tools = json_object_get(record, "tools"),
            .add_generation_prompt = json_is_true(json_object_get(record, "add_generation_prompt")),
            .specials = specials,
            .now = {.tm_year = 126,
                    .tm_mon = 1,
                    .tm_mday = 3,
                    .tm_hour = 4,
                    .tm_min = 5,
                    .tm_sec = 6,
                    .tm_wday = 2,
                    .tm_yday = 33}};
    if (bos) specials[in.n_specials++] = (special_text){"bos_token", bos};
    if (eos) specials[in.n_specials++] = (special_text){"eos_token", eos};
    return in;
}

static void check_spans(const char *id, const json_t *spans, const chat_output *out) {
    if (!spans) return;
    if ((int)json_array_size(spans) != out->n_spans)
        fail_msg("%s: %d spans, expected %zu", id, out->n_spans, json_array_size(spans));
    for (int i = 0; i < out->n_spans; i++) {
        const json_t *pair = json_array_get(spans, (size_t)i);
        assert_int_equal(json_integer_value(json_array_get(pair, 0)), out->spans[i].begin);
        assert_int_equal(json_integer_value(json_array_get(pair, 1)), out->spans[i].end);
    }
}

static void check_record(const char *id, const json_t *record, const chat_input *in,
        const char *source) {
    arena *a = arena_new("record");
    chat_output out;
    const char *expected = json_string_value(json_object_get(record, "expected"));
    const json_t *error = json_object_get(record, "error");
    const char *kind = json_string_value(json_object_get(error, "kind"));
    drv_status status = render(a, id, source, strlen(source), in, &out);
    if (expected && status != DRV_OK) fail_msg("%s: %s", id, drv_message());
    if (!expected && status == DRV_OK)
        fail_msg("%s: no failure, but \"%s\"", id, out.text.p ? out.text.p : "");
    if (expected && strcmp(out.text.p ? out.text.p : "", expected) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"", id, out.text.p, expected);
    if (expected) check_spans(id, json_object_get(record, "generation"), &out);
    const char *said = json_string_value(json_object_get(error, "message"));
    if (kind && strcmp(kind, "raise_exception") == 0 && !strstr(drv_message(), said))
        fail_msg("%s: \"%s\" does not say \"%s\"", id, drv_message(), said);
    if (status == DRV_OK) str_free(&out.text);
    arena_free(a);
}

static int check_file(const char *path, const char *templates) {
    arena *a = arena_new("golden");
    char *text;
    size_t n_text;
    int n_cases = 0;
    OK(file_read(a, path, &text, &n_text));
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, n_cases++) {
        char id[64];
        special_text specials[2];
        json_t *record = json_loadb(line, (size_t)(end - line), 0, NULL);
        assert_non_null(record);
        snprintf(id, sizeof id, "record %d", n_cases);
        chat_input in = input_of(record, specials);
        if (!templates) { // the random ones were made with these
            specials[0] = (special_text){"bos_token", "<s>"};
            specials[1] = (special_text){"eos_token", "</s>"};
            in.n_specials = 2;
        }
        char *source = (char *)(uintptr_t)json_string_value(
                json_object_get(record, templates ? "template_text" : "template"));
        size_t n_source;
        if (!source)
            OK(file_read(a,
                    path_join(a, templates, json_string_value(json_object_get(record, "template"))),
                    &source, &n_source));
        check_record(id, record, &in, source);
        json_decref(record);
    }
    arena_free(a);
    return n_cases;
}

static void random_templates(void **state) {
    assert_true(check_file(TEST_DIR "/golden/chat/random.jsonl", NULL) >= 200);
}

// The idioms of real templates, and what is rare in them (tools/make_chat_snippets.py).
static void snippets(void **state) {
    assert_true(check_file(TEST_DIR "/golden/chat/snippets.jsonl", NULL) >= 140);
}

static void templates_of_families(void **state) {
    outside_path(TEST_DIR "/../../shared/data/chat");
    assert_true(check_file(TEST_DIR "/../../shared/data/chat/golden.jsonl",
                        TEST_DIR "/../../shared/data/chat/templates") >= 100);
}

typedef struct text_case { // text NULL: refused
    const char *source, *text;
} text_case;

static void check_texts(const text_case *cases, size_t n) {
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "hi",
            "role", "tool", "content", "\xc3\x9f \xf0\x9f\x98\x80\x7f");
    const chat_input in = {.messages = messages};
    for (size_t i = 0; i < n; i++) {
        arena *a = arena_new("generators");
        chat_output out;
        const drv_status status =
                render(a, "t", cases[i].source, strlen(cases[i].source), &in, &out);
        if ((status == DRV_OK) != (cases[i].text != NULL))
            fail_msg("%s: %s", cases[i].source, status ? drv_message() : "is not refused");
        if (status == DRV_OK) assert_string_equal(out.text.p, cases[i].text);
        if (status == DRV_OK) str_free(&out.text);
        arena_free(a);
    }
    json_decref(messages);
}

// A loop whose condition depends on what its turns set.
#define LATE "{% set s = namespace(n=0) %}{% for m in 'abcd' if s.n < 2 %}{% set s.n = s.n + 1 %}"

static void late_conditions(void **state) {
    static const text_case cases[] = {
            {LATE "{{ m }}{% endfor %}", "ab"}, // asked before each turn
            {LATE "{{ m }}{{ loop.last }}{% endfor %}",
                    "aFalsebTrue"}, // and for what comes next, now
            {LATE "{{ m }}{{ loop.length }}{{ loop.revindex }}{% endfor %}", "a44b43c42d41"},
            {"{% set s = namespace(n=0) %}{% for m in 'abcd' if s.n < 2 %}{{ m ~ loop.last }}"
             "{% set s.n = s.n + 1 %}{% endfor %}",
                    "aFalsebFalsecTrue"}, // the look ahead came before the change
            {"{% for m in 'ab' if m == 'z' %}{% else %}none{% endfor %}", "none"},
            {"{% for m in 'ab' %}{{ loop.nope is defined }}{% endfor %}", "FalseFalse"},
            {"{{ [1] is sameas [1] }}{% set l = [1] %}{{ l is sameas l }}", "FalseTrue"},
            {"{{ dict([['a', 1]]|map('list')) }}", "{'a': 1}"},
            {"{{ range(3) }}{{ [range(1, 9, 2)] }}", "range(0, 3)[range(1, 9, 2)]"},
            {"{{ 'a\\r\\nb\\x85\\rc\\n'|indent(1) }}.", "a\n b\n\n c\n."}, // as splitlines
            {"{{ 1 % -0.5 }} {{ -1 % 0.5 }}", "-0.0 0.0"},
            {"{{ '3.5'|int(7, 2) }} {{ 'x'|int(7, 2) }}", "3 7"},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

// What jinja2 gives for what is gone through once, for safe texts and for ASCII alone.
static void generators_and_safe_texts(void **state) {
    static const text_case cases[] = {
            {"{% if messages|selectattr('role', 'equalto', 'nobody') %}yes{% endif %}", "yes"},
            {"{% set g = messages|map(attribute='role') %}{{ g|first }}{{ g|list }}{{ g|list }}",
                    "user['tool'][]"},
            {"{% set g = messages|map(attribute='role') %}{{ 'user' in g }}{{ g|join }}",
                    "Truetool"},
            {"{{ messages|map(attribute='role') is sequence }}", "False"},
            {"{{ messages|reverse|map(attribute='role')|join(' ') }}", "tool user"},
            {"{{ messages|map(attribute='role')|tojson }}", NULL},
            {"{{ messages|select|length }}", NULL},
            {"{{ messages|map(attribute='role')|last }}", NULL},
            {"{{ messages|map(attribute='role') }}", NULL},
            {"{{ '<a>'|safe + '<b>' }}{{ '<'|e|e }}{{ '<a>'|safe ~ '<' }}", "<a>&lt;b&gt;&lt;<a><"},
            {"{{ ('<a> '|safe).strip() + '\"' }}{{ ('<A'|safe|lower)[1:] + '<' }}",
                    "<a>&#34;a&lt;"},
            {"{{ messages[1].content|tojson(ensure_ascii=true) }}",
                    "\"\\u00df \\ud83d\\ude00\\u007f\""},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

// Two lists that hold one list twice each, and so on, 40 deep: little memory and endless to go
// through.
#define TWICE                                                                                      \
    "{% set ns = namespace(a=[], b=[]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}"    \
    "{% set ns.b = [ns.b, ns.b] %}{% endfor %}"

// Each must end with one line, soon, and within its memory.
static void greedy_templates(void **state) {
    static const struct {
        const char *source, *says;
    } cases[] = {
            {"{% set r = range(9000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
                    "runs too long"},
            {"{{ 'x' * 10000000000 }}", "memory"},
            {"{{ ('x' * 10000000) * 100 }}", "memory"},
            {"{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                    "a text of more than 16.00 MiB"},
            {"{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
                    "writes more than 16.00 MiB"},
            {"{{ range(1000000) }}", "at most 100000"},
            {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeply"},
            {"{% set ns = namespace() %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
                    "nested too deeply"},
            {"{{ 'ab'.replace('', 'x' * 1000000).replace('x', 'y' * 1000) }}", "more than"},
            {"{{ 2 ** 64 }}", "64 bits"},
            {"{{ 9223372036854775807 + 1 }}", "64 bits"},
            {"{{ 1 // 0 }}", "division by zero"},
            {"{{ messages.append(1) }}", "may not change a list"},
            {TWICE "{{ ns.a == ns.b }}", "runs too long"},
            {TWICE "{{ [ns.a, ns.b]|sort|length }}", "runs too long"},
            {TWICE "{{ ns.a }}", "writes more than 16.00 MiB"},
            {TWICE "{{ ns.a|tojson }}", "more than 16.00 MiB"},
            {TWICE "{{ ns.a ~ '' }}", "more than 16.00 MiB"},
            {"{{ ('x' * 1000000).join(['a'] * 1000) }}", "more than 16.00 MiB"},
            {"{{ ('\\n' * 1000000)|indent(1000, blank=true)|length }}", "more than 16.00 MiB"},
            {"{% set s = ' ' * 8000000 %}{% for i in range(100000) %}{{ s|trim }}{% endfor %}",
                    "runs too long"},
            {"{% set n = namespace(l=[]) %}{% for i in range(500) %}{% set n.l = n.l + [[i, i]] %}{% endfor %}"
             "{% set d = dict(n.l) %}{% for i in range(90000) %}{{ d.x }}{{ d.x }}{{ d.x }}{% endfor %}",
                    "runs too long"},
            {"{{ {[1]: 2} }}", "list cannot be a key"},
    };
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "hi");
    const chat_input in = {.messages = messages};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("greedy");
        chat_output out;
        FAILS(render(a, "greedy", cases[i].source, strlen(cases[i].source), &in, &out), DRV_E_DATA,
                cases[i].says);
        arena_free(a);
    }
    json_decref(messages);
}

// What Jinja has and no chat template uses.
static void refused_by_name(void **state) {
    static const struct {
        const char *source, *says;
    } cases[] = {
            {"{{ [1]|batch(2) }}", "t:1:8: filter \"batch\" is not supported"},
            {"{{ '99999999999999999999'|int }}", "int: a number is beyond 64 bits"},
            {"{{ '1e30'|int }}", "int: a number is beyond 64 bits"},
            {"{{ 1e30|int }}", "int: a number is beyond 64 bits"},
            {"{{ 3|abs }}", "filter \"abs\" is not supported"},
            {"{{ messages|groupby('role') }}", "filter \"groupby\" is not supported"},
            {"{{ 'a'|urlencode }}", "filter \"urlencode\" is not supported"},
            {"{{ 'a' is lower }}", "test \"lower\" is not supported"},
            {"{{ 4 is divisibleby 2 }}", "test \"divisibleby\" is not supported"},
            {"{{ 'a'.zfill(3) }}", "\"zfill\" is undefined"},
            {"{{ 'a'.casefold() }}", "\"casefold\" is undefined"},
            {"{{ 'a'.startswith('a', 1) }}", "startswith takes 1 to 1 arguments, found 2"},
            {"{% for m in 'ab' %}{{ loop.cycle(1, 2) }}{% endfor %}",
                    "loop.cycle is not supported"},
            {"{% for m in 'ab' %}{{ loop.depth }}{% endfor %}", "loop.depth is not supported"},
            {"{% for m in 'ab' recursive %}{% endfor %}", "expected the end of the tag"},
            {"{{ joiner() }}", "joiner() is not supported"},
            {"{% with a = 1 %}{% endwith %}", "a statement that chat templates use"},
            {"{% call f() %}{% endcall %}", "a statement that chat templates use"},
            {"{% macro f() %}{{ varargs }}{% endmacro %}", "the macro's own parameters"},
            {"{% macro f() %}{% endmacro %}{{ f.name }}",
                    "attributes of a macro are not supported"},
            {"{{ '%x' % 3 }}", "format: \"%x\" is not supported"},
            {"{{ '%(a)s' % {'a': 1} }}", "format: \"%(\" is not supported"},
            {"{{ '{:>5}'.format(3) }}", "format: \"{:>5}\" is not supported"},
    };
    json_t *messages = json_pack("[{s:s}]", "role", "user");
    const chat_input in = {.messages = messages};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("refused");
        chat_output out;
        FAILS(render(a, "t", cases[i].source, strlen(cases[i].source), &in, &out), DRV_E_DATA,
                cases[i].says);
        arena_free(a);
    }
    json_decref(messages);
}

static void broken_templates(void **state) {
    static const struct {
        const char *source, *says;
    } cases[] = {
            {"a\n{% if x %}", "t:2:11: expected {% endif %}, found the end of the template"},
            {"a\nb {{ x", "t:2:5: {{ without }}"},
            {"{{ 'x }}", "a string does not end"},
            {"{{ 1__0 }}", "a '_' in a number"},
            {"{{ 010 }}", "a number that begins with 0"},
            {"{{ 0_1 }}", "a number that begins with 0"},
            {"{{ 1_ }}", "a '_' in a number"},
            {"{{ 1_.5 }}", "a '_' in a number"},
            {"{{ 0x_ }}", "a '_' in a number"},
            {"{{ x | nope }}", "t:1:8: filter \"nope\" is not supported"},
            {"{{ x is nope }}", "test \"nope\" is not supported"},
            {"{% include 'other' %}", "expected a statement that chat templates use"},
            {"{{ (1 }}", "a bracket closes"},
            {"{{ 1) }}", "a bracket closes"},
            {"{# x", "{# without #}"},
            {"{% break %}", "inside a loop"},
            {"\xFF", "byte 0 is not UTF-8"},
            {"\n\n{{ x.y }}", "t:3:6: \"x\" is undefined"},
            {"\n\xC3\xA9 {% macro f() %}{{ 1 + {}.y.z }}{% endmacro %}{{ f() }}",
                    "t:2:30: \"y\" is undefined"},
            {"{{ raise_exception('no system role') }}", "refuses the conversation: no system role"},
    };
    json_t *messages = json_pack("[{s:s}]", "role", "user");
    const chat_input in = {.messages = messages};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("broken");
        chat_output out;
        FAILS(render(a, "t", cases[i].source, strlen(cases[i].source), &in, &out), DRV_E_DATA,
                cases[i].says);
        arena_free(a);
    }
    json_t *empty = json_array();
    arena *a = arena_new("empty");
    chat_output out;
    FAILS(render(a, "t", "x", 1, &(chat_input){.messages = empty}, &out), DRV_E_DATA,
            "the conversation is empty");
    arena_free(a);
    json_decref(empty);
    json_decref(messages);
}

// chat_template.jinja wins over tokenizer_config.json, whose template may be one of a list.
static void template_of_a_folder(void **state) {
    arena *a = arena_new("folder");
    const char *dir = temporary_dir(a);
    static const char config[] =
            "{\"bos_token\": {\"content\": \"<s>\"}, \"pad_token\": null, \"chat_template\": "
            "[{\"name\": \"default\", \"template\": \"D\"}, {\"name\": \"tool_use\", \"template\": \"T\"}]}";
    chat_model m;
    OK(chat_model_read(a, dir, false, &m));
    assert_null(m.path);
    OK(file_write_atomic(path_join(a, dir, "tokenizer_config.json"), config, strlen(config)));
    OK(chat_model_read(a, dir, false, &m));
    assert_string_equal(m.source, "D");
    assert_int_equal(m.n_specials, 1);
    assert_string_equal(m.specials[0].text, "<s>");
    OK(chat_model_read(a, dir, true, &m));
    assert_string_equal(m.source, "T");
    OK(file_write_atomic(path_join(a, dir, "chat_template.jinja"), "J", 1));
    OK(chat_model_read(a, dir, true, &m));
    assert_string_equal(m.source, "J");
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(random_templates),
            cmocka_unit_test(snippets),
            cmocka_unit_test(templates_of_families),
            cmocka_unit_test(late_conditions),
            cmocka_unit_test(generators_and_safe_texts),
            cmocka_unit_test(greedy_templates),
            cmocka_unit_test(refused_by_name),
            cmocka_unit_test(broken_templates),
            cmocka_unit_test(template_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
