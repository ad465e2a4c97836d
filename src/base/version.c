// Both numbers come from CMakeLists.txt, which writes the second header into the build folder.
#include "base/version.h"

#include "version_numbers.h"

const char *drover_version(void) {
    return "drover " DROVER_VERSION " (commit " DROVER_COMMIT ")";
}

const char *drover_number(void) {
    return DROVER_VERSION;
}

const char *drover_commit(void) {
    return DROVER_COMMIT;
}
