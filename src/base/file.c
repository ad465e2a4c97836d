// Files and folders of the operating system: reading, atomic writing, walking, locks.
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"

// Bytes that a call reads from a file without a size, and a limit on such files, larger than any
// text that drover reads whole.
enum { STREAM_BYTES = 1 << 16, MAX_STREAM_BYTES = 1 << 30 };

drv_status file_fail(const char *what, const char *path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return drv_fail(full ? DRV_E_FULL : DRV_E_IO, "could not %s \"%s\": %s", what, path,
            strerror(errno));
}

static const char *kind_of(mode_t mode) {
    static const struct {
        mode_t kind;
        const char *name;
    } kinds[] = {{S_IFDIR, "a folder"}, {S_IFIFO, "a pipe"}, {S_IFSOCK, "a socket"},
            {S_IFCHR, "a device"}, {S_IFBLK, "a device"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((mode & S_IFMT) == kinds[i].kind) return kinds[i].name;
    return "no file";
}

const char *file_odd_kind(const char *path) {
    struct stat st;
    return stat(path, &st) != 0 || S_ISREG(st.st_mode) ? NULL : kind_of(st.st_mode);
}

static drv_status is_odd(const char *what, const char *path, const char *kind) {
    return drv_fail(DRV_E_IO, "could not %s \"%s\": it is %s, expected a file on a disk", what,
            path, kind);
}

// Opens whatever a user has named, which may be a pipe (opening it waits for a writer) or a device.
// `n` is 0 if the size is unknown until the end: of pipes, devices and files of /proc.
static drv_status open_any(const char *path, int *fd, int64_t *n) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return file_fail("open", path);
    drv_status status = fstat(*fd, &st) == 0 ? DRV_OK : file_fail("look at", path);
    if (status == DRV_OK && S_ISDIR(st.st_mode)) status = is_odd("read", path, kind_of(st.st_mode));
    if (status != DRV_OK) close(*fd);
    *n = S_ISREG(st.st_mode) ? st.st_size : 0;
    return status;
}

drv_status file_open_regular(const char *path, int *fd, int64_t *n_bytes) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // else it waits for a pipe's writer
    if (*fd < 0 && errno == ENXIO && file_odd_kind(path))
        return is_odd("read", path, file_odd_kind(path));
    if (*fd < 0) return file_fail("open", path);
    drv_status status = fstat(*fd, &st) == 0 ? DRV_OK : file_fail("look at", path);
    if (status == DRV_OK && !S_ISREG(st.st_mode))
        status = is_odd("read", path, kind_of(st.st_mode));
    if (status == DRV_OK) {
        *n_bytes = st.st_size;
        return DRV_OK;
    }
    close(*fd);
    *fd = -1;
    return status;
}

int64_t file_read_at(int fd, void *out, int64_t n, int64_t offset) {
    int64_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, (char *)out + done, (size_t)(n - done), offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) break;
        done += got;
    }
    return done;
}

