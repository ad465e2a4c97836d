// A line at a time: a command or a message. Answers go to standard output, all else to standard
// error.
#include "cli/chat_prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

// --- Ctrl-C
// Ctrl-C may come between the test of the flag and the wait for a line, so the handler also writes
// to a pipe, which ends that wait.
static volatile sig_atomic_t interrupted;
static int wake[2];

static void on_interrupt(int number DRV_UNUSED) {
    const int saved = errno;
    interrupted = 1;
    const ssize_t written = write(wake[1], "", 1);
    (void)written; // a pipe that is full wakes as well
    errno = saved;
}

drv_status chat_prompt_listen(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_ONSTACK};
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return drv_fail(DRV_E_IO, "could not make a pipe: %s", strerror(errno));
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    return DRV_OK;
}

static void forget_interrupt(void) {
    char bytes[64];
    interrupted = 0;
    while (read(wake[0], bytes, sizeof bytes) > 0)
        continue;
}

bool chat_prompt_interrupted(void *ctx DRV_UNUSED) {
    return interrupted;
}

// --- lines
typedef struct prompt {
    conversation *c;
    bool terminal; // a person types
    str in, text;  // read, but not yet part of a line; the line
    bool ended;    // the input has
    int error;     // errno of a read that failed
    char *line;    // without its end
    size_t n;
    int64_t number; // of the line, from 1
    bool leave;
} prompt;

// Waits for standard input or Ctrl-C, and reads what is there.
static void read_more(prompt *p) {
    struct pollfd of[] = {{STDIN_FILENO, POLLIN, 0}, {wake[0], POLLIN, 0}};
    char bytes[4096];
    if (poll(of, 2, -1) < 0 || of[1].revents) return; // the caller looks again
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0) str_add(&p->in, bytes, (size_t)n);
    if (n < 0 && errno != EINTR && errno != EAGAIN) p->error = errno;
    p->ended = n == 0 || p->error;
}

// Makes the first `size` bytes that were read the line.
static void cut_line(prompt *p, size_t size) {
    str_clear(&p->text);
    str_add(&p->text, p->in.p, size);
    memmove(p->in.p, p->in.p + size, p->in.n - size);
    p->in.n -= size;
    p->line = p->text.p;
    p->n = size;
    p->number++;
    while (p->n > 0 && (p->line[p->n - 1] == '\n' || p->line[p->n - 1] == '\r'))
        p->line[--p->n] = 0;
}

// Reads a line. Returns false at the end of the input and after Ctrl-C.
static bool read_line(prompt *p) {
    const char *end = NULL;
    if (p->terminal) fputs("> ", stderr);
    while (!interrupted) {
        end = p->in.n ? memchr(p->in.p, '\n', p->in.n) : NULL;
        if (end || p->ended) break;
        read_more(p);
    }
    if (interrupted || p->in.n == 0) {
        if (p->terminal) fputc('\n', stderr); // the shell's prompt begins a line
        return false;
    }
    cut_line(p, end ? (size_t)(end - p->in.p) + 1 : p->in.n);
    return true;
}

// --- commands
static void set_system(prompt *p, const char *text) {
    conversation_set_system(p->c, text);
    log_info(*text ? "the system message is changed" : "there is no system message now");
}

static void reset(prompt *p, const char *text DRV_UNUSED) {
    conversation_reset(p->c);
    log_info("the conversation starts over");
}

static void help(prompt *p DRV_UNUSED, const char *text DRV_UNUSED) {
    const char *line = CHAT_COMMANDS_HELP;
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        log_info("%.*s", (int)n, line);
    }
}

static void leave(prompt *p, const char *text DRV_UNUSED) {
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
    forget_interrupt(); // also one that came with the answer's end
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
        log_info("the answer was cut off at --max-tokens or at the end of the context");
    if (turn.end == GENERATE_INTERRUPTED)
        log_info("stopped; the conversation keeps the unfinished answer");
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
    str_free(&p.in);
    str_free(&p.text);
    if (status == DRV_OK && p.error && !interrupted)
        return drv_fail(DRV_E_IO, "could not read standard input: %s", strerror(p.error));
    return status;
}
