// Command lines of plm/rsh of Open MPI 4.1 (orte/mca/plm/rsh/plm_rsh_module.c), plm/ssh of PRRTE:
//
//   orted -mca NAME "VALUE" ...
//   PATH=DIR/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=DIR/lib:... ; export LD_LIBRARY_PATH ;
//       DYLD_LIBRARY_PATH=... ; export DYLD_LIBRARY_PATH ; DIR/bin/orted ...
//   PRTE_PREFIX=DIR;export PRTE_PREFIX;PMIX_PREFIX=DIR;export PMIX_PREFIX;...;DIR/bin/prted
//       --prtemca NAME "VALUE" ...
//   ( test ! -r ./.profile || . ./.profile; one of those )      if the user's shell is sh or ksh
#include "launch/daemon_command.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "launch/nodes.h"

enum { MAX_WORDS = 2048, MAX_BYTES = 1 << 19, MAX_VARIABLES = 8 };

#define PROFILE "( test ! -r ./.profile || . ./.profile;"

typedef struct lexer {
    const char *p;
    char *word; // room for the longest word
    bool names; // the word contains a variable
} lexer;

typedef enum token { TOKEN_END, TOKEN_WORD, TOKEN_SEMICOLON, TOKEN_WRONG } token;

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// Reads one word and removes its quotes.
static token next_token(lexer *self) {
    char quote = 0, *into = self->word;
    self->names = false;
    while (is_blank(*self->p))
        self->p++;
    if (!*self->p) return TOKEN_END;
    if (*self->p == ';') return self->p++, TOKEN_SEMICOLON;
    for (; *self->p && (quote || (!is_blank(*self->p) && *self->p != ';')); self->p++) {
        char c = *self->p;
        if (quote ? c == quote : c == '"' || c == '\'') {
            quote = quote ? 0 : c;
            continue;
        }
        if (c == '\\' && quote != '\'') {
            c = *++self->p;
            if (!c) return TOKEN_WRONG;
        } else if (c == '$' && quote != '\'')
            self->names = true;
        else if (c == '`' && quote != '\'')
            return TOKEN_WRONG;
        else if (!quote && strchr("|&<>()*?~#!", c))
            return TOKEN_WRONG;
        if ((unsigned char)c < ' ' || c == 127) return TOKEN_WRONG;
        *into++ = c;
    }
    *into = 0;
    return quote ? TOKEN_WRONG : TOKEN_WORD;
}

typedef struct statement {
    const char *words[MAX_WORDS + 1];
    int n;
    bool names;
} statement;

static bool is_export(const statement *s) {
    return s->n == 2 && strcmp(s->words[0], "export") == 0 && !s->names;
}

drv_status daemon_variable_check(const char *variable) {
    static const char *const known[] = {"PATH=", "LD_LIBRARY_PATH=", "DYLD_LIBRARY_PATH=",
            "PRTE_PREFIX=", "PMIX_PREFIX=", "OPAL_PREFIX="};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_starts(variable, known[i])) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "mpirun's launch agent was asked to set \"%s\", expected a path of Open MPI", variable);
}

// Returns whether a statement says where the daemon is. "NAME=DIR:$NAME" prepends DIR to NAME.
static bool take_path(arena *a, const statement *s, daemon_command *out) {
    if (is_export(s)) return true;
    if (s->n != 1 || out->n_variables == MAX_VARIABLES ||
            daemon_variable_check(s->words[0]) != DRV_OK)
        return false;
    size_t n = strcspn(s->words[0], "$");
    while (n > 0 && s->words[0][n - 1] == ':')
        n--;
    out->variables[out->n_variables++] = arena_strndup(a, s->words[0], n);
    return true;
}

drv_status daemon_command_check(const char *program) {
    const char *base = path_name(program);
    if (strcmp(base, "orted") == 0 || strcmp(base, "prted") == 0) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "mpirun's launch agent was asked to run \"%s\", expected orted or prted", base);
}

static drv_status not_one(const char *line) {
    return drv_fail(DRV_E_DATA,
            "mpirun's launch agent was asked to run more than one command: \"%s\"", line);
}

static drv_status parse_line(arena *a, const char *line, daemon_command *out) {
    lexer lexer_ = {line, arena_alloc(a, strlen(line) + 1), false};
    statement *s = ARENA_NEW(a, statement);
    for (;;) {
        const token kind = next_token(&lexer_);
        if (kind == TOKEN_WRONG || s->n == MAX_WORDS) return not_one(line);
        if (kind == TOKEN_END) break;
        if (kind == TOKEN_WORD) {
            s->words[s->n++] = arena_strdup(a, lexer_.word);
            s->names |= lexer_.names;
        } else if (take_path(a, s, out))
            *s = (statement){0};
        else
            return not_one(line);
    }
    if (s->names) return not_one(line);
    DRV_TRY(daemon_command_check(s->n > 0 ? s->words[0] : ""));
    out->argv = s->words;
    for (int i = 0; i < s->n; i++) // a daemon that left its parent could not be waited for
        if (strcmp(s->words[i], "--daemonize") != 0) s->words[out->n_args++] = s->words[i];
    s->words[out->n_args] = NULL;
    return DRV_OK;
}

drv_status daemon_command_parse(arena *a, const char *const *words, int n_words,
        daemon_command *out) {
    str joined = {0};
    *out = (daemon_command){.variables = ARENA_ARRAY(a, const char *, MAX_VARIABLES)};
    for (int i = 0; i < n_words && joined.n <= MAX_BYTES; i++)
        str_printf(&joined, "%s%s", i ? " " : "", words[i]);
    const char *all = str_keep(a, &joined);
    while (is_blank(*all))
        all++;
    size_t n = strlen(all);
    if (n > MAX_BYTES) return drv_fail(DRV_E_DATA, "a command of more than %d bytes", MAX_BYTES);
    if (!str_starts(all, PROFILE)) return parse_line(a, all, out);
    while (n > 0 && is_blank(all[n - 1]))
        n--;
    if (all[n - 1] != ')') return not_one(all);
    return parse_line(a, arena_strndup(a, all + strlen(PROFILE), n - 1 - strlen(PROFILE)), out);
}

static int number_of(const char *field) {
    int64_t n;
    return str_to_i64(field, &n) && n >= 0 && n <= MAX_NODES ? (int)n : -1;
}

drv_status daemon_order_parse(const char *const *fields, int n_fields, daemon_order *out) {
    int number[DAEMON_ORDER_NUMBERS] = {-1, -1, -1};
    for (int i = 0; i < DAEMON_ORDER_NUMBERS && n_fields > DAEMON_ORDER_NUMBERS; i++)
        number[i] = number_of(fields[i]);
    const int n_args = n_fields - DAEMON_ORDER_NUMBERS - number[2];
    if (number[0] < 1 || number[1] <= number[0] || number[2] < 0 || n_args < 1)
        return drv_fail(DRV_E_DATA, "node 0 sent an incomplete command");
    const char *const *rest = fields + DAEMON_ORDER_NUMBERS;
    for (int i = 0; i < number[2]; i++)
        DRV_TRY(daemon_variable_check(rest[i]));
    DRV_TRY(daemon_command_check(rest[number[2]]));
    *out = (daemon_order){.place = number[0],
            .n_nodes = number[1],
            .variables = rest,
            .argv = rest + number[2],
            .n_variables = number[2],
            .n_args = n_args};
    return DRV_OK;
}
