// The grammar is that of POSIX (Shell Command Language, 2.9), as far as a script that starts a
// training needs it. An if or a case is followed where the script itself says what it asks for;
// all other blocks are skipped, and what is assigned in them is unknown from there on.
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "translate/shell_internal.h"

drv_status shell_refuse(const reader *self, int line, const char *what) {
    return drv_fail(DRV_E_USAGE, "%s:%d: %s", self->file, line, what);
}

const char *command_place(arena *a, const shell_command *command) {
    return command->file ? arena_printf(a, "%s:%d", command->file, command->line) : "command line";
}

void shell_clear(shell_script *script) {
    free(script->variables);
    free(script->commands);
    *script = (shell_script){0};
}

const shell_variable *shell_find(const shell_script *script, const char *name) {
    for (int i = 0; i < script->n_variables; i++)
        if (strcmp(script->variables[i].name, name) == 0) return &script->variables[i];
    return NULL;
}

shell_variable *shell_variable_named(shell_script *script, const char *name) {
    for (int i = 0; i < script->n_variables; i++)
        if (strcmp(script->variables[i].name, name) == 0) return &script->variables[i];
    MEM_GROW(script->variables, script->n_variables, script->cap_variables);
    shell_variable *v = &script->variables[script->n_variables++];
    *v = (shell_variable){.name = name, .file = ""};
    return v;
}

void shell_set(shell_script *script, const char *name, const char *value) {
    shell_variable *v = shell_variable_named(script, name);
    v->value = (shell_word){.text = value};
    v->file = NULL;
}

void shell_export(shell_script *script, const char *name, const char *value) {
    shell_variable_named(script, name)->value = (shell_word){.text = value};
}

void shell_assign(reader *self, const char *name, const shell_word *value, const word_list *items) {
    const bool fresh = !shell_find(self->script, name);
    if (self->dead && !fresh) return;
    shell_variable *v = shell_variable_named(self->script, name);
    if (!v->file) return; // the caller's
    v->file = self->file;
    v->unset = self->dead;
    v->value = self->dead ? (shell_word){"", NULL, value->line} : *value;
    v->n_items = 0;
    if (self->dead) return;
    if (items && items->n > 0) {
        shell_word *words = ARENA_ARRAY(self->a, shell_word, items->n);
        memcpy(words, items->words, sizeof *words * (size_t)items->n);
        v->items = words;
        v->n_items = items->n;
    }
    if (!self->block) return;
    v->n_items = 0;
    v->value.unknown = arena_printf(self->a, "%s is set in %s of %s, which is not run%s%s%s", name,
            self->block, self->file, self->why ? " (" : "", self->why ? self->why : "",
            self->why ? ")" : "");
}

// NAME=VALUE or NAME+=VALUE; *was says whether there was one.
static drv_status read_assignment(reader *self, bool *was) {
    const int n_name = shell_name_length(self);
    const bool appends = shell_peek(self, n_name) == '+';
    *was = n_name > 0 && shell_peek(self, n_name + appends) == '=';
    if (!*was) return DRV_OK;
    DRV_TRY(shell_count_word(self, self->line));
    const char *name = shell_take(self, n_name);
    shell_word word;
    word_list items = {0};
    shell_advance(self, 1 + appends);
    const drv_status status =
            shell_read_value(self, appends ? shell_find(self->script, name) : NULL, &word, &items);
    if (status == DRV_OK) shell_assign(self, name, &word, &items);
    free(items.words);
    return status;
}

// "> file", "2>&1", "< file", "<<< word"; here-documents are skipped with their lines.
static drv_status skip_redirection(reader *self) {
    word_list target = {0};
    const bool here =
            shell_peek(self, 0) == '<' && shell_peek(self, 1) == '<' && shell_peek(self, 2) != '<';
    self->redirects = true;
    while (shell_peek(self, 0) == '<' || shell_peek(self, 0) == '>' || shell_peek(self, 0) == '&')
        shell_advance(self, 1);
    if (here && shell_peek(self, 0) == '-') shell_advance(self, 1);
    shell_skip_blanks(self);
    drv_status status = DRV_OK;
    if (shell_peek(self, 0) == '(') // >(command)
        status = shell_skip_balanced(self, '(', ')');
    else
        status = shell_read_word(self, &target);
    if (status == DRV_OK && here && target.n) {
        const char *mark = target.words[0].text;
        const size_t n_mark = strlen(mark);
        while (!shell_at_end(self)) { // to the line that is the mark
            while (!shell_at_end(self) && shell_peek(self, 0) != '\n')
                shell_advance(self, 1);
            shell_advance(self, 1);
            while (shell_peek(self, 0) == '\t')
                shell_advance(self, 1);
            if ((size_t)(self->end - self->p) < n_mark || strncmp(self->p, mark, n_mark) != 0)
                continue;
            if (shell_peek(self, (int)n_mark) == '\n' || self->p + n_mark >= self->end) break;
        }
        shell_advance(self, (int)n_mark);
    }
    free(target.words);
    return status;
}

