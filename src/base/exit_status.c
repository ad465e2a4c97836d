// One table from status to exit status.
#include "base/exit_status.h"

#include <stdlib.h>

int exit_status_plain(drv_status status) {
    switch (status) {
    case DRV_OK:
        return 0;
    case DRV_E_USAGE:
        return EXIT_USAGE;
    case DRV_STOPPED:
        return EXIT_STOPPED;
    case DRV_E_PEER:
    case DRV_E_FULL:
    case DRV_E_BUSY:
    case DRV_E_FAULT:
        return EXIT_TRY_AGAIN;
    case DRV_E_DATA:
    case DRV_E_IO:
    case DRV_E_DEVICE:
        break;
    }
    return 1;
}

int exit_status(drv_status status) {
    const int plain = exit_status_plain(status);
    const char *other = plain == EXIT_TRY_AGAIN ? getenv("DROVER_RETRY_STATUS") : NULL;
    if (!other) return plain;
    char *end;
    const long number = strtol(other, &end, 10);
    return end != other && *end == 0 && number >= 1 && number <= 255 ? (int)number : plain;
}
