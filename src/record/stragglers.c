// Finds which ranks are slow, and since when, from a window of steps for each; reports changes.
#include "record/stragglers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 20,
    MANY = 15,       // so many slow steps of a window make a straggler
    FEW = 5,         // so few slow steps end it
    SUSPECT = 8,     // slow steps of all ranks of a host, whose cause may be the host
    PATIENCE = 8,    // steps that the report of a rank waits for the other ranks of such a host
    FIRST_STEPS = 5, // ignored at the start
};
// A delay of less than this share of a step does not hold others up.
#define STANDS_OUT 0.05

typedef struct rank_window {
    uint32_t slow; // a bit for each step, the newest is the lowest
    rank_time steps[WINDOW];
    double others[WINDOW]; // median of the own times of the other ranks of its stage
    int n_many;            // steps for which it has been a straggler
    bool told;             // reported by itself, not with its host
} rank_window;

struct stragglers {
    int n, n_hosts;
    const int *stages, *hosts;
    double ratio;
    rank_window *ranks;
    bool *told_hosts;
    int64_t n_steps, step;
    double *sorted; // scratch: own times of a stage
    int next;       // position of stragglers_next: hosts, then ranks; 0 after each step
};

stragglers *stragglers_new(arena *a, int n_ranks, const int *stages, const int *hosts,
        double ratio) {
    stragglers *self = ARENA_NEW(a, stragglers);
    *self = (stragglers){.n = n_ranks,
            .stages = stages,
            .hosts = hosts,
            .ratio = ratio,
            .ranks = ARENA_ARRAY(a, rank_window, n_ranks),
            .sorted = ARENA_ARRAY(a, double, n_ranks)};
    for (int i = 0; i < n_ranks; i++)
        if (hosts[i] >= self->n_hosts) self->n_hosts = hosts[i] + 1;
    self->told_hosts = ARENA_ARRAY(a, bool, self->n_hosts);
    memset(self->ranks, 0, sizeof *self->ranks * (size_t)n_ranks);
    memset(self->told_hosts, 0, sizeof *self->told_hosts * (size_t)self->n_hosts);
    return self;
}

// --- a step
static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the median of a sorted list without its element `but`.
static double median_without(const double *sorted, int n, int but) {
    const int left = n - 1, low = (left - 1) / 2, high = left / 2;
    return (sorted[low + (low >= but)] + sorted[high + (high >= but)]) / 2;
}

static int place_of(const double *sorted, int n, double value) {
    const double *found = bsearch(&value, sorted, (size_t)n, sizeof *sorted, compare);
    return found ? (int)(found - sorted) : n - 1;
}

static bool is_slow(const stragglers *self, const rank_time *mine, double others) {
    const double own = rank_time_own(mine);
    return own > self->ratio * others && own - others > STANDS_OUT * (own + mine->wait);
}

static void add_stage(stragglers *self, int stage, const rank_time *of) {
    int n = 0;
    for (int i = 0; i < self->n; i++)
        if (self->stages[i] == stage) self->sorted[n++] = rank_time_own(&of[i]);
    if (n < 2) return;
    qsort(self->sorted, (size_t)n, sizeof *self->sorted, compare);
    for (int i = 0; i < self->n; i++) {
        if (self->stages[i] != stage) continue;
        rank_window *rank = &self->ranks[i];
        const double others =
                median_without(self->sorted, n, place_of(self->sorted, n, rank_time_own(&of[i])));
        rank->steps[self->n_steps % WINDOW] = of[i];
        rank->others[self->n_steps % WINDOW] = others;
        rank->slow = (rank->slow << 1 | is_slow(self, &of[i], others)) & ((1u << WINDOW) - 1);
    }
}

static int slow_steps(const rank_window *rank) {
    return __builtin_popcount(rank->slow);
}

void stragglers_add(stragglers *self, int64_t step, const rank_time *of) {
    int n_stages = 0;
    self->step = step;
    if (self->n_steps++ < FIRST_STEPS) return;
    for (int i = 0; i < self->n; i++)
        if (self->stages[i] >= n_stages) n_stages = self->stages[i] + 1;
    for (int stage = 0; stage < n_stages; stage++)
        add_stage(self, stage, of);
    for (int i = 0; i < self->n; i++) {
        const int slow = slow_steps(&self->ranks[i]);
        if (slow >= MANY || (slow > FEW && self->ranks[i].n_many))
            self->ranks[i].n_many++;
        else
            self->ranks[i].n_many = 0;
    }
    self->next = 0;
}

