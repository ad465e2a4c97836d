// The table of ranks that rank 0 keeps for whoever watches: its bytes, what a reader makes of a
// part of them, what writing costs, and what ranks of one process see of each other.
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "ranks.h"
#include "watch/files/rank_table.h"

static rank_row row_of(int rank) {
    rank_row row = {.pid = 4711 + rank,
            .step = 100 + rank,
            .since_s = 0.5,
            .heard_s = 0.25,
            .compute_s = 1.125 + rank,
            .wait_s = 0.25,
            .data_s = 0.125,
            .save_s = 2,
            .resident = 3072 + 1024LL * rank,
            .planned = 1LL << 40,
            .sent = 1 << 20};
    snprintf(row.host, sizeof row.host, "node%d", rank);
    snprintf(row.program, sizeof row.program, "step");
    snprintf(row.op, sizeof row.op, "%s", rank % 2 ? "all_reduce over data" : "");
    snprintf(row.arithmetic, sizeof row.arithmetic, "avx512_bf16");
    return row;
}

// FNV-1a of the line but its last ten bytes.
static uint32_t sum_by_hand(const char *line) {
    uint32_t h = 2166136261u;
    for (int i = 0; i < 182; i++)
        h = (h ^ (unsigned char)line[i]) * 16777619u;
    return h;
}

TEST(a_line_is_what_the_format_says) {
    char p[3 * RANK_LINE + 1] = "";
    rank_row row = row_of(7);
    rank_table_format(&row, 1, 12.5, p);
    assert_memory_equal(p, "drover ranks 1: 1 ranks, 192 bytes a line, time 12.500 ", 55);
    const uint32_t h = sum_by_hand(p + 2 * RANK_LINE);
    char want[RANK_LINE + 1];
    snprintf(want, sizeof want,
            "%6d %-20s %7d %9d %-8s %-24s %7.1f %6.1f %7.3f %7.3f %7.3f %7.3f %10d %10d %10d %10d "
            "%-11s %08x\n",
            0, "node7", 4718, 107, "step", "all_reduce over data", 0.5, 0.25, 8.125, 0.25, 0.125,
            2.0, 10, 1 << 30, 0, 1024, "avx512_bf16", h);
    assert_string_equal(p + 2 * RANK_LINE, want);
}

TEST(what_is_written_is_read) {
    const char *dir = temporary_dir(a);
    rank_table_writer *writer;
    rank_table table;
    rank_row rows[5];
    for (int i = 0; i < 5; i++)
        rows[i] = row_of(i);
    rows[3].ended = true;
    rows[4] = (rank_row){.pid = 99999999, .step = INT64_MAX, .since_s = 1e9, .heard_s = -1};
    memset(rows[4].host, '\a', sizeof rows[4].host - 1);
    OK(rank_table_open(a, dir, "", 5, &writer));
    OK(rank_table_write(writer, rows));
    OK(rank_table_read(a, dir, &table));
    assert_int_equal(table.n, 5);
    assert_int_equal(table.n_torn, 0);
    for (int i = 0; i < 3; i++) {
        const rank_row *r = &table.rows[i], *want = &rows[i];
        assert_true(r->known && !r->ended && r->pid == want->pid && r->step == want->step);
        assert_string_equal(r->host, want->host);
        assert_string_equal(r->op, want->op);
        assert_string_equal(r->arithmetic, "avx512_bf16");
        assert_true(r->compute_s == want->compute_s && r->save_s == 2 && r->since_s == 0.5);
        assert_true(r->resident == want->resident && r->planned == 1LL << 40 && r->device == 0);
    }
    assert_true(table.rows[3].ended);
    assert_string_equal(table.rows[4].host, "????????????????????");
    assert_true(
            table.rows[4].known && table.rows[4].pid == 9999999 && table.rows[4].step == 999999999);
    rank_table_close(writer);
    OK(rank_table_open(a, dir, "", 2, &writer)); // a later attempt, of fewer ranks
    OK(rank_table_write(writer, rows));
    OK(rank_table_read(a, dir, &table));
    assert_int_equal(table.n, 2);
    rank_table_close(writer);
}

