// Conversations as tokens and answers: those of transformers (tests/golden/sft, made by
// tools/make_sft_golden.py), what is refused and why.
#include "harness.h"

#include "base/json.h"
#include "base/log.h"
#include "data/sft/sft.h"

typedef struct setting {
    arena *a;
    const char *folder;
    tokenizer *t;
    encoder *e;
} setting;

static setting open_setting(void) {
    setting s = {.a = arena_new("sft")};
    s.folder = golden_path(s.a, "sft");
    OK(tokenizer_open(s.a, s.folder, &s.t));
    s.e = encoder_new(s.t);
    return s;
}

static void close_setting(setting *s) {
    encoder_free(s->e);
    tokenizer_close(s->t);
    arena_free(s->a);
}

static const sft_format *format_of(setting *s, const char *name) {
    const sft_format *f;
    if (strchr(name, '.') && name[0] != '/') name = path_join(s->a, s->folder, name);
    OK(sft_format_open(s->a, s->t, s->folder, name, "2026-01-01", &f));
    return f;
}

static void print_example(const setting *s, const sft_example *x) {
    for (int64_t i = 0; i < x->ids.n; i++)
        print_message("%s%s ", tokenizer_token_text(s->t, x->ids.p[i]),
                x->roles.p[i] == 2 ? "**"
                : x->roles.p[i]    ? "*"
                                   : "");
    print_message("\n");
}

static void check_golden(setting *s, int number, const json_t *o) {
    const json_t *ids = json_object_get(o, "ids"), *roles = json_object_get(o, "roles");
    char *line = json_dumps(json_object_get(o, "record"), 0);
    sft_example x = {0};
    if (sft_encode(format_of(s, json_string_value(json_object_get(o, "template"))), s->e, line,
                strlen(line), &x) != DRV_OK)
        fail_msg("record %d: %s: %s", number, line, drv_message());
    bool same = (size_t)x.ids.n == json_array_size(ids) && x.roles.n == json_array_size(roles);
    for (size_t i = 0; same && i < x.roles.n; i++)
        same = x.ids.p[i] == json_integer_value(json_array_get(ids, i)) &&
               x.roles.p[i] == json_integer_value(json_array_get(roles, i));
    if (!same) {
        print_example(s, &x);
        fail_msg("record %d, %s: %s gives other tokens or roles", number,
                json_string_value(json_object_get(o, "template")), line);
    }
    free(line);
    sft_example_free(&x);
}

TEST(same_as_transformers) {
    setting s = open_setting();
    char *file;
    size_t n_file;
    int number = 0;
    OK(file_read(s.a, path_join(s.a, s.folder, "golden.jsonl"), &file, &n_file));
    for (char *line = file; *line; line = strchr(line, '\n') + 1) {
        json_t *o = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);
        check_golden(&s, number++, o);
        json_decref(o);
    }
    assert_true(number >= 30);
    close_setting(&s);
}

// Documents of one record, each by its ids and roles.
static void check_documents(setting *setup, const json_t *test) {
    const json_t *documents = json_object_get(test, "documents");
    char *line = json_dumps(json_object_get(test, "record"), 0);
    const sft_format *f = format_of(setup, json_string_value(json_object_get(test, "template")));
    sft_example x = {0};
    OK(sft_encode(f, setup->e, line, strlen(line), &x));
    assert_int_equal(x.inner.n + 1, json_array_size(documents));
    int64_t at = 0;
    for (int64_t d = 0; d <= x.inner.n; d++) {
        const json_t *one = json_array_get(documents, (size_t)d),
                     *ids = json_object_get(one, "ids"), *roles = json_object_get(one, "roles");
        const int64_t end = d < x.inner.n ? x.inner.p[d] : x.ids.n;
        assert_int_equal(end - at, json_array_size(ids));
        for (int64_t i = at; i < end; i++) {
            assert_int_equal(x.ids.p[i], json_integer_value(json_array_get(ids, (size_t)(i - at))));
            assert_int_equal(x.roles.p[i],
                    json_integer_value(json_array_get(roles, (size_t)(i - at))));
        }
        at = end;
    }
    free(line);
    sft_example_free(&x);
}

TEST(turn_by_turn) {
    setting s = open_setting();
    char *rest;
    size_t n;
    OK(file_read(s.a, path_join(s.a, s.folder, "turns.jsonl"), &rest, &n));
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *test = json_loads(line, 0, NULL);
        check_documents(&s, test);
        json_decref(test);
    }
    close_setting(&s);
}

