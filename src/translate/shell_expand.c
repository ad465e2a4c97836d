// Reads words: quotes, variables, arithmetic (POSIX, Shell Command Language, 2.2 and 2.6), as far
// as docs/translate.md lists them.
#include <ctype.h>
#include <string.h>

#include "translate/shell_internal.h"

// A word that is being read.
typedef struct builder {
    str text;
    const char *unknown;
    bool any; // a quote or a character: "" is a word, an unset variable is none
} builder;

// --- characters
bool shell_at_end(const reader *self) {
    return self->p >= self->end;
}

char shell_peek(const reader *self, int ahead) {
    return self->end - self->p > ahead ? self->p[ahead] : 0;
}

void shell_advance(reader *self, int n) {
    for (; n > 0 && !shell_at_end(self); n--, self->p++)
        self->line += *self->p == '\n';
}

static bool is_name(char c, bool first) {
    return isalpha((unsigned char)c) || c == '_' || (!first && isdigit((unsigned char)c));
}

int shell_name_length(const reader *self) {
    int n = 0;
    while (is_name(shell_peek(self, n), n == 0))
        n++;
    return n;
}

const char *shell_take(reader *self, int n) {
    const char *text = arena_strndup(self->a, self->p, (size_t)n);
    shell_advance(self, n);
    return text;
}

void shell_skip_blanks(reader *self) {
    for (;;) {
        if (shell_peek(self, 0) == '\\' && shell_peek(self, 1) == '\n')
            shell_advance(self, 2);
        else if (shell_peek(self, 0) == '\\' && shell_peek(self, 1) == '\r' &&
                 shell_peek(self, 2) == '\n')
            shell_advance(self, 3);
        else if (shell_peek(self, 0) == ' ' || shell_peek(self, 0) == '\t' ||
                 shell_peek(self, 0) == '\r')
            shell_advance(self, 1);
        else
            break;
    }
    if (shell_peek(self, 0) == '#')
        while (!shell_at_end(self) && shell_peek(self, 0) != '\n')
            shell_advance(self, 1);
}

// --- expansions
static drv_status add(const reader *self, builder *b, const char *text, size_t n) {
    b->any = true;
    if (b->text.n + n > MAX_VALUE)
        return shell_refuse(self, self->line, "a word of more than 64 KiB");
    DRV_TRY(budget_bytes(self->script->left, self->file, n));
    str_add(&b->text, text, n);
    return DRV_OK;
}

static void set_unknown(builder *b, const char *why) {
    b->any = true;
    if (!b->unknown) b->unknown = why;
}

// Goes from an opening bracket past the one that closes it. DRV_E_USAGE: none does.
static drv_status skip_balanced(reader *self, char open, char close) {
    const int line = self->line;
    int depth = 0;
    do {
        const char c = shell_peek(self, 0);
        if (shell_at_end(self)) return shell_refuse(self, line, "a bracket is not closed");
        if (c == '\\') shell_advance(self, 1);
        if (c == '\'' || c == '"') {
            shell_advance(self, 1);
            while (!shell_at_end(self) && shell_peek(self, 0) != c)
                shell_advance(self, c == '"' && shell_peek(self, 0) == '\\' ? 2 : 1);
        }
        depth += (c == open) - (c == close);
        shell_advance(self, 1);
    } while (depth > 0);
    return DRV_OK;
}

static drv_status read_text(reader *self, builder *b, const char *stop, bool quoted, int depth);

// Returns the value of a variable or an argument.
static shell_word value_named(const reader *self, const char *name, bool is_argument) {
    if (is_argument) return shell_argument(self, name);
    const shell_variable *v = shell_find(self->script, name);
    if (v) return v->value;
    return (shell_word){"", arena_printf(self->a, "%s is not set in %s", name, self->file),
            self->line};
}

// Adds a value, which makes no word if it is empty.
static drv_status add_value(const reader *self, builder *b, shell_word value) {
    const bool any = b->any;
    if (value.unknown) set_unknown(b, value.unknown);
    DRV_TRY(add(self, b, value.text, strlen(value.text)));
    b->any = any || *value.text || value.unknown;
    return DRV_OK;
}

// Reads the word of ${NAME:-word} and its "}".
static drv_status read_fallback(reader *self, int depth, shell_word *out) {
    const int line = self->line;
    builder word = {0};
    drv_status status = read_text(self, &word, "}", true, depth + 1);
    if (status == DRV_OK && shell_at_end(self))
        status = shell_refuse(self, line, "a ${ is not closed");
    shell_advance(self, 1);
    *out = (shell_word){arena_strdup(self->a, word.text.p ? word.text.p : ""), word.unknown, line};
    str_free(&word.text);
    return status;
}

