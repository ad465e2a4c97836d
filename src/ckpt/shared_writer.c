// A file is cut in blocks, and each rank writes its share of them. In every round each rank has one
// block to write; all others send it their parts, as contiguous ranges of bytes with their offsets.
// One rank may hold parts of many of these blocks, as a pipeline stage does whose layers they are.
// So a round takes several exchanges, in each of which a rank sends no more than one block's bytes.
// A piece that several ranks have alike is sent by the one that stands where the writer does: ranks
// that share no tensor cut send nothing, and one rank alone sends nothing at all. Where the writer
// stands between the two stages that have a tied embedding, the first one sends.
//
// Every byte is read from the state, hashed and written once. A rank that fails says so in the next
// round in place of sizes, so all stop after the same one.
#include "ckpt/shared_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/round.h"
#include "ckpt/block_hash.h"
#include "ckpt/pieces.h"
#include "ckpt/tensor_writer.h"

enum { SCRATCH = 1 << 16 }; // elements that are read and rounded at a time
enum { FAILED = -1 };       // sent in place of a size

typedef struct run { // of bytes, in front of them
    uint32_t at, bytes;
} run;

typedef struct bytes {
    char *p;
    int64_t n, cap;
} bytes;

// The message of a rank to a writer before it sends.
typedef struct announcement {
    int64_t bytes, // to this writer, in this exchange
            more;  // not 0: another exchange of this round follows
} announcement;

// The progress of a rank with what it sends in a round: `done` elements of the writer's block are
// put of a tensor's piece, and all pieces before it.
typedef struct progress_of_round {
    int writer, tensor, piece;
    int64_t done;
} progress_of_round;

typedef struct shared_file {
    const ckpt_ranks *ranks;
    int rank, n_ranks;
    const char *path;
    int fd; // -1: not open
    str header;
    const ckpt_tensor *list;
    int n;
    int64_t *begin; // in the file, of each tensor, and of the end
    int64_t block_bytes, n_blocks;
    ckpt_read read;
    void *ctx;
    float *scratch;
    char *block;    // that this rank writes in this round
    int64_t filled; // bytes of it
    progress_of_round next;
    bytes out, in; // of an exchange: to, from each rank
    int64_t *out_bytes, *in_bytes;
    announcement *told, *heard; // to, from each rank
    bool more;                  // some rank has more to send in this round
    block_digest *digests;      // of this rank's blocks
    drv_status status;          // of this rank
    bool stopped;               // some rank has failed
} shared_file;

static bytes bytes_new(int64_t cap) {
    return (bytes){.p = mem_alloc((size_t)cap), .cap = cap};
}

// --- what a rank sends
// The block that a rank writes in a round; -1: none.
static int64_t block_of(const shared_file *f, int rank, int64_t round) {
    const block_range range = blocks_of_rank(f->n_blocks, rank, f->n_ranks);
    return range.first + round < range.end ? range.first + round : -1;
}

static int64_t block_end(const shared_file *f, int64_t block) {
    const int64_t end = (block + 1) * f->block_bytes;
    return end < f->begin[f->n] ? end : f->begin[f->n];
}

// The place along a replicated axis of the rank that sends the piece to `writer`.
static int place_of_sender(const mesh *m, const ckpt_piece *p, mesh_axis axis, int writer) {
    const int place = mesh_place(m, writer, axis);
    const bool between = place > 0 && place < m->size[axis] - 1;
    return p->at_ends && axis == AXIS_PIPELINE && between ? 0 : place;
}

// Returns whether this rank, of those that have the piece, is the one to send it to `writer`.
static bool is_mine_to_send(const shared_file *f, const ckpt_piece *p, int writer) {
    for (int i = 0; i < N_AXES && f->n_ranks > 1; i++) {
        const mesh *m = &f->ranks->mesh;
        const mesh_axis axis = (mesh_axis)i;
        if (p->replicated >> i & 1 &&
                mesh_place(m, f->rank, axis) != place_of_sender(m, p, axis, writer))
            return false;
    }
    return true;
}

static void put_run(shared_file *f, int writer, int64_t at, const char *p, int64_t n) {
    if (writer == f->rank) {
        memcpy(f->block + at, p, (size_t)n);
        f->filled += n;
        return;
    }
    const run head = {(uint32_t)at, (uint32_t)n};
    memcpy(f->out.p + f->out.n, &head, sizeof head);
    memcpy(f->out.p + f->out.n + sizeof head, p, (size_t)n);
    f->out.n += (int64_t)sizeof head + n;
}

// A rank that has collected a block's bytes sends them before it collects more.
static bool is_full(const shared_file *f) {
    return f->out.n >= f->block_bytes;
}