static bool is_number(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

// The words of a command, up to what ends it, which is left.
static drv_status read_words(reader *self, word_list *list) {
    for (;;) {
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        if (shell_at_end(self) || c == '\n' || c == ';' || c == '|' || c == '(' || c == ')')
            return DRV_OK;
        if (c == '&' && shell_peek(self, 1) != '>') return DRV_OK;
        if (c == '<' || c == '>' || c == '&') {
            const bool descriptor = list->n > 0 && self->p[-1] == list->words[list->n - 1].text[0];
            if (descriptor && is_number(list->words[list->n - 1].text)) list->n--;
            DRV_TRY(skip_redirection(self));
            continue;
        }
        DRV_TRY(shell_read_word(self, list));
    }
}

static bool is_one_of(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0) return true;
    return false;
}

// export NAME=VALUE...: they are assignments where they stand.
static drv_status read_export(reader *self) {
    for (;;) {
        bool was;
        shell_skip_blanks(self);
        if (shell_at_end(self) || strchr("\n;|&<>()", *self->p)) return DRV_OK;
        DRV_TRY(read_assignment(self, &was));
        word_list rest = {0};
        if (was) continue;
        const drv_status status = shell_read_word(self, &rest);
        free(rest.words);
        DRV_TRY(status);
    }
}

// --- commands
static drv_status read_block(reader *self, const char *keyword, int depth);
static drv_status read_if(reader *self, int depth);
static drv_status read_case(reader *self, int depth);

typedef struct ending { // of a command
    bool closes;        // it is a word that ends a block
    const char *word;   // "then", "else", "elif" or "do", which ends what stands before it; NULL
    verdict test;       // what it says as a condition; an assignment succeeds
    bool is_test;       // it is one, not a program that would have to run
    const char *why;    // what is not known of it
} ending;

static drv_status record(reader *self, const word_list *list, int line) {
    if (list->n == 0 || self->block || self->dead) return DRV_OK;
    shell_word *words = ARENA_ARRAY(self->a, shell_word, list->n);
    memcpy(words, list->words, sizeof *words * (size_t)list->n);
    const shell_command command = {self->file, line, words, list->n};
    shell_script *script = self->script;
    MEM_GROW(script->commands, script->n_commands, script->cap_commands);
    script->commands[script->n_commands++] = command;
    return script->on_command ? script->on_command(script->on_command_arg, script, &command)
                              : DRV_OK;
}

static drv_status read_simple(reader *self, ending *end) {
    word_list list = {0};
    const int line = self->line;
    self->redirects = false;
    drv_status status = read_words(self, &list);
    const bool defines = list.n == 1 && shell_peek(self, 0) == '(' && shell_peek(self, 1) == ')';
    if (status == DRV_OK && !defines && list.n > 0) {
        const bool runs = !self->dead && self->script->arguments.known;
        end->test = shell_test(self->script, list.words, list.n, &end->why);
        if (runs && strcmp(list.words[0].text, "getopts") == 0)
            end->test = shell_getopts(self, &list);
        if (runs && !self->block && strcmp(list.words[0].text, "shift") == 0)
            shell_shift(self->script, list.words, list.n);
        end->is_test = *list.words[0].text == '[' || strcmp(list.words[0].text, "test") == 0;
        if (self->redirects && strcmp(list.words[0].text, "[[") == 0) end->test = TEST_UNKNOWN;
        status = record(self, &list, line);
    }
    if (status == DRV_OK && !defines && shell_peek(self, 0) == '(')
        status = shell_skip_balanced(self, '(', ')');
    free(list.words);
    return status;
}