// Messages that a record says are not learned, under templates with and without marks: 1 is an
// answer, 2 the last one, of the three that are there.
TEST(messages_left_out) {
    static const struct {
        const char *first, *second, *third;
        char roles[3];
    } cases[] = {{"", "", "", {1, 1, 2}}, {",\"weight\":0", "", "", {0, 1, 2}},
            {"", ",\"train\":false", "", {1, 0, 2}}, {"", "", ",\"weight\":0.0", {1, 2, 0}},
            {",\"weight\":1", ",\"train\":true", ",\"weight\":null", {1, 1, 2}},
            {",\"weight\":0", ",\"weight\":0", ",\"train\":false", {0, 0, 0}}};
    static const char *const templates[] = {"chatml.jinja", "marked.jinja"};
    static const char *const answers[] = {"Hello there!", "A small model.", "again"};
    setting setup = open_setting();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            const char *extra[] = {cases[i].first, cases[i].second, cases[i].third};
            str line = {0};
            sft_example made = {0};
            str_puts(&line, "{\"messages\": [");
            for (int m = 0; m < 3; m++)
                str_printf(&line,
                        "%s{\"role\":\"user\",\"content\":\"Q\"},{\"role\":\"assistant\",\"content\":\"%s\"%s}",
                        m ? "," : "", answers[m], extra[m]);
            str_puts(&line, "]}");
            OK(sft_encode(format_of(&setup, templates[k]), setup.e, line.p, line.n, &made));
            for (int m = 0; m < 3; m++) { // the first id of each answer's text
                id_list ids = {0};
                int64_t at = 0;
                encoder_run(setup.e, answers[m], strlen(answers[m]), false, &ids);
                while (memcmp(made.ids.p + at, ids.p, sizeof *ids.p * (size_t)ids.n) != 0)
                    assert_true(++at + ids.n <= made.ids.n);
                for (int64_t j = 0; j < ids.n; j++)
                    if (made.roles.p[at + j] != cases[i].roles[m])
                        fail_msg("case %zu, %s, answer %d is %d", i, templates[k], m,
                                made.roles.p[at + j]);
                id_list_free(&ids);
            }
            str_free(&line);
            sft_example_free(&made);
        }
    close_setting(&setup);
}

// Forms that give the same conversation: ShareGPT's speakers among messages, content in parts.
TEST(forms_of_messages) {
    static const char plain[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}, "
                                "{\"role\": \"assistant\", \"content\": \"x\"}]}";
    static const char *const same[] = {
            "{\"messages\": [{\"role\": \"human\", \"content\": \"Hi there\"}, {\"role\": \"gpt\", "
            "\"content\": \"x\"}]}",
            "{\"messages\": [{\"from\": \"human\", \"value\": \"Hi there\"}, {\"from\": \"gpt\", "
            "\"value\": \"x\"}]}",
            "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi \"}, "
            "{\"type\": \"text\", \"text\": \"there\"}]}, {\"role\": \"assistant\", \"content\": [\"x\"]}]}",
            "{\"prompt\": [{\"role\": \"human\", \"content\": \"Hi there\"}], \"completion\": "
            "[{\"role\": \"gpt\", \"content\": \"x\"}]}"};
    setting s = open_setting();
    const sft_format *f = format_of(&s, "chatml.jinja");
    sft_example want = {0};
    OK(sft_encode(f, s.e, plain, sizeof plain - 1, &want));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        sft_example got = {0};
        OK(sft_encode(f, s.e, same[i], strlen(same[i]), &got));
        assert_int_equal(got.ids.n, want.ids.n);
        assert_memory_equal(got.ids.p, want.ids.p, sizeof *want.ids.p * (size_t)want.ids.n);
        assert_memory_equal(got.roles.p, want.roles.p, want.roles.n);
        sft_example_free(&got);
    }
    sft_example_free(&want);
    close_setting(&s);
}

// A list that is JSON in a text, as in a column of CSV, is the list.
TEST(lists_in_texts) {
    setting setup = open_setting();
    const sft_format *format = format_of(&setup, "chatml.jinja");
    static const char *const lines[] = {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                        "{\"role\": \"assistant\", \"content\": \"a\"}]}",
            "{\"messages\": \"[{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"q\\\"}, "
            "{\\\"role\\\": \\\"assistant\\\", \\\"content\\\": \\\"a\\\"}]\"}",
            "{\"conversations\": \"[{\\\"from\\\": \\\"human\\\", \\\"value\\\": \\\"q\\\"}, "
            "{\\\"from\\\": \\\"gpt\\\", \\\"value\\\": \\\"a\\\"}]\"}",
            "{\"prompt\": \"[{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"q\\\"}]\", "
            "\"completion\": \"[{\\\"role\\\": \\\"assistant\\\", \\\"content\\\": \\\"a\\\"}]\"}"};
    sft_example x[4] = {0};
    for (int i = 0; i < 4; i++) {
        OK(sft_encode(format, setup.e, lines[i], strlen(lines[i]), &x[i]));
        assert_int_equal(x[i].ids.n, x[0].ids.n);
        assert_memory_equal(x[i].ids.p, x[0].ids.p, sizeof *x[0].ids.p * (size_t)x[0].ids.n);
        assert_memory_equal(x[i].roles.p, x[0].roles.p, x[0].roles.n);
    }
    for (int i = 0; i < 4; i++)
        sft_example_free(&x[i]);
    close_setting(&setup);
}