// Reads ${NAME}, ${NAME:-word}, ${NAME:=word} and the same without a colon, from after the "{".
static drv_status read_braces(reader *self, builder *word, int depth) {
    const char *begin = self->p - 1; // "{"
    const int line = self->line, n_argument = shell_argument_length(self),
              n_name = n_argument ? n_argument : shell_name_length(self);
    const char *name = n_name ? shell_take(self, n_name) : "";
    const bool colon = shell_peek(self, 0) == ':';
    const char operator= shell_peek(self, colon);
    if (n_name && !colon && operator== '}') {
        shell_advance(self, 1);
        return add_value(self, word, value_named(self, name, n_argument));
    }
    if (!n_name || (operator!= '=' && operator!= '-')) {
        self->p = begin;
        self->line = line;
        DRV_TRY(skip_balanced(self, '{', '}'));
        set_unknown(word, arena_printf(self->a, "line %d of %s changes a variable by ${...}", line,
                                  self->file));
        return DRV_OK;
    }
    shell_advance(self, 1 + colon);
    shell_word fallback;
    DRV_TRY(read_fallback(self, depth, &fallback));
    const shell_variable *v = n_argument ? NULL : shell_find(self->script, name);
    const bool known = n_argument || (v && !v->unset);
    const shell_word value = known ? value_named(self, name, n_argument) : fallback;
    if (known && (*value.text || value.unknown || (v && !colon)))
        return add_value(self, word, value);
    if (operator== '=') shell_assign(self, name, &fallback, NULL);
    if (fallback.unknown) set_unknown(word, fallback.unknown);
    return add(self, word, fallback.text, strlen(fallback.text));
}

// Reads $(command) or $((sum)).
static drv_status read_brackets(reader *self, builder *word) {
    const int line = self->line;
    const char *begin = self->p;
    const bool sums = shell_peek(self, 1) == '(';
    int64_t sum;
    DRV_TRY(skip_balanced(self, '(', ')'));
    const size_t n = (size_t)(self->p - begin);
    if (sums && n >= 4 && self->p[-2] == ')') {
        if (shell_arithmetic(self->script, begin + 2, n - 4, &sum)) {
            const char *text = arena_printf(self->a, "%lld", (long long)sum);
            return add(self, word, text, strlen(text));
        }
        set_unknown(word, arena_printf(self->a, "line %d of %s computes with an unknown value",
                                  line, self->file));
        return DRV_OK;
    }
    set_unknown(word, arena_printf(self->a, "line %d of %s asks a command, which is not run", line,
                              self->file));
    return DRV_OK;
}

static drv_status read_dollar(reader *self, builder *word, int depth) {
    const int line = self->line;
    shell_advance(self, 1);
    if (depth > MAX_NESTED) return shell_refuse(self, line, "${} nested deeper than 64");
    if (shell_peek(self, 0) == '(') return read_brackets(self, word);
    if (shell_peek(self, 0) == '{') {
        shell_advance(self, 1);
        return read_braces(self, word, depth);
    }
    const int n = shell_name_length(self), n_argument = shell_argument_length(self);
    if (n || n_argument) { // $10 is ${1}0
        const char *name = shell_take(self, n ? n : 1);
        return add_value(self, word, value_named(self, name, !n));
    }
    if (strchr("0123456789@*#?$!-", shell_peek(self, 0)) && !shell_at_end(self)) {
        set_unknown(word,
                arena_printf(self->a, "$%c is not known before a run", shell_peek(self, 0)));
        shell_advance(self, 1);
        return DRV_OK;
    }
    return add(self, word, "$", 1);
}

static drv_status read_backticks(reader *self, builder *b) {
    const int line = self->line;
    shell_advance(self, 1);
    while (!shell_at_end(self) && shell_peek(self, 0) != '`')
        shell_advance(self, shell_peek(self, 0) == '\\' ? 2 : 1);
    if (shell_at_end(self)) return shell_refuse(self, line, "a ` is not closed");
    shell_advance(self, 1);
    set_unknown(b, arena_printf(self->a, "line %d of %s asks a command, which is not run", line,
                           self->file));
    return DRV_OK;
}

static drv_status read_quoted(reader *self, builder *b, int depth) {
    const int line = self->line;
    const char quote = shell_peek(self, 0);
    shell_advance(self, 1);
    b->any = true;
    if (quote == '"') {
        DRV_TRY(read_text(self, b, "\"", true, depth));
    } else {
        const char *begin = self->p;
        while (!shell_at_end(self) && shell_peek(self, 0) != '\'')
            shell_advance(self, 1);
        DRV_TRY(add(self, b, begin, (size_t)(self->p - begin)));
    }
    if (shell_at_end(self)) return shell_refuse(self, line, "a quote is not closed");
    shell_advance(self, 1);
    return DRV_OK;
}

// Reads up to one of the characters in `stop`. `quoted`: blanks, brackets and quotes of the other
// kind stand for themselves.
static drv_status read_text(reader *self, builder *word, const char *stop, bool quoted, int depth) {
    while (!shell_at_end(self) && !strchr(stop, *self->p)) {
        const char c = *self->p;
        if (c == '\\' && shell_peek(self, 1) == '\n') {
            shell_advance(self, 2);
        } else if (c == '\\' &&
                   (!quoted || (shell_peek(self, 1) && strchr("$`\"\\", shell_peek(self, 1))))) {
            shell_advance(self, 1);
            if (!shell_at_end(self)) DRV_TRY(add(self, word, self->p, 1));
            shell_advance(self, 1);
        } else if (c == '$') {
            DRV_TRY(read_dollar(self, word, depth));
        } else if (c == '`') {
            DRV_TRY(read_backticks(self, word));
        } else if ((c == '"' || c == '\'') && !quoted) {
            DRV_TRY(read_quoted(self, word, depth));
        } else {
            DRV_TRY(add(self, word, self->p, 1));
            shell_advance(self, 1);
        }
    }
    return DRV_OK;
}