TEST(a_torn_line_is_told) {
    enum { N = 3, BYTES = (N + 2) * RANK_LINE };
    char p[BYTES];
    rank_table table;
    const rank_row rows[N] = {row_of(0), row_of(1), row_of(2)};
    rank_table_format(rows, N, 1, p);
    for (int i = 2 * RANK_LINE; i < BYTES; i++) {
        p[i] ^= 1;
        OK(rank_table_parse(a, "t", p, BYTES, &table));
        assert_int_equal(table.n_torn, 1);
        assert_false(table.rows[i / RANK_LINE - 2].known);
        p[i] ^= 1;
    }
    for (size_t n = RANK_LINE; n <= BYTES; n++) {
        const int whole = n < 2 * RANK_LINE ? 0 : (int)(n / RANK_LINE) - 2;
        OK(rank_table_parse(a, "t", p, n, &table));
        assert_int_equal(table.n_torn, N - whole);
    }
    memcpy(p + 3 * RANK_LINE, p + 2 * RANK_LINE, RANK_LINE); // a line in another's place
    OK(rank_table_parse(a, "t", p, BYTES, &table));
    assert_true(table.n_torn == 1 && !table.rows[1].known);
}

// Replaces a part of a line, and gives the line the checksum of its new content.
static void replace(char *line, int column, const char *text) {
    char sum[9];
    memcpy(line + column, text, strlen(text));
    snprintf(sum, sizeof sum, "%08x", sum_by_hand(line));
    memcpy(line + RANK_LINE - 9, sum, 8);
}

// Lines with a good checksum that another program wrote.
TEST(odd_cells) {
    enum { RANK = 0, HOST = 7, PROCESS = 28, SINCE = 80, HEARD = 88, COMPUTE = 95, HELD = 127 };
    static const struct {
        int column;
        const char *text;
        bool known;
    } cases[] = {{RANK, "     1", false}, {RANK, "      ", false}, {PROCESS, "  -4711", false},
            {PROCESS, "  4711x", false}, {SINCE, "   -1.0", false}, {SINCE, "   soon", false},
            {HEARD, "  late", false}, {HELD, "       1.5", false}, {PROCESS, "       ", true},
            {HEARD, "      ", true}, {HEARD, " ended", true}, {HOST, "\1\377", true},
            {COMPUTE, "1e3    ", true}, {HELD, "9999999999", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[3 * RANK_LINE];
        rank_table table;
        const rank_row row = row_of(0);
        rank_table_format(&row, 1, 1, text);
        replace(text + (RANK_LINE * 2), cases[i].column, cases[i].text);
        OK(rank_table_parse(a, "t", text, sizeof text, &table));
        const rank_row *r = table.rows;
        if (r->known != cases[i].known || table.n_torn != !cases[i].known) fail_msg("case %zu", i);
        if (!r->known) continue;
        const int column = cases[i].column;
        assert_int_equal(r->pid, column == PROCESS ? -1 : 4711);
        assert_true(r->ended == (column == HEARD && cases[i].text[1] == 'e'));
        assert_true(r->heard_s == (column == HEARD ? 0 : 0.2)); // printed with one decimal
        assert_true(r->compute_s == (column == COMPUTE ? 1000 : 1.125));
        assert_true(r->resident == (column == HELD ? 9999999999 * 1024 : 3072));
        assert_string_equal(r->host, column == HOST ? "??de0" : "node0");
    }
}

// A number loses its decimals before it becomes nines; one that is not known leaves its cell empty.
TEST(odd_numbers) {
    char text[3 * RANK_LINE];
    rank_table table;
    rank_row row = row_of(0);
    row.since_s = 123456.7;
    row.compute_s = 12345678;
    row.wait_s = (double)NAN;
    row.data_s = -1;
    row.save_s = (double)INFINITY;
    rank_table_format(&row, 1, 1, text);
    OK(rank_table_parse(a, "t", text, sizeof text, &table));
    const rank_row *r = table.rows;
    assert_true(r->known && r->since_s == 123457 && r->compute_s == 9999999);
    assert_true(r->wait_s == 0 && r->data_s == 0 && r->save_s == 9999999);
    json_t *known = rank_row_json(r, 0), *unknown = rank_row_json(&(rank_row){0}, 3);
    assert_int_equal(json_object_size(known), 19);
    assert_string_equal(json_string_value(json_object_get(known, "host")), "node0");
    assert_int_equal(json_integer_value(json_object_get(known, "resident_bytes")), 3072);
    assert_int_equal(json_object_size(unknown), 2);
    assert_int_equal(json_integer_value(json_object_get(unknown, "rank")), 3);
    json_decref(known);
    json_decref(unknown);
}

// First lines with a good checksum.
TEST(odd_heads) {
    static const char *const heads[] = {"drover ranks 1: 0 ranks, 192 bytes a line, time 1.000  ",
            "drover ranks 1: -1 ranks, 192 bytes a line, time 1.000 ",
            "drover ranks 1: 262145 ranks, 192 bytes a line, time 1 ",
            "drover ranks 1: 1 ranks, 191 bytes a line, time 1.000  ",
            "drover ranks 1: 1 ranks, 192 bytes a line, time inf    ",
            "drover ranks 1: 1 ranks, 192 bytes a line, time        "};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char p[3 * RANK_LINE];
        rank_table table;
        const rank_row row = row_of(0);
        rank_table_format(&row, 1, 1, p);
        replace(p, 0, heads[i]);
        FAILS(rank_table_parse(a, "t", p, sizeof p, &table), DRV_E_DATA,
                "the first line is torn, or not one of drover's");
    }
}