TEST(broken_records) {
    setting setup = open_setting();
    const sft_format *format = format_of(&setup, "chatml.jinja");
    static const struct {
        const char *line, *says;
    } cases[] = {
            {"", "not valid JSON"},
            {"[]", "no JSON object"},
            {"{}", "unknown form"},
            {"{\"text\": \"x\"}", "expected messages, conversations"},
            {"{\"messages\": []}", "the conversation is empty"},
            {"{\"messages\": \"[{'role': 'user'}]\"}",
                    "\"messages\" is a text, expected a list of messages, or JSON of one"},
            {"{\"messages\": [1]}", "message 0 is not an object"},
            {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
                    "message 0: part 0 of its content is of type \"image\", expected text"},
            {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"weight\": 0.5}]}",
                    "\"weight\" is 0.5, expected 0 or 1"},
            {"{\"messages\": [{\"content\": \"x\"}]}", "message 0 has no \"role\""},
            {"{\"conversations\": [{\"from\": \"alien\", \"value\": \"x\"}]}",
                    "message 0 is from \"alien\""},
            {"{\"conversations\": [{\"from\": \"human\"}]}",
                    "message 0 has no \"value\" beside \"from\""},
            {"{\"instruction\": \"x\"}", "\"instruction\" has no answer in the same record"},
            {"{\"instruction\": \"x\", \"output\": 1}", "\"output\" is not a string"},
            {"{\"instruction\": \"x\", \"input\": [], \"output\": \"y\"}",
                    "\"input\" is not a string"},
            {"{\"prompt\": \"x\", \"response\": \"y\", \"history\": [[\"a\"]]}",
                    "\"history\": turn 0 is neither a message nor a list of two texts"},
            {"{\"prompt\": 1, \"response\": \"y\"}", "\"prompt\" is not a string"},
            {"{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], \"completion\": [{\"role\": \"user\", \"content\": "
             "\"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
                    "\"completion\" begins with messages of the prompt"},
            {"{\"prompt\": \"x\", \"response\": \"y\", \"tools\": \"no\"}",
                    "\"tools\" is not a list"},
            {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}",
                    "begins with the assistant"},
            {"{\"messages\": [{\"role\": \"user\", \"content\": \"\xFF\"}]}", "not valid JSON"},
    };
    sft_example x = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FAILS(sft_encode(format, setup.e, cases[i].line, strlen(cases[i].line), &x), DRV_E_DATA,
                cases[i].says);
        assert_true(x.ids.n == 0 && x.roles.n == 0 && !x.misfit);
    }
    sft_example_free(&x);
    close_setting(&setup);
}

// A template whose text of a few messages is not how the text of more begins, and that has no marks.
TEST(templates_that_look_ahead) {
    setting s = open_setting();
    const char *path = path_join(s.a, temporary_dir(s.a), "ahead.jinja");
    static const char source[] =
            "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}",
                      line[] = "{\"prompt\": \"x\", \"response\": \"y\"}";
    OK(file_write_atomic(path, source, sizeof source - 1));
    sft_example x = {0};
    const sft_format *f;
    OK(sft_format_open(s.a, s.t, s.folder, path, "2026-01-01", &f));
    FAILS(sft_encode(f, s.e, line, sizeof line - 1, &x), DRV_E_DATA,
            "ahead.jinja: the answers cannot be found");
    assert_true(x.misfit && x.ids.n == 0);
    sft_example_free(&x);
    close_setting(&s);
}

TEST(unknown_templates) {
    setting s = open_setting();
    const sft_format *f;
    FAILS(sft_format_open(s.a, s.t, s.folder, NULL, "2026-01-01", &f), DRV_E_USAGE,
            "has no chat template");
    FAILS(sft_format_open(s.a, s.t, s.folder, "alpacca", "2026-01-01", &f), DRV_E_IO,
            "expected \"chat\", \"alpaca\" or a file");
    close_setting(&s);
}