// Returns how many of n elements may be put at a time.
static int64_t at_once(const shared_file *f, int writer, int64_t unit, int64_t n) {
    const int64_t room = div_up(f->block_bytes - f->out.n, unit),
                  most = writer != f->rank && room < SCRATCH ? room : SCRATCH;
    return n < most ? n : most;
}

// Bit 31 of the result: all bits of the exponent are set.
static uint32_t full_exponent(const float *x) {
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return (bits & 0x7F800000) + 0x00800000;
}

// A memory fault is found by the next step at the earliest; until then this is the last check. So
// many values at a time, whose number the compiler knows, become vector instructions.
static drv_status check_finite(const shared_file *f, const char *name, int64_t n) {
    enum { AT_ONCE = 16 };
    uint32_t bad = 0;
    int64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE)
        for (int k = 0; k < AT_ONCE; k++)
            bad |= full_exponent(&f->scratch[i + k]);
    for (; i < n; i++)
        bad |= full_exponent(&f->scratch[i]);
    if (!(bad >> 31)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\" has a value that is not finite, which is not saved", name);
}

// Puts elements [first, last) of the tensor, as far as they are in the piece, until there is no
// more room. `at`: of element 0, in the block.
static drv_status put_piece(shared_file *f, int writer, const ckpt_tensor *t, const ckpt_piece *p,
        int64_t first, int64_t last, int64_t at) {
    const int64_t columns = tensor_columns(&t->entry), begin = piece_before(p, columns, first),
                  end = piece_before(p, columns, last), unit = st_type_bytes(t->entry.type);
    for (int64_t i = begin + f->next.done, n; i < end && !is_full(f); i += n) {
        n = at_once(f, writer, unit, end - i);
        DRV_TRY(f->read(f->ctx, p->source, p->first + i, n, f->scratch));
        DRV_TRY(check_finite(f, t->entry.name, n));
        if (t->entry.type != ST_F32)
            DRV_TRY(tensor_round(t->entry.name, t->entry.type, f->scratch, n, f->scratch));
        for (int64_t k = 0, length; k < n; k += length) {
            const int64_t element = piece_index(p, columns, i + k, &length);
            if (length > n - k) length = n - k;
            put_run(f, writer, at + element * unit, (const char *)f->scratch + k * unit,
                    length * unit);
        }
        f->next.done += n;
    }
    return DRV_OK;
}

// Puts what is left of a tensor, until there is no more room.
static drv_status put_tensor(shared_file *f, int writer, const ckpt_tensor *t, int64_t block) {
    const int64_t *ends = &f->begin[t - f->list], begin = block * f->block_bytes,
                  end = block_end(f, block), from = ends[0] > begin ? ends[0] : begin,
                  to = ends[1] < end ? ends[1] : end, unit = st_type_bytes(t->entry.type);
    DRV_ASSERT(from >= to || (from - ends[0]) % unit == 0, "\"%s\" is cut in an element",
            t->entry.name);
    while (f->next.piece < t->n_pieces && from < to) {
        const ckpt_piece *p = &t->piece[f->next.piece];
        if (is_mine_to_send(f, p, writer))
            DRV_TRY(put_piece(f, writer, t, p, (from - ends[0]) / unit, (to - ends[0]) / unit,
                    ends[0] - begin));
        if (is_full(f)) return DRV_OK;
        f->next.piece++;
        f->next.done = 0;
    }
    return DRV_OK;
}

// Puts what is left of the block of the next writer, until there is no more room.
static drv_status put_block(shared_file *f, int64_t block) {
    while (f->next.tensor < f->n) {
        DRV_TRY(put_tensor(f, f->next.writer, &f->list[f->next.tensor], block));
        if (is_full(f)) return DRV_OK;
        f->next.tensor++;
        f->next.piece = 0;
    }
    return DRV_OK;
}

// --- rounds
// Collects what this rank sends in the next exchange of a round.
static void collect(shared_file *f, int64_t round) {
    f->out.n = 0;
    for (int r = 0; r < f->n_ranks; r++)
        f->out_bytes[r] = 0;
    while (f->status == DRV_OK && f->next.writer < f->n_ranks && !is_full(f)) {
        const int writer = f->next.writer;
        const int64_t block = block_of(f, writer, round), before = f->out.n;
        if (block >= 0) f->status = put_block(f, block);
        f->out_bytes[writer] = f->out.n - before;
        if (!is_full(f)) f->next = (progress_of_round){.writer = writer + 1};
    }
    for (int r = 0; r < f->n_ranks; r++)
        f->told[r] = (announcement){.bytes = f->status == DRV_OK ? f->out_bytes[r] : FAILED,
                .more = f->next.writer < f->n_ranks};
}

