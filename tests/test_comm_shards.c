// Sums of shards in place, in buckets, and shards that go to all ranks, against a reference that
// each rank computes from what it knows of all others' values: 2, 3, 5 ranks, short and empty
// shards, tensors of several buckets, ranks of context and data.
#include "ranks.h"

#include "comm/comm_internal.h"
#include "ir/shard.h"

enum { GUARD = 16 }; // elements behind the tensor, which are nobody's

// Element i of what a rank brings: 16 bits of any sign and size, so that another order of a sum
// shows.
static float value_of(int rank, int64_t i) {
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    const int64_t low = (int64_t)(x >> 40 & 0xffff) - 0x8000;
    return (float)low * (x >> 60 & 1 ? 1.0f : 0x1p-9f) / 1024;
}

static float read_at(dtype dt, const void *p, int64_t i) {
    return dt == DT_BF16 ? bf16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static void write_at(dtype dt, void *p, int64_t i, float x) {
    if (dt == DT_BF16)
        ((uint16_t *)p)[i] = f32_to_bf16(x);
    else
        ((float *)p)[i] = x;
}

// As it is in memory.
static float held(dtype dt, int rank, int64_t i) {
    const float x = value_of(rank, i);
    return dt == DT_BF16 ? bf16_to_f32(f32_to_bf16(x)) : x;
}

// Places [low, high), `unit` of which are joined before (join.h); all are joined as fp32.
static float joined(dtype dt, const comm_group *g, int low, int high, int unit, int64_t i) {
    if (high - low == unit)
        return unit == 1 ? held(dt, group_rank(g, low), i) : joined(dt, g, low, high, 1, i);
    int half = unit;
    while (2 * half < high - low)
        half *= 2;
    return joined(dt, g, low, low + half, unit, i) + joined(dt, g, low + half, high, unit, i);
}

static void *tensor_of(dtype dt, int rank, int64_t n) {
    void *p = mem_alloc((size_t)((n + GUARD) * dtype_bytes(dt)));
    for (int64_t i = 0; i < n + GUARD; i++)
        write_at(dt, p, i, value_of(rank, i));
    return p;
}

static drv_status sums(comm *self, comm_group *group, int run, dtype dt, int64_t n) {
    const int64_t length = shard_length(n, group_size(group)),
                  first = shard_first(n, group_size(group), group_place(group)),
                  end = first + shard_count(n, group_size(group), group_place(group)),
                  before = comm_sent(group);
    void *x = tensor_of(dt, comm_rank(self), n);
    DRV_TRY(comm_sum_shards(group, dt, x, n, length));
    EXPECT(self, comm_sent(group) - before == (n - (end - first)) * dtype_bytes(dt));
    for (int64_t i = 0; i < n + GUARD; i++) {
        const bool own = i >= first && i < end;
        float want = held(dt, comm_rank(self), i);
        if (own) want = joined(dt, group, 0, group_size(group), run, i);
        if (own && dt == DT_BF16) want = bf16_to_f32(f32_to_bf16(want));
        if (read_at(dt, x, i) != want)
            return drv_fail(DRV_E_DATA, "rank %d of %d: element %lld of %lld: %g, expected %g",
                    comm_rank(self), group_size(group), (long long)i, (long long)n,
                    (double)read_at(dt, x, i), (double)want);
    }
    free(x);
    return DRV_OK;
}

// Every rank has the others' elements wrong beforehand.
static drv_status gathers(comm *self, comm_group *group, dtype dt, int64_t n) {
    const int ranks = group_size(group), place = group_place(group);
    const int64_t length = shard_length(n, ranks), count = shard_count(n, ranks, place),
                  before = comm_sent(group);
    void *x = tensor_of(dt, comm_rank(self), n);
    DRV_TRY(comm_gather_shards(group, dt, x, n, length));
    EXPECT(self, comm_sent(group) - before == (ranks - 1) * count * dtype_bytes(dt));
    for (int64_t i = 0; i < n + GUARD; i++) {
        const int from = i < n ? (int)(i / length) : place;
        EXPECT(self, read_at(dt, x, i) == held(dt, group_rank(group, from), i));
    }
    free(x);
    return DRV_OK;
}

static drv_status every_length(comm *self, void *ctx) {
    (void)ctx;
    static const int64_t lengths[] = {1, 5, 1024, 1025, 2048, 2049, 3000, 5120, 40001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const dtype dt = bf16 ? DT_BF16 : DT_F32;
            DRV_TRY(sums(self, comm_all_ranks(self), 1, dt, lengths[i]));
            DRV_TRY(gathers(self, comm_all_ranks(self), dt, lengths[i]));
        }
    return DRV_OK;
}

TEST(short_and_empty_shards) {
    static const int sizes[] = {1, 2, 3, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        OK(comm_run_threads(sizes[i], 1, NULL, every_length, NULL));
}

// --- more than a bucket
static drv_status large(comm *self, void *ctx) {
    const int64_t n = *(const int64_t *)ctx, length = shard_length(n, comm_size(self));
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const dtype dt = bf16 ? DT_BF16 : DT_F32;
        DRV_TRY(sums(self, comm_all_ranks(self), 1, dt, n));
        // What a plan counts is what it takes; fp32 came first.
        EXPECT(self, comm_bucket_bytes(dt, length, comm_size(self)) <= 16 << 20);
        if (comm_rank(self) == 0 && !bf16)
            EXPECT(self, self->scratch_bytes == comm_bucket_bytes(dt, length, comm_size(self)));
    }
    return gathers(self, comm_all_ranks(self), DT_F32, n);
}

TEST(several_buckets) {
    static const struct {
        int ranks;
        int64_t n;
    } cases[] = {{2, 9000001}, {3, 4500001}, {2, 1 << 22}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = cases[i].n;
        OK(comm_run_threads(cases[i].ranks, 1, NULL, large, &n));
    }
}

// --- data ranks are joined before those of the row
static drv_status of_context(comm *self, void *ctx) {
    mesh m = mesh_single();
    m.size[AXIS_CONTEXT] = 2;
    m.size[AXIS_DATA] = comm_size(self) / 2;
    (void)ctx;
    comm_group *group = comm_update_ranks(self, &m);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const dtype dt = bf16 ? DT_BF16 : DT_F32;
        DRV_TRY(sums(self, group, m.size[AXIS_DATA], dt, 10007));
        DRV_TRY(gathers(self, group, dt, 10007));
    }
    return DRV_OK;
}

TEST(runs_of_data_ranks) {
    OK(comm_run_threads(4, 1, NULL, of_context, NULL));
    OK(comm_run_threads(6, 1, NULL, of_context, NULL)); // where another tree is another sum
}
