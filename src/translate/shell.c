// The grammar is that of POSIX (Shell Command Language, 2.2 to 2.10), as far as a script that
// starts a training needs it. Blocks (if, for, while, case, functions) are skipped; what is
// assigned in them is unknown from there on.
#include "translate/shell.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { MAX_NESTED = 64, MAX_VALUE = 1 << 16, MAX_WORDS = 10000 };

typedef struct reader {
    arena *a;
    const char *file, *p, *end;
    int line;
    shell_script *script;
    const char *block; // the block that is skipped: "the if of line 12"; NULL: none
    int n_words;
} reader;

// A word that is being read.
typedef struct builder {
    str text;
    const char *unknown;
    bool any; // a quote or a letter: "" is a word, an unset variable is none
} builder;

static drv_status refuse(const reader *self, int line, const char *what) {
    return drv_fail(DRV_E_USAGE, "%s:%d: %s", self->file, line, what);
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

static shell_variable *variable(shell_script *script, const char *name) {
    for (int i = 0; i < script->n_variables; i++)
        if (strcmp(script->variables[i].name, name) == 0) return &script->variables[i];
    MEM_GROW(script->variables, script->n_variables, script->cap_variables);
    shell_variable *v = &script->variables[script->n_variables++];
    *v = (shell_variable){.name = name, .file = ""};
    return v;
}

void shell_set(shell_script *script, const char *name, const char *value) {
    shell_variable *v = variable(script, name);
    v->value = (shell_word){.text = value};
    v->file = NULL;
}

static void assign(reader *self, const char *name, const shell_word *value) {
    shell_variable *v = variable(self->script, name);
    if (!v->file) return; // the caller's
    v->value = *value;
    v->file = self->file;
    if (self->block)
        v->value.unknown = arena_printf(self->a, "%s is set in %s of %s, which is not run", name,
                self->block, self->file);
}

// --- letters
static bool at_end(const reader *self) {
    return self->p >= self->end;
}

static char peek(const reader *self, int ahead) {
    return self->end - self->p > ahead ? self->p[ahead] : 0;
}

static void advance(reader *self, int n) {
    for (; n > 0 && !at_end(self); n--, self->p++)
        self->line += *self->p == '\n';
}

static bool is_name(char c, bool first) {
    return isalpha((unsigned char)c) || c == '_' || (!first && isdigit((unsigned char)c));
}

static int name_length(const reader *self) {
    int n = 0;
    while (is_name(peek(self, n), n == 0))
        n++;
    return n;
}

static const char *take(reader *self, int n) {
    const char *text = arena_strndup(self->a, self->p, (size_t)n);
    advance(self, n);
    return text;
}

static void skip_blanks(reader *self) {
    for (;;) {
        if (peek(self, 0) == '\\' && peek(self, 1) == '\n')
            advance(self, 2);
        else if (peek(self, 0) == '\\' && peek(self, 1) == '\r' && peek(self, 2) == '\n')
            advance(self, 3);
        else if (peek(self, 0) == ' ' || peek(self, 0) == '\t' || peek(self, 0) == '\r')
            advance(self, 1);
        else
            break;
    }
    if (peek(self, 0) == '#')
        while (!at_end(self) && peek(self, 0) != '\n')
            advance(self, 1);
}

// --- expansions
static drv_status add(const reader *self, builder *b, const char *text, size_t n) {
    b->any = true;
    if (b->text.n + n > MAX_VALUE) return refuse(self, self->line, "a word of more than 64 KiB");
    str_add(&b->text, text, n);
    return DRV_OK;
}

static void set_unknown(builder *b, const char *why) {
    b->any = true;
    if (!b->unknown) b->unknown = why;
}

// From an opening bracket past the one that closes it.
static drv_status skip_balanced(reader *self, char open, char close) {
    const int line = self->line;
    int depth = 0;
    do {
        const char c = peek(self, 0);
        if (at_end(self)) return refuse(self, line, "a bracket is not closed");
        if (c == '\\') advance(self, 1);
        if (c == '\'' || c == '"') {
            advance(self, 1);
            while (!at_end(self) && peek(self, 0) != c)
                advance(self, c == '"' && peek(self, 0) == '\\' ? 2 : 1);
        }
        depth += (c == open) - (c == close);
        advance(self, 1);
    } while (depth > 0);
    return DRV_OK;
}

static drv_status read_text(reader *self, builder *b, const char *stop, bool quoted, int depth);

static drv_status add_variable(reader *self, builder *b, const char *name) {
    const shell_variable *v = shell_find(self->script, name);
    if (!v) {
        set_unknown(b, arena_printf(self->a, "%s is not set in %s", name, self->file));
        return DRV_OK;
    }
    if (v->value.unknown) set_unknown(b, v->value.unknown);
    const bool any = b->any;
    DRV_TRY(add(self, b, v->value.text, strlen(v->value.text)));
    b->any = any || *v->value.text; // an empty one makes no word
    return DRV_OK;
}

// ${NAME}, ${NAME:-word}, ${NAME:=word} and the same without a colon; r is after the "{".
static drv_status read_braces(reader *self, builder *word, int depth) {
    const char *begin = self->p - 1; // "{"
    const int line = self->line, n_name = name_length(self);
    const char *name = n_name ? take(self, n_name) : "";
    const bool colon = peek(self, 0) == ':';
    const char operator= peek(self, colon);
    if (n_name && !colon && operator== '}') {
        advance(self, 1);
        return add_variable(self, word, name);
    }
    if (!n_name || (operator!= '=' && operator!= '-')) {
        self->p = begin;
        self->line = line;
        DRV_TRY(skip_balanced(self, '{', '}'));
        set_unknown(word, arena_printf(self->a, "line %d of %s changes a variable by ${...}", line,
                                  self->file));
        return DRV_OK;
    }
    advance(self, 1 + colon);
    builder otherwise = {0};
    drv_status status = read_text(self, &otherwise, "}", true, depth + 1);
    if (status == DRV_OK && at_end(self)) status = refuse(self, line, "a ${ is not closed");
    advance(self, 1);
    const shell_variable *v = shell_find(self->script, name);
    const shell_word fallback = {arena_strdup(self->a, otherwise.text.p ? otherwise.text.p : ""),
            otherwise.unknown, line};
    const bool is_set = v && (!colon || *v->value.text || v->value.unknown);
    str_free(&otherwise.text);
    DRV_TRY(status);
    if (is_set) return add_variable(self, word, name);
    if (operator== '=') assign(self, name, &fallback);
    if (fallback.unknown) set_unknown(word, fallback.unknown);
    return add(self, word, fallback.text, strlen(fallback.text));
}

static drv_status read_dollar(reader *self, builder *word, int depth) {
    const int line = self->line;
    advance(self, 1);
    if (depth > MAX_NESTED) return refuse(self, line, "${} nested deeper than 64");
    if (peek(self, 0) == '(') {
        set_unknown(word, arena_printf(self->a, "line %d of %s asks a command, which is not run",
                                  line, self->file));
        return skip_balanced(self, '(', ')');
    }
    if (peek(self, 0) == '{') {
        advance(self, 1);
        return read_braces(self, word, depth);
    }
    const int n = name_length(self);
    if (n) return add_variable(self, word, take(self, n));
    if (strchr("0123456789@*#?$!-", peek(self, 0)) && !at_end(self)) {
        set_unknown(word, arena_printf(self->a, "$%c is not known before a run", peek(self, 0)));
        advance(self, 1);
        return DRV_OK;
    }
    return add(self, word, "$", 1);
}

static drv_status read_backticks(reader *self, builder *b) {
    const int line = self->line;
    advance(self, 1);
    while (!at_end(self) && peek(self, 0) != '`')
        advance(self, peek(self, 0) == '\\' ? 2 : 1);
    if (at_end(self)) return refuse(self, line, "a ` is not closed");
    advance(self, 1);
    set_unknown(b, arena_printf(self->a, "line %d of %s asks a command, which is not run", line,
                           self->file));
    return DRV_OK;
}

static drv_status read_quoted(reader *self, builder *b, int depth) {
    const int line = self->line;
    const char quote = peek(self, 0);
    advance(self, 1);
    b->any = true;
    if (quote == '"') {
        DRV_TRY(read_text(self, b, "\"", true, depth));
    } else {
        const char *begin = self->p;
        while (!at_end(self) && peek(self, 0) != '\'')
            advance(self, 1);
        DRV_TRY(add(self, b, begin, (size_t)(self->p - begin)));
    }
    if (at_end(self)) return refuse(self, line, "a quote is not closed");
    advance(self, 1);
    return DRV_OK;
}

// Until one of the letters in `stop`, which is left. `quoted`: blanks, brackets and quotes of the
// other kind are letters as any.
static drv_status read_text(reader *self, builder *word, const char *stop, bool quoted, int depth) {
    while (!at_end(self) && !strchr(stop, *self->p)) {
        const char c = *self->p;
        if (c == '\\' && peek(self, 1) == '\n') {
            advance(self, 2);
        } else if (c == '\\' && (!quoted || (peek(self, 1) && strchr("$`\"\\", peek(self, 1))))) {
            advance(self, 1);
            if (!at_end(self)) DRV_TRY(add(self, word, self->p, 1));
            advance(self, 1);
        } else if (c == '$') {
            DRV_TRY(read_dollar(self, word, depth));
        } else if (c == '`') {
            DRV_TRY(read_backticks(self, word));
        } else if ((c == '"' || c == '\'') && !quoted) {
            DRV_TRY(read_quoted(self, word, depth));
        } else {
            DRV_TRY(add(self, word, self->p, 1));
            advance(self, 1);
        }
    }
    return DRV_OK;
}

#define WORD_ENDS " \t\r\n;&|<>()"

// --- words and commands
typedef struct word_list {
    shell_word *words;
    int n, cap;
} word_list;

static drv_status add_word(reader *self, word_list *list, const char *text, size_t n,
        const char *unknown, int line) {
    if (++self->n_words > MAX_WORDS) return refuse(self, line, "more than 10000 words");
    MEM_GROW(list->words, list->n, list->cap);
    list->words[list->n++] = (shell_word){arena_strndup(self->a, text, n), unknown, line};
    return DRV_OK;
}

// A variable outside quotes is cut at blanks, which the text of a quote keeps: the word is read in
// stretches of one kind.
static drv_status read_word(reader *self, word_list *list) {
    const int line = self->line;
    builder word = {0};
    drv_status status = DRV_OK;
    while (status == DRV_OK && !at_end(self) && !strchr(WORD_ENDS, *self->p)) {
        const bool splits = *self->p == '$';
        const size_t before = word.text.n;
        if (splits) {
            status = read_dollar(self, &word, 0);
        } else if (*self->p == '"' || *self->p == '\'') {
            status = read_quoted(self, &word, 0);
        } else {
            status = read_text(self, &word, WORD_ENDS "$\"'", false, 0);
        }
        for (size_t i = before; splits && status == DRV_OK && word.text.p && word.text.p[i]; i++) {
            if (!isspace((unsigned char)word.text.p[i])) continue;
            if (i > 0) status = add_word(self, list, word.text.p, i, word.unknown, line);
            char *rest = arena_strdup(self->a, word.text.p + i + 1);
            str_clear(&word.text);
            str_puts(&word.text, rest);
            word.any = *rest;
            i = (size_t)-1;
        }
    }
    if (status == DRV_OK && (word.any || word.unknown))
        status = add_word(self, list, word.text.p ? word.text.p : "", word.text.n, word.unknown,
                line);
    str_free(&word.text);
    return status;
}

// NAME=VALUE or NAME+=VALUE at r; *was says whether there was one.
static drv_status read_assignment(reader *self, bool *was) {
    const int n_name = name_length(self), line = self->line;
    const bool appends = peek(self, n_name) == '+';
    *was = n_name > 0 && peek(self, n_name + appends) == '=';
    if (!*was) return DRV_OK;
    const char *name = take(self, n_name);
    advance(self, 1 + appends);
    builder value = {0};
    drv_status status = DRV_OK;
    const shell_variable *old = shell_find(self->script, name);
    if (appends && old) status = add_variable(self, &value, name);
    if (status == DRV_OK && peek(self, 0) == '(') {
        set_unknown(&value,
                arena_printf(self->a, "%s is a list in line %d of %s", name, line, self->file));
        status = skip_balanced(self, '(', ')');
    } else if (status == DRV_OK) {
        status = read_text(self, &value, WORD_ENDS, false, 0);
    }
    const shell_word word = {arena_strdup(self->a, value.text.p ? value.text.p : ""), value.unknown,
            line};
    str_free(&value.text);
    if (status == DRV_OK) assign(self, name, &word);
    return status;
}

// "> file", "2>&1", "< file", "<<< word"; here-documents are skipped with their lines.
static drv_status skip_redirection(reader *self) {
    word_list target = {0};
    const bool here = peek(self, 0) == '<' && peek(self, 1) == '<' && peek(self, 2) != '<';
    while (peek(self, 0) == '<' || peek(self, 0) == '>' || peek(self, 0) == '&')
        advance(self, 1);
    if (here && peek(self, 0) == '-') advance(self, 1);
    skip_blanks(self);
    drv_status status = DRV_OK;
    if (peek(self, 0) == '(') // >(command)
        status = skip_balanced(self, '(', ')');
    else
        status = read_word(self, &target);
    if (status == DRV_OK && here && target.n) {
        const char *mark = target.words[0].text;
        const size_t n_mark = strlen(mark);
        while (!at_end(self)) { // to the line that is the mark
            while (!at_end(self) && peek(self, 0) != '\n')
                advance(self, 1);
            advance(self, 1);
            while (peek(self, 0) == '\t')
                advance(self, 1);
            if ((size_t)(self->end - self->p) < n_mark || strncmp(self->p, mark, n_mark) != 0)
                continue;
            if (peek(self, (int)n_mark) == '\n' || self->p + n_mark >= self->end) break;
        }
        advance(self, (int)n_mark);
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
        skip_blanks(self);
        const char c = peek(self, 0);
        if (at_end(self) || c == '\n' || c == ';' || c == '|' || c == '(' || c == ')')
            return DRV_OK;
        if (c == '&' && peek(self, 1) != '>') return DRV_OK;
        if (c == '<' || c == '>' || c == '&') {
            const bool descriptor = list->n > 0 && self->p[-1] == list->words[list->n - 1].text[0];
            if (descriptor && is_number(list->words[list->n - 1].text)) list->n--;
            DRV_TRY(skip_redirection(self));
            continue;
        }
        DRV_TRY(read_word(self, list));
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
        skip_blanks(self);
        if (at_end(self) || strchr("\n;|&<>()", *self->p)) return DRV_OK;
        DRV_TRY(read_assignment(self, &was));
        word_list rest = {0};
        if (was) continue;
        const drv_status status = read_word(self, &rest);
        free(rest.words);
        DRV_TRY(status);
    }
}

static drv_status read_block(reader *self, const char *keyword, int depth);

// One command with what stands before it; the block that it opens is skipped.
// *closes: it is a word that ends a block.
static drv_status read_command(reader *self, int depth, bool *closes) {
    static const char *const openers[] = {"if", "for", "while", "until", "case", "select", "{",
            "function", NULL};
    static const char *const closers[] = {"fi", "done", "esac", "}", NULL};
    static const char *const between[] = {"then", "do", "else", "elif", "!", "time", "exec", NULL};
    static const char *const exports[] = {"export", "declare", "local", "readonly", "typeset",
            NULL};
    *closes = false;
    bool was = true;
    while (was) {
        skip_blanks(self);
        DRV_TRY(read_assignment(self, &was));
    }
    int n = name_length(self);
    if (n == 0 && (peek(self, 0) == '{' || peek(self, 0) == '}' || peek(self, 0) == '!')) n = 1;
    const char *word = arena_strndup(self->a, self->p, (size_t)n);
    if (n && (peek(self, n) == 0 || strchr(WORD_ENDS, peek(self, n)))) {
        if (is_one_of(word, openers) || is_one_of(word, closers) || is_one_of(word, between) ||
                is_one_of(word, exports))
            advance(self, n);
        if (is_one_of(word, openers)) return read_block(self, word, depth);
        if (is_one_of(word, closers)) *closes = true;
        if (is_one_of(word, closers)) return DRV_OK;
        if (is_one_of(word, between)) return read_command(self, depth, closes);
        if (is_one_of(word, exports)) return read_export(self);
    }
    word_list list = {0};
    const int line = self->line;
    drv_status status = read_words(self, &list);
    if (status == DRV_OK && list.n > 0 && !self->block) {
        shell_word *words = ARENA_ARRAY(self->a, shell_word, list.n);
        memcpy(words, list.words, sizeof *words * (size_t)list.n);
        MEM_GROW(self->script->commands, self->script->n_commands, self->script->cap_commands);
        self->script->commands[self->script->n_commands++] =
                (shell_command){self->file, line, words, list.n};
    }
    const bool defines = list.n == 1 && peek(self, 0) == '(' && peek(self, 1) == ')'; // name() {
    if (status == DRV_OK && defines && !self->block) self->script->n_commands--;
    if (status == DRV_OK && !defines && peek(self, 0) == '(')
        status = skip_balanced(self, '(', ')');
    free(list.words);
    return status;
}

// Past what stands between commands.
static void skip_separators(reader *self) {
    for (;;) {
        skip_blanks(self);
        if (at_end(self) || !strchr("\n;|&()", *self->p)) return;
        advance(self, 1);
    }
}

// From after the keyword past the word that closes the block. The variable of a for loop is set.
static drv_status read_block(reader *self, const char *keyword, int depth) {
    const int line = self->line;
    const char *outer = self->block;
    if (depth >= MAX_NESTED) return refuse(self, line, "blocks nested deeper than 64");
    if (!outer)
        self->block = arena_printf(self->a, "the %s in line %d",
                *keyword == '{' ? "block" : keyword, line);
    skip_blanks(self);
    const bool loop = strcmp(keyword, "for") == 0 || strcmp(keyword, "select") == 0;
    if (loop && name_length(self)) {
        const shell_word value = {"", NULL, line};
        assign(self, take(self, name_length(self)), &value);
    }
    bool closes = strcmp(keyword, "function") == 0; // its block comes next
    while (!closes) {
        skip_separators(self);
        if (at_end(self))
            return refuse(self, line, arena_printf(self->a, "\"%s\" is not closed", keyword));
        DRV_TRY(read_command(self, depth + 1, &closes));
    }
    if (strcmp(keyword, "function") == 0) {
        word_list name = {0};
        const drv_status status = read_words(self, &name);
        free(name.words);
        DRV_TRY(status);
    }
    self->block = outer;
    return DRV_OK;
}

drv_status shell_read(arena *a, const char *file, const char *text, size_t n,
        shell_script *script) {
    reader self = {.a = a, .file = file, .p = text, .end = text + n, .line = 1, .script = script};
    bool closes;
    if (memchr(text, 0, n)) return drv_fail(DRV_E_USAGE, "%s: a NUL byte, expected text", file);
    for (skip_separators(&self); !at_end(&self); skip_separators(&self))
        DRV_TRY(read_command(&self, 0, &closes));
    return DRV_OK;
}
