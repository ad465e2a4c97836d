// The numbers that schedulers decide by (docs/adr/0006).
#include "harness.h"

#include <stdlib.h>

#include "base/exit_status.h"

static const struct {
    drv_status status;
    int plain, of_operator; // with DROVER_RETRY_STATUS=175
} rows[] = {{DRV_OK, 0, 0}, {DRV_E_USAGE, 2, 2}, {DRV_E_DATA, 1, 1}, {DRV_E_IO, 1, 1},
        {DRV_E_DEVICE, 1, 1}, {DRV_E_PEER, 75, 175}, {DRV_E_FULL, 75, 175}, {DRV_E_BUSY, 75, 175},
        {DRV_E_FAULT, 75, 175}, {DRV_STOPPED, 3, 3}};

TEST(each_status_has_its_number) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsetenv("DROVER_RETRY_STATUS");
        assert_int_equal(exit_status(rows[i].status), rows[i].plain);
        setenv("DROVER_RETRY_STATUS", "175", 1);
        assert_int_equal(exit_status(rows[i].status), rows[i].of_operator);
        assert_int_equal(exit_status_plain(rows[i].status), rows[i].plain);
    }
}

TEST(what_is_no_number_changes_nothing) {
    static const char *const wrong[] = {"", "x", "0", "256", "-1", "75 ", "1e2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("DROVER_RETRY_STATUS", wrong[i], 1);
        assert_int_equal(exit_status(DRV_E_PEER), 75);
    }
    unsetenv("DROVER_RETRY_STATUS");
}
