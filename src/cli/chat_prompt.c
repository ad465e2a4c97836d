// A line at a time: a command or a message. Answers go to standard output, all else to standard
// error.
#include "cli/chat_prompt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

// --- Ctrl-C
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

void chat_prompt_listen(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; // no SA_RESTART: ends a read
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool chat_prompt_interrupted(void *ctx) {
    (void)ctx;
    return interrupted;
}

// --- lines
typedef struct prompt {
    conversation *c;
    bool terminal; // a person types
    char *line;    // without its end
    size_t n, cap;
    int64_t number; // of the line, from 1
    bool leave;
} prompt;

// False: the input ended, or Ctrl-C did it.
static bool read_line(prompt *p) {
    if (p->terminal) fputs("> ", stderr);
    for (;;) {
        const ssize_t n = interrupted ? -1 : getline(&p->line, &p->cap, stdin);
        if (n < 0 && !interrupted && ferror(stdin) && errno == EINTR) { // another signal
            clearerr(stdin);
            continue;
        }
        if (n < 0) {
            if (p->terminal) fputc('\n', stderr); // the shell's prompt begins a line
            return false;
        }
        p->n = (size_t)n;
        break;
    }
    p->number++;
    while (p->n > 0 && (p->line[p->n - 1] == '\n' || p->line[p->n - 1] == '\r'))
        p->line[--p->n] = 0;
    return true;
}

// --- commands
static void set_system(prompt *p, const char *text) {
    conversation_set_system(p->c, text);
    log_info(*text ? "the system message is changed" : "there is no system message now");
}

static void reset(prompt *p, const char *text) {
    (void)text;
    conversation_reset(p->c);
    log_info("the conversation begins anew");
}

static void help(prompt *p, const char *text) {
    (void)p;
    (void)text;
    log_info("%s", CHAT_COMMANDS_HELP);
}

static void leave(prompt *p, const char *text) {
    (void)text;
    p->leave = true;
}

static const struct {
    const char *name;
    bool takes_text;
    void (*run)(prompt *p, const char *text);
} commands[] = {{"/system", true, set_system}, {"/reset", false, reset}, {"/help", false, help},
        {"/exit", false, leave}};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static drv_status run_command(prompt *p) {
    const char *names[N_COMMANDS];
    char *word = p->line, *text = word + strcspn(word, " \t");
    if (*text) *text++ = 0;
    text += strspn(text, " \t");
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(word, names[i]) != 0) continue;
        if (*text && !commands[i].takes_text)
            return drv_fail(DRV_E_DATA, "%s takes no text, but \"%s\" follows it", word, text);
        commands[i].run(p, text);
        return DRV_OK;
    }
    const char *near = str_nearest(word, names, N_COMMANDS);
    return drv_fail(DRV_E_DATA,
            "\"%s\" is not a command%s%s%s; /help shows them, and // begins a message with /", word,
            near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "");
}

// --- messages
static drv_status say(prompt *p, const char *text, size_t n) {
    conversation_turn turn;
    const drv_status status = conversation_say(p->c, text, n, &turn);
    interrupted = 0; // also one that came with the answer's end
    if (status == DRV_STOPPED) {
        log_info("stopped before the answer began; the message is forgotten");
        return DRV_OK;
    }
    DRV_TRY(status);
    puts("");
    fflush(stdout);
    if (turn.n_dropped > 0)
        log_info("the context is full: the oldest %lld of the questions and their answers were dropped",
                (long long)turn.n_dropped);
    if (turn.end == GENERATE_LENGTH)
        log_info("the answer was cut: --max-tokens or the context is reached");
    if (turn.end == GENERATE_INTERRUPTED) log_info("stopped; the answer counts as far as it came");
    return DRV_OK;
}

static drv_status take_line(prompt *p) {
    if (p->n == 0) return DRV_OK;
    if (p->line[0] != '/') return say(p, p->line, p->n);
    if (p->line[1] == '/') return say(p, p->line + 1, p->n - 1);
    return run_command(p);
}

drv_status chat_prompt_run(conversation *c) {
    prompt p = {.c = c, .terminal = isatty(STDIN_FILENO)};
    drv_status status = DRV_OK;
    while (status == DRV_OK && !p.leave && read_line(&p)) {
        status = take_line(&p);
        if (status == DRV_OK) continue;
        if (p.terminal) {
            log_warn("%s", drv_message());
            status = DRV_OK;
        } else {
            status = drv_context(status, "line %lld of standard input", (long long)p.number);
        }
    }
    free(p.line);
    if (status == DRV_OK && ferror(stdin) && !interrupted)
        return drv_fail(DRV_E_IO, "could not read standard input: %s", strerror(errno));
    return status;
}