// Adds up what the ranks say that they send, which is rubbish of one that is killed, and sets
// f->stopped and f->more. Each byte of the block comes once, at worst as a run of its own.
static drv_status add_sizes(shared_file *f, int64_t *out) {
    const int64_t most = ((int64_t)sizeof(run) + 1) * f->block_bytes;
    int64_t total = 0;
    f->more = false;
    for (int r = 0; r < f->n_ranks; r++) {
        const int64_t n = f->in_bytes[r] = f->heard[r].bytes;
        if (n != FAILED && (n < 0 || n > most - total))
            return drv_fail(DRV_E_DEVICE,
                    "\"%s\": rank %d announced %lld bytes for a block of %lld", f->path, r,
                    (long long)n, (long long)f->block_bytes);
        f->stopped |= n == FAILED;
        f->more |= f->heard[r].more != 0;
        total += n;
    }
    *out = total;
    return DRV_OK;
}

// Not DRV_OK: the ranks can no longer continue together. Other failures of a rank are in f->status.
static drv_status exchange(shared_file *f) {
    if (f->n_ranks == 1) {
        f->stopped = f->status != DRV_OK;
        return DRV_OK;
    }
    comm_group *all_ranks = comm_all_ranks(f->ranks->comm);
    DRV_TRY(comm_all_to_all(all_ranks, f->told, NULL, f->heard, NULL, sizeof *f->heard));
    int64_t total = 0;
    const drv_status lost = add_sizes(f, &total);
    if (lost != DRV_OK) {
        comm_abort(f->ranks->comm, lost); // the others go on to the exchange of runs
        return lost;
    }
    if (f->stopped) return DRV_OK;
    if (total > f->in.cap) {
        free(f->in.p);
        f->in = bytes_new(total);
    }
    f->in.n = total;
    return comm_all_to_all(all_ranks, f->out.p, f->out_bytes, f->in.p, f->in_bytes, 0);
}

// Bytes that a rank sends while it is killed may arrive as rubbish: Open MPI says that it could not
// read from another process's memory, and goes on.
static drv_status place_runs(shared_file *f) {
    for (int64_t i = 0; f->n_ranks > 1 && i < f->in.n;) {
        run head = {0};
        const int64_t left = f->in.n - i - (int64_t)sizeof head;
        if (left >= 0) memcpy(&head, f->in.p + i, sizeof head);
        if (left < head.bytes || (int64_t)head.at + head.bytes > f->block_bytes)
            return drv_fail(DRV_E_DEVICE,
                    "\"%s\": other ranks sent bytes that do not belong to the block", f->path);
        memcpy(f->block + head.at, f->in.p + i + sizeof head, head.bytes);
        f->filled += head.bytes;
        i += (int64_t)sizeof head + head.bytes;
    }
    return DRV_OK;
}

static drv_status write_block(shared_file *f, int64_t block) {
    const int64_t begin = block * f->block_bytes, n = block_end(f, block) - begin,
                  left = (int64_t)f->header.n - begin,
                  head = left < 0   ? 0
                         : left < n ? left
                                    : n;
    if (head > 0) memcpy(f->block, f->header.p + begin, (size_t)head);
    if (f->filled + head != n)
        return drv_fail(DRV_E_DEVICE,
                "\"%s\": the ranks have %lld bytes of %lld at byte %lld; this is a fault of drover",
                f->path, (long long)(f->filled + head), (long long)n, (long long)begin);
    f->digests[block - blocks_of_rank(f->n_blocks, f->rank, f->n_ranks).first] =
            block_hash(f->block, (size_t)n);
    return file_write_at(f->fd, f->path, f->block, (size_t)n, begin);
}

static drv_status write_blocks(shared_file *f) {
    const int64_t rounds = div_up(f->n_blocks, f->n_ranks);
    for (int64_t k = 0; k < rounds; k++) {
        const int64_t block = block_of(f, f->rank, k);
        f->next = (progress_of_round){0};
        f->filled = 0;
        do {
            collect(f, k);
            DRV_TRY(exchange(f));
            if (f->stopped) return DRV_OK;
            f->status = place_runs(f);
        } while (f->more);
        if (block >= 0 && f->status == DRV_OK) f->status = write_block(f, block);
    }
    return DRV_OK;
}

// --- the file
static drv_status create(shared_file *f) {
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) return file_fail("create", f->path);
    // If many write, none of them makes the file longer.
    if (f->n_ranks == 1 || ftruncate(f->fd, f->begin[f->n]) == 0) return DRV_OK;
    return file_fail("lengthen", f->path);
}

static drv_status open_created(shared_file *f) {
    if (f->rank == 0) return DRV_OK;
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC);
    if (f->fd >= 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not open \"%s\": %s", f->path, strerror(errno));
}

