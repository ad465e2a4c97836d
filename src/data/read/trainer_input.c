// Counts the words of a batch while the next one is read.
#include "data/read/trainer_input.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/task.h"
#include "data/read/text_batch.h"

typedef struct next_batch {
    text_batch *batch;
    reader *r;
} next_batch;

static drv_status read_next(void *ctx) {
    const next_batch *next = ctx;
    return text_batch_read(next->batch, next->r);
}

static const char *count_text(void *ctx, const text_piece *p, int i DRV_UNUSED, int thread) {
    bpe_trainer_add(ctx, p, thread);
    return NULL;
}

static void show_progress(const reader *r, int64_t bytes, double seconds) {
    int64_t total;
    const double done = (double)reader_bytes(r, &total);
    progress("counting words: %s, %.1f MB/s, eta %s", str_bytes((double)bytes),
            (double)bytes / seconds / 1e6,
            done > 0 ? str_duration(seconds * ((double)total / done - 1)) : "?");
}

drv_status trainer_input_read(reader *in, bpe_trainer *trainer, int64_t *bytes) {
    text_batch *batches[2] = {text_batch_new(), text_batch_new()};
    next_batch next = {.r = in};
    task reading = {0};
    const double begin = clock_s();
    drv_status status = text_batch_read(batches[0], in);
    for (int k = 0; status == DRV_OK; k = !k) {
        text_batch *b = batches[k];
        next.batch = batches[!k];
        if (b->more) task_start(&reading, read_next, &next);
        status = text_batch_decode(b, in, count_text, trainer);
        if (status == DRV_OK) status = bpe_trainer_relieve(trainer);
        const drv_status read = task_wait(&reading);
        if (status == DRV_OK) status = read;
        for (int i = 0; status == DRV_OK && i < b->n; i++)
            *bytes += (int64_t)b->pieces[i].n;
        show_progress(in, *bytes, clock_s() - begin);
        if (!b->more) break;
    }
    progress_end();
    text_batch_free(batches[0]);
    text_batch_free(batches[1]);
    return status;
}
