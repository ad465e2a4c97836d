// Ranks that work on one run, and what they tell each other. A rank is a process under mpirun or
// srun (mpi.c), a thread of this process (threads.c), or alone (comm.c); nothing above knows which.
//
// Every collective is made of messages between two ranks, and each rank joins what it receives
// itself, in a tree over the places in the group (join.h). So the bits of a sum depend on the
// values and on the order of the group, never on timing or on the back end, and what each rank
// sends (comm_sent) can be known beforehand. Ranks must call the same collectives of a group in the
// same order.
//
// A rank that dies, gives up or stops answering ends the job: whatever the others wait for returns
// DRV_E_PEER, and the message names that rank, its host, step and operation.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "ir/mesh.h"

typedef struct comm comm;             // one rank; belongs to the thread that opened it
typedef struct comm_group comm_group; // ranks that share collectives; belongs to its comm

typedef enum comm_join { COMM_SUM, COMM_MAX } comm_join;

// Seconds; 0: the default.
typedef struct comm_opts {
    double silent_s;  // a rank that has not been heard of for so long is named (5)
    double stuck_s;   // so is who holds up an operation that has taken so long (300)
    double give_up_s; // the job ends when that has lasted so long (600)
} comm_opts;

// --- opening
// Opens the rank that this process is: under mpirun or srun --mpi=pmix one of several, else the
// only one. DRV_E_USAGE: started as one of several, but without what it needs to talk to them.
DRV_CHECKED drv_status comm_open(arena *a, const comm_opts *opts, comm **out);
// Returns how many ranks a launcher (mpirun, srun) has started, this process one of them; 1: none
// has.
int comm_launched(void);
const char *comm_launcher(void); // ", started by mpirun" and the like; "": by none that is known
// Ends the part of this rank: waits for all others, unless the job has failed.
void comm_close(comm *c);
// The same rank for another thread of its process, with groups and messages of its own: what works
// during the steps, as a checkpoint does. Every rank opens and closes as many, in the same order.
// Its operations are not in the watchdog's table. Closed before `c`, without waiting for others.
comm *comm_duplicate(comm *c);
void comm_duplicate_close(comm *duplicate);

// Runs fn as n_ranks ranks, each in a thread with a team of n_threads of its own, and closes them.
// When one fails, the others fail with DRV_E_PEER; the first failure is returned.
DRV_CHECKED drv_status comm_run_threads(int n_ranks, int n_threads, const comm_opts *opts,
        drv_status (*fn)(comm *self, void *ctx), void *ctx);

int comm_rank(const comm *c);
int comm_size(const comm *c);
const char *comm_host(const comm *c, int rank);
int comm_ranks_here(const comm *c); // on this rank's host, itself included
int comm_hosts(const comm *c);      // how many hosts the ranks are on
const char *comm_backend(const comm *c);

// --- groups
comm_group *comm_all_ranks(const comm *c);
// Returns the ranks that differ from this one along `axes` alone (bits 1 << AXIS_DATA, ...), in the
// order of their ranks; `of` may not have more ranks than there are. Opened once, the same one is
// returned.
comm_group *comm_axes(comm *c, const mesh *of, unsigned axes);
// Returns the ranks along the data axis of mesh_of_update(of), in the order of their places there.
// Sums join the data ranks of each context rank in a tree, then those of the context ranks.
comm_group *comm_update_ranks(comm *c, const mesh *of);
// Makes a group of ranks of the job in one order for all of them, this one among them. Groups that
// share two ranks have different names.
comm_group *comm_ranks(comm *self, const char *name, const int *ranks, int n_ranks);
int group_size(const comm_group *g);
int group_place(const comm_group *g); // of this rank
int group_rank(const comm_group *g, int place);
// Returns the bytes that this rank has sent to others in collectives and messages of the group;
// those of an asynchronous operation (comm/comm_thread.h) from when it is handed over.
int64_t comm_sent(const comm_group *g);
int64_t comm_sent_by(
        const comm *c); // the same of all its groups, and of messages that control the run

// --- collectives
// scratch: wire_scratch(dt, n, group_size(g)) bytes (ir/wire.h); NULL: memory of the comm's own,
// which grows.

// p[n] = the join over the group, the same bits on every rank.
DRV_CHECKED drv_status comm_all_reduce(comm_group *g, dtype dt, comm_join join, void *p, int64_t n,
        void *scratch);
// in: one part for each place, counts[place] elements long, one after the other. out: this rank's
// part, joined. NULL counts: all are n / group_size long, n the elements of `in`.
DRV_CHECKED drv_status comm_reduce_scatter(comm_group *g, dtype dt, comm_join join, const void *in,
        int64_t n, const int64_t *counts, void *out, void *scratch);
// Sums a tensor p[n] of which place i keeps elements [i shard, (i + 1) shard), the last ones
// perhaps fewer or none. This rank's shard becomes the sum over the group, what is outside stays:
// in buckets, through so many bytes of the comm's own (comm_bucket_bytes).
DRV_CHECKED drv_status comm_sum_shards(comm_group *g, dtype dt, void *p, int64_t n, int64_t shard);
int64_t comm_bucket_bytes(dtype dt, int64_t shard, int ranks);
// Brings the shards of the other ranks to their places.
DRV_CHECKED drv_status comm_gather_shards(comm_group *g, dtype dt, void *p, int64_t n,
        int64_t shard);
