// The ledger of a run against simulated histories whose truth is known: any order of ends, hosts
// with clocks of their own, clocks that jump, files that were cut.
#include <math.h>

#include "base/rng.h"
#include "base/str.h"
#include "harness.h"
#include "watch/views/ledger.h"

enum { MAX_STEPS = 1 << 14, SHARE_EVERY = 5 };

typedef struct history {
    uint64_t seed, draws;
    double t, utc_off, mono_off; // true seconds; what the clocks of the host add
    int attempt;
    str events;
    ledger_step steps[MAX_STEPS];               // as metrics.jsonl has them
    double compute[MAX_STEPS], wait[MAX_STEPS]; // of each, in truth
    double save_in_steps;
    int64_t n_steps, step, saved;
    double truth[N_LEDGER_CLASSES];
    double jumped;      // the most that clocks and unwritten ends can move between classes
    ledger_step window; // sums of the steps since the last line with means
    bool jumps;
} history;

static double draw(history *run, double low, double high) {
    return low + (high - low) * (0.5 + 0.5 * noise(run->seed, run->draws++));
}

static void say(history *run, const char *event, const char *fields) {
    str_printf(&run->events,
            "{\"time\": %.3f, \"mono\": %.3f, \"attempt\": %d, \"event\": \"%s\"%s}\n",
            run->t + run->utc_off, run->t + run->mono_off, run->attempt, event, fields);
}

static void pass(history *run, ledger_class class, double made) {
    run->truth[class] += made;
    run->t += made;
}

static void save(history *run) {
    char text[128];
    const double blocked = draw(run, 0.1, 2);
    pass(run, LEDGER_SAVE, blocked);
    run->saved = run->step;
    snprintf(text, sizeof text,
            ", \"step\": %lld, \"seconds\": 3, \"blocked_s\": %.6f, \"bytes\": 1",
            (long long)run->step, blocked + run->save_in_steps);
    run->save_in_steps = 0;
    say(run, "save", text);
}

static void evaluate(history *run) {
    char text[128];
    const double made = draw(run, 1, 4);
    pass(run, LEDGER_EVALUATION, made);
    snprintf(text, sizeof text, ", \"step\": %lld, \"seconds\": %.6f, \"val_loss\": 2",
            (long long)run->step, made);
    say(run, "evaluation", text);
}

// A step of rank 0, whose waiting beyond 0.1 of the step is communication.
static void take_step(history *run) {
    const double compute = draw(run, 0.8, 1.2), wait = draw(run, 0.3, 0.5),
                 data = draw(run, 0, 0.1), saving = run->step % 7 == 0 ? draw(run, 0, 0.2) : 0;
    const double all = compute + wait + data + saving;
    ledger_step made = {.step = ++run->step, .step_s = all, .data_s = data, .save_s = saving};
    run->save_in_steps += saving;
    pass(run, LEDGER_COMPUTE, compute);
    pass(run, LEDGER_BUBBLE, 0.1 * all);
    pass(run, LEDGER_COMMUNICATION, wait - 0.1 * all);
    pass(run, LEDGER_DATA, data);
    pass(run, LEDGER_SAVE, saving);
    pass(run, LEDGER_OTHER, 0.001);
    run->window.rank_compute_s += compute;
    run->window.rank_wait_s += wait;
    run->window.rank_data_s += data;
    if (run->step % SHARE_EVERY == 0) {
        made.shared = true;
        made.rank_compute_s = run->window.rank_compute_s / SHARE_EVERY;
        made.rank_wait_s = run->window.rank_wait_s / SHARE_EVERY;
        made.rank_data_s = run->window.rank_data_s / SHARE_EVERY;
        run->window = (ledger_step){0};
    }
    assert_true(run->n_steps < MAX_STEPS);
    run->compute[run->n_steps] = compute;
    run->wait[run->n_steps] = wait;
    run->steps[run->n_steps++] = made;
}

