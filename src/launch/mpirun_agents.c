// Agents of mpirun: each brings the command line of a node's daemon and stands in for it.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launch/daemon_command.h"
#include "launch/mpirun_agents.h"

mpirun_agents agents_of(arena *a, int n_nodes) {
    return (mpirun_agents){.a = a,
            .listener = -1,
            .agents = ARENA_ARRAY(a, mpirun_agent, n_nodes),
            .most = n_nodes};
}

int agents_fds(const mpirun_agents *self, struct pollfd *fds) {
    int n = 0;
    if (self->listener >= 0) fds[n++] = (struct pollfd){self->listener, POLLIN, 0};
    for (int i = 0; i < self->n; i++)
        if (!self->agents[i].line.closed)
            fds[n++] = (struct pollfd){self->agents[i].line.fd, POLLIN, 0};
    return n;
}

drv_status agents_open(mpirun_agents *self, const char *dir) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = path_join(self->a, dir, "agents");
    if (strlen(path) >= sizeof address.sun_path)
        return drv_fail(DRV_E_USAGE, "TMPDIR is too long for a socket: \"%s\"", path);
    memcpy(address.sun_path, path, strlen(path));
    self->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(self->listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
            listen(self->listener, 1024) == 0)
        return DRV_OK;
    return drv_fail(DRV_E_IO, "could not listen at \"%s\": %s", path, strerror(errno));
}

void agents_close(mpirun_agents *self) {
    while (self->n > 0)
        control_close(&self->agents[--self->n].line);
    if (self->listener >= 0) close(self->listener);
    self->listener = -1;
}

void agents_release(mpirun_agents *self, int node, int status) {
    const char *text = arena_printf(self->a, "%d", status);
    const char *fields[] = {text, ""};
    for (int i = 0; i < self->n; i++)
        if (self->agents[i].node == node)
            control_send(&self->agents[i].line, CONTROL_END, fields, 2);
}

// Sends place and nodes of the attempt, number of variables, variables, daemon and its arguments.
static drv_status send_command(arena *a, mpirun_agent *agent, const attempt_nodes *of,
        const control_message *said) {
    daemon_command command;
    int node = 0, n_fields = 0;
    if (said->n_fields < 2) return drv_fail(DRV_E_DATA, "an agent without a command");
    for (int place = 1; place < of->n_nodes; place++)
        if (strcmp(said->field[0], of->members[of->nodes[place]].label) == 0)
            node = of->nodes[place];
    if (!node)
        return drv_fail(DRV_E_DATA, "mpirun starts a daemon on \"%s\", which is not a node",
                said->field[0]);
    if (of->members[node].place <
            0) // it was lost; if it has come back, it waits for the next attempt
        return drv_fail(DRV_E_PEER, "node %d is gone", node);
    DRV_TRY(daemon_command_parse(a, said->field + 1, said->n_fields - 1, &command));
    const char **fields = ARENA_ARRAY(a, const char *, 3 + command.n_variables + command.n_args);
    fields[n_fields++] = arena_printf(a, "%d", of->members[node].place);
    fields[n_fields++] = arena_printf(a, "%d", of->n_nodes);
    fields[n_fields++] = arena_printf(a, "%d", command.n_variables);
    for (int i = 0; i < command.n_variables; i++)
        fields[n_fields++] = command.variables[i];
    for (int i = 0; i < command.n_args; i++)
        fields[n_fields++] = command.argv[i];
    agent->node = node;
    of->members[node].told = true;
    control_send(&of->members[node].line, CONTROL_COMMAND, fields, n_fields);
    return DRV_OK;
}

static void serve_agent(arena *a, mpirun_agent *agent, const attempt_nodes *of) {
    static const char *const failed[] = {"1", ""};
    control_message said;
    control_pump(&agent->line);
    while (control_take(&agent->line, &said)) {
        if (said.kind != CONTROL_COMMAND || send_command(a, agent, of, &said) == DRV_OK) continue;
        log_warn("%s", drv_message());
        control_send(&agent->line, CONTROL_END, failed, 2);
    }
    control_pump(&agent->line);
}

void agents_serve(mpirun_agents *self, const attempt_nodes *of) {
    static const job_secret none;
    while (self->listener >= 0 && self->n < self->most) {
        const int fd = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) break;
        self->agents[self->n].node = 0;
        control_open(&self->agents[self->n++].line, fd, false, &none);
    }
    for (int i = 0; i < self->n; i++)
        serve_agent(self->a, &self->agents[i], of);
}
