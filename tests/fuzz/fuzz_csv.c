// Rows of CSV: the same whether the bytes come at once or one by one; and a row that is written
// again with all fields in quotes has the same fields.
#include "fuzz.h"

#include "data/read/csv_table.h"
#include "tok/unicode.h"

// The next row, with a window that grows by `step` bytes.
static csv_event next(csv_scan *scan, const char *bytes, size_t n_bytes, size_t step) {
    for (size_t n = step < n_bytes ? step : n_bytes;; n += step) {
        const bool whole = n >= n_bytes;
        const csv_event event = csv_scan_next(scan, bytes, whole ? n_bytes : n, whole);
        if (event != CSV_MORE) return event;
    }
}

static void quote_fields(const csv_fields *fields, char delimiter, str *out) {
    for (int i = 0; i < fields->n; i++) {
        size_t n;
        const char *p = csv_field(fields, i, &n);
        if (i) str_add(out, &delimiter, 1);
        str_puts(out, "\"");
        for (size_t k = 0; k < n; k++) {
            if (p[k] == '"') str_puts(out, "\"");
            str_add(out, p + k, 1);
        }
        str_puts(out, "\"");
    }
}

static void check_row(const char *row, size_t n_bytes, char delimiter) {
    csv_fields fields = {0}, again = {0};
    str quoted = {0};
    csv_fields_read(&fields, delimiter, row, n_bytes);
    quote_fields(&fields, delimiter, &quoted);
    csv_scan scan = {.delimiter = delimiter};
    DRV_ASSERT(csv_scan_next(&scan, quoted.p, quoted.n, true) == CSV_ROW && !scan.why &&
                       scan.end == quoted.n,
            "a quoted row is broken");
    csv_fields_read(&again, delimiter, quoted.p, quoted.n);
    DRV_ASSERT(again.n == fields.n && again.text.n == fields.text.n &&
                       memcmp(again.end, fields.end, sizeof *fields.end * (size_t)fields.n) == 0 &&
                       (fields.text.n == 0 ||
                               memcmp(again.text.p, fields.text.p, fields.text.n) == 0),
            "a quoted row has other fields");
    csv_fields_free(&fields);
    csv_fields_free(&again);
    str_free(&quoted);
}

static void take_rows(const char *bytes, size_t n_bytes, char delimiter) {
    static const char *const columns[] = {"prompt", "response", NULL};
    csv_scan at_once = {.delimiter = delimiter}, by_one = at_once;
    csv_table *text = NULL, *objects = NULL;
    str out = {0};
    for (bool first = true;; first = false) {
        const csv_event event = next(&at_once, bytes, n_bytes, n_bytes + 1);
        DRV_ASSERT(next(&by_one, bytes, n_bytes, 1) == event, "the window decides");
        if (event == CSV_END) break;
        DRV_ASSERT(at_once.end == by_one.end && at_once.next == by_one.next &&
                           !at_once.why == !by_one.why && at_once.next <= n_bytes &&
                           at_once.next > 0 && at_once.end <= at_once.next,
                "the window decides where a row ends");
        if (!at_once.why) check_row(bytes, at_once.end, delimiter);
        if (first && !at_once.why) {
            if (csv_table_open("x", delimiter, bytes, at_once.end, "text", NULL, &text) != DRV_OK)
                text = NULL;
            if (csv_table_open("x", delimiter, bytes, at_once.end, NULL, columns, &objects) !=
                    DRV_OK)
                objects = NULL;
        } else if (!at_once.why) {
            if (text) (void)csv_table_take(text, bytes, at_once.end, &out);
            if (objects) (void)csv_table_take(objects, bytes, at_once.end, &out);
        }
        bytes += at_once.next;
        n_bytes -= at_once.next;
    }
    csv_table_close(text);
    csv_table_close(objects);
    str_free(&out);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    take_rows((const char *)bytes, n_bytes, ',');
    take_rows((const char *)bytes, n_bytes, '\t');
}