// The keyword at the reader's place; "": none.
static const char *keyword_here(reader *self) {
    int n = shell_name_length(self);
    if (n == 0 && shell_peek(self, 0) && strchr("{}!", shell_peek(self, 0))) n = 1;
    const bool ends = shell_peek(self, n) == 0 || strchr(WORD_ENDS, shell_peek(self, n));
    return n && ends ? arena_strndup(self->a, self->p, (size_t)n) : "";
}

static verdict opposite(verdict v) {
    if (v == TEST_UNKNOWN) return v;
    return v == TEST_TRUE ? TEST_FALSE : TEST_TRUE;
}

// One command with what stands before it; a block that it opens is read with it.
static drv_status read_command(reader *self, int depth, ending *end) {
    static const char *const openers[] = {"for", "while", "until", "select", "{", "function", NULL};
    static const char *const closers[] = {"fi", "done", "esac", "}", NULL};
    static const char *const between[] = {"then", "do", "else", "elif", NULL};
    static const char *const before[] = {"!", "time", "exec", NULL};
    static const char *const exports[] = {"export", "declare", "local", "readonly", "typeset",
            NULL};
    *end = (ending){.test = TEST_TRUE};
    bool was = true;
    while (was) {
        shell_skip_blanks(self);
        DRV_TRY(read_assignment(self, &was));
    }
    const char *word = keyword_here(self);
    const int length = (int)strlen(word);
    if (strcmp(word, "if") == 0 || strcmp(word, "case") == 0) {
        end->test = TEST_UNKNOWN;
        shell_advance(self, length);
        return *word == 'i' ? read_if(self, depth) : read_case(self, depth);
    }
    if (is_one_of(word, openers)) {
        end->test = TEST_UNKNOWN;
        shell_advance(self, length);
        return read_block(self, word, depth);
    }
    if (is_one_of(word, closers) || is_one_of(word, between)) {
        shell_advance(self, length);
        end->closes = is_one_of(word, closers);
        if (!end->closes) end->word = word;
        return DRV_OK;
    }
    if (is_one_of(word, before)) {
        shell_advance(self, length);
        DRV_TRY(read_command(self, depth, end));
        if (*word == '!') end->test = opposite(end->test);
        return DRV_OK;
    }
    if (!is_one_of(word, exports)) return read_simple(self, end);
    shell_advance(self, length);
    return read_export(self);
}

// Past what stands between commands; where `in_case`, not past the ";;" that ends its part.
static void skip_separators(reader *self, bool in_case) {
    for (;;) {
        shell_skip_blanks(self);
        if (shell_at_end(self) || !strchr("\n;|&()", *self->p)) return;
        if (in_case && *self->p == ';' && shell_peek(self, 1) == ';') return;
        shell_advance(self, 1);
    }
}

// --- blocks
typedef struct branches { // of an if or a case
    const char *outer;    // the reader's block and dead around it
    bool outer_dead, taken, undecided;
    const char *name; // "the if in line 12"
    const char *why;  // what decides it and is not known; NULL: nothing that has a name
} branches;

static branches branches_begin(const reader *self, const char *keyword, int line) {
    return (branches){.outer = self->block,
            .outer_dead = self->dead,
            .name = arena_printf(self->a, "the %s in line %d", keyword, line)};
}

// Decides how the next branch is read: it runs, it does not, or nobody knows.
static void branches_next(reader *self, branches *all, verdict test, const char *why) {
    self->block = all->outer;
    self->dead = all->outer_dead || all->taken || test == TEST_FALSE;
    if (self->dead) return;
    if (test == TEST_UNKNOWN && !all->undecided) all->why = why;
    all->undecided |= test == TEST_UNKNOWN;
    if (all->undecided && !self->block) {
        self->block = all->name;
        self->why = all->why;
    }
    all->taken = !all->undecided;
}

static void branches_end(reader *self, const branches *all) {
    self->block = all->outer;
    self->dead = all->outer_dead;
}

// Commands that && and || join. After a test they run as it says; a program is taken to succeed,
// and what comes after its || may run or not.
static drv_status read_list(reader *self, int depth, ending *end) {
    branches all = branches_begin(self, "list", self->line);
    verdict last = TEST_TRUE;
    for (bool live = true;;) {
        DRV_TRY(read_command(self, depth, end));
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        const bool joins = (c == '&' || c == '|') && shell_peek(self, 1) == c;
        const bool succeeds = end->test == TEST_UNKNOWN && !end->is_test && c == '&';
        if (live) last = succeeds ? TEST_TRUE : end->test;
        if (!joins || end->closes || end->word) break;
        shell_advance(self, 2);
        skip_separators(self, false);
        const verdict runs = c == '&' ? last : opposite(last);
        live = runs != TEST_FALSE;
        self->dead = all.outer_dead || !live;
        self->block = all.outer;
        if (runs == TEST_UNKNOWN && !self->block) {
            self->block = all.name;
            self->why = end->why;
        }
    }
    branches_end(self, &all);
    return DRV_OK;
}