// What an attempt finds: metrics beyond the checkpoint are cut, what they took was lost.
static void resume(history *run) {
    char text[128];
    int64_t lost = 0;
    double lost_s = 0;
    for (; run->n_steps > 0 && run->steps[run->n_steps - 1].step > run->saved; lost++) {
        const ledger_step *made = &run->steps[--run->n_steps];
        lost_s += made->step_s;
        run->truth[LEDGER_LOST] += made->step_s;
        run->truth[LEDGER_SAVE] -= made->save_s;
        run->truth[LEDGER_DATA] -= made->data_s;
        run->truth[LEDGER_BUBBLE] -= 0.1 * made->step_s;
        run->truth[LEDGER_COMPUTE] -= run->compute[run->n_steps];
        run->truth[LEDGER_COMMUNICATION] -= run->wait[run->n_steps] - 0.1 * made->step_s;
    }
    run->step = run->saved;
    run->window = (ledger_step){0};
    snprintf(text, sizeof text,
            ", \"step\": %lld, \"from\": null, \"lost_steps\": %lld, \"lost_s\": %.6f",
            (long long)run->saved, (long long)lost, lost_s);
    say(run, "resume", text);
}

static void begin(history *run) {
    run->attempt++;
    run->save_in_steps = 0;
    run->mono_off = draw(run, 0, 1e6); // another host, or booted anew
    say(run, "start",
            ", \"version\": \"x\", \"ranks\": 4, \"nodes\": 2, \"host\": \"n\", \"pid\": 1, \"job\": \"\", "
            "\"restarts\": null, \"steps\": 1000, \"backend\": \"cpu\"");
    pass(run, LEDGER_START, draw(run, 5, 20));
}

static void end(history *run, const char *state) {
    char text[160];
    snprintf(text, sizeof text,
            ", \"state\": \"%s\", \"status\": 1, \"cause\": \"peer\", \"step\": %lld, \"saved_step\": null",
            state, (long long)run->step);
    say(run, "end", text);
}

static void run_attempt(history *run, bool last) {
    begin(run);
    const double dies = last ? 1 : draw(run, 0, 1);
    if (dies < 0.1) { // killed before its first step: it was heard of at its start alone
        resume(run);
        pass(run, LEDGER_DOWN, draw(run, 1, 100));
        return;
    }
    resume(run);
    say(run, "running", ", \"step\": 1");
    const int rounds = (int)draw(run, 20, 150);
    for (int i = 0; i < rounds; i++) {
        take_step(run);
        if (run->step % 20 == 0) evaluate(run);
        if (run->step % 15 == 0) save(run);
        if (run->jumps && draw(run, 0, 1) < 0.01) {
            const double by = draw(run, -300, 300);
            run->utc_off += by;
            run->jumped += fabs(by);
        }
    }
    if (dies < 0.4) {                      // kill -9
        run->jumped += 0.001 * rounds + 2; // what it did since it was last heard of
        pass(run, LEDGER_DOWN, draw(run, 1, 100));
    } else if (dies < 0.7) {
        pass(run, LEDGER_LOST, draw(run, 0, 10)); // a part of a step, and until it was noticed
        say(run, "failure",
                ", \"rank\": 1, \"host\": \"n2\", \"cause\": \"peer\", \"message\": \"died\", \"step\": 3");
        end(run, "failed");
        pass(run, LEDGER_DOWN, draw(run, 1, 100));
    } else {
        say(run, "stop", ", \"step\": 1, \"signal\": \"SIGTERM\"");
        save(run);
        end(run, last ? "done" : "stopped");
        if (!last) pass(run, LEDGER_STOPPED, draw(run, 1, 500));
    }
}

static ledger_sums sums_of(arena *a, const history *run, run_event_list *events) {
    ledger *book = ledger_new(a, events, 0.1);
    for (int64_t i = 0; i < run->n_steps; i++)
        ledger_add(book, &run->steps[i]);
    return ledger_close(a, book);
}