// To the disk, on every rank that wrote: an error of close is one of the data (NFS, quotas).
static drv_status close_file(shared_file *f, drv_status status) {
    if (f->fd < 0) return status;
    if (status == DRV_OK && fsync(f->fd) != 0) status = file_fail("sync", f->path);
    if (close(f->fd) != 0 && status == DRV_OK) status = file_fail("close", f->path);
    f->fd = -1;
    return status;
}

static drv_status write_file(shared_file *f) {
    DRV_TRY(ckpt_agree(f->ranks, f->rank == 0 ? create(f) : DRV_OK));
    DRV_TRY(ckpt_agree(f->ranks, open_created(f)));
    const drv_status lost = write_blocks(f);
    if (lost != DRV_OK) return lost;
    f->status = close_file(f, f->status);
    return ckpt_agree(f->ranks, f->status);
}

static drv_status note_file(shared_file *f, out_folder *o, const char *name) {
    block_digest *all = f->digests;
    int64_t *sizes = ARENA_ARRAY(o->a, int64_t, f->n_ranks);
    char hex[33];
    for (int r = 0; r < f->n_ranks; r++) {
        const block_range range = blocks_of_rank(f->n_blocks, r, f->n_ranks);
        sizes[r] = (range.end - range.first) * (int64_t)sizeof *all;
    }
    if (f->n_ranks > 1) {
        all = ARENA_ARRAY(o->a, block_digest, f->n_blocks + 1);
        DRV_TRY(comm_all_gather(comm_all_ranks(f->ranks->comm), f->digests, 0, sizes, all));
    }
    block_hash_list(all, f->n_blocks, hex);
    if (f->rank == 0) out_folder_note(o, name, f->begin[f->n], hex);
    return DRV_OK;
}

static drv_status write_shard(const ckpt_ranks *ranks, out_folder *out, const char *name,
        const st_entry *entries, const ckpt_tensor *list, int n_tensors, ckpt_read read,
        void *ctx) {
    shared_file shard = {.ranks = ranks,
            .rank = ckpt_rank(ranks),
            .n_ranks = ckpt_size(ranks),
            .path = path_join(out->a, out->tmp, name),
            .fd = -1,
            .list = list,
            .n = n_tensors,
            .begin = ARENA_ARRAY(out->a, int64_t, n_tensors + 1),
            .block_bytes = out->block_bytes,
            .read = read,
            .ctx = ctx};
    st_header(entries, n_tensors, &shard.header);
    drv_status status;
    shard.begin[0] = (int64_t)shard.header.n;
    for (int i = 0; i < n_tensors; i++)
        shard.begin[i + 1] = shard.begin[i] + st_entry_bytes(&entries[i]);
    status = block_count(shard.path, shard.begin[n_tensors], shard.block_bytes, &shard.n_blocks);
    if (status != DRV_OK) {
        str_free(&shard.header);
        return status;
    }
    shard.digests = ARENA_ARRAY(out->a, block_digest, shard.n_blocks + 1);
    shard.out_bytes = ARENA_ARRAY(out->a, int64_t, shard.n_ranks);
    shard.in_bytes = ARENA_ARRAY(out->a, int64_t, shard.n_ranks);
    shard.told = ARENA_ARRAY(out->a, announcement, shard.n_ranks);
    shard.heard = ARENA_ARRAY(out->a, announcement, shard.n_ranks);
    if (shard.n_ranks > 1) { // buffers of which only the written pages take memory
        shard.out = bytes_new(shard.block_bytes + SCRATCH * ((int64_t)sizeof(run) + 4));
        shard.in = bytes_new(shard.block_bytes + shard.block_bytes / 8);
    }
    shard.scratch = mem_alloc(sizeof *shard.scratch * SCRATCH);
    shard.block = mem_alloc((size_t)shard.block_bytes);
    status = write_file(&shard);
    status = close_file(&shard, status);
    if (status == DRV_OK) status = note_file(&shard, out, name);
    str_free(&shard.header);
    free(shard.scratch);
    free(shard.block);
    free(shard.out.p);
    free(shard.in.p);
    return status;
}

drv_status shared_write(const ckpt_ranks *ranks, out_folder *o, const char *name,
        const ckpt_tensor *list, int n, int64_t shard_bytes, ckpt_read read, void *ctx) {
    st_entry *entries = ARENA_ARRAY(o->a, st_entry, n + 1);
    for (int i = 0; i < n; i++)
        entries[i] = list[i].entry;
    const tensor_shards shards = tensor_shards_of(o->a, name, entries, n, shard_bytes);
    for (int s = 0; s < shards.n_shards; s++) {
        const int first = shards.first[s], count = shards.first[s + 1] - first;
        DRV_TRY(write_shard(ranks, o, tensor_shard_name(&shards, s), entries + first, list + first,
                count, read, ctx));
    }
    return ckpt_agree(ranks, ckpt_rank(ranks) == 0 ? tensor_shards_index(&shards, o) : DRV_OK);
}
