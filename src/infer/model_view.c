// Writes the small files of the folder and links the others; a child process removes the folder.
#include "infer/model_view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "source/model_source.h"
#include "pickle/torch_file.h"

static drv_status write_files(arena *a, const model_source *source, const char *folder) {
    ckpt_carried *list;
    json_t *config;
    int n;
    DRV_TRY(model_source_files(a, source, &list, &n));
    for (int i = 0; i < n; i++) {
        DRV_TRY(file_write_aside(path_join(a, folder, list[i].name), list[i].bytes, list[i].n));
        DRV_TRY(file_put_in_place(path_join(a, folder, list[i].name)));
    }
    DRV_TRY(model_source_config(source, &config));
    return json_write_file(path_join(a, folder, "config.json"), config);
}

static drv_status link_file(arena *a, const char *file, const char *folder, const char *name) {
    char whole[PATH_MAX];
    if (!realpath(file, whole)) return file_fail("open", file);
    const char *link = path_join(a, folder, name);
    return symlink(whole, link) == 0 ? DRV_OK : file_fail("make link", link);
}

// Links a file, or all entries of a folder that write_files has not written.
static drv_status link_files(arena *a, const char *path, const char *folder) {
    char **names;
    int n;
    if (!file_is_dir(path))
        return link_file(a, path, folder,
                torch_is_called_so(path) ? "pytorch_model.bin" : SOURCE_GGUF);
    DRV_TRY(dir_list(a, path, &names, &n));
    for (int i = 0; i < n; i++)
        if (!file_exists(path_join(a, folder, names[i])))
            DRV_TRY(link_file(a, path_join(a, path, names[i]), folder, names[i]));
    return DRV_OK;
}

// Waits until no process has the other end of the pipe, then removes the folder. It blocks signals,
// since Ctrl-C sends one to the whole process group.
static _Noreturn void remove_at_end(int ended, const char *folder) {
    char byte;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    dup2(ended, 0);
    close_range(1, ~0u, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(dir_remove(folder) == DRV_OK ? 0 : 1);
}

// Keeps one end of a pipe open, which is closed when this process ends, however it ends.
static drv_status remove_later(const char *folder) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return drv_fail(DRV_E_IO, "pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        remove_at_end(ends[0], folder);
    }
    close(ends[0]);
    if (child > 0) return DRV_OK;
    close(ends[1]);
    return drv_fail(DRV_E_IO, "could not start the process that removes \"%s\": %s", folder,
            strerror(errno));
}

bool model_view_is_for(arena *a, const char *path) {
    if (file_is_dir(path))
        return model_source_is(a, path) && !file_exists(path_join(a, path, "config.json"));
    return file_exists(path) && (str_ends(path, ".gguf") || torch_is_called_so(path));
}

drv_status model_view_make(arena *a, const char *path, const char **folder) {
    model_source source;
    const char *temporary = getenv("TMPDIR");
    DRV_TRY(model_source_open(a, path, &source));
    char *own = arena_printf(a, "%s/drover-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    drv_status status = mkdtemp(own) ? remove_later(own) : file_fail("make folder", own);
    *folder = path_join(a, own, path_folder_name(a, path)); // so that messages name the model
    if (status == DRV_OK) status = dir_make(*folder);
    if (status == DRV_OK) status = write_files(a, &source, *folder);
    if (status == DRV_OK) status = link_files(a, path, *folder);
    model_source_close(&source);
    return status;
}
