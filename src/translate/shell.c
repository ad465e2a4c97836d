// Reads commands, lists and blocks: the part of POSIX's Shell Command Language (2.9) that
// docs/translate.md lists; all else is refused by its name. A branch of an if or a case is taken
// where the script itself decides it. Nobody knows whether the other blocks run: their commands are
// left out, and what they assign is unknown from there on.
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "translate/shell_internal.h"

drv_status shell_refuse(const reader *self, int line, const char *what) {
    return drv_fail(DRV_E_USAGE, "%s:%d: %s", self->file, line, what);
}

drv_status shell_refuse_form(const reader *self, int line, const char *name) {
    return drv_fail(DRV_E_USAGE,
            "%s:%d: %s is not supported (docs/translate.md lists the supported syntax); give the command that trains after --",
            self->file, line, name);
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
    if (!v->file) return; // set from outside
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

// Reads NAME=VALUE or NAME+=VALUE; *was: there was one.
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
    if (appends && shell_peek(self, 0) == '(') return shell_refuse_form(self, self->line, "+=(");
    const drv_status status =
            shell_read_value(self, appends ? shell_find(self->script, name) : NULL, &word, &items);
    if (status == DRV_OK) shell_assign(self, name, &word, &items);
    free(items.words);
    return status;
}

// Skips "> file", "2>&1", "< file".
static drv_status skip_redirection(reader *self) {
    word_list target = {0};
    if (shell_peek(self, 0) == '<' && shell_peek(self, 1) == '<')
        return shell_refuse_form(self, self->line, "a here-document (<<)");
    while (shell_peek(self, 0) && strchr("<>&", shell_peek(self, 0)))
        shell_advance(self, 1);
    shell_skip_blanks(self);
    const drv_status status = shell_peek(self, 0) == '('
                                      ? shell_refuse_form(self, self->line, "<( or >(")
                                      : shell_read_word(self, &target);
    free(target.words);
    return status;
}

