// A rank: opening, groups, its status, and failures. The only rank of a job has no transport, since
// a collective of a group of one sends nothing.
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/stop.h"
#include "base/version.h"

static double or_default(double given, double otherwise) {
    return given > 0 ? given : otherwise;
}

comm *comm_new(arena *a, const comm_transport *v, void *state, int rank, int size,
        const comm_opts *opts, comm_failure *failure) {
    comm *c = ARENA_NEW(a, comm);
    *c = (comm){.a = a,
            .v = v,
            .state = state,
            .rank = rank,
            .size = size,
            .opts = {or_default(opts ? opts->silent_s : 0, 5),
                    or_default(opts ? opts->stuck_s : 0, 300),
                    or_default(opts ? opts->give_up_s : 0, 600)},
            .info = ARENA_ARRAY(a, rank_info, size),
            .failure = failure,
            .began_s = clock_s()};
    pthread_mutex_init(&c->lock, NULL);
    int *all = ARENA_ARRAY(a, int, size);
    for (int i = 0; i < size; i++)
        all[i] = i;
    c->all_ranks = comm_ranks(c, "all ranks", all, size);
    return c;
}

// Refuses ranks of different versions, whose messages may differ. All ranks notice; rank 0 prints.
static drv_status check_versions(const comm *c) {
    for (int i = 1; i < c->size; i++) {
        if (strcmp(c->info[i].version, c->info[0].version) == 0) continue;
        if (c->rank > 0) return drv_fail(DRV_E_USAGE, "%s", "");
        return drv_fail(DRV_E_USAGE,
                "rank %d (%s) is %s, rank 0 (%s) is %s; expected the same program on all hosts", i,
                c->info[i].host, c->info[i].version, c->info[0].host, c->info[0].version);
    }
    return DRV_OK;
}

drv_status comm_gather_info(comm *c) {
    rank_info *mine = &c->info[c->rank];
    if (gethostname(mine->host, sizeof mine->host - 1) != 0) memcpy(mine->host, "?", 2);
    snprintf(mine->version, sizeof mine->version, "%s", drover_version());
    mine->pid = (int32_t)getpid();
    DRV_TRY(comm_all_gather(c->all_ranks, mine, sizeof *mine, NULL, c->info));
    return check_versions(c);
}

static void free_comm(comm *c) {
    flight_close(c->flight);
    free(c->scratch);
    pthread_mutex_destroy(&c->lock);
}

drv_status comm_open(arena *a, const comm_opts *opts, comm **out) {
    static comm_failure failure = {.lock = PTHREAD_MUTEX_INITIALIZER};
    if (comm_launched() > 1) return comm_open_mpi(a, opts, &failure, out);
    static const comm_transport one = {.name = "one"};
    *out = comm_new(a, &one, NULL, 0, 1, opts, &failure);
    return comm_gather_info(*out);
}

void comm_close(comm *c) {
    bool failed = has_failed(c); // drv_message() then describes that failure
    if (!failed) failed = comm_barrier(c->all_ranks) != DRV_OK;
    ring_close(c->ring, failed);
    if (c->v->close) c->v->close(c, failed);
    free_comm(c);
}

// A group's tag follows from its name alone, since ranks need not open the same groups. Duplicates
// have tags of their own; all stay below the 32767 that the MPI standard grants.
enum { N_TAGS = 1920, MAX_DUPLICATES = 16 };

comm *comm_duplicate(comm *c) {
    arena *a = arena_new("a second thread of a rank");
    comm *duplicate = ARENA_NEW(a, comm);
    int *all = ARENA_ARRAY(a, int, c->size);
    DRV_ASSERT(++c->n_duplicates <= MAX_DUPLICATES, "%d threads of a rank", c->n_duplicates);
    *duplicate = (comm){.a = a,
            .v = c->v,
            .state = c->v->duplicate ? c->v->duplicate(c, a) : c->state,
            .rank = c->rank,
            .size = c->size,
            .opts = c->opts,
            .info = c->info,
            .failure = c->failure,
            .first_tag = N_TAGS * c->n_duplicates,
            .began_s = clock_s()};
    pthread_mutex_init(&duplicate->lock, NULL);
    for (int i = 0; i < c->size; i++)
        all[i] = i;
    duplicate->all_ranks = comm_ranks(duplicate, "all ranks", all, c->size);
    return duplicate;
}

void comm_duplicate_close(comm *duplicate) {
    free_comm(duplicate);
    arena_free(duplicate->a);
}

