// metrics.jsonl of a run: whatever it says, it is drawn, and the drawing is no larger than it may be.
#include "fuzz.h"

#include "plot/chart.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const keys[] = {"loss", "val_loss", "lr"};
    plot_run run = {.name = "run"};
    const char *path = fuzz_file(a, "metrics.jsonl", bytes, n_bytes);
    DRV_ASSERT(plot_read(a, path, keys, 3, &run) == DRV_OK, "%s", drv_message());
    for (int k = 0; k < 3; k++)
        for (int64_t i = 1; i < run.series[k].n; i++)
            DRV_ASSERT(run.series[k].x[i - 1] < run.series[k].x[i], "steps are not in order");
    const plot all = {.runs = &run, .n_runs = 1, .keys = keys, .n_keys = 3};
    str out = {0};
    plot_terminal(a, &all, &(plot_terminal_opts){.columns = 40, .rows = 10, .utf8 = n_bytes % 2},
            &out);
    DRV_ASSERT(out.n < 3 * 40 * 40, "%zu bytes on a terminal", out.n);
    str_clear(&out);
    plot_html(a, &all, &out);
    DRV_ASSERT(out.n < 20000 + 400 * n_bytes, "%zu bytes of html from %zu", out.n, n_bytes);
    str_free(&out);
}
