// Finds the rank that holds up the job and prints a table of all ranks. Ranks need not share a
// clock: all times are this rank's.
#include "base/log.h"
#include "comm/comm_internal.h"

enum { MAX_ROWS = 64 };

static bool is_computing(const watched *w) {
    return w->status.op[0] == 0;
}

// Finds the rank with the longest silence, if that is too long.
static int silent_rank(const comm *c, const watched *of, double now, double *for_s) {
    int found = -1;
    for (int r = 0; r < c->size; r++) {
        const double silence = now - of[r].heard_s;
        if (r == c->rank || of[r].closed || silence < c->opts.silent_s) continue;
        if (found >= 0 && silence <= *for_s) continue;
        found = r;
        *for_s = silence;
    }
    return found;
}

// If some rank has waited too long, finds the rank that it waits for: the one that has started the
// fewest operations, and among those one that is between operations.
static int stuck_rank(const comm *c, const watched *of, double now, double *for_s) {
    int behind = 0;
    double longest = 0;
    bool all_alike = true;
    for (int r = 0; r < c->size; r++) {
        const double since = of[r].status.since_s + now - of[r].heard_s;
        if (!is_computing(&of[r]) && since > longest) longest = since;
        const uint64_t begun = of[r].status.sequence, fewest = of[behind].status.sequence;
        all_alike &= begun == fewest && is_computing(&of[r]) == is_computing(&of[behind]);
        if (begun < fewest ||
                (begun == fewest && is_computing(&of[r]) && !is_computing(&of[behind])))
            behind = r;
    }
    *for_s = longest;
    return longest < c->opts.stuck_s || all_alike ? -1 : behind;
}

int watch_suspect(const comm *c, const watched *of, double now, double *for_s) {
    const int silent = silent_rank(c, of, now, for_s);
    return silent >= 0 ? silent : stuck_rank(c, of, now, for_s);
}

static void print_row(const comm *c, const watched *w, int rank, double now, bool suspect) {
    const rank_status *s = &w->status;
    const double age = now - w->heard_s, since = s->since_s + age;
    char heard[48] = "";
    if (age > c->opts.silent_s) snprintf(heard, sizeof heard, "  silent for %.1f s", age);
    log_warn("%6d  %-16s %8lld  %-8s  %-30s %8.1f%s%s", rank, c->info[rank].host,
            (long long)s->step, s->program,
            w->closed ? "has ended"
            : *s->op  ? s->op
                      : "computing",
            since, heard, suspect ? "  <- the others wait for this one" : "");
}

void watch_table(const comm *c, const watched *of, int suspect, const char *why) {
    const double now = of[c->rank].heard_s;
    log_warn("rank %d (%s) holds up the others: %s", suspect, c->info[suspect].host, why);
    log_warn("%6s  %-16s %8s  %-8s  %-30s %8s", "rank", "host", "step", "program", "operation",
            "seconds");
    int rows = 0;
    for (int r = 0; r < c->size; r++)
        if (r == suspect || rows < MAX_ROWS) {
            print_row(c, &of[r], r, now, r == suspect);
            rows++;
        }
    if (rows < c->size) log_warn("... and %d more", c->size - rows);
}