TEST(what_is_no_table_is_refused) {
    const char *dir = temporary_dir(a), *path = arena_printf(a, "%s/ranks/status", dir);
    char p[3 * RANK_LINE];
    rank_table table;
    const rank_row row = row_of(0);
    FAILS(rank_table_read(a, dir, &table), DRV_E_IO, "ranks/status");
    rank_table_format(&row, 1, 1, p);
    FAILS(rank_table_parse(a, "t", p, RANK_LINE - 1, &table), DRV_E_DATA, "not a table of ranks");
    p[13] = '2';
    FAILS(rank_table_parse(a, "t", p, sizeof p, &table), DRV_E_DATA, "version 2, expected 1");
    p[13] = '1', p[16] = '9';
    FAILS(rank_table_parse(a, "t", p, sizeof p, &table), DRV_E_DATA, "torn");
    OK(dir_make(arena_printf(a, "%s/ranks", dir)));
    assert_int_equal(mkfifo(path, 0600), 0);
    FAILS(rank_table_read(a, dir, &table), DRV_E_IO, "a pipe");
    assert_int_equal(unlink(path), 0);
    const int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(ftruncate(fd, 10LL << 30), 0);
    close(fd);
    FAILS(rank_table_read(a, dir, &table), DRV_E_DATA, "more than a table of ranks can have");
}

TEST(it_may_lie_on_a_disk_of_its_own) {
    const char *dir = temporary_dir(a), *local = arena_printf(a, "%s/local", temporary_dir(a));
    rank_table_writer *writer;
    rank_table table;
    struct stat is;
    const rank_row row = row_of(0);
    for (int i = 0; i < 2; i++) { // the second attempt finds the link
        OK(rank_table_open(a, dir, local, 1, &writer));
        OK(rank_table_write(writer, &row));
        OK(rank_table_read(a, dir, &table));
        rank_table_close(writer);
    }
    char **names;
    int n;
    OK(dir_list(a, local, &names, &n));
    assert_int_equal(n, 1);
    OK(rank_table_open(a, dir, "", 1, &writer)); // and a third one that keeps it here
    rank_table_close(writer);
    assert_int_equal(lstat(arena_printf(a, "%s/ranks/status", dir), &is), 0);
    assert_true(S_ISREG(is.st_mode));
}

static double processor_s(void) {
    struct timespec table;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &table);
    return (double)table.tv_sec + 1e-9 * (double)table.tv_nsec;
}

// Once a second: below 200 kB, and below 1 % of a core (sanitizers take longer).
TEST(a_thousand_ranks_cost_little) {
    enum { N = 1024, TRIES = 30 };
    const char *dir = temporary_dir(a);
    rank_table_writer *writer;
    rank_row *rows = ARENA_ARRAY(a, rank_row, N);
    double best = 1e9;
    for (int i = 0; i < N; i++)
        rows[i] = row_of(i);
    OK(rank_table_open(a, dir, "", N, &writer));
    for (int i = 0; i < TRIES; i++) {
        const double begin = processor_s();
        OK(rank_table_write(writer, rows));
        const double took = processor_s() - begin;
        if (took < best) best = took;
    }
    rank_table_close(writer);
    const int64_t bytes = file_size(arena_printf(a, "%s/ranks/status", dir));
    print_message("1,024 ranks: %lld bytes, %.2f ms of a core\n", (long long)bytes, 1e3 * best);
    assert_true(bytes < 200000);
#ifndef __SANITIZE_ADDRESS__
    assert_true(best < 0.01);
#endif
}

static drv_status tell(comm *self, void *ctx) {
    (void)ctx;
    const int rank = comm_rank(self);
    comm_note(self, 10 + rank, "step");
    comm_share_figures(self, &(rank_figures){.compute_s = (float)rank, .planned = 100 * rank});
    OK(comm_barrier(comm_all_ranks(self)));
    for (int i = 0; i < comm_size(self); i++) {
        rank_view v;
        comm_view_rank(self, i, &v);
        EXPECT(self, v.step == 10 + i && strcmp(v.program, "step") == 0 && !v.ended);
        EXPECT(self, v.figures.planned == 100 * i && v.heard_s >= 0 && *v.host);
    }
    return comm_barrier(comm_all_ranks(self));
}

TEST(ranks_of_a_process_see_each_other) {
    OK(comm_run_threads(4, 1, NULL, tell, NULL));
}
