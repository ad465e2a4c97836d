// The version, as CMakeLists.txt gives it to this file alone.
#include "base/version.h"

#ifndef DROVER_COMMIT
#define DROVER_COMMIT "unknown"
#endif

const char *drover_version(void) {
    return "drover " DROVER_VERSION " (commit " DROVER_COMMIT ")";
}

const char *drover_number(void) {
    return DROVER_VERSION;
}

const char *drover_commit(void) {
    return DROVER_COMMIT;
}
