// Pipelines on local devices of a PJRT plugin, programs per device, in each schedule, against one
// device. The table of the vocabulary is used on both ends. Skipped, saying so, where there is no
// plugin.
#include "device_run.h"

typedef struct pipeline_case {
    int ranks;
    const char *sets[5];
} pipeline_case;
static const pipeline_case cases[] = {{2, {"parallel.schedule=zb-h1"}},
        {2, {"parallel.schedule=interleaved", "parallel.virtual_stages=2"}},
        {4, {"parallel.schedule=gpipe", "parallel.tensor=2"}},
        {8, {"parallel.schedule=1f1b", "parallel.tensor=2", "parallel.zero=1",
                    "parallel.accumulation_groups=4"}},
        {4, {"parallel.schedule=1f1b", "parallel.zero=3"}}};

enum { SHARED_SETS = 3 };
static device_run run_pipeline(device_pool *pool, const pipeline_case *c) {
    const char *sets[SHARED_SETS + 5] = {"model.tie_word_embeddings=true",
            "model.num_hidden_layers=4", "parallel.pipeline=2"};
    int n = c->ranks > 1 ? SHARED_SETS : SHARED_SETS - 1;
    for (int i = 0; i < 5 && c->sets[i]; i++)
        sets[n++] = c->sets[i];
    return run_devices(pool, c->ranks, sets, n);
}

static void every_schedule(void **state) {
    device_run one = run_pipeline(*state, &(pipeline_case){.ranks = 1});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%d ranks, %s\n", cases[i].ranks, cases[i].sets[0]);
        device_run several = run_pipeline(*state, &cases[i]);
        expect_run(&several, &one);
        clear(&several);
    }
    clear(&one);
}

// --- memory
// What the program holds while it runs, but for what it computes with.
static int64_t held_by(const built_program *program, backend *device) {
    backend_memory need;
    assert_true(backend_program_memory(device, *program->run, &need));
    return backend_memory_total(&need) - need.temporary;
}

// An update has parts: norms are added up between them, weights and moments change in a later one.
static void expect_update_in_place(const programs *p, backend *device) {
    backend_memory need;
    int64_t n_trained = 0;
    for (int i = 0; i < p->held.params.n; i++)
        n_trained += param_elements(&p->held.params.p[i]);
    assert_true(backend_program_memory(device, p->update, &need));
    assert_true(need.aliased >= 12 * n_trained); // weights and two moments
}

// Each program of a micro-batch has the others' state beside it, the whole pool included: what
// drover plans, but for the arena.
static void memory_is_that_of_the_largest_part(void **state) {
    const char *sets[] = {"model.preset=tiny", "model.num_hidden_layers=4", "parallel.pipeline=2",
            "data.sequence_length=40", "training.global_batch_size=8",
            "training.micro_batch_size=1", "training.precision=fp32", "backend=pjrt",
            "pjrt.plugin=cpu"};
    arena *a = arena_new("memory");
    const backend_opts opts = {.pool = *state};
    backend *device;
    run_config cfg;
    programs built;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    OK(config_set_ranks(&cfg, 2));
    const mesh ranks = run_mesh(&cfg);
    OK(backend_open(a, "pjrt", &opts, &device));
    backend_join(device, NULL, &ranks);
    OK(programs_build(a, &cfg, &built));
    OK(programs_compile(a, device, &built, NULL));
    expect_update_in_place(&built, device);
    const int64_t planned = programs_memory(&built).total;
    for (int i = 0; i < built.held.n_all; i++) {
        const int64_t held = held_by(&built.held.all[i], device);
        const bool in_flight = !built.held.all[i].graph->between_steps;
        if (held > planned || (in_flight && held < planned / 10 * 9))
            fail_msg("%s holds %lld bytes, planned %lld", built.held.all[i].graph->name,
                    (long long)held, (long long)planned);
    }
    backend_close(device);
    arena_free(a);
}

int main(void) {
    const int memory = run_on_pool(2, "memory_is_that_of_the_largest_part",
            memory_is_that_of_the_largest_part);
    return memory ? memory : run_on_pool(DEVICES, "every_schedule", every_schedule);
}
