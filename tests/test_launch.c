// Parts of `drover launch node`: the command lines that mpirun gives to launch agents, messages
// between nodes, how ranks have ended, and their shares of devices and cores.
// Legend: m a message, p two ends of a line.
#include "harness.h"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "comm/host_address.h"
#include "launch/control.h"
#include "launch/daemon_command.h"
#include "launch/launch.h"
#include "launch/outcome.h"
#include "launch/shares.h"

enum { MAX_WORDS = 16 };

typedef struct command_case {
    const char *words[MAX_WORDS];
    const char *argv, *variables; // joined by |
} command_case;

// As caught from mpirun 4.1.4 and 5.0.11 by an agent that wrote down its arguments, shortened; the
// forms with a prefix and for sh as plm_rsh_module.c of 4.1 makes them.
static const command_case commands[] = {
        {{" orted", "-mca", "ess", "\"env\"", "-mca", "ess_base_vpid", "1", "-mca", "orte_hnp_uri",
                 "\"76480512.0;tcp://192.0.2.2:38587;tcp6://[fd00::2]:36649\"", "-mca",
                 "plm_rsh_agent", "\"/tmp/x/drover launch agent --\""},
                "orted|-mca|ess|env|-mca|ess_base_vpid|1|-mca|orte_hnp_uri|76480512.0;tcp://192.0.2.2:38587;tcp6://[fd00::2]:36649|-mca|plm_rsh_agent|/tmp/x/drover launch agent --",
                ""},
        {{"PATH=/opt/openmpi/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/opt/openmpi/lib:${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ; export LD_LIBRARY_PATH ; DYLD_LIBRARY_PATH=/opt/openmpi/lib:$DYLD_LIBRARY_PATH ; export DYLD_LIBRARY_PATH ; /opt/openmpi/bin/orted",
                 "-mca", "ess", "\"env\""},
                "/opt/openmpi/bin/orted|-mca|ess|env",
                "PATH=/opt/openmpi/bin|LD_LIBRARY_PATH=/opt/openmpi/lib|DYLD_LIBRARY_PATH=/opt/openmpi/lib"},
        {{"( test ! -r ./.profile || . ./.profile; orted", "-mca", "ess", "\"env\"", ")"},
                "orted|-mca|ess|env", ""},
        {{"PRTE_PREFIX=/v;export PRTE_PREFIX;PMIX_PREFIX=/v;export PMIX_PREFIX;LD_LIBRARY_PATH=/v/lib:/v/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;/v/bin/prted",
                 "--daemonize", "--prtemca", "ess", "\"env\""},
                "/v/bin/prted|--prtemca|ess|env",
                "PRTE_PREFIX=/v|PMIX_PREFIX=/v|LD_LIBRARY_PATH=/v/lib:/v/lib"},
        {{"orted 'a b' c\\ d \"e'f\""}, "orted|a b|c d|e'f", ""},
};

static const char *join_words(arena *a, const char *const *words, int n) {
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = arena_printf(a, "%s%s%s", text, i ? "|" : "", words[i]);
    return text;
}

static int count_words(const char *const *words) {
    int n = 0;
    while (n < MAX_WORDS && words[n])
        n++;
    return n;
}

TEST(daemons_are_understood) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        daemon_command made;
        OK(daemon_command_parse(a, commands[i].words, count_words(commands[i].words), &made));
        assert_string_equal(join_words(a, made.argv, made.n_args), commands[i].argv);
        assert_null(made.argv[made.n_args]);
        assert_string_equal(join_words(a, made.variables, made.n_variables), commands[i].variables);
    }
}

TEST(nothing_else_is_run) {
    static const char *const lines[] = {"", " ", "sh -c x", "orted; rm -rf /", "rm -rf /; orted",
            "orted | sh", "orted && sh", "orted `id`", "orted $(id)", "orted $HOME",
            "orted \"$HOME\"", "orted > /etc/passwd", "orted \"open", "orted 'open", "orted \\",
            "( orted )", "FOO=bar ; orted", "PATH=/x export PATH ; orted", "export ; orted",
            "( test ! -r ./.profile || . ./.profile; orted", "orted\nid", "/tmp/notorted",
            "LD_PRELOAD=/tmp/x.so ; orted", "PATH=/x:$PATH", "orted-wrapper", "env orted"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        daemon_command made;
        if (daemon_command_parse(a, &lines[i], 1, &made) != DRV_E_DATA)
            fail_msg("\"%s\" is taken", lines[i]);
        assert_null(strchr(drv_message(), '\n'));
    }
}