// --- ranks and hosts
int comm_rank(const comm *c) {
    return c->rank;
}

int comm_size(const comm *c) {
    return c->size;
}

const char *comm_host(const comm *c, int rank) {
    return c->info[rank].host;
}

const char *comm_backend(const comm *c) {
    return c->v->name;
}

static int count_here(const comm *c, int before) {
    int n = 0;
    for (int i = 0; i < before; i++)
        n += strcmp(c->info[i].host, c->info[c->rank].host) == 0;
    return n;
}

int comm_hosts(const comm *c) {
    int n = 0;
    for (int i = 0; i < c->size; i++) {
        bool first = true;
        for (int k = 0; k < i && first; k++)
            first = strcmp(c->info[k].host, c->info[i].host) != 0;
        n += first;
    }
    return n;
}

int comm_ranks_on_host(const comm *c) {
    return count_here(c, c->size);
}

// --- groups
comm_group *comm_all_ranks(const comm *c) {
    return c->all_ranks;
}

static comm_group *find_group(const comm *c, const char *name, const int *ranks, int n) {
    for (comm_group *g = c->groups; g; g = g->next)
        if (g->n == n && strcmp(g->name, name) == 0 &&
                memcmp(g->ranks, ranks, sizeof *ranks * (size_t)n) == 0)
            return g;
    return NULL;
}

static int tag_of(const comm *c, const char *name) {
    const int tag = c->first_tag + (int)(hash_name(name) % N_TAGS);
    for (const comm_group *g = c->groups; g; g = g->next)
        DRV_ASSERT(g->tag != tag || strcmp(g->name, name) == 0,
                "groups \"%s\" and \"%s\" have one tag: name one of them otherwise", g->name, name);
    return tag;
}

comm_group *comm_ranks(comm *self, const char *name, const int *ranks, int n_ranks) {
    comm_group *group = find_group(self, name, ranks, n_ranks);
    if (group) return group;
    group = ARENA_NEW(self->a, comm_group);
    *group = (comm_group){.c = self,
            .tag = tag_of(self, name),
            .n = n_ranks,
            .place = -1,
            .run = 1,
            .ranks = ARENA_ARRAY(self->a, int, n_ranks),
            .to = ARENA_ARRAY(self->a, piece, n_ranks),
            .from = ARENA_ARRAY(self->a, piece, n_ranks),
            .parts = ARENA_ARRAY(self->a, const void *, n_ranks),
            .sizes = ARENA_ARRAY(self->a, int64_t, n_ranks),
            .transfers = ARENA_ARRAY(self->a, comm_transfer, 2 * n_ranks),
            .next = self->groups};
    snprintf(group->name, sizeof group->name, "%s", name);
    for (int i = 0; i < n_ranks; i++) {
        group->ranks[i] = ranks[i];
        if (ranks[i] == self->rank) group->place = i;
        DRV_ASSERT(ranks[i] >= 0 && ranks[i] < self->size, "group %s: rank %d", name, ranks[i]);
    }
    DRV_ASSERT(group->place >= 0, "rank %d opens group %s, which it is not in", self->rank, name);
    self->groups = group;
    return group;
}

comm_group *comm_axes(comm *c, const mesh *of, unsigned axes) {
    char name[64] = "";
    int n = 0, *ranks = mem_alloc(sizeof *ranks * (size_t)c->size);
    DRV_ASSERT(mesh_ranks(of) <= c->size, "a mesh of %d on %d ranks", mesh_ranks(of), c->size);
    for (int axis = 0; axis < N_AXES; axis++)
        if (axes >> axis & 1) {
            const size_t used = strlen(name);
            snprintf(name + used, sizeof name - used, "%s%s", used ? "+" : "",
                    mesh_axis_name((mesh_axis)axis));
        }
    for (int r = 0; r < mesh_ranks(of); r++) {
        bool with = true;
        for (int axis = 0; axis < N_AXES; axis++)
            with &= (axes >> axis & 1) ||
                    mesh_place(of, r, (mesh_axis)axis) == mesh_place(of, c->rank, (mesh_axis)axis);
        if (with) ranks[n++] = r;
    }
    comm_group *g = comm_ranks(c, name, ranks, n);
    free(ranks);
    return g;
}