// Reads up to `n` bytes, fewer only at the end.
static drv_status read_up_to(int fd, const char *path, char *bytes, size_t n, size_t *done) {
    for (*done = 0; *done < n;) {
        const ssize_t got = read(fd, bytes + *done, n - *done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_fail("read", path);
        if (got == 0) break;
        *done += (size_t)got;
    }
    return DRV_OK;
}

// Reads a file without a size to its end. The caller frees `out` with str_free, also after a
// failure.
static drv_status read_stream(int fd, const char *path, str *out) {
    size_t got;
    do {
        str_reserve(out, STREAM_BYTES);
        DRV_TRY(read_up_to(fd, path, out->p + out->n, STREAM_BYTES, &got));
        out->n += got;
        out->p[out->n] = 0;
        if (out->n > MAX_STREAM_BYTES)
            return drv_fail(DRV_E_IO,
                    "could not read \"%s\": it has no size and does not end after %s", path,
                    str_bytes(MAX_STREAM_BYTES));
    } while (got == STREAM_BYTES);
    return DRV_OK;
}

// Reads a whole file and closes it. `size` 0: reads to its end.
static drv_status read_open(arena *a, int fd, const char *path, int64_t size, char **out,
        size_t *n_bytes) {
    size_t done;
    str stream = {0};
    char *bytes = NULL;
    drv_status status;
    if (size > 0) {
        bytes = arena_alloc(a, (size_t)size + 1);
        status = read_up_to(fd, path, bytes, (size_t)size, &done);
    } else {
        status = read_stream(fd, path, &stream);
        done = stream.n;
        bytes = arena_alloc(a, done + 1);
        if (done > 0) memcpy(bytes, stream.p, done);
        str_free(&stream);
    }
    close(fd);
    if (status != DRV_OK) return status;
    bytes[done] = 0;
    *out = bytes;
    if (n_bytes) *n_bytes = done;
    return DRV_OK;
}

drv_status file_read(arena *a, const char *path, char **out, size_t *n_bytes) {
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    return read_open(a, fd, path, size, out, n_bytes);
}

drv_status file_read_small(arena *a, const char *path, int64_t max_bytes, char **out,
        size_t *n_bytes) {
    int fd;
    int64_t bytes;
    DRV_TRY(file_open_regular(path, &fd, &bytes));
    close(fd);
    if (bytes > max_bytes)
        return drv_fail(DRV_E_DATA, "\"%s\" has %lld bytes, expected at most %lld", path,
                (long long)bytes, (long long)max_bytes);
    return file_read(a, path, out, n_bytes);
}

drv_status file_read_tail(arena *a, const char *path, int64_t max_bytes, char **out,
        size_t *n_bytes) {
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    const int64_t n = size < max_bytes ? size : max_bytes;
    *out = arena_alloc(a, (size_t)n + 1);
    const int64_t got = file_read_at(fd, *out, n, size - n);
    const drv_status status = got < n && errno ? file_fail("read", path) : DRV_OK;
    close(fd);
    *n_bytes = (size_t)got;
    return status;
}

drv_status file_read_any(arena *a, const char *path, char **out, size_t *n_bytes) {
    int fd;
    int64_t size = 0;
    DRV_TRY(open_any(path, &fd, &size));
    return read_open(a, fd, path, size, out, n_bytes);
}

drv_status file_read_input(arena *a, const char *path, char **out, size_t *n_bytes) {
    if (strcmp(path, "-") != 0) return file_read_any(a, path, out, n_bytes);
    // One that is closed would be read as empty by its name.
    if (read(STDIN_FILENO, NULL, 0) < 0)
        return drv_fail(DRV_E_IO, "could not read standard input: %s", strerror(errno));
    return file_read_any(a, "/dev/stdin", out, n_bytes);
}

drv_status file_map_open(const char *path, file_map *out) {
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    *out = (file_map){(const unsigned char *)"", 0};
    void *p = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    const drv_status status = p == MAP_FAILED ? file_fail("map", path) : DRV_OK;
    close(fd);
    if (p && status == DRV_OK) *out = (file_map){p, (size_t)size};
    return status;
}

void file_map_close(file_map *m) {
    if (m->n) munmap((void *)(uintptr_t)m->p, m->n);
    *m = (file_map){0};
}

drv_status file_write_all(int fd, const char *path, const void *p, size_t n) {
    const char *rest = p;
    while (n) {
        ssize_t k = write(fd, rest, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return file_fail("write", path);
        rest += k;
        n -= (size_t)k;
    }
    return DRV_OK;
}

drv_status file_write_at(int fd, const char *path, const void *p, size_t n, int64_t offset) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = pwrite(fd, (const char *)p + done, n - done, offset + (int64_t)done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return file_fail("write", path);
        done += (size_t)k;
    }
    return DRV_OK;
}

// Opens a file on a disk to be written. O_NONBLOCK: does not wait for a reader of a pipe.
// O_NOFOLLOW: in a directory that several people use, a link could make drover write elsewhere.
static drv_status open_to_write(const char *what, const char *path, int flags, int *fd) {
    struct stat st;
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | flags, 0666);
    if (*fd < 0) {
        const int why = errno;
        if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) return is_odd(what, path, "a link");
        const char *kind = file_odd_kind(path);
        errno = why;
        return kind ? is_odd(what, path, kind) : file_fail(what, path);
    }
    const drv_status status = fstat(*fd, &st) != 0  ? file_fail("look at", path)
                              : S_ISREG(st.st_mode) ? DRV_OK
                                                    : is_odd(what, path, kind_of(st.st_mode));
    if (status != DRV_OK) close(*fd);
    return status;
}

drv_status file_append(const char *path, int *fd) {
    return open_to_write("append to", path, O_APPEND, fd);
}

static drv_status name_aside(const char *path, char *out, size_t cap) {
    if (snprintf(out, cap, "%s" FILE_ASIDE, path) < (int)cap) return DRV_OK;
    return drv_fail(DRV_E_IO, "path \"%s\" is too long", path);
}