static void check_sum(const ledger_sums *made) {
    double sum = 0;
    for (int i = 0; i < N_LEDGER_CLASSES; i++) {
        if (!(made->seconds[i] >= 0))
            fail_msg("%s is %g s", ledger_name((ledger_class)i), made->seconds[i]);
        sum += made->seconds[i];
    }
    assert_true(sum == made->wall_s);
    assert_true(isnan(made->goodput) || (made->goodput >= 0 && made->goodput <= 1 + 1e-9));
}

static void check_truth(const history *run, const ledger_sums *made) {
    double wall = 0;
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        wall += run->truth[i];
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        if (fabs(made->seconds[i] - run->truth[i]) > 0.01 * wall + run->jumped)
            fail_msg("seed %llu: %s is %.2f s, in truth %.2f of %.2f s (allowed %.2f)",
                    (unsigned long long)run->seed, ledger_name((ledger_class)i), made->seconds[i],
                    run->truth[i], wall, 0.01 * wall + run->jumped);
    if (fabs(made->wall_s - wall) > 0.01 * wall + run->jumped)
        fail_msg("seed %llu: wall time %.2f s, in truth %.2f", (unsigned long long)run->seed,
                made->wall_s, wall);
}

static history *simulate(uint64_t seed, bool jumps) {
    history *run = mem_zeroed(sizeof *run);
    *run = (history){.seed = seed, .t = 1000, .utc_off = 1.7e9, .jumps = jumps};
    const int rounds = 1 + (int)draw(run, 0, 8);
    for (int i = 0; i < rounds; i++)
        run_attempt(run, i == rounds - 1);
    return run;
}

static void history_free(history *run) {
    str_free(&run->events);
    free(run);
}

TEST(parts_are_those_of_the_history) {
    for (uint64_t seed = 0; seed < 400; seed++) {
        history *run = simulate(seed, seed % 2);
        run_event_list events;
        run_events_parse(run->events.p, run->events.n, &events);
        assert_int_equal(events.n_broken, 0);
        const ledger_sums made = sums_of(a, run, &events);
        check_sum(&made);
        check_truth(run, &made);
        assert_int_equal(made.n_attempts, run->attempt);
        if (!run->jumps) assert_int_equal(made.n_negative, 0);
        run_events_free(&events);
        history_free(run);
    }
}

// Whatever is missing: no class is below zero, and the sum stays exact.
TEST(files_that_were_cut_still_add_up) {
    for (uint64_t seed = 0; seed < 400; seed++) {
        history *run = simulate(seed, true);
        run_event_list events;
        const size_t first = (size_t)draw(run, 0, (double)run->events.n),
                     rounds = (size_t)draw(run, 0, (double)(run->events.n - first));
        run_events_parse(run->events.p + first, rounds, &events);
        run->n_steps = (int64_t)draw(run, 0, (double)run->n_steps);
        const ledger_sums made = sums_of(a, run, &events);
        check_sum(&made);
        run_events_free(&events);
        history_free(run);
    }
}

