// Runs a fuzz target without a fuzzer: over the files of its corpus, each also cut short in every
// way; or, with a number, over these files and so many others, which are made of them by random
// changes. The changes depend on the files and on the number of the input alone, so that every
// build on every machine tries the same inputs. With libFuzzer, a first argument that is an option
// of its own starts it instead. usage: fuzz_NAME CORPUS [INPUTS]
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
#ifdef WITH_FUZZER
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*target)(const uint8_t *, size_t));
#endif
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

enum { SEED = 1, MAX_CHANGES = 5, MAX_ADDED = 4096, MAX_RUN = 64, MOST_SECONDS = 20 };

// In the place of the C library's: the file of an input is read at once, and no disk is waited for.
int fsync(int file) {
    (void)file;
    return 0;
}

// --- what targets call, and what calls them
static char scratch[] = "/tmp/drover-fuzz-XXXXXX";

static void remove_scratch(void) {
    if (dir_remove(scratch) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

const char *fuzz_folder(void) {
    static bool made;
    if (made) return scratch;
    made = mkdtemp(scratch) != NULL;
    DRV_ASSERT(made, "no folder %s", scratch);
    atexit(remove_scratch);
    return scratch;
}

const char *fuzz_file(arena *a, const char *name, const void *bytes, size_t n_bytes) {
    const char *path = path_join(a, fuzz_folder(), name);
    FILE *f = fopen(path, "wb");
    DRV_ASSERT(f && fwrite(bytes, 1, n_bytes, f) == n_bytes && fclose(f) == 0, "%s", path);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    arena *a = arena_new("fuzz");
    fuzz_input(a, bytes, n_bytes);
    arena_free(a);
    return 0;
}

// --- the input that a crash is due to
static const uint8_t *now; // NULL: none is under way
static size_t n_now;

static void say(const char *text) {
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void keep_input(void) {
    if (!now) return; // what is lost is reported at the end
    const int file = open("crash-input", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0 || write(file, now, n_now) != (ssize_t)n_now) return;
    say("the input lies in crash-input\n");
}

static void on_signal(int number) {
    if (number == SIGPROF) say("an input takes more than 20 s of processor time\n");
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

// Sanitizers report what is wrong with memory before they end the process.
static void watch_crashes(void) {
    signal(SIGABRT, on_signal);
    signal(SIGPROF, on_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
    else
        signal(SIGSEGV, on_signal);
}

// In memory of exactly that size, so that a sanitizer sees each byte that is read too much.
static void run_one(const uint8_t *bytes, size_t n) {
    uint8_t *copy = mem_alloc(n);
    memcpy(copy, bytes, n);
    now = copy;
    n_now = n;
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = MOST_SECONDS}, NULL);
    LLVMFuzzerTestOneInput(copy, n);
    now = NULL;
    free(copy);
}

// --- changes
typedef struct input {
    uint8_t *bytes;
    size_t n, cap;
} input;

typedef struct corpus {
    input *file;
    int n_files;
} corpus;

typedef struct draws { // random numbers of one input
    rng_key key;
    uint64_t n;
} draws;

static size_t draw(draws *d, size_t below) {
    return below ? (size_t)(rng_u64(&d->key, d->n++) % below) : 0;
}

// Puts `added` bytes in the place of `removed` ones at `at`, as far as there is room.
static void replace(input *x, size_t at, size_t removed, const void *bytes, size_t added) {
    if (removed > x->n - at) removed = x->n - at;
    if (x->n - removed + added > x->cap) return;
    memmove(x->bytes + at + added, x->bytes + at + removed, x->n - at - removed);
    if (added) memcpy(x->bytes + at, bytes, added);
    x->n += added - removed;
}

static void change_bits(input *x, draws *d) {
    if (x->n) x->bytes[draw(d, x->n)] ^= (uint8_t)(1u << draw(d, 8));
}

// A NUL, a byte that texts are built of, or any.
static uint8_t draw_byte(draws *d) {
    static const uint8_t marks[] = "\0\n\r\t \"'\\{}[](),:;=#%&<>|-+.*/0e\x7f\x80\xff";
    return draw(d, 2) ? marks[draw(d, sizeof marks - 1)] : (uint8_t)draw(d, 256);
}

static void insert_bytes(input *x, draws *d) {
    uint8_t bytes[8];
    const size_t n = draw(d, 2) ? 1 : 1 + draw(d, sizeof bytes);
    const size_t at = draw(d, 8) ? draw(d, x->n + 1) : x->n; // what follows the end is often found
    const bool over = draw(d, 2);
    for (size_t i = 0; i < n; i++)
        bytes[i] = draw_byte(d);
    replace(x, at, over ? n : 0, bytes, n);
}

static void remove_bytes(input *x, draws *d) {
    const size_t most = draw(d, 4) ? MAX_RUN : x->n + 1, n = 1 + draw(d, most);
    replace(x, draw(d, x->n + 1), n, NULL, 0);
}

static void repeat_bytes(input *x, draws *d) {
    uint8_t bytes[MAX_RUN];
    const size_t at = draw(d, x->n + 1), left = x->n - at,
                 n = 1 + draw(d, left < MAX_RUN ? left : MAX_RUN), times = 1 + draw(d, 40);
    if (n > left) return;
    memcpy(bytes, x->bytes + at, n);
    for (size_t i = 0; i < times; i++)
        replace(x, at, 0, bytes, n);
}

// A piece of any file is put in, or takes the place of a piece of this one.
static void put_piece(input *x, draws *d, const corpus *from) {
    const input *other = &from->file[draw(d, (size_t)from->n_files)];
    const size_t first = draw(d, other->n), left = other->n - first;
    const bool is_short = draw(d, 2), over = draw(d, 2);
    const size_t n = is_short && left > MAX_RUN ? 1 + draw(d, MAX_RUN) : 1 + draw(d, left);
    if (n <= left) replace(x, draw(d, x->n + 1), over ? n : 0, other->bytes + first, n);
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

// The first number in digits after a random place.
static void change_digits(input *x, draws *d) {
    static const char *const edges[] = {"0", "-1", "1", "255", "256", "65536", "2147483647",
            "2147483648", "-2147483649", "4294967295", "4294967296", "9223372036854775807",
            "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e308", "1e999",
            "-0.0", "0.1", "1e-320", "007", "0x10", "nan", "-inf", ""};
    const char *edge = edges[draw(d, sizeof edges / sizeof *edges)];
    size_t at = draw(d, x->n), end;
    while (at < x->n && !is_digit(x->bytes[at]))
        at++;
    for (end = at; end < x->n && is_digit(x->bytes[end]);)
        end++;
    if (at < end) replace(x, at, end - at, edge, strlen(edge));
}

// A number of 1, 2, 4 or 8 bytes, low end first.
static void change_integer(input *x, draws *d) {
    static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000,
            0xffffffff, 0x100000000, INT64_MAX, 1ull << 63, UINT64_MAX};
    uint64_t value = edges[draw(d, sizeof edges / sizeof *edges)];
    const size_t n = (size_t)1 << draw(d, 4);
    uint8_t bytes[8];
    value -= draw(d, 2);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    replace(x, draw(d, x->n + 1) / n * n, n, bytes, n);
}

static void change(input *x, draws *d, const corpus *from) {
    static void (*const changes[])(input *, draws *) = {change_bits, insert_bytes, remove_bytes,
            repeat_bytes, change_digits, change_integer};
    const size_t n = sizeof changes / sizeof *changes, which = draw(d, n + 1);
    if (which == n)
        put_piece(x, d, from);
    else
        changes[which](x, d);
}

static void run_changed(arena *a, const corpus *from, int64_t number) {
    draws d = {.key = {.seed = SEED, .purpose = RNG_TEST, .step = (uint64_t)number}};
    const input *begin = &from->file[number % from->n_files];
    input x = {.n = begin->n, .cap = begin->n + MAX_ADDED};
    x.bytes = ARENA_ARRAY(a, uint8_t, (int64_t)x.cap);
    memcpy(x.bytes, begin->bytes, begin->n);
    for (size_t changes = 1 + draw(&d, MAX_CHANGES); changes > 0; changes--)
        change(&x, &d, from);
    run_one(x.bytes, x.n);
}

static void run_cut(const input *x) {
    for (size_t cut = 0; cut < x->n; cut += cut < 64 ? 1 : 61)
        run_one(x->bytes, cut);
    run_one(x->bytes, x->n);
}

static drv_status read_corpus(arena *a, const char *folder, corpus *out) {
    char **names;
    DRV_TRY(dir_list(a, folder, &names, &out->n_files));
    if (!out->n_files) return drv_fail(DRV_E_DATA, "\"%s\" has no files", folder);
    out->file = ARENA_ARRAY(a, input, out->n_files);
    for (int i = 0; i < out->n_files; i++)
        DRV_TRY(file_read(a, path_join(a, folder, names[i]), (char **)&out->file[i].bytes,
                &out->file[i].n));
    return DRV_OK;
}

int main(int argc, char **argv) {
#ifdef WITH_FUZZER
    if (argc > 1 && argv[1][0] == '-')
        return LLVMFuzzerRunDriver(&argc, &argv, LLVMFuzzerTestOneInput);
#endif
    arena *a = arena_new("corpus");
    corpus files;
    if (argc < 2 || read_corpus(a, argv[1], &files) != DRV_OK) {
        fprintf(stderr, "usage: %s CORPUS [INPUTS]: %s\n", argv[0], drv_message());
        return 2;
    }
    const int64_t n_changed = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    watch_crashes();
    for (int i = 0; i < files.n_files; i++)
        n_changed ? run_one(files.file[i].bytes, files.file[i].n) : run_cut(&files.file[i]);
    for (int64_t i = 0; i < n_changed; i++) {
        arena *own = arena_new("input");
        run_changed(own, &files, i);
        arena_free(own);
    }
    arena_free(a);
    printf("%lld passed, 0 failed\n", (long long)files.n_files + (long long)n_changed);
    return 0;
}
