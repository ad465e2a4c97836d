// Any bytes as the command line that a launch agent gets: one daemon of Open MPI, or a refusal.
#include "fuzz.h"

#include "launch/daemon_command.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const char *line = arena_strndup(a, (const char *)bytes, n_bytes);
    daemon_command made;
    const drv_status status = daemon_command_parse(a, &line, 1, &made);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_DATA, "%d: %s", status, drv_message());
    if (status == DRV_OK) {
        DRV_ASSERT(made.n_args > 0 && !made.argv[made.n_args], "%d arguments", made.n_args);
        DRV_ASSERT(daemon_command_check(made.argv[0]) == DRV_OK, "\"%s\"", made.argv[0]);
        for (int i = 0; i < made.n_variables; i++)
            DRV_ASSERT(!strchr(made.variables[i], '$'), "\"%s\"", made.variables[i]);
    }
}