// --- reports
// Returns whether all ranks of a host are stragglers (`named`), or may be. A host with one rank, or
// the only host of a job, is never reported as a host.
static bool host_is_slow(const stragglers *self, int host, bool named) {
    int here = 0;
    for (int i = 0; i < self->n; i++) {
        const rank_window *rank = &self->ranks[i];
        if (self->hosts[i] != host) continue;
        here++;
        if (named ? !rank->n_many : slow_steps(rank) < SUSPECT) return false;
    }
    return here > 1 && self->n_hosts > 1;
}

// Returns a rank's own seconds in the slow steps of its window, relative to those of the others.
static double ratio_of(const stragglers *self, const rank_window *rank) {
    double own = 0, others = 0;
    for (int64_t i = 0; i < WINDOW && i < self->n_steps; i++)
        if (rank->slow >> i & 1) {
            const int64_t index = (self->n_steps - 1 - i) % WINDOW;
            own += rank_time_own(&rank->steps[index]);
            others += rank->others[index];
        }
    return others > 0 ? fmin(own / others, 1e6) : 1e6;
}

static rank_time sum_of(const rank_window *rank) {
    rank_time sum = {0};
    for (int i = 0; i < WINDOW; i++)
        rank_time_add(&sum, &rank->steps[i], 1);
    return sum;
}

// Names the part on which a rank spends more time than the average of the others of its stage.
static const char *reason_of(const stragglers *self, int rank) {
    rank_time sums = {0}, mean = {0};
    int count = 0;
    for (int i = 0; i < self->n; i++) {
        if (i == rank || self->stages[i] != self->stages[rank]) continue;
        const rank_time sum = sum_of(&self->ranks[i]);
        rank_time_add(&sums, &sum, 1);
        count++;
    }
    rank_time_add(&mean, &sums, count);
    const rank_time mine = sum_of(&self->ranks[rank]);
    return rank_time_excess(&mine, &mean);
}

static void describe(const stragglers *self, int rank, bool over, straggler *out) {
    const rank_window *window = &self->ranks[rank];
    *out = (straggler){.rank = rank, .over = over, .reason = "", .step = self->step};
    if (over) return;
    out->ratio = ratio_of(self, window);
    out->reason = reason_of(self, rank);
    out->step = self->step - (31 - __builtin_clz(window->slow)); // its oldest slow step
}

// Returns whether to report a host now.
static bool tell_host(stragglers *self, int host, straggler *out) {
    const bool slow = host_is_slow(self, host, true);
    if (slow == self->told_hosts[host]) return false;
    int worst = -1;
    double most = 0;
    for (int i = 0; i < self->n; i++) {
        if (self->hosts[i] != host) continue;
        const double ratio = ratio_of(self, &self->ranks[i]);
        if (worst < 0 || ratio > most) worst = i, most = ratio;
    }
    self->told_hosts[host] = slow;
    describe(self, worst, !slow, out);
    out->whole_host = true;
    return true;
}

static bool tell_rank(stragglers *self, int i, straggler *out) {
    rank_window *rank = &self->ranks[i];
    if (rank->told && !rank->n_many) {
        rank->told = false;
        describe(self, i, true, out);
        return true;
    }
    const int host = self->hosts[i];
    const bool waits = host_is_slow(self, host, false) && rank->n_many < PATIENCE;
    if (rank->told || !rank->n_many || self->told_hosts[host] || waits) return false;
    rank->told = true;
    describe(self, i, false, out);
    return true;
}

bool stragglers_next(stragglers *self, straggler *out) {
    for (; self->next < self->n_hosts; self->next++)
        if (tell_host(self, self->next, out)) return true;
    for (; self->next < self->n_hosts + self->n; self->next++)
        if (tell_rank(self, self->next - self->n_hosts, out)) return true;
    return false;
}