// --- messages
typedef struct line_pair {
    int fd[2];
    control of[2]; // caller, listener
} line_pair;

static void open_pair(line_pair *p, const job_secret *caller, const job_secret *listener) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
    control_open(&p->of[0], p->fd[0], true, caller);
    control_open(&p->of[1], p->fd[1], false, listener);
}

static void close_pair(line_pair *p) {
    control_close(&p->of[0]);
    control_close(&p->of[1]);
}

TEST(messages_arrive_whole) {
    const job_secret key = {{7}};
    const char *fields[] = {"a", "", "with spaces; and $(more)"};
    char *longest = mem_zeroed(CONTROL_MAX_TEXT);
    memset(longest, 'x', CONTROL_MAX_TEXT - 1);
    const char *large[] = {longest};
    line_pair p;
    open_pair(&p, &key, &key);
    control_send(&p.of[0], CONTROL_COMMAND, fields, 3);
    control_send(&p.of[0], CONTROL_RESULT, NULL, 0);
    control_send(&p.of[0], CONTROL_COMMAND, large, 1);
    int n = 0;
    for (int i = 0; i < 10000 && n < 3; i++) {
        control_message m;
        control_pump(&p.of[0]);
        control_pump(&p.of[1]);
        if (!control_take(&p.of[1], &m)) continue;
        assert_int_equal(m.n_fields, n == 0 ? 3 : n == 1 ? 0 : 1);
        for (int k = 0; k < m.n_fields; k++)
            assert_string_equal(m.field[k], n == 0 ? fields[k] : longest);
        n++;
    }
    assert_int_equal(n, 3);
    close_pair(&p);
    free(longest);
}

TEST(other_keys_and_replays_end_a_line) {
    const job_secret key = {{7}}, other = {{8}};
    char bytes[256];
    control_message m;
    line_pair p;
    open_pair(&p, &other, &key);
    control_send(&p.of[0], CONTROL_LEAVE, NULL, 0);
    control_pump(&p.of[0]);
    control_pump(&p.of[1]);
    assert_false(control_take(&p.of[1], &m));
    assert_true(p.of[1].closed);
    close_pair(&p);
    // What a side has sent is not taken from it twice, nor back.
    for (int back = 0; back < 2; back++) {
        open_pair(&p, &key, &key);
        control_send(&p.of[0], CONTROL_LEAVE, NULL, 0);
        control_pump(&p.of[0]);
        const ssize_t n = recv(p.fd[1], bytes, sizeof bytes, MSG_PEEK);
        assert_true(n > 0);
        control_pump(&p.of[1]);
        assert_true(control_take(&p.of[1], &m));
        assert_int_equal(send(p.fd[back], bytes, (size_t)n, 0), n);
        control *to = &p.of[!back];
        control_pump(to);
        assert_false(control_take(to, &m));
        assert_true(to->closed);
        close_pair(&p);
    }
}