// The end of an answer that a conversation goes on after, too, as an added token.
TEST(ends_of_turns) {
#define LOOP(text) "{% for m in messages %}{{ " text " }}{% endfor %}"
    static const struct {
        const char *template, *token; // NULL: none
    } cases[] = {
            {"chatml.jinja", "<|im_end|>"},
            {"marked.jinja", "<|im_end|>"},
            {"glued.jinja", "</s>"},
            {"brackets.jinja", "</s>"},
            {"inside.jinja", NULL},
            {"alpaca", "</s>"},
            {LOOP("m.role + m.content + '\n'"), NULL},
            // the end of the whole conversation is not that of a turn
            {LOOP("m.content + '<|im_end|>'") "{{ eos_token }}", "<|im_end|>"},
            {LOOP("m.content + '</s><|im_end|>\n'"), "<|im_end|>"},
            // what begins the next turn is not the end of one
            {LOOP("'<|im_start|>' + m.content"), NULL},
            // one question and one answer are all that it takes
            {"{{ 1 // (messages | length < 3) }}" LOOP("m.content + '</s>'"), "</s>"},
            {"{{ raise_exception('no') }}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting s = open_setting();
        const char *name = cases[i].template;
        if (name[0] == '{') {
            name = path_join(s.a, temporary_dir(s.a), "t.jinja");
            OK(file_write_atomic(name, cases[i].template, strlen(cases[i].template)));
        }
        const int32_t id = sft_format_turn_end(format_of(&s, name), s.t),
                      want = cases[i].token ? tokenizer_id(s.t, cases[i].token) : -1;
        if (id != want) fail_msg("%s ends a turn with %d, expected %d", name, id, want);
        close_setting(&s);
    }
}

// Alpaca's earlier turns are those of the conversation; any other text under this name is no part.
TEST(earlier_turns) {
    setting setup = open_setting();
    const sft_format *format = format_of(&setup, "chatml.jinja");
    static const char *const lines[] = {
            "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"a\"}, "
            "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"q\"}, "
            "{\"role\": \"assistant\", \"content\": \"r\"}]}",
            "{\"instruction\": \"q\", \"input\": \"\", \"output\": \"r\", \"system\": \"S\", \"history\": [[\"a\", \"b\"]]}",
            "{\"instruction\": \"q\", \"output\": \"r\", \"system\": \"S\", \"history\": \"[[\\\"a\\\", \\\"b\\\"]]\"}",
            "{\"prompt\": \"q\", \"response\": \"r\", \"system\": \"S\", \"history\": [{\"role\": \"user\", \"content\": \"a\"}, "
            "{\"from\": \"gpt\", \"value\": \"b\"}]}",
            "{\"prompt\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
            "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"q\"}], \"completion\": \"r\", "
            "\"history\": \"from 2023\"}"};
    sft_example want = {0};
    OK(sft_encode(format, setup.e, lines[0], strlen(lines[0]), &want));
    for (size_t i = 1; i < sizeof lines / sizeof *lines; i++) {
        sft_example got = {0};
        OK(sft_encode(format, setup.e, lines[i], strlen(lines[i]), &got));
        assert_int_equal(got.ids.n, want.ids.n);
        assert_memory_equal(got.ids.p, want.ids.p, sizeof *want.ids.p * (size_t)want.ids.n);
        assert_memory_equal(got.roles.p, want.roles.p, want.roles.n);
        sft_example_free(&got);
    }
    sft_example_free(&want);
    close_setting(&setup);
}

static void write_template(const setting *s, const char *folder, const char *name,
        const char *text) {
    if (!text) return;
    const char *path = path_join(s->a, folder, name);
    OK(dir_make_parent(path));
    OK(file_write_atomic(path, text, strlen(text)));
}

static void assert_text(const setting *s, const sft_format *f, const char *line, const char *want) {
    sft_example x = {0};
    str text = {0};
    OK(sft_encode(f, s->e, line, strlen(line), &x));
    tokenizer_decode(s->t, x.ids.p, x.ids.n, false, &text);
    assert_string_equal(text.p, want);
    str_free(&text);
    sft_example_free(&x);
}

// A folder's templates of every kind, and what a record with no tools, with an empty list of them
// and with one goes through: transformers' apply_chat_template of the same folders (5.23). NULL: it
// fails.
TEST(templates_for_tools) {
    static const char list[] = "[{\"name\":\"default\",\"template\":\"cd\"},"
                               "{\"name\":\"tool_use\",\"template\":\"ct\"}]";
    static const struct {
        const char *config, *file, *tool_file, *without, *with;
    } cases[] = {
            {list, NULL, NULL, "cd", "ct"},
            {"{\"default\":\"cd\",\"tool_use\":\"ct\"}", NULL, NULL, "cd", "ct"},
            {list, "fd", NULL, "fd", "fd"},
            {list, NULL, "ft", NULL, NULL},
            {"\"cs\"", NULL, "ft", NULL, NULL},
            {"\"cs\"", "fd", "ft", "fd", "ft"},
            {"null", "fd", "ft", "fd", "ft"},
            {"[{\"name\":\"tool_use\",\"template\":\"ct\"}]", NULL, NULL, NULL, NULL},
            {"[{\"name\":\"default\",\"template\":\"cd\"}]", NULL, NULL, "cd", "cd"},
            {"\"cs\"", NULL, NULL, "cs", "cs"},
    };
    static const char *const tools[] = {"null", "[]", "\"[]\"", "[{\"type\": \"function\"}]"};
    setting setup = open_setting();
    log_to_file_only(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = temporary_dir(setup.a);
        const sft_format *f;
        write_template(&setup, folder, "chat_template.jinja", cases[i].file);
        write_template(&setup, folder, "additional_chat_templates/tool_use.jinja",
                cases[i].tool_file);
        write_template(&setup, folder, "tokenizer_config.json",
                arena_printf(setup.a, "{\"chat_template\": %s}", cases[i].config));
        if (!cases[i].without) {
            assert_true(sft_format_open(setup.a, setup.t, folder, NULL, NULL, &f) == DRV_E_DATA);
            continue;
        }
        OK(sft_format_open(setup.a, setup.t, folder, NULL, NULL, &f));
        for (int k = 0; k < 4; k++) {
            const char *line = arena_printf(setup.a,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": %s}",
                    tools[k]);
            assert_text(&setup, f, line, k == 0 ? cases[i].without : cases[i].with);
        }
    }
    log_to_file_only(false);
    close_setting(&setup);
}

// Templates that write what the tokenizer does not know are warned of, once.
TEST(words_that_are_no_tokens) {
    static const struct {
        const char *template, *config, *says; // NULL: nothing
    } cases[] = {
            {"<|im_start|>{{ messages[0].content }}<|im_end|>", "{}", NULL},
            {"<|user|>{{ messages[0].content }}<|im_end|><|user|><|end|>", "{}",
                    "writes \"<|user|>\", \"<|end|>\", for which the tokenizer has no token"},
            {"<|not a marker|><||>", "{}", NULL},
            {"{{ bos_token }}{{ messages[0].content }}", "{\"bos_token\": \"<s>\"}", NULL},
            {"{{ bos_token }}{{ messages[0].content }}", "{\"bos_token\": null}",
                    "the template writes bos_token"},
            {"{{ messages[0].content }}{{ eos_token }}", "{}", "no answer ends with it"},
            {"{% set eos_token = 'x' %}{{ eos_token }}", "{}", NULL},
    };
    setting setup = open_setting();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = temporary_dir(setup.a), *log = path_join(setup.a, folder, "log");
        const sft_format *f;
        char *said;
        size_t n_said;
        write_template(&setup, folder, "chat_template.jinja", cases[i].template);
        write_template(&setup, folder, "tokenizer_config.json", cases[i].config);
        OK(log_open_file(log));
        OK(sft_format_open(setup.a, setup.t, folder, NULL, NULL, &f));
        log_close_file();
        OK(file_read(setup.a, log, &said, &n_said));
        if (cases[i].says ? !strstr(said, cases[i].says) : strstr(said, "the template") != NULL)
            fail_msg("case %zu says: %s", i, said);
    }
    close_setting(&setup);
}

// A text that begins with what the tokenizer puts in front has it once.
TEST(begins_once) {
    static const struct {
        const char *text, *same;
        bool dropped;
    } cases[] = {{"<s>Hi", "Hi", true}, {"Hi", "Hi", false}, {"<s>", "", true}, {"", "", false},
            {" <s>Hi", " <s>Hi", false}};
    setting s = open_setting();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        id_list got = {0}, want = {0};
        id_list_add(&got, 7);
        encoder_run(s.e, cases[i].text, strlen(cases[i].text), true, &got);
        encoder_run(s.e, cases[i].same, strlen(cases[i].same), true, &want);
        assert_int_equal(tokenizer_begin_once(s.t, &got, 1, NULL), cases[i].dropped);
        assert_int_equal(got.n, want.n + 1);
        assert_int_equal(got.p[0], 7);
        assert_memory_equal(got.p + 1, want.p, sizeof *want.p * (size_t)want.n);
        id_list_free(&got);
        id_list_free(&want);
    }
    close_setting(&s);
}