static verdict both(verdict a, verdict b, bool is_and) {
    const verdict decides = is_and ? TEST_FALSE : TEST_TRUE;
    if (a == decides || b == decides) return decides;
    return a == TEST_UNKNOWN ? a : b;
}

// The commands between `keyword` (if, elif, while) and its then or do, which is read too.
static drv_status read_condition(reader *self, int depth, const char *keyword, verdict *out,
        const char **why) {
    const char *stop = *keyword == 'w' ? "do" : "then";
    const int line = self->line;
    const char *outer = self->block;
    bool first = true, is_and = false, joins = false;
    *why = NULL;
    *out = TEST_UNKNOWN;
    if (!outer) self->block = arena_printf(self->a, "a condition in line %d", line);
    for (;;) {
        ending end;
        skip_separators(self, false);
        if (shell_at_end(self))
            return shell_refuse(self, line, arena_printf(self->a, "\"%s\" is not closed", keyword));
        DRV_TRY(read_command(self, depth + 1, &end));
        if (end.word && strcmp(end.word, stop) == 0) break;
        if (end.test == TEST_UNKNOWN && end.why && !*why) *why = end.why;
        *out = joins && !first ? both(*out, end.test, is_and) : end.test;
        first = false;
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        joins = (c == '&' || c == '|') && shell_peek(self, 1) == c;
        is_and = c == '&';
        if (c == '|' && !joins) { // only the last command of a pipe counts, which no test is
            *out = TEST_UNKNOWN;
            joins = is_and = true;
        }
    }
    self->block = outer;
    return DRV_OK;
}

static drv_status read_if(reader *self, int depth) {
    const int line = self->line;
    branches all = branches_begin(self, "if", line);
    ending end = {.word = "elif"};
    if (depth >= MAX_NESTED) return shell_refuse(self, line, "blocks nested deeper than 64");
    while (!end.closes) {
        verdict test = TEST_TRUE;
        const char *why = NULL;
        if (end.word && strcmp(end.word, "elif") == 0) {
            branches_end(self, &all);
            DRV_TRY(read_condition(self, depth, "if", &test, &why));
        }
        branches_next(self, &all, test, why);
        do {
            skip_separators(self, false);
            if (shell_at_end(self)) return shell_refuse(self, line, "\"if\" is not closed");
            DRV_TRY(read_list(self, depth + 1, &end));
        } while (!end.closes && !end.word);
    }
    branches_end(self, &all);
    return DRV_OK;
}

// The patterns of a part of a case, up to and with its ")".
static drv_status read_patterns(reader *self, int line, const shell_word *subject, verdict *out) {
    word_list list = {0};
    drv_status status = DRV_OK;
    *out = subject->unknown ? TEST_UNKNOWN : TEST_FALSE;
    if (shell_peek(self, 0) == '(') shell_advance(self, 1);
    while (status == DRV_OK && shell_peek(self, 0) != ')') {
        const int before = list.n;
        shell_skip_blanks(self);
        status = shell_read_word(self, &list);
        shell_skip_blanks(self);
        if (status == DRV_OK && shell_peek(self, 0) == '(') { // as in @(a|b)
            status = shell_skip_balanced(self, '(', ')');
            *out = TEST_UNKNOWN;
            continue;
        }
        const char c = shell_peek(self, 0);
        if (status == DRV_OK && (shell_at_end(self) || !strchr("|)", c)))
            status = shell_refuse(self, line, "a pattern of \"case\" is not closed");
        if (c == '|') shell_advance(self, 1);
        for (int i = before; i < list.n; i++)
            if (list.words[i].unknown && *out == TEST_FALSE)
                *out = TEST_UNKNOWN;
            else if (!subject->unknown && fnmatch(list.words[i].text, subject->text, 0) == 0)
                *out = TEST_TRUE;
    }
    if (list.n == 1 && strcmp(list.words[0].text, "*") == 0) *out = TEST_TRUE;
    shell_advance(self, 1);
    free(list.words);
    return status;
}