drv_status file_write_aside(const char *path, const void *p, size_t n) {
    char tmp[4000];
    struct stat st;
    int fd;
    DRV_TRY(name_aside(path, tmp, sizeof tmp));
    // A file left by another process may still be open there, and what that process appends must
    // not get into ours.
    if (lstat(tmp, &st) == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))) unlink(tmp);
    DRV_TRY(open_to_write("create", tmp, O_TRUNC, &fd));
    drv_status s = file_write_all(fd, tmp, p, n);
    if (s == DRV_OK && fsync(fd) != 0) s = file_fail("sync", tmp);
    if (close(fd) != 0 && s == DRV_OK) s = file_fail("close", tmp);
    if (s != DRV_OK) unlink(tmp);
    return s;
}

drv_status file_put_in_place(const char *path) {
    char tmp[4000];
    DRV_TRY(name_aside(path, tmp, sizeof tmp));
    if (rename(tmp, path) != 0) {
        const drv_status s = file_fail("rename into place", path);
        unlink(tmp);
        return s;
    }
    arena *a = arena_new("a folder");
    const drv_status s = file_sync_placed(path_parent(a, path), path);
    arena_free(a);
    return s;
}

drv_status file_sync_placed(const char *dir, const char *path) {
    DRV_TRY_CTX(file_sync_dir(dir), "\"%s\" is in place, but may be gone after a power failure",
            path);
    return DRV_OK;
}

drv_status file_write_atomic(const char *path, const void *p, size_t n) {
    DRV_TRY(file_write_aside(path, p, n));
    return file_put_in_place(path);
}

