// Shared by the files of src/comm: a rank, its transport, and the status of the other ranks.
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"

struct rank_status;

// The functions by which messages travel. Each takes the rank's own comm and is called by its
// thread alone.
typedef struct comm_transport {
    const char *name;
    void (*start)(comm *c, comm_transfer *t);
    // Advances the messages; if not all are done and `wait` is set, sleeps for a short while.
    // DRV_E_PEER: the back end failed.
    drv_status (*advance)(comm *c, comm_transfer *list, int n, bool wait, bool *done);
    void (*cancel)(comm *c, comm_transfer *list, int n); // after a failure
    void (*wake)(comm *c); // wakes the other ranks of this process after a failure; NULL: none
    void (*close)(comm *c, bool failed);
    // Reads the status of another rank where all ranks are threads of this process; else NULL.
    // False: that rank has closed, and this was its last status.
    bool (*look)(const comm *c, int rank, struct rank_status *out);
    void *(*duplicate)(const comm *c, arena *a); // the state of a duplicate; NULL: that of c
} comm_transport;

// The failure that ended the job. One for each process; read after `kind` is set. `rank` and
// `status` may change afterwards, to a lower rank that gave up at the same time.
typedef enum failure_kind { FAIL_NONE, FAIL_DIED, FAIL_GAVE_UP, FAIL_SILENT } failure_kind;
enum { FAILURE_TEXT = 1024 };
typedef struct comm_failure {
    pthread_mutex_t lock;
    _Atomic int kind, rank;
    _Atomic drv_status status; // of the rank, where it gave up
    double since_s;            // clock
    char text[FAILURE_TEXT];   // the message that the other ranks print
} comm_failure;

// The status that a rank sends to the others.
enum { PROGRAM_NAME = sizeof((rank_view *)0)->program, OP_NAME = sizeof((rank_view *)0)->op };
typedef struct rank_status {
    int64_t step;
    uint64_t sequence; // operations begun
    double since_s;    // seconds in this state; of other ranks: when they reported it
    int32_t stop;      // number of the signal that asked this rank to stop; 0: none
    char program[PROGRAM_NAME];
    char op[OP_NAME]; // "": between operations
    rank_figures figures;
} rank_status;

typedef struct rank_info { // known for every rank; the layout is the same in all versions
    char host[64];
    char version[96]; // drover_version
    int32_t pid;
} rank_info;

typedef struct piece { // of memory, for one place
    char *p;
    int64_t bytes;
} piece;

struct comm_group {
    comm *c;
    char name[40];
    int tag; // derived from its name
    int n, place;
    int run; // this many neighbouring places are reduced first
    int *ranks;
    // The memory of the current collective, by place.
    piece *to, *from;
    const void **parts;
    int64_t *sizes;
    comm_transfer *transfers; // [2 n]
    _Atomic int64_t sent;
    comm_group *async, *of; // the same ranks on the communication thread's comm; and back
    comm_group *next;
};

struct comm {
    arena *a;
    const comm_transport *v;
    void *state; // of the transport
    int rank, size;
    comm_opts opts;
    rank_info *info; // by rank
    comm_failure *failure;
    comm_group *all_ranks, *groups;
    int first_tag, n_duplicates;
    char *scratch;
    int64_t scratch_bytes;
    // Guards the status of this rank, which the failure ring reads.
    pthread_mutex_t lock;
    rank_status mine;
    double began_s; // clock when mine.op changed last
    double waited_s;
    struct flight *flight;
    struct ring *ring; // NULL: threads of one process see each other
    comm_blame agreed; // of the last failure that all agreed on; status DRV_OK: none
    void (*before_end)(void *ctx);
    void *before_end_ctx; // both locked
};

// --- mpi.c
DRV_CHECKED drv_status comm_open_mpi(arena *a, const comm_opts *opts, comm_failure *failure,
        comm **out);

// --- comm.c
comm *comm_new(arena *a, const comm_transport *v, void *state, int rank, int size,
        const comm_opts *opts, comm_failure *failure);
// Gathers the rank_info of all ranks. This is the first use of the transport.
DRV_CHECKED drv_status comm_gather_info(comm *c);
void comm_begin(comm_group *g, const char *op, int64_t bytes);
void comm_end(comm_group *g);
// Records a failure unless one is recorded already. status: that of the rank that gave up, else
// DRV_E_PEER. Returns whether this was the first.
bool failure_set(comm_failure *f, failure_kind kind, int rank, drv_status status, const char *text);
static inline bool has_failed(const comm *c) {
    return atomic_load(&c->failure->kind) != FAIL_NONE;
}
rank_status comm_status_now(comm *c);

// --- flight.c: the record of operations
void flight_begin(struct flight *f, uint64_t sequence, const rank_status *now, int64_t bytes);
void flight_end(struct flight *f, uint64_t sequence);
void flight_close(struct flight *f);

// --- ring.c: sockets to both neighbours, separate from the transport
DRV_CHECKED drv_status ring_open(comm *c, struct ring **out);
void ring_send_failure(struct ring *r);  // and waits until it has been sent
void ring_send_reported(struct ring *r); // that this rank has printed why it gave up
// failed: closes without telling the neighbours, since they know of the failure.
void ring_close(struct ring *r, bool failed);

// --- watch.c: the last status of the other ranks
typedef struct watched {
    rank_status status;
    double heard_s; // clock
    bool closed;    // it closed its comm
} watched;
void ring_rank_status(struct ring *r, int rank, watched *out); // any thread
// Prints a table of all ranks; `suspect` is the rank that the others wait for.
void watch_table(const comm *c, const watched *of, int suspect, const char *why);
// Finds the rank that holds up the job: one that has sent no status for opts.silent_s, or, if an
// operation has taken opts.stuck_s, the one that has started the fewest operations. -1: none.
// *for_s: for how long.
int watch_suspect(const comm *c, const watched *of, double now, double *for_s);
