// Locks what launchers leave on a machine, and removes what nobody holds.
#include "launch/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

enum { FRESH_S = 60, BOOT_DIGITS = 8 };

const char *leftover_prefix(arena *a) {
    char *boot;
    size_t n;
    const bool known = file_read(a, "/proc/sys/kernel/random/boot_id", &boot, &n) == DRV_OK;
    return arena_printf(a, "drover-node-%.*s", BOOT_DIGITS, known ? boot : "");
}

int leftover_hold(const char *path) {
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

static bool is_old(const char *path, struct stat *info) {
    return lstat(path, info) == 0 && info->st_uid == geteuid() &&
           (S_ISDIR(info->st_mode) || S_ISREG(info->st_mode)) &&
           clock_utc_s() - (double)info->st_mtime >= FRESH_S;
}

void leftovers_remove(arena *a, const char *folder) {
    char **names;
    int n = 0;
    struct stat info;
    const char *prefix = leftover_prefix(a);
    if (dir_list(a, folder, &names, &n) != DRV_OK) return;
    for (int i = 0; i < n; i++) {
        if (!str_starts(names[i], prefix)) continue;
        const char *path = path_join(a, folder, names[i]);
        if (!is_old(path, &info)) continue;
        const int fd = leftover_hold(path);
        if (fd < 0) continue;
        if (!S_ISDIR(info.st_mode))
            unlink(path);
        else if (dir_remove(path) != DRV_OK)
            log_warn("%s", drv_message());
        close(fd);
    }
}
