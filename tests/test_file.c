// Files read whole: pipes and what else tells no size, as well as what lies on a disk.
#include "harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/append_file.h"
#include "base/json.h"
#include "base/json_lines.h"

// In the place of the C library's: a listing that fails at its end, as that of a server which no
// longer answers, and a file that is being cut short: it has fewer bytes than it seems to have.
static bool listing_fails;
static off_t bytes_that_are_gone;

struct dirent *readdir(DIR *folder) {
    struct dirent *(*original)(DIR * folder);
    void *symbol = dlsym(RTLD_NEXT, "readdir");
    memcpy(&original, &symbol, sizeof original);
    struct dirent *entry = original(folder);
    if (!entry && listing_fails) errno = EIO;
    return entry;
}

int fstat(int descriptor, struct stat *out) {
    const int result = fstatat(descriptor, "", out, AT_EMPTY_PATH);
    out->st_size += bytes_that_are_gone;
    return result;
}

// Errors that the next calls give, 0: none; whether a read or a write moves one byte at most.
static int access_error, read_error;
static bool moves_little;

int access(const char *path, int mode) {
    if (!access_error) return faccessat(AT_FDCWD, path, mode, 0);
    errno = access_error;
    return -1;
}

ssize_t read(int fd, void *bytes, size_t n) {
    if (!read_error) return readv(fd, &(struct iovec){bytes, n}, 1);
    errno = read_error;
    return -1;
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at) {
    return preadv(fd, &(struct iovec){bytes, moves_little && n > 1 ? 1 : n}, 1, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    const struct iovec part = {(void *)(uintptr_t)bytes, moves_little && n > 1 ? 1 : n};
    return pwritev(fd, &part, 1, at);
}

typedef struct writer {
    int fd;
    const char *bytes;
    size_t n;
} writer;

static void *write_pipe(void *arg) {
    writer *w = arg;
    const drv_status status = file_write_all(w->fd, "pipe", w->bytes, w->n);
    close(w->fd);
    return status == DRV_OK ? w : NULL;
}

// `any`: by what reads pipes as well.
static void reads_bytes(arena *a, const char *path, const char *want, size_t n_want, bool any) {
    char *bytes;
    size_t n;
    OK((any ? file_read_any : file_read)(a, path, &bytes, &n));
    assert_int_equal(n, n_want);
    assert_memory_equal(bytes, want, n_want);
    assert_int_equal(bytes[n], 0);
}

static void maps_bytes(const char *path, const char *want, size_t n_want) {
    file_map mapped;
    OK(file_map_open(path, &mapped));
    assert_int_equal(mapped.n, n_want);
    assert_memory_equal(mapped.p, want, n_want);
    file_map_close(&mapped);
}

// Sizes around a pipe's 64 KiB and the bytes of one read.
static const size_t sizes[] = {0, 1, 4095, 65535, 65536, 65537, 131072, 1000003};
enum { N_SIZES = sizeof sizes / sizeof *sizes, MAX_SIZE = 1000003 };

static char *pattern(arena *a) {
    char *bytes = arena_alloc(a, MAX_SIZE);
    for (size_t i = 0; i < MAX_SIZE; i++)
        bytes[i] = (char)(i * 31 + i / 251);
    return bytes;
}

TEST(pipes_are_read_to_the_end) {
    const char *bytes = pattern(a);
    for (int i = 0; i < N_SIZES; i++) {
        int ends[2];
        pthread_t thread;
        void *done;
        assert_int_equal(pipe(ends), 0);
        writer w = {ends[1], bytes, sizes[i]};
        assert_int_equal(pthread_create(&thread, NULL, write_pipe, &w), 0);
        reads_bytes(a, arena_printf(a, "/dev/fd/%d", ends[0]), bytes, w.n, true);
        pthread_join(thread, &done);
        assert_non_null(done);
        close(ends[0]);
    }
}

TEST(files_are_read_whole) {
    const char *bytes = pattern(a), *path = path_join(a, temporary_dir(a), "file");
    for (int i = 0; i < N_SIZES; i++) {
        OK(file_write_atomic(path, bytes, sizes[i]));
        reads_bytes(a, path, bytes, sizes[i], false);
        reads_bytes(a, path, bytes, sizes[i], true);
        maps_bytes(path, bytes, sizes[i]);
    }
}

// Files of /proc are regular and say that they are empty.
TEST(files_without_a_size) {
    char *text;
    size_t n;
    OK(file_read(a, "/proc/self/status", &text, &n));
    assert_non_null(strstr(text, "VmRSS:"));
    assert_int_equal(n, strlen(text));
}

TEST(folders_and_devices_are_refused) {
    char *text;
    file_map map;
    FAILS(file_read(a, "/tmp", &text, NULL), DRV_E_IO, "could not read \"/tmp\": it is a folder");
    FAILS(file_read_any(a, "/tmp", &text, NULL), DRV_E_IO, "it is a folder");
    FAILS(file_map_open("/tmp", &map), DRV_E_IO, "it is a folder");
    FAILS(file_read(a, "/dev/zero", &text, NULL), DRV_E_IO, "it is a device");
    FAILS(file_map_open("/dev/zero", &map), DRV_E_IO, "it is a device");
    OK(file_read_any(a, "/dev/null", &text, NULL));
    assert_string_equal(text, "");
}

// What is read at any place is a file on a disk: nobody waits for a pipe that has no writer.
TEST(what_is_read_at_any_place) {
    const char *dir = temporary_dir(a), *file = path_join(a, dir, "file"),
               *pipe = path_join(a, dir, "pipe"), *link = path_join(a, dir, "link");
    const struct {
        const char *path, *says; // says NULL: it is read
    } cases[] = {{file, NULL}, {link, NULL}, {pipe, "it is a pipe, expected a file on a disk"},
            {dir, "it is a folder"}, {"/dev/zero", "it is a device"}, {"/nowhere", "No such file"}};
    OK(file_write_atomic(file, "abc", 3));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("file", link), 0);
    alarm(60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd;
        int64_t n;
        file_map map;
        if (cases[i].says) {
            FAILS(file_open_regular(cases[i].path, &fd, &n), DRV_E_IO, cases[i].says);
            assert_int_equal(fd, -1);
            FAILS(file_map_open(cases[i].path, &map), DRV_E_IO, cases[i].says);
            continue;
        }
        OK(file_open_regular(cases[i].path, &fd, &n));
        assert_int_equal(n, 3);
        close(fd);
        OK(file_map_open(cases[i].path, &map));
        assert_memory_equal(map.p, "abc", 3);
        file_map_close(&map);
    }
    OK(file_write_atomic(file, "", 0));
    file_map map;
    OK(file_map_open(file, &map));
    assert_int_equal(map.n, 0);
    file_map_close(&map);
    alarm(0);
}

