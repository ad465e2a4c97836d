// Agents of mpirun: each stands for the daemon of a node, whose command line it brings.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launch/daemon_command.h"
#include "launch/head.h"

drv_status head_open_agents(head *h) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = path_join(h->a, h->local.dir, "agents");
    if (strlen(path) >= sizeof address.sun_path)
        return drv_fail(DRV_E_USAGE, "TMPDIR is too long for a socket: \"%s\"", path);
    memcpy(address.sun_path, path, strlen(path));
    h->agent_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(h->agent_listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
            listen(h->agent_listener, 1024) == 0)
        return DRV_OK;
    return drv_fail(DRV_E_IO, "could not listen at \"%s\": %s", path, strerror(errno));
}

void head_close_agents(head *h) {
    while (h->n_agents > 0)
        control_close(&h->agents[--h->n_agents].line);
    if (h->agent_listener >= 0) close(h->agent_listener);
    h->agent_listener = -1;
}

void head_let_agents_go(head *h, int node, int status) {
    const char *text = arena_printf(h->a, "%d", status);
    const char *fields[] = {text, ""};
    for (int i = 0; i < h->n_agents; i++)
        if (h->agents[i].node == node) control_send(&h->agents[i].line, CONTROL_END, fields, 2);
}

// place, nodes of the attempt, how many variables, those, the daemon and its arguments
static drv_status send_command(head *h, head_agent *agent, const control_message *m) {
    daemon_command command;
    int node = 0, n = 0;
    if (m->n_fields < 2) return drv_fail(DRV_E_DATA, "an agent without a command");
    for (int place = 1; place < h->attempt.n_nodes; place++)
        if (strcmp(m->field[0], h->members[h->attempt.nodes[place]].label) == 0)
            node = h->attempt.nodes[place];
    if (!node)
        return drv_fail(DRV_E_DATA, "mpirun starts a daemon on \"%s\", which is no node",
                m->field[0]);
    if (h->members[node].place <
            0) // it was lost; if it is here again, it waits for the next attempt
        return drv_fail(DRV_E_PEER, "node %d is gone", node);
    DRV_TRY(daemon_command_parse(h->a, m->field + 1, m->n_fields - 1, &command));
    const char **fields = ARENA_ARRAY(h->a, const char *, 3 + command.n_variables + command.n_args);
    fields[n++] = arena_printf(h->a, "%d", h->members[node].place);
    fields[n++] = arena_printf(h->a, "%d", h->attempt.n_nodes);
    fields[n++] = arena_printf(h->a, "%d", command.n_variables);
    for (int i = 0; i < command.n_variables; i++)
        fields[n++] = command.variables[i];
    for (int i = 0; i < command.n_args; i++)
        fields[n++] = command.argv[i];
    agent->node = node;
    h->members[node].told = true;
    control_send(&h->members[node].line, CONTROL_COMMAND, fields, n);
    return DRV_OK;
}

static void serve_agent(head *h, head_agent *agent) {
    static const char *const failed[] = {"1", ""};
    control_message m;
    control_pump(&agent->line);
    while (control_take(&agent->line, &m)) {
        if (m.kind != CONTROL_COMMAND || send_command(h, agent, &m) == DRV_OK) continue;
        log_warn("%s", drv_message());
        control_send(&agent->line, CONTROL_END, failed, 2);
    }
    control_pump(&agent->line);
}

void head_serve_agents(head *h) {
    static const job_secret none;
    while (h->agent_listener >= 0 && h->n_agents < h->job->n_nodes) {
        const int fd = accept4(h->agent_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) break;
        h->agents[h->n_agents].node = 0;
        control_open(&h->agents[h->n_agents++].line, fd, false, &none);
    }
    for (int i = 0; i < h->n_agents; i++)
        serve_agent(h, &h->agents[i]);
}
