// The proof of a secret: HMAC-SHA256 by its published vectors; two who know the secret agree, and
// whoever does not, says too much, replays, reflects or is slow is refused without holding up others.
#include "harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/handshake.h"

enum { LONGEST_S = 60 };

// RFC 4231, test cases 1, 2 and 6 (a key longer than a block).
TEST(published_vectors) {
    unsigned char key[131], code[HMAC_BYTES];
    static const struct {
        int key_bytes;
        const char *key, *data, *code;
    } cases[] = {{20, "\x0b", "Hi There",
                         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
            {4, NULL, "what do ya want for nothing?",
                    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
            {131, "\xaa", "Test Using Larger Than Block-Size Key - Hash Key First",
                    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2 * HMAC_BYTES + 1];
        memset(key, cases[i].key ? (unsigned char)*cases[i].key : 0, sizeof key);
        if (!cases[i].key) memcpy(key, "Jefe", 4);
        OK(hmac_sha256(key, (size_t)cases[i].key_bytes, cases[i].data, strlen(cases[i].data),
                code));
        for (int k = 0; k < HMAC_BYTES; k++)
            snprintf(text + 2 * k, 3, "%02x", code[k]);
        assert_string_equal(text, cases[i].code);
    }
}

typedef struct socket_pair {
    int fd[2]; // caller, listener
} socket_pair;

static socket_pair join(void) {
    socket_pair l;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, l.fd), 0);
    return l;
}

static void part(socket_pair *l) {
    close(l->fd[0]), close(l->fd[1]);
}

static void run_both(handshake *caller, handshake *listener) {
    for (int i = 0; i < 10; i++) {
        handshake_go_on(caller);
        if (caller->state == HANDSHAKE_REFUSED) shutdown(caller->fd, SHUT_RDWR);
        handshake_go_on(listener);
        if (listener->state == HANDSHAKE_REFUSED) shutdown(listener->fd, SHUT_RDWR);
    }
}

TEST(both_must_know_it) {
    job_secret mine, other;
    OK(secret_make(&mine));
    OK(secret_make(&other));
    for (int wrong = 0; wrong < 3; wrong++) { // 0: none, 1: the secret, 2: the purpose
        handshake caller, listener;
        socket_pair l = join();
        handshake_begin(&listener, l.fd[1], false, &mine, "one", LONGEST_S);
        handshake_begin(&caller, l.fd[0], true, wrong == 1 ? &other : &mine,
                wrong == 2 ? "two" : "one", LONGEST_S);
        run_both(&caller, &listener);
        const handshake_state want = wrong ? HANDSHAKE_REFUSED : HANDSHAKE_PROVEN;
        assert_int_equal(listener.state, want);
        assert_int_equal(caller.state, want);
        // What is sent afterwards is not read by the handshake.
        char byte = 'x';
        if (!wrong) assert_int_equal(send(l.fd[0], "y", 1, MSG_NOSIGNAL), 1);
        if (!wrong) assert_int_equal(recv(l.fd[1], &byte, 1, 0), 1);
        assert_int_equal(byte, wrong ? 'x' : 'y');
        part(&l);
    }
}

// A stranger in the place of the listener who sends back what it gets, and one in the place of the
// caller who says again what it has heard.
TEST(nothing_holds_twice) {
    job_secret secret;
    OK(secret_make(&secret));
    char heard[NONCE_BYTES + HMAC_BYTES];
    socket_pair l = join();
    handshake caller, listener;
    handshake_begin(&caller, l.fd[0], true, &secret, "one", LONGEST_S);
    assert_int_equal(send(l.fd[1], "0123456789abcdef", NONCE_BYTES, 0), NONCE_BYTES);
    handshake_go_on(&caller);
    assert_int_equal(recv(l.fd[1], heard, sizeof heard, 0), sizeof heard);
    assert_int_equal(send(l.fd[1], heard + NONCE_BYTES, HMAC_BYTES, 0), HMAC_BYTES);
    assert_int_equal(handshake_go_on(&caller), HANDSHAKE_REFUSED); // reflected
    part(&l);
    l = join();
    handshake_begin(&listener, l.fd[1], false, &secret, "one", LONGEST_S);
    assert_int_equal(send(l.fd[0], heard, sizeof heard, 0), sizeof heard);
    assert_int_equal(handshake_go_on(&listener), HANDSHAKE_REFUSED); // replayed
    part(&l);
}

