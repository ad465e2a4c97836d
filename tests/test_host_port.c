// Addresses as they are written: what is one, and what it says.
#include "base/host_port.h"

#include "harness.h"

TEST(addresses_are_read) {
    static const struct {
        const char *text, *host;
        int port;
    } cases[] = {{"8080", "", 8080}, {"0", "", 0}, {"65535", "", 65535},
            {"localhost", "localhost", -1}, {"node-1.cluster:80", "node-1.cluster", 80},
            {"127.0.0.1:0", "127.0.0.1", 0}, {"0.0.0.0:9090", "0.0.0.0", 9090},
            {"[::1]:5", "::1", 5}, {"[fe80::1]", "fe80::1", -1}, {"a_b:1", "a_b", 1},
            {"10.1.2.3", "10.1.2.3", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host_port at;
        assert_true(host_port_parse(cases[i].text, &at));
        assert_string_equal(at.host, cases[i].host);
        assert_int_equal(at.port, cases[i].port);
    }
}

TEST(what_is_none_is_refused) {
    static const char *const cases[] = {"", ":", ":80", "host:", "host:65536", "host:8a", "a b:1",
            "a/b", "a@b:1", "::1", "::1:80", "[::1", "[]:1", "[host]:1", "[1.2.3.4]:1", "[::1]x",
            "[::1]80", "h\xc3\xa9:1", "a:1:2", "a\n:1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host_port at = {.port = 7};
        if (host_port_parse(cases[i], &at)) fail_msg("\"%s\" is taken", cases[i]);
        assert_int_equal(at.port, 7);
    }
    char longest[400];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    host_port at;
    assert_false(host_port_parse(longest, &at));
    longest[HOST_BYTES - 1] = 0;
    assert_true(host_port_parse(longest, &at));
}

TEST(names_are_told_from_addresses) {
    assert_true(host_is_address("127.0.0.1") && host_is_address("::1"));
    assert_false(host_is_address("localhost") || host_is_address("127.0.0.1.example.org") ||
                 host_is_address("1234") || host_is_address(""));
}