static drv_status read_case(reader *self, int depth) {
    const int line = self->line;
    word_list list = {0};
    shell_skip_blanks(self);
    drv_status status = shell_read_word(self, &list);
    const shell_word subject =
            list.n == 1 ? list.words[0] : (shell_word){"", "its word is not one", line};
    free(list.words);
    DRV_TRY(status);
    branches all = branches_begin(self, "case", line);
    ending end = {0};
    if (depth >= MAX_NESTED) return shell_refuse(self, line, "blocks nested deeper than 64");
    shell_skip_blanks(self);
    if (strcmp(keyword_here(self), "in") == 0) shell_advance(self, 2);
    while (!end.closes) {
        verdict test;
        branches_end(self, &all);
        skip_separators(self, false);
        if (shell_at_end(self)) return shell_refuse(self, line, "\"case\" is not closed");
        if (strcmp(keyword_here(self), "esac") == 0) {
            shell_advance(self, 4);
            break;
        }
        DRV_TRY(read_patterns(self, line, &subject, &test));
        branches_next(self, &all, test, subject.unknown);
        for (skip_separators(self, true); shell_peek(self, 0) != ';' && !end.closes;
                skip_separators(self, true)) {
            if (shell_at_end(self)) return shell_refuse(self, line, "\"case\" is not closed");
            DRV_TRY(read_list(self, depth + 1, &end));
        }
    }
    branches_end(self, &all);
    return DRV_OK;
}

// The commands of a block past the word that closes it.
static drv_status read_body(reader *self, const char *keyword, int line, int depth) {
    for (ending end = {0}; !end.closes;) {
        skip_separators(self, false);
        if (shell_at_end(self))
            return shell_refuse(self, line, arena_printf(self->a, "\"%s\" is not closed", keyword));
        DRV_TRY(read_list(self, depth + 1, &end));
    }
    return DRV_OK;
}

// A loop that the script's arguments decide is gone through: while getopts, while [ $# -gt 0 ].
// *test: what its condition says the last time, for which the body is still to be read.
static drv_status read_rounds(reader *self, int line, int depth, verdict *test) {
    const char *begin = self->p, *why;
    const bool arguments = self->script->arguments.known && !self->dead && !self->block;
    const int begin_line = self->line, most = self->script->arguments.n * 8 + 1;
    for (int round = 0;; round++) {
        self->p = begin;
        self->line = begin_line;
        DRV_TRY(read_condition(self, depth, "while", test, &why));
        if (!arguments || *test != TEST_TRUE || round >= most) break;
        DRV_TRY(read_body(self, "while", line, depth));
    }
    return DRV_OK;
}

// From after the keyword past the word that closes the block. Other loops run as often as only a
// shell knows.
static drv_status read_block(reader *self, const char *keyword, int depth) {
    const int line = self->line;
    branches all = branches_begin(self, *keyword == '{' ? "block" : keyword, line);
    verdict test = TEST_UNKNOWN;
    if (depth >= MAX_NESTED) return shell_refuse(self, line, "blocks nested deeper than 64");
    shell_skip_blanks(self);
    const bool loop = strcmp(keyword, "for") == 0 || strcmp(keyword, "select") == 0;
    const bool function = strcmp(keyword, "function") == 0; // its block comes next
    if (strcmp(keyword, "while") == 0) DRV_TRY(read_rounds(self, line, depth, &test));
    branches_next(self, &all, test == TEST_FALSE ? test : TEST_UNKNOWN, NULL);
    if (loop && shell_name_length(self)) {
        const shell_word value = {"", NULL, line};
        shell_assign(self, shell_take(self, shell_name_length(self)), &value, NULL);
    }
    if (!function) DRV_TRY(read_body(self, keyword, line, depth));
    if (function) {
        word_list name = {0};
        const drv_status status = read_words(self, &name);
        free(name.words);
        DRV_TRY(status);
    }
    branches_end(self, &all);
    return DRV_OK;
}

drv_status shell_read(arena *a, const char *file, const char *text, size_t n,
        shell_script *script) {
    reader self = {.a = a, .file = file, .p = text, .end = text + n, .line = 1, .script = script};
    ending end;
    if (memchr(text, 0, n)) return drv_fail(DRV_E_USAGE, "%s: a NUL byte, expected text", file);
    for (skip_separators(&self, false); !shell_at_end(&self); skip_separators(&self, false))
        DRV_TRY(read_list(&self, 0, &end));
    return DRV_OK;
}
