// Seconds of messages on links of two speeds, against numbers worked out by hand.
#include "harness.h"

#include <math.h>

#include "search/link_time.h"

static const link_speeds hosts = {450e9, 50e9, 8}, alike = {50e9, 50e9, 0};

static void near(double x, double expected) {
    if (fabs(x - expected) > 1e-12 * expected) fail_msg("%.17g, expected %.17g", x, expected);
}

// The ranks of a host share what leaves it, and pass it on at the same time.
TEST(parts_to_all) {
    near(link_all_seconds(&hosts, 1, 8, 7e9), 7 / 450.0);
    near(link_all_seconds(&hosts, 1, 16, 15e9), 15 / 8.0 / 50);
    near(link_all_seconds(&hosts, 1, 9 * 8, 71e9), 71 / 8.0 / 50); // nine hosts: still an eighth
    near(link_all_seconds(&hosts, 4, 4, 3e9), 3 / 2.0 / 50);       // two in each host
    near(link_all_seconds(&hosts, 8, 64, 63e9), 63 / 50.0);        // one in each host
    near(link_all_seconds(&hosts, 100, 2, 1e9), 1 / 50.0);
    near(link_all_seconds(&alike, 1, 16, 15e9), 15 / 50.0);
    assert_true(link_all_seconds(&hosts, 1, 1, 0) == 0);
}

// In a ring all wait for the one whose neighbour is elsewhere.
TEST(parts_to_the_next) {
    near(link_next_seconds(&hosts, 2, 4, 9e9), 9 / 450.0);
    near(link_next_seconds(&hosts, 2, 8, 9e9), 9 / 50.0);
    near(link_next_seconds(&hosts, 16, 2, 9e9), 9 / 50.0);
    near(link_next_seconds(&alike, 16, 2, 9e9), 9 / 50.0);
    assert_true(link_next_seconds(&hosts, 1, 1, 0) == 0);
}

// Tensor 2 x context 2 x data 4 x pipeline 2 on 4 hosts of 8 ranks: tensor and context groups lie
// in a host; data ranks with the same weights are 8, of which 4 share a host; the other stage of
// the pipeline is 16 ranks away.
TEST(axes_of_a_mesh) {
    const mesh m = {
            .size = {[AXIS_PIPELINE] = 2, [AXIS_DATA] = 4, [AXIS_CONTEXT] = 2, [AXIS_TENSOR] = 2}};
    near(link_axis_seconds(&hosts, &m, AXIS_TENSOR, 9e9), 9 / 450.0);
    near(link_axis_seconds(&hosts, &m, AXIS_CONTEXT, 9e9), 9 / 450.0);
    near(link_axis_seconds(&hosts, &m, AXIS_DATA, 7e9), 7 / 4.0 / 50);
    near(link_axis_seconds(&hosts, &m, AXIS_PIPELINE, 9e9), 9 / 50.0);
    // Groups of two data ranks, with their context ranks, lie in a host, and the two groups of the
    // other host are 8 ranks away.
    mesh groups = m;
    groups.groups = 2;
    near(link_axis_seconds(&hosts, &groups, AXIS_DATA, 9e9), 9 / 450.0);
    near(link_groups_seconds(&hosts, &groups, 9e9), 9 / 50.0);
    const mesh one = mesh_single();
    for (int axis = 0; axis < N_AXES; axis++)
        assert_true(link_axis_seconds(&hosts, &one, (mesh_axis)axis, 0) == 0);
}
