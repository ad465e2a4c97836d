// Ranks, and the collectives and messages between them. A rank is a process under mpirun or srun
// (mpi.c), a thread of this process (threads.c), or the only one (comm.c); callers need not know.
//
// Every collective consists of messages between two ranks. Each rank reduces what it receives
// itself, in a tree over the places in the group (join.h). So the bits of a sum depend on the
// values and on the order of the group, never on timing or on the back end, and the bytes that a
// rank sends (comm_sent) are known beforehand. All ranks of a group must call the same collectives
// in the same order.
//
// A rank that dies, gives up or stops answering ends the job: the operation for which another rank
// waits returns DRV_E_PEER, and the message names the rank, its host, step and operation.
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
    double silent_s;  // name a rank that has sent no status for this long (5)
    double stuck_s;   // name the rank that holds up an operation for this long (300)
    double give_up_s; // end the job when either has lasted this long (600)
} comm_opts;

// --- opening
// Opens this process as a rank: one of several under mpirun or srun --mpi=pmix, else the only one.
// DRV_E_USAGE: a launcher started several processes, but they cannot communicate.
DRV_CHECKED drv_status comm_open(arena *a, const comm_opts *opts, comm **out);
// Returns how many ranks a launcher (mpirun, srun) has started, this one included; 1: there is no
// launcher.
int comm_launched(void);
const char *comm_launcher(void); // ", started by mpirun" or the like; "": no known launcher
// Closes this rank after waiting for all others, unless the job has failed.
void comm_close(comm *c);
// Duplicates a communicator (as MPI_Comm_dup) for another thread of the same rank, for instance the
// one that writes a checkpoint during the steps. All ranks open and close the same number, in the
// same order. The watchdog's table does not show its operations. Close it before `c`; closing does
// not wait for other ranks.
comm *comm_duplicate(comm *c);
void comm_duplicate_close(comm *duplicate);

// Runs fn on n_ranks ranks, each a thread with a separate team of n_threads, and closes them. If
// one fails, the others fail with DRV_E_PEER; the first failure is returned.
DRV_CHECKED drv_status comm_run_threads(int n_ranks, int n_threads, const comm_opts *opts,
        drv_status (*fn)(comm *self, void *ctx), void *ctx);

int comm_rank(const comm *c);
int comm_size(const comm *c);
const char *comm_host(const comm *c, int rank);
int comm_ranks_on_host(const comm *c); // on this rank's host, itself included
int comm_hosts(const comm *c);         // how many hosts the ranks are on
const char *comm_backend(const comm *c);

// --- groups
comm_group *comm_all_ranks(const comm *c);
// Returns the ranks that differ from this one along `axes` alone (bits 1 << AXIS_DATA, ...), in the
// order of their ranks; `of` may not have more ranks than the job. A second call returns the same
// group.
comm_group *comm_axes(comm *c, const mesh *of, unsigned axes);
// Returns the ranks along the data axis of mesh_of_update(of), in the order of their places there.
// Sums join the data ranks of each context rank in a tree, then those of the context ranks.
comm_group *comm_update_ranks(comm *c, const mesh *of);
// Return groups of the ranks of comm_update_ranks. comm_owners: all of them, in the order of the
// optimizer shards that they own (mesh_shard_of). comm_weight_group: the ranks of this rank's
// group, which together hold all weights, in the order of their shards. comm_same_shards: the ranks
// that hold the same shard of the weights as this one, in the order of their groups.
comm_group *comm_owners(comm *c, const mesh *of);
comm_group *comm_weight_group(comm *c, const mesh *of);
comm_group *comm_same_shards(comm *c, const mesh *of);
// Makes a group of ranks of the job, this one included, in the same order on all of them. Two
// groups with two ranks in common must have different names.
comm_group *comm_ranks(comm *self, const char *name, const int *ranks, int n_ranks);
int group_size(const comm_group *g);
int group_place(const comm_group *g); // of this rank
int group_rank(const comm_group *g, int place);
// Returns the bytes that this rank has sent in collectives and messages of the group. The bytes of
// an asynchronous operation (comm/comm_thread.h) count from the moment it is started.
int64_t comm_sent(const comm_group *g);
int64_t comm_sent_by(
        const comm *c); // the same of all its groups, and of messages that control the run

// --- collectives
// scratch: wire_scratch(dt, n, group_size(g)) bytes (ir/wire.h); NULL: a buffer of the comm, which
// grows as needed.

// p[n] = the sum or maximum over the group, the same bits on every rank.
DRV_CHECKED drv_status comm_all_reduce(comm_group *g, dtype dt, comm_join join, void *p, int64_t n,
        void *scratch);
// in: one part for each place, one after the other, counts[place] elements long. out: this rank's
// part, reduced. NULL counts: each part has n / group_size elements, where n is the length of `in`.
DRV_CHECKED drv_status comm_reduce_scatter(comm_group *g, dtype dt, comm_join join, const void *in,
        int64_t n, const int64_t *counts, void *out, void *scratch);