// out: one part for each place, bytes[place] long; in: this rank's. `in` may be its place in out.
// NULL bytes: all are `n` long.
DRV_CHECKED drv_status comm_all_gather(comm_group *g, const void *in, int64_t n,
        const int64_t *bytes, void *out);
// Part j of `in` goes to place j; part i of `out` comes from place i. Bytes of each; NULL: all n.
DRV_CHECKED drv_status comm_all_to_all(comm_group *g, const void *in, const int64_t *in_bytes,
        void *out, const int64_t *out_bytes, int64_t n);
DRV_CHECKED drv_status comm_broadcast(comm_group *g, int from, void *p, int64_t bytes);
DRV_CHECKED drv_status comm_barrier(comm_group *g);

// --- messages
// A message that is under way. The fields are the back end's; the memory belongs to the message
// until comm_wait. Messages between two ranks of a group arrive in the order in which they were
// begun.
typedef struct comm_transfer {
    int peer, tag; // rank of the job
    bool sends, done;
    char *p;
    int64_t bytes, moved;
    struct comm_transfer *next;
    struct comm *owner;
    int *left; // of those that a thread waits for; NULL: none does
    uint64_t handle;
} comm_transfer;

void comm_send(comm_group *g, int to, const void *p, int64_t bytes, comm_transfer *t);
void comm_receive(comm_group *g, int from, void *p, int64_t bytes, comm_transfer *t);
// Until all are done. `what` names the operation where a rank is looked for that holds up others.
DRV_CHECKED drv_status comm_wait(comm_group *g, const char *what, comm_transfer *list, int n);
// Gives up what was begun and is not done, when this rank cannot go on: the memory is free again.
void comm_cancel(comm_group *g, comm_transfer *list, int n);
// Moves on what is under way, and says whether that is done; never waits.
DRV_CHECKED drv_status comm_test(comm_group *g, comm_transfer *list, int n, bool *done);

// --- errors
// All ranks tell how they fared. DRV_OK only if all did well; else all get the status of the lowest
// rank that failed, and its message, with its name unless it is rank 0.
DRV_CHECKED drv_status comm_agree_on_first(comm *c, drv_status status);
// Tells all other ranks that this one fails with drv_message(), and why. They end with DRV_E_PEER
// and an empty message: it is printed once, by the rank that it is of. Where several fail at the
// same time, as of the same bad input, that is the lowest: false, another one says it. Of a failure
// that came from another rank (DRV_E_PEER) all say what they know.
bool comm_abort(comm *c, drv_status status);
// This rank has printed why it ends: until then, or for a few seconds, the others wait in
// comm_close. A launcher ends all processes when the first one exits with an error, and a message
// that was not printed by then is lost. What all agreed on (comm_agree_on_first) needs none: it is
// said before comm_close, where all ranks meet.
void comm_said(comm *c);
// The rank that made the job fail, as far as this rank knows.
typedef struct comm_blame {
    int rank;          // -1: not known, or none has failed
    drv_status status; // its own, where it told it; DRV_E_PEER: it died, or was given up
    bool silent;       // it hangs, or does not answer
    const char *text;  // of a failure that ended the job: how the others say it; else ""
} comm_blame;
// Says who is to blame for the failure that ended the job, else for the last one that all agreed
// on.
comm_blame comm_blamed(const comm *c);
// Calls fn(ctx) before this process is ended because another rank failed while this one's thread
// computes: on another thread. A launcher may leave it a second then. NULL: no longer.
void comm_before_end(comm *self, void (*fn)(void *ctx), void *ctx);
// Returns DRV_E_PEER, with its message, if a rank has failed.
DRV_CHECKED drv_status comm_check(const comm *c);

// Returns the seconds that this rank has waited for messages in collectives and comm_wait, so far.
double comm_waited(const comm *c);

// Notes what this rank is doing, for messages and the table of a watchdog. The name must live on.
void comm_note(comm *c, int64_t step, const char *program);
// The figures of a rank's last step, which comm_tell tells: the seconds that went into it, and the
// bytes that it holds, has planned, has on its device and has sent in the step. Text that does not
// fit is cut.
enum { RANK_ARITHMETIC = 12 };
typedef struct rank_figures {
    float compute_s, wait_s, data_s, save_s;
    int64_t resident, planned, device, sent;
    char arithmetic[RANK_ARITHMETIC];
} rank_figures;
void comm_tell(comm *c, const rank_figures *mine);
// A view of a rank: what it was last heard to do. Texts live as long as the comm, or are copies.
typedef struct rank_view {
    const char *host;
    int32_t pid;
    int64_t step;
    char program[16], op[40]; // op "": between operations
    double since_s, heard_s;  // in it, as it told; ago
    bool ended;               // it has said good-bye
    rank_figures figures;
} rank_view;
// Any thread may look, until comm_close. Ranks without a ring are heard of never: -1 in heard_s.
void comm_look(comm *c, int rank, rank_view *out);
// Keeps the last 64 operations of this rank in DIR/rank-NNNNN.txt, readable also after kill -9.
DRV_CHECKED drv_status comm_record(comm *self, const char *dir);