// --- words
drv_status shell_count_word(reader *self, int line) {
    if (++self->n_words > MAX_WORDS)
        return shell_refuse(self, line, "more than 10000 words and assignments");
    return budget_words(self->script->left, self->file, 1);
}

static drv_status add_word(reader *self, word_list *list, const char *text, size_t n,
        const char *unknown, int line) {
    DRV_TRY(shell_count_word(self, line));
    MEM_GROW(list->words, list->n, list->cap);
    list->words[list->n++] = (shell_word){arena_strndup(self->a, text, n), unknown, line};
    return DRV_OK;
}

// Adds the script's arguments, word by word, where "$@" or $@ stands; else returns false.
static bool take_arguments(reader *self, word_list *list, drv_status *status) {
    const int quoted = shell_peek(self, 0) == '"';
    shell_arguments *of = &self->script->arguments;
    if (!of->known || shell_peek(self, quoted) != '$' || shell_peek(self, quoted + 1) != '@' ||
            (quoted && shell_peek(self, 3) != '"'))
        return false;
    of->used = true;
    for (int i = 0; i < of->n && *status == DRV_OK; i++)
        *status = add_word(self, list, of->words[i].text, strlen(of->words[i].text),
                of->words[i].unknown, self->line);
    shell_advance(self, 2 + 2 * quoted);
    return true;
}

// Adds the words of a list where "${NAME[@]}" or ${NAME[@]} stands; else returns false.
static bool take_list(reader *self, word_list *list, drv_status *status) {
    const int quoted = shell_peek(self, 0) == '"';
    const char *const end = quoted ? "[@]}\"" : "[@]}";
    int n = quoted + 2;
    if (shell_peek(self, quoted) != '$' || shell_peek(self, quoted + 1) != '{') return false;
    while (is_name(shell_peek(self, n), n == quoted + 2))
        n++;
    for (int i = 0; end[i]; i++)
        if (shell_peek(self, n + i) != end[i]) return false;
    const char *name = arena_strndup(self->a, self->p + quoted + 2, (size_t)(n - quoted - 2));
    const shell_variable *v = shell_find(self->script, name);
    if (!v || v->n_items == 0) return false;
    for (int i = 0; i < v->n_items && *status == DRV_OK; i++)
        *status = add_word(self, list, v->items[i].text, strlen(v->items[i].text),
                v->items[i].unknown, v->items[i].line);
    shell_advance(self, n + (int)strlen(end));
    return true;
}

// A variable outside quotes is split at blanks, the text inside quotes is not: the word is read in
// pieces of one kind.
drv_status shell_read_word(reader *self, word_list *list) {
    const int line = self->line;
    builder word = {0};
    drv_status status = DRV_OK;
    while (status == DRV_OK && !shell_at_end(self) && !strchr(WORD_ENDS, *self->p)) {
        const bool splits = *self->p == '$';
        const size_t before = word.text.n;
        if (!word.any && take_arguments(self, list, &status)) continue;
        if (!word.any && take_list(self, list, &status)) continue;
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

// Reads (word ...), a list; its text is that of its words.
static drv_status read_array(reader *self, builder *value, word_list *items) {
    const int line = self->line;
    shell_advance(self, 1);
    for (;;) {
        const char *before = self->p;
        shell_skip_blanks(self);
        if (shell_peek(self, 0) == '\n') shell_advance(self, 1);
        if (shell_at_end(self) || shell_peek(self, 0) == ')') break;
        DRV_TRY(shell_read_word(self, items));
        if (self->p == before)
            return shell_refuse_form(self, self->line, "an operator in a list ( )");
    }
    if (shell_at_end(self)) return shell_refuse(self, line, "a bracket is not closed");
    shell_advance(self, 1);
    for (int i = 0; i < items->n; i++) {
        if (items->words[i].unknown) set_unknown(value, items->words[i].unknown);
        if (value->text.n) str_puts(&value->text, " ");
        DRV_TRY(add(self, value, items->words[i].text, strlen(items->words[i].text)));
    }
    return DRV_OK;
}

drv_status shell_read_value(reader *self, const shell_variable *before, shell_word *out,
        word_list *items) {
    const int line = self->line;
    builder value = {0};
    drv_status status = DRV_OK;
    if (before) status = add_value(self, &value, before->value);
    if (status == DRV_OK && shell_peek(self, 0) == '(') {
        status = read_array(self, &value, items);
    } else if (status == DRV_OK) {
        status = read_text(self, &value, WORD_ENDS, false, 0);
    }
    *out = (shell_word){arena_strdup(self->a, value.text.p ? value.text.p : ""), value.unknown,
            line};
    str_free(&value.text);
    return status;
}