// By hand: one attempt of two steps on two ranks.
TEST(a_small_run_by_hand) {
    static const char text[] =
            "{\"time\":100,\"mono\":5,\"attempt\":1,\"event\":\"start\",\"version\":\"x\",\"ranks\":2,\"nodes\":1,\"host\":\"n\",\"pid\":1,\"job\":\"\",\"steps\":2,\"backend\":\"cpu\"}\n"
            "{\"time\":103,\"mono\":8,\"attempt\":1,\"event\":\"running\",\"step\":1}\n"
            "{\"time\":110,\"mono\":15,\"attempt\":1,\"event\":\"end\",\"state\":\"done\",\"status\":0,\"cause\":\"done\",\"step\":2,\"saved_step\":2}\n"
            "{\"time\":109,\"mono\":1,\"attempt\":2,\"event\":\"start\",\"version\":\"x\",\"ranks\":2,\"nodes\":1,\"host\":\"m\",\"pid\":1,\"job\":\"\",\"steps\":2,\"backend\":\"cpu\"}\n"
            "{\"time\":111,\"mono\":3,\"attempt\":2,\"event\":\"end\",\"state\":\"failed\",\"status\":1,\"cause\":\"io\",\"step\":2,\"saved_step\":2}\n";
    run_event_list events;
    run_events_parse(text, sizeof text - 1, &events);
    ledger *book = ledger_new(a, &events, 0.25);
    ledger_add(book, &(ledger_step){.step = 1, .step_s = 2, .save_s = 0});
    ledger_add(book, &(ledger_step){.step = 2,
                             .step_s = 3,
                             .save_s = 1,
                             .shared = true,
                             .rank_compute_s = 1,
                             .rank_wait_s = 0.75,
                             .rank_data_s = 0.25});
    const ledger_sums made = ledger_close(a, book);
    // 5 s of steps, 1 of them for a save; of the other 4 s half computing, 3/8 waiting, 1/8 data;
    // a quarter of 5 s is bubble.
    const double want[N_LEDGER_CLASSES] = {[LEDGER_COMPUTE] = 2,
            [LEDGER_COMMUNICATION] = 0.25,
            [LEDGER_BUBBLE] = 1.25,
            [LEDGER_DATA] = 0.5,
            [LEDGER_SAVE] = 1,
            [LEDGER_START] = 3 + 2,
            [LEDGER_OTHER] = 2};
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        assert_true(fabs(made.seconds[i] - want[i]) < 1e-9);
    assert_int_equal(made.n_negative, 1); // the second host's clock is 1 s behind
    assert_true(fabs(made.goodput - 3.5 / 12) < 1e-9);
    run_events_free(&events);
}

// An evaluation before the first step is no part of the start, and the killed attempt's is neither.
TEST(an_evaluation_before_the_first_step_counts_once) {
    static const char text[] =
            "{\"time\":100,\"mono\":5,\"attempt\":1,\"event\":\"start\",\"version\":\"x\",\"ranks\":2,\"nodes\":1,\"host\":\"n\",\"pid\":1,\"job\":\"\",\"steps\":2,\"backend\":\"cpu\"}\n"
            "{\"time\":107,\"mono\":12,\"attempt\":1,\"event\":\"evaluation\",\"step\":0,\"seconds\":4,\"val_loss\":5}\n"
            "{\"time\":120,\"mono\":1,\"attempt\":2,\"event\":\"start\",\"version\":\"x\",\"ranks\":2,\"nodes\":1,\"host\":\"n\",\"pid\":1,\"job\":\"\",\"steps\":2,\"backend\":\"cpu\"}\n"
            "{\"time\":129,\"mono\":10,\"attempt\":2,\"event\":\"evaluation\",\"step\":0,\"seconds\":6,\"val_loss\":5}\n"
            "{\"time\":130,\"mono\":11,\"attempt\":2,\"event\":\"running\",\"step\":1}\n"
            "{\"time\":133,\"mono\":14,\"attempt\":2,\"event\":\"end\",\"state\":\"done\",\"status\":0,\"cause\":\"done\",\"step\":1,\"saved_step\":1}\n";
    run_event_list events;
    run_events_parse(text, sizeof text - 1, &events);
    ledger *book = ledger_new(a, &events, 0);
    ledger_add(book, &(ledger_step){.step = 1, .step_s = 3});
    const ledger_sums made = ledger_close(a, book);
    const double want[N_LEDGER_CLASSES] = {[LEDGER_COMPUTE] = 3,
            [LEDGER_EVALUATION] = 4 + 6,
            [LEDGER_START] = 3 + 4,
            [LEDGER_DOWN] = 13};
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        if (fabs(made.seconds[i] - want[i]) > 1e-9)
            fail_msg("%s is %g s, expected %g", ledger_name((ledger_class)i), made.seconds[i],
                    want[i]);
    run_events_free(&events);
}
