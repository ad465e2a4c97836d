// Messages on standard error and in log.txt, and the status line below them.
//
// The cursor rests on the first column of the status line. A terminal that wraps its lines anew
// when it is made narrower keeps the cursor on that character, so clearing from the cursor to the
// end of the screen removes the line however it was wrapped.
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status_line.h"

#define CLEAR "\r\033[J"
enum { MAX_FIELDS = 16, STATUS_BYTES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // all below, but not in signal handlers
// Protects the screen and the status line. Threads take it with the lock held, signal handlers
// without.
static atomic_flag screen = ATOMIC_FLAG_INIT;
// The terminal was resized while the screen was taken; whoever releases the screen redraws it.
static atomic_bool resized;
static atomic_int ending; // a signal; 0: none

static FILE *file;
static str early;      // lines printed before a file was open; the first file begins with them
static bool only_file; // set by log_to_file_only
static _Thread_local bool mute; // set by log_mute_thread
static struct {
    log_field fields[MAX_FIELDS]; // texts lie in `text`
    int n;
    str text, line; // with room for STATUS_BYTES: the handler must not allocate
    atomic_bool drawn;
    _Atomic double last_s; // when it was drawn or, off a terminal, begun; negative: not yet
} status = {.last_s = -1};

// --- the terminal
bool log_is_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

bool terminal_is_utf8(int descriptor) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const bool shown = isatty(descriptor);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value) continue;
        return strcasestr(value, "utf-8") || strcasestr(value, "utf8") ||
               (!shown && !strchr(value, '.'));
    }
    return !shown;
}

bool log_is_utf8(void) {
    return terminal_is_utf8(STDERR_FILENO);
}

bool terminal_has_colour(int descriptor) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(descriptor) && term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

// The last column stays free: a character there makes some terminals begin a new line.
static int usable_columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1;
    const char *value = getenv("COLUMNS");
    const long columns = value ? strtol(value, NULL, 10) : 0;
    return columns > 1 && columns < 10000 ? (int)columns - 1 : 79;
}

static void write_screen(const char *bytes, size_t n) {
    while (n > 0) { // there is nowhere to report a failure to
        const ssize_t k = write(STDERR_FILENO, bytes, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return;
        bytes += k;
        n -= (size_t)k;
    }
}

static const char *ellipsis(void) {
    return log_is_utf8() ? "…" : "...";
}

// Appends what draws the status line and puts the cursor on its beginning.
static void add_status(str *out) {
    text_add_fields(out, status.fields, status.n, usable_columns(), ellipsis());
    str_puts(out, "\r");
}

static void redraw(void) {
    str_clear(&status.line);
    str_puts(&status.line, CLEAR);
    add_status(&status.line);
    write_screen(status.line.p, status.line.n);
}

static void take_screen(void) {
    pthread_mutex_lock(&lock);
    while (atomic_flag_test_and_set(&screen)) // a handler on another thread draws
        sched_yield();
}

// Ends the process by a signal after it has cleared the status line; the screen stays taken. The
// signal goes to the whole process, since this thread may block signals.
static void end_process(int signal_number) {
    if (status.drawn) write_screen(CLEAR, sizeof CLEAR - 1);
    signal(signal_number, SIG_DFL);
    kill(getpid(), signal_number);
}

static void release_screen(void) {
    do {
        const int signal_number = atomic_exchange(&ending, 0);
        if (signal_number) {
            end_process(signal_number);
            return;
        }
        if (atomic_exchange(&resized, false) && status.drawn) redraw();
        atomic_flag_clear(&screen);
        // A handler may have found the screen taken just before it was released.
    } while ((atomic_load(&resized) || atomic_load(&ending)) && !atomic_flag_test_and_set(&screen));
}

static void give_screen(void) {
    release_screen();
    pthread_mutex_unlock(&lock);
}

// --- signals
static void on_resize(int signal DRV_UNUSED) {
    const int saved = errno;
    atomic_store(&resized, true);
    if (!atomic_flag_test_and_set(&screen)) release_screen();
    errno = saved;
}

static void on_end(int signal_number) {
    atomic_store(&ending, signal_number);
    if (!atomic_flag_test_and_set(&screen)) release_screen();
}

void log_last_words(const char *lines, size_t n) {
    if (status.drawn) write_screen(CLEAR, sizeof CLEAR - 1);
    write_screen(lines, n);
}

static void watch_signals(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    static bool watching;
    if (watching) return;
    watching = true;
    struct sigaction resize = {.sa_handler = on_resize, .sa_flags = SA_RESTART | SA_ONSTACK},
                     before;
    sigaction(SIGWINCH, &resize, NULL);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            signal(ends[i], on_end);
}

// --- messages
static void to_file(const char *level, const char *text) {
    enum { EARLY_BYTES = 65536 };
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
    if (!file) {
        if (early.n < EARLY_BYTES) str_printf(&early, "%s %s%s\n", stamp, level, text);
        return;
    }
    fprintf(file, "%s %s%s\n", stamp, level, text);
    fflush(file);
}

// Prints `shown` on the screen and `text` in the file, each by one write, so that lines of several
// threads do not mix.
static void emit(const char *level, const char *shown, const char *text) {
    str out = {0};
    if (mute && !*level) return;
    if (only_file && !*level) {
        pthread_mutex_lock(&lock);
        to_file(level, text);
        pthread_mutex_unlock(&lock);
        return;
    }
    take_screen();
    if (status.drawn) str_puts(&out, CLEAR);
    str_puts(&out, level);
    text_add_clean(&out, shown, true);
    str_puts(&out, "\n");
    if (status.drawn) add_status(&out);
    write_screen(out.p, out.n);
    to_file(level, text);
    give_screen();
    str_free(&out);
}

__attribute__((format(printf, 2, 0))) static void emit_format(const char *level, const char *fmt,
        va_list ap) {
    char text[4096];
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *c = text; *c; c++) // one line, whatever names it holds
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
    emit(level, text, text);
}