TEST(who_is_slow_is_refused) {
    job_secret secret;
    OK(secret_make(&secret));
    handshake listener;
    socket_pair l = join();
    handshake_begin(&listener, l.fd[1], false, &secret, "one", 0.01);
    assert_int_equal(send(l.fd[0], "x", 1, 0), 1);
    const double end = clock_s() + LONGEST_S;
    while (handshake_go_on(&listener) == HANDSHAKE_UNDERWAY && clock_s() < end)
        usleep(1000);
    assert_int_equal(listener.state, HANDSHAKE_REFUSED);
    part(&l);
}

static int listen_here(struct sockaddr_in *at) {
    socklen_t n = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)at, n), 0);
    assert_int_equal(listen(fd, 4 * MAX_CALLERS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &n), 0);
    return fd;
}

static int call(const struct sockaddr_in *at) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

// More strangers than there are places, before and after one who knows the secret.
TEST(strangers_hold_up_nobody) {
    enum { STRANGERS = MAX_CALLERS + 10 };
    int strangers[STRANGERS];
    job_secret secret;
    struct sockaddr_in at;
    OK(secret_make(&secret));
    const int port = listen_here(&at);
    reception *callers = reception_open(port, &secret, "one");
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = call(&at);
        assert_int_equal(send(strangers[i], "x", 1, MSG_NOSIGNAL), 1);
        assert_int_equal(reception_serve(callers, NULL), -1);
    }
    handshake known;
    handshake_begin(&known, call(&at), true, &secret, "one", LONGEST_S);
    int fd = -1;
    const double end = clock_s() + LONGEST_S;
    while ((fd < 0 || known.state == HANDSHAKE_UNDERWAY) && clock_s() < end) {
        struct pollfd fds[MAX_CALLERS + 1];
        poll(fds, (nfds_t)reception_fds(callers, fds), 1);
        if (fd < 0) fd = reception_serve(callers, NULL);
        handshake_go_on(&known);
    }
    assert_true(fd >= 0);
    assert_int_equal(known.state, HANDSHAKE_PROVEN);
    reception_close(callers);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    close(fd), close(known.fd), close(port);
}

// Whoever has given its proof is heard, whatever number has come after it.
TEST(a_flood_pushes_out_nobody_unheard) {
    enum { FLOOD = 2 * MAX_CALLERS };
    int strangers[FLOOD];
    job_secret secret;
    struct sockaddr_in at;
    OK(secret_make(&secret));
    const int port = listen_here(&at), known_fd = call(&at);
    reception *callers = reception_open(port, &secret, "one");
    handshake known;
    handshake_begin(&known, known_fd, true, &secret, "one", LONGEST_S);
    assert_int_equal(reception_serve(callers, NULL), -1);
    struct pollfd p = {known_fd, POLLIN, 0};
    assert_int_equal(poll(&p, 1, LONGEST_S * 1000), 1);
    handshake_go_on(&known); // its proof is on its way
    for (int i = 0; i < FLOOD; i++)
        strangers[i] = call(&at);
    int fd = -1;
    for (int i = 0; i < 4 && fd < 0; i++)
        fd = reception_serve(callers, NULL);
    assert_true(fd >= 0);
    reception_close(callers);
    for (int i = 0; i < FLOOD; i++)
        close(strangers[i]);
    close(fd), close(known_fd), close(port);
}

int main(void) {
    alarm(5 * LONGEST_S);
    return tests_run();
}