static bool is_number(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

// Reads the words of a command and stops at the character that ends it.
static drv_status read_words(reader *self, word_list *list) {
    for (;;) {
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        if (shell_at_end(self) || c == '\n' || c == ';' || c == '|' || c == '(' || c == ')')
            return DRV_OK;
        if (c == '&' && shell_peek(self, 1) != '>') return DRV_OK;
        if (c == '<' || c == '>' || c == '&') {
            if (list->n > 0 && strcmp(list->words[0].text, "[[") == 0)
                return shell_refuse_form(self, self->line, "< or > in [[ ]]");
            const bool descriptor = list->n > 0 && self->p[-1] == list->words[list->n - 1].text[0];
            if (descriptor && is_number(list->words[list->n - 1].text)) list->n--;
            DRV_TRY(skip_redirection(self));
            continue;
        }
        DRV_TRY(shell_read_word(self, list));
    }
}

// Reads the assignments of export NAME=VALUE..., declare NAME=VALUE...
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

typedef struct ending { // of a command or a list
    bool closes;        // it is a word that ends a block
    const char *word;   // "then", "else", "elif" or "do", which ends a condition or a branch; NULL
    verdict test;       // its result as a condition; an assignment succeeds
    bool is_test;       // [ ], [[ ]] or test; false: a program, which would have to run
    const char *why;    // why its result is not known
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
    drv_status status = read_words(self, &list);
    const bool bracket = shell_peek(self, 0) == '(' || shell_peek(self, 0) == ')',
               defines = list.n == 1 && shell_peek(self, 0) == '(' && shell_peek(self, 1) == ')';
    if (defines) shell_advance(self, 2); // a function, whose block comes next
    if (status == DRV_OK && bracket && !defines)
        status = shell_refuse_form(self, line, "a subshell ( )");
    if (status == DRV_OK && !defines && list.n > 0) {
        const char *first = list.words[0].text;
        const bool runs = !self->dead && self->script->arguments.known;
        end->test = shell_test(self->script, list.words, list.n, &end->why);
        if (runs && strcmp(first, "getopts") == 0) end->test = shell_getopts(self, &list);
        if (runs && !self->block && strcmp(first, "shift") == 0)
            shell_shift(self->script, list.words, list.n);
        end->is_test = *first == '[' || strcmp(first, "test") == 0;
        status = record(self, &list, line);
    }
    free(list.words);
    return status;
}

// Returns the word at the reader's position if it may be a keyword, else "".
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

static drv_status read_plain_command(reader *self, int depth, ending *end) {
    const char *word = keyword_here(self);
    if (STR_ONE_OF(word, "until", "select", "function", "time", "local", "readonly", "typeset",
                "eval"))
        return shell_refuse_form(self, self->line, word);
    const bool blocks = STR_ONE_OF(word, "if", "case", "for", "while", "{");
    end->closes = STR_ONE_OF(word, "fi", "done", "esac", "}");
    if (STR_ONE_OF(word, "then", "do", "else", "elif")) end->word = word;
    if (!blocks && !end->closes && !end->word && !STR_ONE_OF(word, "export", "declare"))
        return read_simple(self, end);
    shell_advance(self, (int)strlen(word));
    if (end->closes || end->word) return DRV_OK;
    if (!blocks) return read_export(self);
    end->test = TEST_UNKNOWN;
    if (*word == 'i') return read_if(self, depth);
    return *word == 'c' ? read_case(self, depth) : read_block(self, word, depth);
}

// Reads one command with what stands before it (assignments, ! and exec), and the block that it
// opens.
static drv_status read_command(reader *self, int depth, ending *end) {
    bool negated = false, found = true;
    *end = (ending){.test = TEST_TRUE};
    while (found) {
        shell_skip_blanks(self);
        DRV_TRY(read_assignment(self, &found));
        if (found) continue;
        const char *word = keyword_here(self);
        found = strcmp(word, "!") == 0 || strcmp(word, "exec") == 0;
        negated ^= *word == '!';
        if (found) shell_advance(self, (int)strlen(word));
    }
    DRV_TRY(read_plain_command(self, depth, end));
    if (negated) end->test = opposite(end->test);
    return DRV_OK;
}

// Skips what stands between commands; `in_case`: but not the ";;" that ends a part of a case.
static void skip_separators(reader *self, bool in_case) {
    for (;;) {
        shell_skip_blanks(self);
        if (shell_at_end(self) || !strchr("\n;|&", *self->p)) return;
        if (in_case && *self->p == ';' && shell_peek(self, 1) == ';') return;
        shell_advance(self, 1);
    }
}

// --- blocks
typedef struct branches { // of an if, a case or a list
    const char *outer;    // the reader's block around it
    bool outer_dead;      // nothing around it runs
    bool taken;           // a branch runs, and so the next ones do not
    bool undecided;       // nobody knows whether an earlier branch runs
    const char *name;     // "the if in line 12"
    const char *why;      // what decides it but is not known; NULL: something without a name
} branches;

static branches branches_begin(const reader *self, const char *keyword, int line) {
    return (branches){.outer = self->block,
            .outer_dead = self->dead,
            .name = arena_printf(self->a, "the %s in line %d", keyword, line)};
}

// Decides how the next branch is read: as one that runs, that does not, or that may.
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

static verdict both(verdict a, verdict b, bool is_and) {
    const verdict decides = is_and ? TEST_FALSE : TEST_TRUE;
    if (a == decides || b == decides) return decides;
    return a == TEST_UNKNOWN ? a : b;
}

// Reads commands that && and || join; end->test and end->why are those of the whole list. After a
// test the next command runs or not as it says; a program is taken to succeed, except in a
// condition.
static drv_status read_list(reader *self, int depth, ending *end) {
    branches all = branches_begin(self, "list", self->line);
    verdict result = TEST_TRUE;
    const char *why = NULL;
    for (char joint = '&';;) {
        DRV_TRY(read_command(self, depth, end));
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        const bool joins = (c == '&' || c == '|') && shell_peek(self, 1) == c;
        if (joins && c == '&' && !end->is_test && end->test == TEST_UNKNOWN && !all.outer)
            end->test = TEST_TRUE;
        if (end->test == TEST_UNKNOWN && !why) why = end->why;
        result = both(result, end->test, joint == '&');
        if (!joins || end->closes || end->word) break;
        joint = c;
        shell_advance(self, 2);
        skip_separators(self, false);
        const verdict runs = joint == '&' ? result : opposite(result);
        self->dead = all.outer_dead || runs == TEST_FALSE;
        self->block = all.outer;
        if (runs == TEST_UNKNOWN && !self->block) {
            self->block = all.name;
            self->why = why;
        }
    }
    branches_end(self, &all);
    end->test = result;
    end->why = why;
    return DRV_OK;
}

// Reads the commands between `keyword` (if, elif, while) and the then or do that follows them. The
// last list decides.
static drv_status read_condition(reader *self, int depth, const char *keyword, verdict *out,
        const char **why) {
    const char *stop = *keyword == 'w' ? "do" : "then";
    const int line = self->line;
    const char *outer = self->block;
    *why = NULL;
    *out = TEST_UNKNOWN;
    if (!outer) self->block = arena_printf(self->a, "a condition in line %d", line);
    for (ending end;;) {
        skip_separators(self, false);
        if (shell_at_end(self))
            return shell_refuse(self, line, arena_printf(self->a, "\"%s\" is not closed", keyword));
        DRV_TRY(read_list(self, depth + 1, &end));
        if (end.word && strcmp(end.word, stop) == 0) break;
        *out = end.test;
        *why = end.why;
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

// Reads the patterns of a part of a case with the ")" behind them.
static drv_status read_patterns(reader *self, int line, const shell_word *subject, verdict *out) {
    word_list list = {0};
    drv_status status = DRV_OK;
    *out = subject->unknown ? TEST_UNKNOWN : TEST_FALSE;
    while (status == DRV_OK && shell_peek(self, 0) != ')') {
        const int before = list.n;
        shell_skip_blanks(self);
        status = shell_read_word(self, &list);
        shell_skip_blanks(self);
        const char c = shell_peek(self, 0);
        if (status == DRV_OK && c == '(')
            status = shell_refuse_form(self, line, "( in a pattern of case");
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

// Reads the commands of a block and the word that closes it.
static drv_status read_body(reader *self, const char *keyword, int line, int depth) {
    for (ending end = {0}; !end.closes;) {
        skip_separators(self, false);
        if (shell_at_end(self))
            return shell_refuse(self, line, arena_printf(self->a, "\"%s\" is not closed", keyword));
        DRV_TRY(read_list(self, depth + 1, &end));
    }
    return DRV_OK;
}

// Goes through a loop that the script's arguments decide: while getopts, while [ $# -gt 0 ]. *test
// is the result of its last condition, after which the body has not been read.
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

// Reads a block from after its keyword to the word that closes it. How often other loops run is not
// known.
static drv_status read_block(reader *self, const char *keyword, int depth) {
    const int line = self->line;
    branches all = branches_begin(self, *keyword == '{' ? "block" : keyword, line);
    verdict test = TEST_UNKNOWN;
    if (depth >= MAX_NESTED) return shell_refuse(self, line, "blocks nested deeper than 64");
    shell_skip_blanks(self);
    if (*keyword == 'w') DRV_TRY(read_rounds(self, line, depth, &test));
    branches_next(self, &all, test == TEST_FALSE ? test : TEST_UNKNOWN, NULL);
    if (*keyword == 'f' && shell_name_length(self)) {
        const shell_word value = {"", NULL, line};
        shell_assign(self, shell_take(self, shell_name_length(self)), &value, NULL);
    }
    DRV_TRY(read_body(self, keyword, line, depth));
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