// --- orders
TEST(an_order_is_whole) {
    static const char *const whole[] = {"2", "4", "1", "PATH=/x", "/x/orted", "-mca"};
    daemon_order order;
    OK(daemon_order_parse(whole, 6, &order));
    assert_int_equal(order.place, 2);
    assert_int_equal(order.n_nodes, 4);
    assert_string_equal(order.variables[0], "PATH=/x");
    assert_string_equal(order.argv[0], "/x/orted");
    assert_int_equal(order.n_args, 2);
    for (int n = 0; n < 5; n++) // cut
        assert_int_equal(daemon_order_parse(whole, n, &order), DRV_E_DATA);
    static const char *const wrong[][5] = {{"0", "4", "0", "orted", ""},
            {"4", "4", "0", "orted", ""}, {"1", "-1", "0", "orted", ""},
            {"1", "2", "9", "orted", ""}, {"1", "2", "0", "sh", ""},
            {"1", "2", "1", "LD_PRELOAD=/x", "orted"}, {"1", "2", "x", "orted", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(daemon_order_parse(wrong[i], 5, &order), DRV_E_DATA);
}

// --- ends
TEST(the_first_failure_is_the_jobs) {
    static const outcome done = {OUTCOME_DONE, 0, 0, DRV_OK},
                         stopped = {OUTCOME_STOPPED, 3, 1, DRV_STOPPED},
                         killed = {OUTCOME_UNREPORTED, 0, 2, DRV_E_PEER},
                         peer = {OUTCOME_PEER, 75, 0, DRV_E_PEER},
                         full = {OUTCOME_FAILED, 75, 3, DRV_E_FULL},
                         wrong = {OUTCOME_FAILED, 1, 1, DRV_E_DATA};
    static const struct {
        const outcome *x, *y;
        int launcher, status;
    } cases[] = {{&done, &done, 0, 0}, {&done, &stopped, 3, 3},
            {&peer, &killed, 137, EXIT_TRY_AGAIN}, {&peer, &full, 75, EXIT_TRY_AGAIN},
            {&wrong, &peer, 75, 1}, {&full, &wrong, 75, 1}, {&killed, &killed, 3, 3},
            {&killed, &stopped, 143, EXIT_TRY_AGAIN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome back;
        const outcome both = outcome_of_both(*cases[i].x, *cases[i].y),
                      swapped = outcome_of_both(*cases[i].y, *cases[i].x);
        assert_int_equal(outcome_status(both, cases[i].launcher), cases[i].status);
        assert_int_equal(outcome_status(swapped, cases[i].launcher), cases[i].status);
        assert_int_equal(exit_status_plain(outcome_as_status(cases[i].status)), cases[i].status);
        assert_true(outcome_parse(outcome_text(a, both), &back));
        assert_memory_equal(&back, &both, sizeof both);
    }
    static const char *const no[] = {"", "1", "1 2", "1 0 0", "6 0 0 0", "1 256 0 0", "1 0 -1 0",
            "x 0 0 0", "1 0 99999999999999 0", "5 75 0 99"};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        outcome back;
        if (outcome_parse(no[i], &back)) fail_msg("\"%s\" is taken", no[i]);
    }
}

// --- shares
TEST(devices_are_shared) {
    static const struct {
        const char *list;
        int local, n;
        const char *share;
    } cases[] = {{"0,1,2,3", 1, 2, "2,3"}, {"0-31", 31, 32, "31"}, {"0-7", 0, 2, "0,1,2,3"},
            {"GPU-5f, GPU-77", 1, 2, "GPU-77"}, {"4-5,8", 2, 3, "8"}, {"3", 0, 1, "3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *share;
        OK(devices_share(a, "CUDA_VISIBLE_DEVICES", cases[i].list, cases[i].local, cases[i].n,
                &share));
        assert_string_equal(share, cases[i].share);
    }
    const char *share;
    FAILS(devices_share(a, "CUDA_VISIBLE_DEVICES", "0,1,2", 0, 2, &share), DRV_E_USAGE,
            "CUDA_VISIBLE_DEVICES is \"0,1,2\", 3 devices, expected a multiple of the 2 ranks");
    FAILS(devices_share(a, "NEURON_RT_VISIBLE_CORES", "0,,1", 0, 1, &share), DRV_E_USAGE, "0-3");
    FAILS(devices_share(a, "NEURON_RT_VISIBLE_CORES", "0-99999", 0, 1, &share), DRV_E_USAGE, "0-3");
}

TEST(every_core_belongs_to_one_rank) {
    cpu_set_t all, share, sum, both;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int n = 1; n <= 4; n++) {
        int n_empty = 0;
        CPU_ZERO(&sum);
        for (int local = 0; local < n; local++) {
            cores_share(&all, local, n, &share);
            CPU_AND(&both, &share, &sum);
            assert_int_equal(CPU_COUNT(&both), 0);
            CPU_OR(&sum, &sum, &share);
            n_empty += CPU_COUNT(&share) == 0;
        }
        assert_true(n_empty == n || (n_empty == 0 && CPU_EQUAL(&sum, &all)));
    }
}

// --- addresses
// As Debian's /etc/hosts has it, where the host's own name is not an address that others reach.
static int resolve_in_debian(const char *path, uint32_t own) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount(path, "/etc/hosts", NULL, MS_BIND, NULL) != 0)
        return 77;
    return launch_resolve("head.test") != own ||
           launch_resolve("other.test") != inet_addr("192.0.2.77") ||
           launch_resolve("localhost") != htonl(INADDR_LOOPBACK) ||
           launch_resolve("127.0.0.5") != inet_addr("127.0.0.5");
}

TEST(a_host_has_an_address_for_others) {
    static const char hosts[] = "127.0.0.1 localhost\n127.0.1.1 head.test\n192.0.2.77 other.test\n";
    const char *path = path_join(a, temporary_dir(a), "hosts");
    host_addresses here;
    int status;
    OK(host_addresses_find(&here));
    OK(file_write_atomic(path, hosts, strlen(hosts)));
    const pid_t child = fork();
    if (child == 0) _exit(resolve_in_debian(path, here.address[0]));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (here.n == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 77)) skip();
    assert_int_equal(status, 0);
}