comm_group *comm_update_ranks(comm *c, const mesh *of) {
    const mesh merged = mesh_of_update(of);
    if (of->size[AXIS_CONTEXT] == 1) return comm_axes(c, of, 1u << AXIS_DATA);
    const int n = merged.size[AXIS_DATA];
    int *ranks = mem_alloc(sizeof *ranks * (size_t)n);
    for (int r = 0; r < mesh_ranks(of); r++) {
        const bool with =
                mesh_place(of, r, AXIS_PIPELINE) == mesh_place(of, c->rank, AXIS_PIPELINE) &&
                mesh_place(of, r, AXIS_TENSOR) == mesh_place(of, c->rank, AXIS_TENSOR);
        if (with) ranks[mesh_place_in_update(of, r)] = r;
    }
    comm_group *g = comm_ranks(c, "context and data", ranks, n);
    g->run = of->size[AXIS_DATA];
    free(ranks);
    return g;
}

comm_group *comm_owners(comm *c, const mesh *of) {
    comm_group *all = comm_update_ranks(c, of);
    if (mesh_groups(of) == 1) return all;
    int *ranks = mem_alloc(sizeof *ranks * (size_t)all->n);
    for (int i = 0; i < all->n; i++)
        ranks[mesh_shard_of(of, all->ranks[i])] = all->ranks[i];
    comm_group *g = comm_ranks(c, "owners of shards", ranks, all->n);
    free(ranks);
    return g;
}

comm_group *comm_weight_group(comm *c, const mesh *of) {
    const comm_group *owners = comm_owners(c, of);
    const int groups = mesh_groups(of), n = owners->n / groups;
    int *ranks = mem_alloc(sizeof *ranks * (size_t)n);
    for (int i = 0; i < n; i++)
        ranks[i] = owners->ranks[i * groups + owners->place % groups];
    comm_group *g = comm_ranks(c, "data of a group", ranks, n);
    free(ranks);
    return g;
}

comm_group *comm_same_shards(comm *c, const mesh *of) {
    const comm_group *owners = comm_owners(c, of);
    const int groups = mesh_groups(of);
    return comm_ranks(c, "data across groups", owners->ranks + owners->place / groups * groups,
            groups);
}

int group_size(const comm_group *g) {
    return g->n;
}

int group_place(const comm_group *g) {
    return g->place;
}

int group_rank(const comm_group *g, int place) {
    return g->ranks[place];
}

int64_t comm_sent(const comm_group *g) {
    return g->sent;
}

int64_t comm_sent_by(const comm *c) {
    int64_t sum = 0;
    for (const comm_group *g = c->groups; g; g = g->next)
        sum += comm_sent(g);
    return sum;
}

// --- the status of this rank
double comm_waited(const comm *c) {
    return c->waited_s;
}

void comm_note(comm *c, int64_t step, const char *program) {
    pthread_mutex_lock(&c->lock);
    c->mine.step = step;
    snprintf(c->mine.program, sizeof c->mine.program, "%s", program);
    if (c->size == 1) c->began_s = clock_s(); // it has no operations
    pthread_mutex_unlock(&c->lock);
}

void comm_share_figures(comm *c, const rank_figures *mine) {
    pthread_mutex_lock(&c->lock);
    c->mine.figures = *mine;
    pthread_mutex_unlock(&c->lock);
}

static void note_op(comm *c, const char *op, const char *group) {
    pthread_mutex_lock(&c->lock);
    snprintf(c->mine.op, sizeof c->mine.op, "%s%s%s", op, *group ? " over " : "", group);
    c->mine.sequence += *op != 0;
    c->began_s = clock_s();
    pthread_mutex_unlock(&c->lock);
}

void comm_begin(comm_group *g, const char *op, int64_t bytes) {
    comm *c = g->c;
    if (g->n == 1) return;
    note_op(c, op, g->name);
    flight_begin(c->flight, c->mine.sequence, &c->mine, bytes);
}

void comm_end(comm_group *g) {
    if (g->n == 1) return;
    flight_end(g->c->flight, g->c->mine.sequence);
    note_op(g->c, "", "");
}

rank_status comm_status_now(comm *c) {
    pthread_mutex_lock(&c->lock);
    rank_status now = c->mine;
    now.since_s = clock_s() - c->began_s;
    now.stop = stop_number();
    pthread_mutex_unlock(&c->lock);
    return now;
}