static atomic_bool failure_said;

bool log_failure_said(void) {
    return atomic_load(&failure_said);
}

void log_failure(const char *message) {
    atomic_store(&failure_said, true);
    str line = {0};
    progress_end();
    str_puts(&line, "drover: ");
    text_add_clean(&line, message, false); // names and values may hold broken UTF-8
    str_puts(&line, "\n");
    write_screen(line.p, line.n);
    str_free(&line);
}

void log_drain(void) {
    struct stat st;
    int unread = 0;
    if (fstat(STDERR_FILENO, &st) != 0 || !S_ISFIFO(st.st_mode)) return;
    for (const double end = clock_s() + 1; clock_s() < end;) {
        if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

void log_info(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit_format("", fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit_format("warning: ", fmt, ap);
    va_end(ap);
}

void log_file_only(const char *fmt, ...) {
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (mute) return;
    pthread_mutex_lock(&lock);
    to_file("", text);
    pthread_mutex_unlock(&lock);
}

void log_fields(const log_field *fields, int n) {
    str whole = {0}, fitting = {0};
    text_add_fields(&whole, fields, n, STATUS_BYTES, "");
    if (log_is_terminal()) text_add_fields(&fitting, fields, n, usable_columns(), ellipsis());
    if (whole.n > 0) emit("", fitting.n > 0 ? fitting.p : whole.p, whole.p);
    str_free(&whole);
    str_free(&fitting);
}

drv_status log_open_file(const char *path) {
    int fd;
    DRV_TRY(file_append(path, &fd));
    log_close_file();
    FILE *opened = fdopen(fd, "a");
    if (!opened) {
        close(fd);
        return file_fail("append to", path);
    }
    pthread_mutex_lock(&lock);
    file = opened;
    if (early.n) fputs(early.p, file);
    str_free(&early);
    pthread_mutex_unlock(&lock);
    return DRV_OK;
}

void log_to_file_only(bool on) {
    only_file = on;
}

void log_mute_thread(bool on) {
    mute = on;
}

void log_close_file(void) {
    pthread_mutex_lock(&lock); // other threads may be writing
    if (file) fclose(file);
    file = NULL;
    pthread_mutex_unlock(&lock);
}

// --- the status line
// Copies the fields; texts beyond STATUS_BYTES are left out.
static void set_status(const log_field *fields, int n) {
    str_clear(&status.text);
    str_clear(&status.line);
    str_reserve(&status.text, STATUS_BYTES);
    str_reserve(&status.line, 2 * STATUS_BYTES);
    status.n = 0;
    for (int i = 0; i < n && i < MAX_FIELDS; i++) {
        if (status.text.n + strlen(fields[i].text) + 1 > STATUS_BYTES) break;
        const size_t start = status.text.n;
        text_add_clean(&status.text, fields[i].text, false); // never longer than what it cleans
        str_add(&status.text, "", 1);
        status.fields[status.n++] = (log_field){status.text.p + start, fields[i].rank};
    }
}

void progress_fields(const log_field *fields, int n_fields) {
    const bool terminal = log_is_terminal();
    const double now = clock_s();
    if (only_file || mute) return;
    if (!terminal && status.last_s < 0)
        status.last_s = now; // work that is soon done prints nothing
    if (status.last_s >= 0 && now - status.last_s < (terminal ? 0.1 : 10.0)) return;
    take_screen();
    status.last_s = now;
    set_status(fields, n_fields);
    if (terminal) {
        watch_signals();
        redraw();
        status.drawn = true;
    } else {
        str_clear(&status.line);
        text_add_fields(&status.line, status.fields, status.n, STATUS_BYTES, "");
        str_puts(&status.line, "\n");
        write_screen(status.line.p, status.line.n);
    }
    give_screen();
}

void progress(const char *fmt, ...) {
    char text[STATUS_BYTES / 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    progress_fields(&(log_field){text, 0}, 1);
}

void progress_end(void) {
    take_screen();
    if (status.drawn) write_screen(CLEAR, sizeof CLEAR - 1);
    status.drawn = false;
    status.last_s = -1;
    give_screen();
}