// Another process may have begun the same file, and go on writing after ours is in its place.
TEST(what_is_written_aside_is_a_new_file) {
    char *text;
    size_t n;
    int other;
    const char *path = path_join(a, temporary_dir(a), "file");
    OK(file_write_atomic(path, "old", 3));
    OK(file_append(arena_printf(a, "%s" FILE_ASIDE, path), &other));
    OK(file_write_aside(path, "new", 3));
    OK(file_read(a, path, &text, &n));
    assert_string_equal(text, "old");
    OK(file_put_in_place(path));
    OK(file_write_all(other, path, "other", 5));
    close(other);
    OK(file_read(a, path, &text, &n));
    assert_string_equal(text, "new");
    assert_false(file_exists(arena_printf(a, "%s" FILE_ASIDE, path)));
    FAILS(file_put_in_place(path), DRV_E_IO, "could not rename into place");
    OK(file_write_atomic(arena_printf(a, "%s.tmp", path), "a user's", 8));
    OK(file_write_atomic(path, "newer", 5));
    assert_int_equal(file_size(arena_printf(a, "%s.tmp", path)), 8);
}

// A link in the place of a file that is written is not followed.
TEST(links_are_not_followed) {
    char *text;
    size_t n;
    int fd;
    const char *dir = temporary_dir(a), *other = path_join(a, dir, "other"),
               *path = path_join(a, dir, "file");
    OK(file_write_atomic(other, "mine", 4));
    assert_int_equal(symlink(other, path), 0);
    FAILS(file_append(path, &fd), DRV_E_IO, "file\": it is a link, expected a file on a disk");
    assert_int_equal(symlink(other, arena_printf(a, "%s" FILE_ASIDE, path)), 0);
    OK(file_write_atomic(path, "new", 3));
    OK(file_read(a, other, &text, &n));
    assert_string_equal(text, "mine");
    OK(file_read(a, path, &text, &n));
    assert_string_equal(text, "new");
}

