// Reads and writes files "ended-LOCAL_RANK", and chooses the outcome that counts.
#include "launch/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

static outcome_kind kind_of(drv_status status) {
    if (status == DRV_OK) return OUTCOME_DONE;
    if (status == DRV_STOPPED) return OUTCOME_STOPPED;
    return status == DRV_E_PEER ? OUTCOME_PEER : OUTCOME_FAILED;
}

void outcome_leave(drv_status status) {
    const char *dir = getenv(LAUNCH_DIR), *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!dir || !local || !rank) return;
    arena *a = arena_new("outcome");
    const outcome mine = {kind_of(status), exit_status_plain(status), (int)strtol(rank, NULL, 10),
            status};
    const char *text = outcome_text(a, mine);
    const char *path = arena_printf(a, "%s/ended-%s", dir, local);
    if (file_write_atomic(path, text, strlen(text)) != DRV_OK) log_file_only("%s", drv_message());
    arena_free(a);
}

bool outcome_read(const char *dir, int local, outcome *out) {
    char *text;
    size_t n;
    arena *a = arena_new("outcome");
    const char *path = arena_printf(a, "%s/ended-%d", dir, local);
    const bool found = file_exists(path) && file_read(a, path, &text, &n) == DRV_OK &&
                       outcome_parse(text, out);
    arena_free(a);
    return found;
}

outcome outcome_of_both(outcome x, outcome y) {
    if (x.kind != y.kind) return x.kind > y.kind ? x : y;
    return x.rank <= y.rank ? x : y;
}

const char *outcome_text(arena *a, outcome o) {
    return arena_printf(a, "%d %d %d %d", (int)o.kind, o.status, o.rank, (int)o.code);
}

bool outcome_parse(const char *text, outcome *out) {
    const int limits[] = {N_OUTCOMES - 1, 255, INT32_MAX, DRV_STOPPED};
    enum { N = sizeof limits / sizeof *limits };
    int64_t number[N];
    char word[N][16];
    if (strlen(text) > 48 ||
            sscanf(text, "%15s %15s %15s %15s", word[0], word[1], word[2], word[3]) != N)
        return false;
    for (int i = 0; i < N; i++)
        if (!str_to_i64(word[i], &number[i]) || number[i] < 0 || number[i] > limits[i])
            return false;
    *out = (outcome){(outcome_kind)number[0], (int)number[1], (int)number[2],
            (drv_status)number[3]};
    return true;
}

int outcome_status(outcome o, int launcher) {
    switch (o.kind) {
    case OUTCOME_FAILED:
        return o.status;
    case OUTCOME_PEER:
        return EXIT_TRY_AGAIN;
    case OUTCOME_UNREPORTED: // a stop while programs are compiled ends a rank at once
        return launcher == EXIT_STOPPED ? EXIT_STOPPED : EXIT_TRY_AGAIN;
    case OUTCOME_STOPPED:
        return EXIT_STOPPED;
    case OUTCOME_DONE:
        return 0;
    case OUTCOME_NONE:
    case N_OUTCOMES:
        break;
    }
    return 1; // mpirun has printed why it could not start them
}

drv_status outcome_as_status(int exit) {
    switch (exit) {
    case 0:
        return DRV_OK;
    case EXIT_USAGE:
        return DRV_E_USAGE;
    case EXIT_STOPPED:
        return DRV_STOPPED;
    case EXIT_TRY_AGAIN:
        return DRV_E_PEER;
    default:
        return DRV_E_IO;
    }
}
