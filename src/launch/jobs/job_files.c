// Puts the files of a job into their folder together.
#include "launch/jobs/job_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

str *job_files_add(job_files *files, const char *name, bool executable) {
    DRV_ASSERT(files->n < MAX_JOB_FILES, "%d files", files->n);
    job_file *f = &files->file[files->n++];
    *f = (job_file){.name = name, .executable = executable};
    return &f->text;
}

void job_files_free(job_files *files) {
    for (int i = 0; i < files->n; i++)
        str_free(&files->file[i].text);
    files->n = 0;
}

static drv_status write_all(arena *a, const job_files *files, const char *dir) {
    for (int i = 0; i < files->n; i++) {
        const job_file *f = &files->file[i];
        const char *path = path_join(a, dir, f->name);
        DRV_TRY(file_write_atomic(path, f->text.p, f->text.n));
        if (f->executable && chmod(path, 0755) != 0)
            return drv_fail(DRV_E_IO, "could not make \"%s\" executable: %s", path,
                    strerror(errno));
    }
    return DRV_OK;
}

// Renames a folder. rename() replaces an empty folder, unless that is "." or "/", but no other one.
static drv_status put_in_place(const char *from, const char *dir) {
    if (rename(from, dir) == 0) return DRV_OK;
    const int why = errno;
    if (why == EEXIST || why == ENOTEMPTY || why == ENOTDIR || why == EBUSY)
        return drv_fail(DRV_E_USAGE,
                "--out: \"%s\" is there already, expected a new or an empty folder", dir);
    return drv_fail(DRV_E_IO, "could not rename \"%s\" to \"%s\": %s", from, dir, strerror(why));
}

drv_status job_files_write(arena *a, const job_files *files, const char *dir) {
    char *name = arena_strdup(a, dir);
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = 0;
    const char *made = arena_printf(a, "%s.%d.tmp", name, (int)getpid());
    DRV_TRY(dir_make_parent(made));
    if (mkdir(made, 0777) != 0)
        return file_fail("make folder", made); // an existing one is a user's
    drv_status status = write_all(a, files, made);
    if (status == DRV_OK) status = put_in_place(made, name);
    if (status == DRV_OK) return DRV_OK;
    const char *message = arena_strdup(a, drv_message());
    if (dir_remove(made) != DRV_OK) return drv_fail(status, "%s; %s is left behind", message, made);
    return drv_fail(status, "%s", message);
}