// What another try may heal, once there is room (docs/adr/0006).
TEST(disk_without_room) {
    const int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) skip();
    FAILS(file_write_all(fd, "disk/file", "abc", 3), DRV_E_FULL, "could not write \"disk/file\"");
    close(fd);
}

static void limit_files(rlim_t n_bytes) {
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = n_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

// A limit on the size of files stands for a full disk: a line is torn by it, the next ones do not
// fit at all, and all are there once there is room.
TEST(what_a_full_disk_did_not_take_is_kept) {
    enum { LINES = 5000, FULL = 30000 };
    append_file *file;
    str want = {0};
    int failed = 0;
    const char *path = path_join(a, temporary_dir(a), "appended");
    signal(SIGXFSZ, SIG_IGN);
    OK(append_file_open(a, path, &file));
    limit_files(FULL);
    for (int i = 0; i < LINES; i++) {
        char line[32];
        const int n = snprintf(line, sizeof line, "line %d\n", i);
        str_add(&want, line, (size_t)n);
        if (i == LINES - 1) limit_files(RLIM_INFINITY);
        if (append_file_add(file, line, (size_t)n) != DRV_OK) {
            failed++;
            assert_int_equal(file_size(path), FULL); // the torn line's beginning is there
        }
    }
    assert_true(failed > LINES / 4);
    append_file_close(file);
    reads_bytes(a, path, want.p, want.n, false);
    str_free(&want);
}

// What is too much to keep is refused even if the disk has room again, so that nobody takes it for
// written.
TEST(what_is_dropped_is_a_failure) {
    enum { MOST = 64 << 20 };
    append_file *file;
    char *large = mem_alloc(MOST);
    const char *path = path_join(a, temporary_dir(a), "appended");
    memset(large, 'x', MOST);
    OK(append_file_open(a, path, &file));
    limit_files(0);
    FAILS(append_file_add(file, large, MOST), DRV_E_IO, "File too large");
    FAILS(append_file_add(file, "dropped\n", 8), DRV_E_IO, "File too large");
    limit_files(RLIM_INFINITY);
    OK(append_file_add(file, "end\n", 4));
    assert_int_equal(file_size(path), MOST + 4);
    append_file_close(file);
    free(large);
}

TEST(a_listing_that_fails_is_no_listing) {
    char **names;
    int n;
    const char *dir = temporary_dir(a);
    OK(file_write_atomic(path_join(a, dir, "one"), "", 0));
    listing_fails = true;
    const drv_status status = dir_list(a, dir, &names, &n);
    listing_fails = false;
    FAILS(status, DRV_E_IO, "Input/output error");
    OK(dir_list(a, dir, &names, &n));
    assert_int_equal(n, 1);
}

// A page of a map that is no longer in the file would end the process by SIGBUS.
TEST(json_that_is_being_cut_short) {
    enum { PAGE = 4096 };
    const char *path = path_join(a, temporary_dir(a), "cut.json");
    char *text = arena_alloc(a, PAGE);
    json_t *value;
    memset(text, ' ', PAGE);
    memcpy(text, "{\"a\": 1}", 8);
    OK(file_write_atomic(path, text, PAGE));
    bytes_that_are_gone = PAGE;
    const drv_status status = json_read_file(path, &value);
    bytes_that_are_gone = 0;
    OK(status);
    assert_int_equal(json_integer_value(json_object_get(value, "a")), 1);
    json_decref(value);
}

TEST(parts_of_paths) {
    static const struct {
        const char *path, *name, *parent, *folder_name;
    } cases[] = {{"x", "x", ".", "x"}, {"/x", "x", "/", "x"}, {"a/b/x.c", "x.c", "a/b", "x.c"},
            {"a/b//", "", "a/b/", "b"}, {"/", "", "/", "/"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(path_name(cases[i].path), cases[i].name);
        assert_string_equal(path_parent(a, cases[i].path), cases[i].parent);
        assert_string_equal(path_folder_name(a, cases[i].path), cases[i].folder_name);
    }
}

TEST(the_folder_for_caches) {
    static const struct {
        const char *xdg, *home, *folder; // NULL: not set, none
    } cases[] = {{"/x", "/home/me", "/x/a/b"}, {NULL, "/home/me", "/home/me/.cache/a/b"},
            {"", "/home/me", "/home/me/.cache/a/b"}, {"x", "/home/me", "/home/me/.cache/a/b"},
            {"x", "me", NULL}, {NULL, "", NULL}, {NULL, NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        if (cases[i].xdg) setenv("XDG_CACHE_HOME", cases[i].xdg, 1);
        if (cases[i].home) setenv("HOME", cases[i].home, 1);
        const char *folder = path_user_cache(a, "a/b");
        if (cases[i].folder)
            assert_string_equal(folder, cases[i].folder);
        else
            assert_null(folder);
    }
}

TEST(ends_of_files) {
    const char *path = path_join(a, temporary_dir(a), "lines");
    char *end, both[8];
    size_t n;
    OK(file_write_atomic(path, "abcdef", 6));
    OK(file_read_tail(a, path, 4, &end, &n));
    assert_int_equal(n, 4);
    assert_string_equal(end, "cdef");
    OK(file_read_tail(a, path, 100, &end, &n));
    assert_string_equal(end, "abcdef");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_read_at(fd, both, 3, 2), 3);
    assert_memory_equal(both, "cde", 3);
    errno = EIO;
    assert_int_equal(file_read_at(fd, both, 8, 2), 4);
    assert_int_equal(errno, 0); // the end of the file
    close(fd);
    assert_int_equal(file_read_at(fd, both, 8, 2), 0);
    assert_int_equal(errno, EBADF);
}

// Only what the system says is absent is taken for absent: what opens the file learns the reason.
TEST(what_cannot_be_looked_at_is_not_absent) {
    const char *dir = temporary_dir(a), *here = path_join(a, dir, "here"),
               *none = path_join(a, dir, "none");
    OK(file_write_atomic(here, "x", 1));
    assert_true(file_exists(here));
    assert_false(file_exists(none));
    assert_false(file_exists(path_join(a, here, "below")));
    assert_string_equal(path_unused(a, here, ""), arena_printf(a, "%s-2", here));
    assert_string_equal(path_unused(a, none, ".x"), arena_printf(a, "%s.x", none));
    const int errors[] = {EIO, ESTALE, EACCES};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        access_error = errors[i];
        const bool there = file_exists(here);
        const char *unused = path_unused(a, here, "");
        access_error = 0;
        assert_true(there);
        assert_string_equal(unused, here); // it ends; what uses the name fails with the reason
    }
}

// A signal or a server may cut any read or write short.
TEST(locks_are_taken_by_single_bytes) {
    const char *path = path_join(a, temporary_dir(a), "x.lock");
    file_lock lock;
    char *text;
    size_t n;
    OK(file_write_atomic(path, "123456\n", 7)); // of a process that was killed
    moves_little = true;
    const drv_status taken = file_lock_take(a, path, "a test", &lock);
    moves_little = false;
    OK(taken);
    OK(file_read(a, path, &text, &n));
    assert_string_equal(text, arena_printf(a, "%ld\n", (long)getpid()));
    file_lock_release(&lock);
    OK(file_write_atomic(path, "[[package]]\n", 12));
    moves_little = true;
    const drv_status foreign = file_lock_take(a, path, "a test", &lock);
    moves_little = false;
    assert_int_equal(foreign, DRV_E_USAGE);
    assert_true(file_exists(path));
}

// The rest of a file that cannot be read is not its end.
TEST(lines_that_cannot_be_read_are_said) {
    const char *path = path_join(a, temporary_dir(a), "x.jsonl");
    json_lines lines;
    OK(file_write_atomic(path, "{}\n", 3));
    OK(json_lines_open(path, true, &lines));
    read_error = EIO;
    json_t *none = json_lines_next(&lines);
    read_error = 0;
    assert_null(none);
    assert_int_equal(json_lines_status(&lines), DRV_E_IO);
    assert_non_null(strstr(drv_message(), "x.jsonl\": Input/output error"));
    json_t *line = json_lines_next(&lines);
    assert_non_null(line);
    OK(json_lines_status(&lines));
    json_decref(line);
    json_lines_close(&lines);
}
