// The lines of metrics.jsonl from a step on, and the newest: the same as reading all of it gives.
#include "watch/files/metrics_part.h"

#include <fcntl.h>
#include <unistd.h>

#include "harness.h"

static json_t *part_of(const char *path, int64_t from) {
    str out = {0};
    json_t *all;
    OK(metrics_part(path, from, &out));
    OK(json_read_bytes("part", out.p, out.n, &all));
    str_free(&out);
    return all;
}

static int64_t number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

// Steps from 1 on, with an evaluation after each tenth; lines of `wide` bytes more.
static const char *write_steps(arena *a, int n_steps, int wide) {
    const char *path = path_join(a, temporary_dir(a), "metrics.jsonl");
    FILE *f = fopen(path, "w");
    for (int i = 1; i <= n_steps; i++) {
        fprintf(f, "{\"step\": %d, \"loss\": %d.5, \"pad\": \"%*s\"}\n", i, i, 1 + wide * (i % 7),
                "");
        if (i % 10 == 0) fprintf(f, "{\"step\": %d, \"val_loss\": 1.5}\n", i);
    }
    fclose(f);
    return path;
}

TEST(any_step_is_found) {
    enum { STEPS = 9000 };
    const char *path = write_steps(a, STEPS, 40);
    for (int64_t from = 0; from <= STEPS + 5; from += from < 20 || from > STEPS - 20 ? 1 : 211) {
        json_t *all = part_of(path, from), *list = json_object_get(all, "records");
        const int64_t first = from > 1 ? from : 1;
        if (first > STEPS) {
            assert_int_equal(json_array_size(list), 0);
            assert_int_equal(number_of(all, "next"), from);
        } else {
            assert_int_equal(number_of(json_array_get(list, 0), "step"), first);
            const json_t *last = json_array_get(list, json_array_size(list) - 1);
            assert_int_equal(number_of(all, "next"), number_of(last, "step") + 1);
        }
        json_decref(all);
    }
}

TEST(parts_join_without_gaps) {
    enum { STEPS = 2500 };
    const char *path = write_steps(a, STEPS, 3);
    int64_t from = 0, expected = 1, n = 0;
    for (bool more = true; more;) {
        json_t *all = part_of(path, from), *list = json_object_get(all, "records"), *record;
        size_t i;
        json_array_foreach(list, i, record) {
            const bool evaluation = json_object_get(record, "val_loss") != NULL;
            assert_int_equal(number_of(record, "step"), evaluation ? expected - 1 : expected);
            expected += !evaluation;
            n++;
        }
        assert_true(json_array_size(list) <= PART_RECORDS + 1);
        more = json_is_true(json_object_get(all, "more"));
        from = number_of(all, "next");
        json_decref(all);
    }
    assert_int_equal(n, STEPS + STEPS / 10);
}

TEST(what_is_no_record_is_left_out) {
    const char *path = path_join(a, temporary_dir(a), "metrics.jsonl");
    FILE *f = fopen(path, "w");
    fputs("\n{\"step\": 1}\nrubbish\n{\"step\": \"2\"}\n[1]\n\xff\xfe\n{\"step\": 3}\n{\"step\": 4}",
            f);
    fclose(f);
    json_t *all = part_of(path, 0), *list = json_object_get(all, "records");
    assert_int_equal(json_array_size(list), 2); // the last line is still being written
    assert_int_equal(number_of(all, "next"), 4);
    json_decref(all);
}

TEST(no_file_is_no_record) {
    const char *dir = temporary_dir(a);
    json_t *all = part_of(path_join(a, dir, "metrics.jsonl"), 7);
    assert_int_equal(json_array_size(json_object_get(all, "records")), 0);
    assert_int_equal(number_of(all, "next"), 7);
    json_decref(all);
    str out = {0};
    FAILS(metrics_part(dir, 0, &out), DRV_E_IO, "");
    str_free(&out);
}

static int64_t newest_of(const char *path, const char *key) {
    json_t *record = metrics_newest(path, key);
    const int64_t step = record ? number_of(record, "step") : -1;
    json_decref(record);
    return step;
}

TEST(the_newest_is_found_from_the_end) {
    const char *path = write_steps(a, 9000, 40);
    assert_int_equal(newest_of(path, "loss"), 9000);
    assert_int_equal(newest_of(path, "val_loss"), 9000);
    assert_int_equal(newest_of(path, "nothing"), -1);
    FILE *f = fopen(path, "a");
    fputs("rubbish\n\n{\"step\": 9001, \"loss\": 1}", f); // the last line is still being written
    fflush(f);
    assert_int_equal(newest_of(path, "loss"), 9000);
    fputs("\n", f);
    fflush(f);
    assert_int_equal(newest_of(path, "loss"), 9001);
    for (int i = 0; i < 1 << 19; i++) // behind it, what has no line feed
        fputc(0, f);
    fclose(f);
    assert_int_equal(newest_of(path, "loss"), -1);
    assert_int_equal(newest_of(temporary_dir(a), "loss"), -1);
    assert_int_equal(newest_of("/nowhere", "loss"), -1);
}
