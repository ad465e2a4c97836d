// Pre-flight: which nodes stand out of made up figures, which of them a job does without, what is
// read back of the text, and that the rounds of pairs meet every node.
// Legend: a arena, n nodes.
#include "harness.h"

#include <math.h>

#include "measure/node_check.h"
#include "launch/preflight.h"

enum { NODES = 8 };

static void good(node_result *results, int n) {
    for (int i = 0; i < n; i++) {
        results[i] = (node_result){.fsync_s = 0.01,
                .version = "0.1.0 abc",
                .sees_lock = 1,
                .sees_rename = 1,
                .sees_directory = 1};
        snprintf(results[i].host, sizeof results[i].host, "n%d", i);
        for (int f = 0; f < N_NODE_FIGURES; f++)
            results[i].value[f] = (f == NODE_LATENCY ? 1e-4 : 1e11) * (1 + 0.01 * (i % 3));
    }
}

// Expects that these nodes are named and no other, the worst of them first.
static void expect_named(arena *a, const node_result *results, int n, const int *nodes, int n_named,
        const char *says) {
    preflight judged;
    preflight_judge(a, results, n, &judged);
    assert_int_equal(judged.n_named, n_named);
    for (int i = 0; i < n_named; i++) {
        if (!*judged.said[nodes[i]]) fail_msg("node %d is not named", nodes[i]);
        if (i) assert_true(judged.worst[nodes[i - 1]] <= judged.worst[nodes[i]]);
    }
    if (n_named && !strstr(judged.said[nodes[0]], says))
        fail_msg("\"%s\" does not say \"%s\"", judged.said[nodes[0]], says);
}

TEST(nodes_that_stand_out) {
    node_result results[NODES];
    static const int third[] = {3}, fifth_and_third[] = {5, 3};
    good(results, NODES);
    expect_named(a, results, NODES, NULL, 0, "");
    results[3].value[NODE_GEMM] *= 0.81; // at 0.8 of the median none is named
    expect_named(a, results, NODES, NULL, 0, "");
    results[3].value[NODE_GEMM] *= 0.9;
    expect_named(a, results, NODES, third, 1, "GEMM 0.72 of the median: 72.9 GFLOP/s, not 101");
    results[5].value[NODE_LATENCY] = 1e-3;
    expect_named(a, results, NODES, fifth_and_third, 2, "latency 9.90 of the median: 1000 us");
    results[5].value[NODE_LATENCY] = 1.15e-4; // within the noise
    expect_named(a, results, NODES, third, 1, "GEMM");
    good(results, NODES);
    results[3].clock_s = -1.5;
    expect_named(a, results, NODES, third, 1, "its clock is -1.5 s from node 0's");
    good(results, NODES);
    results[3].sees_rename = 0;
    results[5].sees_directory = 0;
    results[5].value[NODE_DISK_WRITE] = results[5].value[NODE_DISK_READ] = (double)NAN;
    expect_named(a, results, NODES, (const int[]){3, 5}, 2, "does not see files of node 0");
    good(results, NODES);
    snprintf(results[3].version, sizeof results[3].version, "0.2.0 def");
    expect_named(a, results, NODES, third, 1, "its drover is 0.2.0 def, not 0.1.0 abc");
    good(results, 1); // alone: there is nothing beside it
    results[0].value[NODE_BANDWIDTH] = results[0].value[NODE_LATENCY] = (double)NAN;
    expect_named(a, results, 1, NULL, 0, "");
}

TEST(results_read_back) {
    node_result results[NODES], *again;
    preflight judged;
    int n;
    good(results, NODES);
    results[2].value[NODE_MEMORY] /= 2;
    results[4].value[NODE_BANDWIDTH] = (double)NAN;
    results[4].sees_lock = -1;
    preflight_judge(a, results, NODES, &judged);
    json_t *object = preflight_json(&judged, results);
    char *text = json_print(object, JSON_INDENT(1));
    OK(preflight_read(a, "nodes.json", text, strlen(text), &again, &n));
    assert_int_equal(n, NODES);
    for (int i = 0; i < NODES; i++) {
        assert_string_equal(again[i].host, results[i].host);
        assert_string_equal(again[i].version, results[i].version);
        assert_int_equal(again[i].sees_lock, results[i].sees_lock);
        for (int f = 0; f < N_NODE_FIGURES; f++)
            assert_true(again[i].value[f] == results[i].value[f] || isnan(results[i].value[f]));
    }
    expect_named(a, again, n, (const int[]){2}, 1, "memory 0.51 of the median");
    static const struct {
        const char *text, *says;
    } wrong[] = {{"[]", "key \"nodes\" has 0 items"}, {"{\"nodes\": []}", "has 0 items"},
            {"{\"nodes\": [{\"node\": 1}]}", "key \"node\" is 1, expected 0"},
            {"{\"nodes\": [{\"node\": 0}]}", "key \"host\" is missing"},
            {"{\"nodes\": [{\"node\": 0, \"host\": \"a\", \"version\": \"v\", \"free_bytes\": -1}]}",
                    "key \"free_bytes\" is below 0"},
            {"{", "nodes.json"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(preflight_read(a, "nodes.json", wrong[i].text, strlen(wrong[i].text), &again, &n),
                DRV_E_DATA, wrong[i].says);
    json_decref(object);
    free(text);
}

// Who meets whom: each other, nobody twice, nobody himself; of an odd number one pauses in each
// round.
TEST(rounds_meet) {
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 64, 65};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int n = sizes[k], rounds = node_rounds(n);
        for (int mine = 0; mine < n; mine++) {
            bool met[65] = {false};
            int pauses = 0;
            for (int round = 0; round < rounds; round++) {
                const int partner = node_partner(n, mine, round);
                pauses += partner < 0;
                if (partner < 0) continue;
                if (partner == mine || partner >= n || met[partner] ||
                        node_partner(n, partner, round) != mine)
                    fail_msg("%d nodes, round %d: %d and %d", n, round, mine, partner);
                met[partner] = true;
            }
            assert_true(pauses <= (n > 1 && n % 2));
        }
    }
    assert_int_equal(node_rounds(64), 6);
    assert_int_equal(node_rounds(65), 7);
}

// A node that has its host alone takes all, many on one host together half of what is there at most
// (copies go from one buffer to another).
TEST(many_on_a_host_share_it) {
    const int64_t mib = (int64_t)1 << 20, gib = mib << 10, most = 256 * mib;
    assert_int_equal(node_share(most, mib, gib, 1), most);
    assert_int_equal(node_share(most, mib, INT64_MAX, 64), most);
    assert_int_equal(node_share(most, mib, gib - 1, 1), most / 2);
    assert_int_equal(node_share(most, mib, 0, 1), mib);
    for (int n = 1; n <= 512; n++)
        for (int64_t there = 2 * gib; there < 64 * gib; there += 3 * gib) {
            const int64_t each = node_share(most, mib, there, n);
            assert_true(each == most || 8 * each * n > there - 8 * n);
            assert_true(2 * n * each <= there / 2);
        }
}