// Returns the last status of a rank; the caller fills in the name.
static watched last_heard(comm *c, int rank) {
    const double now = clock_s();
    watched w = {.heard_s = -1};
    if (rank == c->rank)
        w = (watched){.status = comm_status_now(c), .heard_s = now};
    else if (c->ring)
        ring_rank_status(c->ring, rank, &w);
    else if (c->v->look) {
        w.closed = !c->v->look(c, rank, &w.status);
        w.heard_s = now;
    }
    return w;
}

void comm_view_rank(comm *c, int rank, rank_view *out) {
    const watched w = last_heard(c, rank);
    *out = (rank_view){.host = c->info[rank].host,
            .pid = c->info[rank].pid,
            .step = w.status.step,
            .since_s = w.status.since_s,
            .heard_s = w.heard_s < 0 ? -1 : clock_s() - w.heard_s,
            .ended = w.closed,
            .figures = w.status.figures};
    memcpy(out->program, w.status.program, sizeof out->program);
    memcpy(out->op, w.status.op, sizeof out->op);
}

// --- failures
bool failure_set(comm_failure *f, failure_kind kind, int rank, drv_status status,
        const char *text) {
    pthread_mutex_lock(&f->lock);
    const bool first = f->kind == FAIL_NONE;
    if (first) {
        f->rank = rank;
        f->status = status;
        f->since_s = clock_s();
        snprintf(f->text, sizeof f->text, "%s", text);
        atomic_store(&f->kind, kind);
    }
    pthread_mutex_unlock(&f->lock);
    return first;
}

drv_status comm_check(const comm *c) {
    if (!has_failed(c)) return DRV_OK;
    return drv_fail(DRV_E_PEER, "%s", c->failure->kind == FAIL_GAVE_UP ? "" : c->failure->text);
}

comm_blame comm_blamed(const comm *c) {
    const comm_failure *f = c->failure;
    static const comm_blame nobody = {.rank = -1, .text = ""};
    if (!has_failed(c)) return c->agreed.status == DRV_OK ? nobody : c->agreed;
    return (comm_blame){f->rank, f->status, f->kind == FAIL_SILENT, f->text};
}

void comm_before_end(comm *self, void (*fn)(void *ctx), void *ctx) {
    pthread_mutex_lock(&self->lock);
    self->before_end = fn;
    self->before_end_ctx = ctx;
    pthread_mutex_unlock(&self->lock);
}

bool comm_abort(comm *c, drv_status status) {
    char text[FAILURE_TEXT];
    if (c->size == 1 || status == DRV_E_PEER) return true;
    snprintf(text, sizeof text, "rank %d (%s) failed: %s", c->rank, c->info[c->rank].host,
            drv_message());
    if (!failure_set(c->failure, FAIL_GAVE_UP, c->rank, status, text))
        return c->failure->kind != FAIL_GAVE_UP || c->failure->rank > c->rank;
    if (c->ring) ring_send_failure(c->ring);
    if (c->v->wake) c->v->wake(c);
    return c->failure->rank == c->rank;
}

void comm_mark_reported(comm *c) {
    if (c->size == 1) return;
    log_drain();
    if (c->ring && has_failed(c)) ring_send_reported(c->ring);
}

// The status and message that a rank sends in comm_agree_on_first.
typedef struct rank_result {
    int32_t status;
    char text[FAILURE_TEXT];
} rank_result;

static rank_result result_of(const comm *c, drv_status status) {
    rank_result result = {(int32_t)status, ""};
    if (status != DRV_OK && c->rank == 0)
        snprintf(result.text, sizeof result.text, "%s", drv_message());
    else if (status != DRV_OK)
        snprintf(result.text, sizeof result.text, "rank %d (%s): %s", c->rank,
                c->info[c->rank].host, drv_message());
    return result;
}

drv_status comm_agree_on_first(comm *c, drv_status status) {
    int32_t worst = status == DRV_OK ? 0 : c->size - c->rank;
    if (status == DRV_E_PEER) return status;
    if (c->size == 1) {
        if (status != DRV_OK) c->agreed = (comm_blame){0, status, false, ""};
        return status;
    }
    rank_result first = result_of(c, status);
    DRV_TRY(comm_all_reduce(c->all_ranks, DT_I32, COMM_MAX, &worst, 1, NULL));
    if (worst == 0) return DRV_OK;
    DRV_TRY(comm_broadcast(c->all_ranks, c->size - worst, &first, sizeof first));
    c->agreed = (comm_blame){c->size - worst, (drv_status)first.status, false, ""};
    return drv_fail(c->agreed.status, "%s", first.text);
}