drv_status file_sync_dir(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return file_fail("open folder", path);
    int bad = fsync(fd) != 0 && errno != EINVAL; // some file systems cannot sync a folder
    drv_status s = bad ? file_fail("sync folder", path) : DRV_OK;
    close(fd);
    return s;
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0 ||
           (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

const char *path_unused(arena *a, const char *stem, const char *end) {
    const char *path = arena_printf(a, "%s%s", stem, end);
    for (int i = 2; access(path, F_OK) == 0; i++)
        path = arena_printf(a, "%s-%d%s", stem, i, end);
    return path;
}

bool file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_is_same(const char *x, const char *y) {
    struct stat of_x, of_y;
    return stat(x, &of_x) == 0 && stat(y, &of_y) == 0 && of_x.st_dev == of_y.st_dev &&
           of_x.st_ino == of_y.st_ino;
}

int64_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

drv_status dir_make(const char *path) {
    char buf[4096];
    if (snprintf(buf, sizeof buf, "%s", path) >= (int)sizeof buf)
        return drv_fail(DRV_E_IO, "path \"%s\" is too long", path);
    for (char *p = buf + 1;; p++) {
        if (*p != '/' && *p) continue;
        char keep = *p;
        *p = 0;
        if (mkdir(buf, 0777) != 0 && errno != EEXIST) return file_fail("make folder", buf);
        if (!keep) break;
        *p = keep;
    }
    if (!file_is_dir(path)) return drv_fail(DRV_E_IO, "\"%s\" is not a folder", path);
    return DRV_OK;
}

drv_status dir_try(const char *path) {
    static const char trial[] = "/.drover-XXXXXX";
    char there[PATH_MAX + sizeof trial];
    if (strlen(path) >= PATH_MAX) return drv_fail(DRV_E_IO, "path \"%s\" is too long", path);
    snprintf(there, sizeof there, "%s", path);
    while (access(there, F_OK) != 0) {
        char *slash = strrchr(there, '/');
        if (strlen(slash ? slash + 1 : there) > NAME_MAX)
            return drv_fail(DRV_E_IO, "path \"%s\" is too long", path);
        if (slash && slash > there)
            *slash = 0;
        else
            snprintf(there, sizeof there, slash ? "/" : ".");
    }
    if (!file_is_dir(there)) return drv_fail(DRV_E_IO, "\"%s\" is not a folder", there);
    const size_t n = strlen(there);
    memcpy(there + n, trial, sizeof trial);
    if (mkdtemp(there)) return rmdir(there) == 0 ? DRV_OK : file_fail("remove folder", there);
    there[n] = 0;
    return file_fail("make a folder in", there);
}

drv_status dir_make_parent(const char *path) {
    arena *a = arena_new("a folder");
    const drv_status s = dir_make(path_parent(a, path));
    arena_free(a);
    return s;
}

drv_status dir_may_enter(const char *path) {
    return access(path, X_OK) == 0 ? DRV_OK : file_fail("enter folder", path);
}

drv_status dir_remove(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return errno == ENOENT ? DRV_OK : file_fail("look at", path);
    if (!S_ISDIR(st.st_mode)) return unlink(path) == 0 ? DRV_OK : file_fail("remove", path);
    arena *a = arena_new("dir_remove");
    char **names;
    int n;
    drv_status s = dir_list(a, path, &names, &n);
    for (int i = 0; s == DRV_OK && i < n; i++)
        s = dir_remove(path_join(a, path, names[i]));
    if (s == DRV_OK && rmdir(path) != 0) s = file_fail("remove folder", path);
    arena_free(a);
    return s;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

drv_status dir_list(arena *a, const char *path, char ***names, int *n) {
    DIR *d = opendir(path);
    if (!d) return file_fail("open folder", path);
    char **list = NULL;
    int count = 0, cap = 0;
    for (struct dirent *e; errno = 0, (e = readdir(d));) { // NULL with errno: it failed
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        MEM_GROW(list, count, cap);
        list[count++] = arena_strdup(a, e->d_name);
    }
    const drv_status status = errno ? file_fail("list folder", path) : DRV_OK;
    closedir(d);
    if (count) qsort(list, (size_t)count, sizeof *list, by_name);
    *names = ARENA_ARRAY(a, char *, count + 1);
    if (count) memcpy(*names, list, sizeof *list * (size_t)count);
    *n = count;
    free(list);
    return status;
}

char *path_join(arena *a, const char *dir, const char *name) {
    size_t n = strlen(dir);
    return arena_printf(a, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

const char *path_for_shell(arena *a, const char *path) {
    str text = {0};
    str_add_shell(&text, path);
    return str_keep(a, &text);
}

const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *path_folder_name(arena *a, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *whole = arena_strndup(a, path, n), *name = path_name(whole);
    return *name ? name : whole;
}

const char *path_parent(arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

const char *path_folder(arena *a, const char *path) {
    return file_is_dir(path) ? path : path_parent(a, path);
}

const char *path_user_cache(arena *a, const char *name) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/') return path_join(a, cache, name);
    return home && *home == '/' ? path_join(a, path_join(a, home, ".cache"), name) : NULL;
}

static drv_status held_by_another(int fd, const char *path, const char *what) {
    char pid[32] = "", process[64] = "";
    if (file_read_at(fd, pid, sizeof pid - 1, 0) > 0)
        snprintf(process, sizeof process, " (process %ld)", strtol(pid, NULL, 10));
    close(fd);
    return drv_fail(DRV_E_IO,
            "another drover%s is writing %s: it holds the lock \"%s\"; wait for it or write "
            "elsewhere",
            process, what, path);
}

// Returns whether the file is empty or holds the number of a process, as a lock does. Any other
// file is a user's, such as the poetry.lock beside a folder "poetry".
static drv_status check_is_lock(int fd, const char *path) {
    char text[32] = "";
    const int64_t n = file_read_at(fd, text, sizeof text - 1, 0);
    if (n < (int64_t)sizeof text - 1 && errno) return file_fail("read", path);
    if (n == 0 || (text[n - 1] == '\n' && (int64_t)strspn(text, "0123456789") == n - 1))
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" is in the way: it is not a lock of drover; rename it, or write elsewhere",
            path);
}

drv_status file_lock_take(arena *a, const char *path, const char *what, file_lock *out) {
    *out = (file_lock){.fd = -1, .path = arena_strdup(a, path)};
    for (;;) {
        struct stat held, there;
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return file_fail("create", path);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK) return held_by_another(fd, path, what);
            log_warn("could not lock \"%s\": %s; do not write %s from two processes", path,
                    strerror(errno), what);
        }
        // The last holder may have removed the file in the meantime. Then the lock is on a file
        // that no other process can find.
        if (fstat(fd, &held) != 0 || stat(path, &there) != 0 || held.st_ino != there.st_ino ||
                held.st_dev != there.st_dev) {
            close(fd);
            continue;
        }
        char pid[32];
        const int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
        drv_status status = check_is_lock(fd, path);
        const bool ours = status == DRV_OK;
        if (ours && ftruncate(fd, 0) != 0) status = file_fail("write", path);
        if (status == DRV_OK) status = file_write_at(fd, path, pid, (size_t)n, 0);
        if (status == DRV_OK) {
            out->fd = fd;
            return DRV_OK;
        }
        if (ours) unlink(path);
        close(fd);
        return status;
    }
}

void file_lock_release(file_lock *l) {
    if (l->fd < 0) return;
    unlink(l->path);
    close(l->fd);
    l->fd = -1;
}
