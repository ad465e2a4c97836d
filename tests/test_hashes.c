// Hashes by which runs are compared: what they depend on. (That they are the same on any layout:
// test_grid, train_hashes.sh.)
#include "harness.h"

#include <math.h>
#include <string.h>

#include "weights/hashes.h"

TEST(an_element_counts_by_name_place_and_bits) {
    const uint64_t one = hashes_element(7, 3, 0.5f);
    assert_true(one == hashes_element(7, 3, 0.5f));
    assert_true(one != hashes_element(8, 3, 0.5f));
    assert_true(one != hashes_element(7, 4, 0.5f));
    assert_true(one != hashes_element(7, 3, nextafterf(0.5f, 1)));
    assert_true(
            hashes_element(7, 3, NAN) == hashes_element(7, 3, -NAN)); // as other processors have it
    assert_true(hashes_element(7, 3, 0.0f) != hashes_element(7, 3, -0.0f));
    assert_true(hashes_element(7, 3, 0.5f) + hashes_element(7, 4, 0.25f) !=
                hashes_element(7, 4, 0.5f) + hashes_element(7, 3, 0.25f));
}

static const uint64_t *weight_hash(const tensor_hashes *h, const char *name) {
    for (int i = 0; i < h->n; i++)
        if (strcmp(h->list[i].entry.name, name) == 0) return &h->of[i];
    fail_msg("no hash of %s", name);
    return NULL;
}

static uint64_t sum_of(const tensor_hashes *h) {
    uint64_t sum = 0;
    for (int i = 0; i < h->n; i++)
        sum += h->of[i];
    return sum;
}

// Two neighbours of a weight change places; then they change back.
static void swap(test_run *run, const char *name, int64_t at) {
    float pair[2], swapped[2];
    OK(backend_read(run->p.held.b, name, 4 * at, sizeof pair, pair));
    swapped[0] = pair[1];
    swapped[1] = pair[0];
    assert_true(pair[0] != pair[1]);
    OK(backend_write(run->p.held.b, name, 4 * at, sizeof swapped, swapped));
}

TEST(hashes_see_which_weight_and_where) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=32", "training.precision=fp32",
            "training.hash_every=1"};
    test_run *run = test_run_open(sets, 4);
    const char *embedding = "model.embed_tokens.weight";
    const int64_t elements = param_elements(param_of_part(&run->p.held.params, embedding));
    const int64_t places[] = {0, elements / 2, elements - 2};
    state_hashes before, after;
    OK(hashes_take(a, &run->p.held, &before));
    assert_true(before.weights.all == sum_of(&before.weights));
    assert_true(before.gradients.all == sum_of(&before.gradients));
    // Both are ones: their names are all that they differ in.
    assert_true(*weight_hash(&before.weights, "model.layers.0.input_layernorm.weight") !=
                *weight_hash(&before.weights, "model.layers.1.input_layernorm.weight"));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        swap(run, embedding, places[i]);
        OK(hashes_take(a, &run->p.held, &after));
        for (int k = 0; k < before.weights.n; k++)
            assert_true((before.weights.of[k] != after.weights.of[k]) ==
                        (strcmp(before.weights.list[k].entry.name, embedding) == 0));
        assert_true(before.weights.all != after.weights.all);
        assert_true(before.gradients.all == after.gradients.all);
        swap(run, embedding, places[i]);
    }
    test_run_close(run);
}