// Sums a tensor p[n] over the group. Place i keeps elements [i shard, (i + 1) shard); the last
// places may have fewer or none. Only this rank's shard is overwritten. The exchange goes through
// buckets of comm_bucket_bytes, which the comm allocates.
DRV_CHECKED drv_status comm_sum_shards(comm_group *g, dtype dt, void *p, int64_t n, int64_t shard);
int64_t comm_bucket_bytes(dtype dt, int64_t shard, int ranks);
// Copies the shards of the other ranks to their places in p.
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
// A pending message. Only the back end uses the fields; the buffer belongs to the message until
// comm_wait returns. Messages between two ranks of a group arrive in the order in which they were
// started. An empty message may arrive in place of an awaited one; then the buffer is not
// written.
typedef struct comm_transfer {
    int peer, tag; // rank of the job
    bool sends, done;
    char *p;
    int64_t bytes, moved;
    struct comm_transfer *next;
    struct comm *owner;
    int *left; // number of pending messages for which a thread waits; NULL: none waits
    uint64_t handle;
} comm_transfer;

void comm_send(comm_group *g, int to, const void *p, int64_t bytes, comm_transfer *t);
void comm_receive(comm_group *g, int from, void *p, int64_t bytes, comm_transfer *t);
// Waits until all messages are done. `what` names the operation in the watchdog's messages.
DRV_CHECKED drv_status comm_wait(comm_group *g, const char *what, comm_transfer *list, int n);
// Cancels the pending messages of a rank that cannot continue; their buffers may be freed.
void comm_cancel(comm_group *g, comm_transfer *list, int n);
// Advances the messages and sets *done if all have completed; never waits.
DRV_CHECKED drv_status comm_test(comm_group *g, comm_transfer *list, int n, bool *done);

// --- errors
// Exchanges the status of all ranks. Returns DRV_OK if all have it; otherwise every rank gets the
// status and the message of the lowest failed rank, which names rank and host unless it is rank 0.
DRV_CHECKED drv_status comm_agree_on_first(comm *c, drv_status status);
// Tells all other ranks that this one failed, with drv_message() as the reason. They return
// DRV_E_PEER with an empty message, so that only this rank prints it. If several ranks fail at the
// same time, for instance because of the same bad input, the lowest one prints its message, and the
// function returns false on the others. A failure that another rank caused (DRV_E_PEER) is printed
// by all.
bool comm_abort(comm *c, drv_status status);
// Tells the others that this rank has printed its message. They wait for this in comm_close, for a
// few seconds at most: a launcher ends all processes when the first one exits with an error, and a
// message that was not printed by then is lost. Failures that all ranks agreed on
// (comm_agree_on_first) do not need this call.
void comm_mark_reported(comm *c);
// The rank that made the job fail, as far as this rank knows.
typedef struct comm_blame {
    int rank;          // -1: unknown, or no rank has failed
    drv_status status; // that it reported; DRV_E_PEER: it died, or the others gave it up
    bool silent;       // it hangs or does not answer
    const char *text;  // the message that the other ranks print if the job ended; else ""
} comm_blame;
// Returns the rank that caused the failure which ended the job, or the last one that all agreed on.
comm_blame comm_blamed(const comm *c);
// Registers fn(ctx), which another thread calls before it ends this process because another rank
// failed while the rank's own thread computes. A launcher may allow it one second. NULL: none.
void comm_before_end(comm *self, void (*fn)(void *ctx), void *ctx);
// Returns DRV_E_PEER with the message of the failure if a rank has failed.
DRV_CHECKED drv_status comm_check(const comm *c);

// Returns the seconds that this rank has waited for messages in collectives and comm_wait, so far.
double comm_waited(const comm *c);

// Sets the step and program that messages and the watchdog's table show for this rank. The string
// must stay valid.
void comm_note(comm *c, int64_t step, const char *program);
// The figures of a rank's last step: the seconds spent in its parts, and the bytes that are
// resident, planned, on the device, and sent in the step. Text that does not fit is truncated.
enum { RANK_ARITHMETIC = 12 };
typedef struct rank_figures {
    float compute_s, wait_s, data_s, save_s;
    int64_t resident, planned, device, sent;
    char arithmetic[RANK_ARITHMETIC];
} rank_figures;
void comm_share_figures(comm *c, const rank_figures *mine);
// The status that a rank last reported. Texts live as long as the comm, or are copies.
typedef struct rank_view {
    const char *host;
    int32_t pid;
    int64_t step;
    char program[16], op[40]; // op "": between operations
    double since_s, heard_s;  // seconds in the operation, as reported; seconds since the report
    bool ended;               // it closed its comm
    rank_figures figures;
} rank_view;
// Any thread may call it until comm_close. heard_s is -1 where ranks have no ring and so send no
// status.
void comm_view_rank(comm *c, int rank, rank_view *out);
// Keeps the last 64 operations of this rank in DIR/rank-NNNNN.txt, readable also after kill -9.
DRV_CHECKED drv_status comm_record(comm *self, const char *dir);
