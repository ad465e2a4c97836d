// Makes all ranks of a run use the same arithmetic: the lowest level of kernels among them, and
// fp32 products. If ranks differed, the last bits of sums, and so the result of the run, would
// depend on which rank has which rows.
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "train/ranks.h"
#include "setup/device.h"

enum { ARITHMETIC_TEXT = 96 };

// Returns the first rank whose arithmetic differs from that of rank 0; 0: none.
static int first_different(const char *all, int ranks) {
    for (int i = 1; i < ranks; i++)
        if (strcmp(all + i * ARITHMETIC_TEXT, all) != 0) return i;
    return 0;
}

// Sets the environment variables with which a user would choose both, and reopens the back end.
static drv_status take_lowest(this_rank *r, cpu_level level) {
    if (setenv("DROVER_CPU", cpu_level_name(level), 1) != 0 ||
            setenv("DROVER_GEMM", "fp32", 1) != 0)
        return drv_fail(DRV_E_IO, "could not set DROVER_CPU and DROVER_GEMM");
    backend_close(r->b);
    r->b = NULL;
    return device_open(r->a, r->cfg, &r->b);
}

drv_status ranks_agree_on_arithmetic(this_rank *r) {
    const int ranks = comm_size(r->comm);
    if (ranks == 1 || r->pool || !config_backend(r->cfg)->is_processor) return DRV_OK;
    cpu_level level;
    DRV_TRY(cpu_level_chosen(&level));
    char mine[ARITHMETIC_TEXT] = "",
         *all = ARENA_ARRAY(r->a, char, (int64_t)ranks *ARITHMETIC_TEXT);
    snprintf(mine, sizeof mine, "%s", backend_arithmetic(r->b));
    DRV_TRY(comm_all_gather(comm_all_ranks(r->comm), mine, sizeof mine, NULL, all));
    const int other = first_different(all, ranks);
    if (!other) return DRV_OK;
    int32_t lowest = -(int32_t)level;
    DRV_TRY(comm_all_reduce(comm_all_ranks(r->comm), DT_I32, COMM_MAX, &lowest, 1, NULL));
    DRV_TRY(take_lowest(r, (cpu_level)-lowest));
    log_info("ranks differ: %s on rank 0 (%s), %s on rank %d (%s); so that bits are equal, all use %s",
            all, comm_host(r->comm, 0), all + other * ARITHMETIC_TEXT, other,
            comm_host(r->comm, other), backend_arithmetic(r->b));
    return DRV_OK;
}
