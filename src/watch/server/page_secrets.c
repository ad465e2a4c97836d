// Makes secrets, writes them for their owner alone, and reads tokens.
#include "watch/server/page_secrets.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

drv_status page_secret_make(char out[SECRET_BYTES]) {
    unsigned char bits[(SECRET_BYTES - 1) / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return drv_fail(DRV_E_IO, "the system has no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(out + 2 * i, 3, "%02x", bits[i]);
    return DRV_OK;
}

// Creates a temporary file exclusively (O_EXCL) with mode 0600, whatever the umask, and renames it
// once it is complete.
static drv_status write_private(const char *path, const char *text) {
    arena *a = arena_new("private file");
    const char *aside = arena_printf(a, "%s" FILE_ASIDE, path);
    unlink(aside);
    const int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    drv_status status = fd < 0 ? file_fail("create", aside) : DRV_OK;
    if (status == DRV_OK) status = file_write_all(fd, aside, text, strlen(text));
    if (fd >= 0) close(fd);
    if (status == DRV_OK && rename(aside, path) != 0) status = file_fail("rename", aside);
    if (status != DRV_OK) unlink(aside);
    arena_free(a);
    return status;
}

drv_status page_secrets_write(const char *run_dir, const char *address, const page_keys *keys) {
    arena *a = arena_new("http.json");
    json_t *object = json_object();
    const char *opens = arena_printf(a, "http://%s/?code=%s", address, keys->code);
    json_object_set_new(object, "address", json_string(address));
    json_object_set_new(object, "token", json_string(keys->token));
    json_object_set_new(object, "open", json_string(opens));
    json_object_set_new(object, "pid", json_integer(getpid()));
    const drv_status status = write_private(path_join(a, run_dir, "http.json"),
            json_print_in(a, object, JSON_INDENT(2)));
    arena_free(a);
    return status;
}

void page_secrets_remove(const char *run_dir) {
    arena *a = arena_new("http.json");
    unlink(path_join(a, run_dir, "http.json"));
    arena_free(a);
}

drv_status page_token_read(const char *path, const char *what, int least, char out[TOKEN_MAX]) {
    char text[TOKEN_MAX + 1];
    int fd;
    int64_t n_bytes;
    DRV_TRY(file_open_regular(path, &fd, &n_bytes));
    size_t first = 0, n = (size_t)file_read_at(fd, text, sizeof text, 0);
    const drv_status status = n < sizeof text && errno ? file_fail("read", path) : DRV_OK;
    close(fd);
    DRV_TRY(status);
    const bool fits = n < sizeof text;
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    while (first < n && isspace((unsigned char)text[first]))
        first++;
    n -= first;
    for (size_t i = 0; i < n; i++)
        if (text[first + i] <= ' ' || text[first + i] > '~')
            return drv_fail(DRV_E_DATA, "\"%s\": expected one %s of printable letters", path, what);
    if (n < (size_t)least || !fits)
        return drv_fail(DRV_E_DATA, "\"%s\": a %s of %zu characters, expected %d to %d", path, what,
                n, least, TOKEN_MAX - 1);
    memcpy(out, text + first, n);
    out[n] = 0;
    return DRV_OK;
}
