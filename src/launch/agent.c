// The launch agent, which mpirun runs instead of ssh.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "launch/control.h"
#include "launch/launch.h"
#include "launch/local_job.h"
#include "launch/outcome.h"

static drv_status connect_to_launcher(int *out) {
    const char *path = getenv(LAUNCH_SOCKET);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof address.sun_path)
        return drv_fail(DRV_E_USAGE,
                "launch agent: expected to be run by the mpirun of drover launch");
    memcpy(address.sun_path, path, strlen(path));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        *out = fd;
        return DRV_OK;
    }
    drv_fail(DRV_E_IO, "launch agent: could not reach \"%s\": %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return DRV_E_IO;
}

drv_status launch_agent(const char *const *words, int n_words) {
    static const job_secret none; // the socket lies in a folder that only this user can enter
    control line;
    control_message m;
    int fd = -1, ended = -1;
    local_job_hold_signals();
    DRV_TRY(connect_to_launcher(&fd));
    control_open(&line, fd, true, &none);
    control_send(&line, CONTROL_COMMAND, words, n_words);
    while (!line.closed && ended < 0) {
        struct pollfd p = {line.fd, (short)(POLLIN | (line.out.n ? POLLOUT : 0)), 0};
        poll(&p, 1, 1000);
        control_pump(&line);
        while (ended < 0 && control_take(&line, &m))
            if (m.kind == CONTROL_END && m.n_fields > 0) ended = control_number(m.field[0]);
    }
    control_close(&line);
    if (ended == 0) return DRV_OK;
    return drv_fail(ended < 0 ? DRV_E_PEER : outcome_as_status(ended), "%s", "");
}
