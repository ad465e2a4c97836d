// Computes the logits of one row, and writes them position by position.
#include "infer/logits_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"

// safetensors (github.com/huggingface/safetensors, README "Format"): the length of the header, the
// header padded by spaces to 8 bytes, the data.
static drv_status write_header(int fd, const char *path, int64_t n, int64_t n_vocab) {
    str header = {0};
    const long long ids_end = 4 * n, end = ids_end + 4 * n * n_vocab;
    str_printf(&header,
            "{\"token_ids\":{\"dtype\":\"I32\",\"shape\":[%lld],\"data_offsets\":[0,%lld]},"
            "\"logits\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],\"data_offsets\":[%lld,%lld]}}",
            (long long)n, ids_end, (long long)n, (long long)n_vocab, ids_end, end);
    while (header.n % 8)
        str_puts(&header, " ");
    uint64_t length = header.n;
    drv_status status = file_write_all(fd, path, &length, sizeof length);
    if (status == DRV_OK) status = file_write_all(fd, path, header.p, header.n);
    str_free(&header);
    return status;
}

static drv_status write_all(int fd, const char *path, scorer *model, const int32_t *ids, int64_t n,
        int64_t n_vocab) {
    DRV_TRY(write_header(fd, path, n, n_vocab));
    DRV_TRY(file_write_all(fd, path, ids, 4 * (size_t)n));
    float *logits = mem_alloc(sizeof *logits * (size_t)n_vocab);
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < n && status == DRV_OK; i++) {
        status = scorer_read_logits(model, i, logits);
        if (status == DRV_OK)
            status = file_write_all(fd, path, logits, sizeof *logits * (size_t)n_vocab);
        if (status == DRV_OK && stop_requested())
            status = drv_fail(DRV_STOPPED, "%s while writing logits", stop_requested());
        progress("logits: position %lld of %lld", (long long)i + 1, (long long)n);
    }
    progress_end();
    free(logits);
    return status;
}

// Writes under another name and renames, so that a file of this name is complete.
static drv_status write_file(arena *a, const char *path, scorer *model, const int32_t *ids,
        int64_t n, int64_t n_vocab) {
    const char *aside = arena_printf(a, "%s" FILE_ASIDE, path);
    const int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not create \"%s\": %s", aside, strerror(errno));
    drv_status status = write_all(fd, aside, model, ids, n, n_vocab);
    if (close(fd) != 0 && status == DRV_OK)
        status = drv_fail(DRV_E_IO, "could not write \"%s\": %s", aside, strerror(errno));
    if (status == DRV_OK && rename(aside, path) != 0)
        status = drv_fail(DRV_E_IO, "could not rename \"%s\": %s", aside, strerror(errno));
    if (status != DRV_OK) unlink(aside);
    return status;
}

drv_status logits_write(arena *a, const score_opts *opts, const documents *docs, const char *path) {
    const int64_t all = docs->begin[1] - docs->begin[0],
                  n_tokens = all < opts->context ? all : opts->context;
    scorer_opts how = opts->model;
    model_config shape;
    scorer *model = NULL;
    if (file_exists(path)) return drv_fail(DRV_E_USAGE, "\"%s\" exists, expected a new file", path);
    how.rows = 1;
    how.row_tokens = n_tokens;
    how.logits = true;
    DRV_TRY(model_config_read(how.folder, &shape));
    drv_status status = scorer_open(a, &how, &model);
    if (status == DRV_OK) {
        batch *b = scorer_batch(model);
        for (int64_t i = 0; i < n_tokens; i++) {
            b->tokens[i] = docs->ids.p[i];
            b->position[i] = (int32_t)i;
        }
        status = scorer_run_logits(model);
    }
    if (status == DRV_OK)
        status = write_file(a, path, model, docs->ids.p, n_tokens, shape.vocab_size);
    scorer_close(model);
    if (status == DRV_OK)
        log_info("%s: logits of %lld positions, %lld each", path, (long long)n_tokens,
                (long long)shape.vocab_size);
    return status;
}
