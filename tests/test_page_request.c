// Requests to the page of a run: who may ask for what.
#include "watch/server/page_request.h"

#include "harness.h"

#define TOKEN   "0123456789abcdef0123456789abcdef"
#define CODE    "11111111111111111111111111111111"
#define COOKIE  "22222222222222222222222222222222"
#define METRICS "a token of our own, for Prometheus"

static const page_keys keys = {.token = TOKEN,
        .code = CODE,
        .cookie = COOKIE,
        .cookie_name = "drover_8080",
        .metrics_token = METRICS,
        .host = "run.example.org",
        .name = "node-7"};

static page_request request_of(const char *target) {
    return (page_request){.method = "GET",
            .target = target,
            .host = "127.0.0.1:8080",
            .authorization = "Bearer " TOKEN};
}

static int status_of(page_request request) {
    return page_request_check(&request, &keys).status;
}

TEST(every_path_is_found) {
    for (int i = 0; i < N_PAGE_PATHS; i++) {
        const page_request request = request_of(page_path_name((page_path)i));
        const page_answer answer = page_request_check(&request, &keys);
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.path, i);
    }
    static const char *const none[] = {"/x", "//", "/metrics/", "/Metrics", "/api", "/api/status/x",
            "/http.json", "/page.css.map", "/metrics.jsonl"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(status_of(request_of(none[i])), 404);
}

TEST(only_health_is_open) {
    for (int i = 0; i < N_PAGE_PATHS; i++) {
        page_request request = request_of(page_path_name((page_path)i));
        request.authorization = NULL;
        const bool open = i == PATH_HEALTH || i == PATH_READY;
        assert_int_equal(status_of(request), open ? 200 : 401);
    }
    page_request unknown = request_of("/x"); // nobody learns what there is
    unknown.authorization = NULL;
    assert_int_equal(status_of(unknown), 401);
}

// RFC 7617, section 2: "Aladdin:open sesame"; and lengths that leave one and two bytes over.
TEST(a_password_opens_it) {
    static const struct {
        const char *password, *given;
        bool opens;
    } rows[] = {
            {"open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", true},
            {"open sesame", "basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ", true},
            {"a:b", "Basic OmE6Yg==", true}, // no name; a colon in the password
            {"0123456789abcdef", "Basic eDowMTIzNDU2Nzg5YWJjZGVm", true},
            {"0123456789abcde", "Basic eHg6MDEyMzQ1Njc4OWFiY2Rl", true},
            {"open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZSE=", false}, // "!" after it
            {"open sesame", "Basic b3BlbiBzZXNhbWU=", false},             // no name
            {"open sesame", "Bearer open sesame", false}, {"open sesame", "Basic ", false},
            {"open sesame", "Basic ====", false},
            {"open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZ*==", false},
            {"open sesame", NULL, false}, {"", "Basic OmE6Yg==", false}, // there is none
            {"", "Basic Og==", false},                                   // ":"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const page_keys with = {.password = rows[i].password};
        page_request request = request_of("/");
        request.authorization = rows[i].given;
        if (rows[i].password) request.host = "run-page.team.svc:8080"; // any name of the Service
        const page_answer answer = page_request_check(&request, &with);
        if ((answer.status == 200) != rows[i].opens)
            fail_msg("%s: %d %s", rows[i].given, answer.status, answer.why);
    }
}

TEST(a_password_may_be_long) {
    static char longest[TOKEN_MAX * 2] = "Basic ";
    const page_keys with = {.password = "open sesame"};
    page_request request = request_of("/");
    memset(longest + 6, 'A', sizeof longest - 7);
    request.authorization = longest;
    assert_int_equal(page_request_check(&request, &with).status, 401);
}

TEST(tokens_are_compared_whole) {
    static const char *const wrong[] = {"", "Bearer", "Bearer ", "Bearer " COOKIE, "Bearer " CODE,
            "Basic " TOKEN, TOKEN, "Bearer 0123456789abcdef0123456789abcde", "Bearer " TOKEN "0",
            "Bearer " TOKEN TOKEN, "Bearer " TOKEN " x", "Bearer " METRICS};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        page_request request = request_of("/");
        request.authorization = wrong[i];
        if (status_of(request) != 401) fail_msg("\"%s\" opens the page", wrong[i]);
    }
    page_request request = request_of("/");
    request.authorization = "bearer   " TOKEN;
    assert_int_equal(status_of(request), 200);
}

TEST(metrics_have_a_token_of_their_own) {
    page_request request = request_of("/metrics");
    page_keys none = keys;
    request.authorization = "Bearer " METRICS;
    assert_int_equal(status_of(request), 200);
    none.metrics_token[0] = 0; // an empty token is none, not one that everybody has
    assert_int_equal(page_request_check(&request, &none).status, 401);
    request.authorization = "Bearer ";
    assert_int_equal(page_request_check(&request, &none).status, 401);
}

TEST(cookies_are_found_among_others) {
    static const struct {
        const char *text;
        int status;
    } cases[] = {{"drover_8080=" COOKIE, 200}, {"a=b; drover_8080=" COOKIE "; c=d", 200},
            {"drover_8080=x; drover_8080=" COOKIE, 200}, {"drover_8081=" COOKIE, 401},
            {"xdrover_8080=" COOKIE, 401}, {"drover_8080=" COOKIE "0", 401},
            {"drover_8080=" TOKEN, 401}, {"drover_8080=", 401}, {"drover_8080", 401},
            {";;; =", 401}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        page_request request = request_of("/api/status");
        request.authorization = NULL;
        request.cookie = cases[i].text;
        if (status_of(request) != cases[i].status) fail_msg("cookie \"%s\"", cases[i].text);
    }
}

TEST(the_code_is_of_the_page_alone) {
    page_request request = request_of("/?code=" CODE);
    page_keys used = keys;
    request.authorization = NULL;
    assert_int_equal(status_of(request), 303);
    used.code[0] = 0;
    assert_int_equal(page_request_check(&request, &used).status, 401);
    static const char *const wrong[] = {"/?code=", "/?code=" TOKEN, "/?code=" CODE "&x=1",
            "/?x=1&code=" CODE, "/metrics?code=" CODE, "/?token=" TOKEN, "/?code=" COOKIE};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request.target = wrong[i];
        if (status_of(request) != 401) fail_msg("\"%s\" is let in", wrong[i]);
    }
}

TEST(other_hosts_and_origins_are_refused) {
    static const char *const ours[] = {"127.0.0.1:8080", "10.0.0.7", "[::1]:9", "localhost:1",
            "LOCALHOST", "run.example.org:8080", "node-7"};
    static const char *const others[] = {NULL, "", "evil.example", "127.0.0.1.evil.example:8080",
            "localhost.evil.example", "8080", "a b", "run.example.org.evil", "user@localhost"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        page_request request = request_of("/");
        char origin[64];
        snprintf(origin, sizeof origin, "http://%s", ours[i]);
        request.host = ours[i];
        request.origin = origin;
        assert_int_equal(status_of(request), 200);
        request.origin = "https://evil.example";
        assert_int_equal(status_of(request), 403);
        request.origin = "null";
        assert_int_equal(status_of(request), 403);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        page_request request = request_of("/healthz");
        request.host = others[i];
        assert_int_equal(status_of(request), 403);
    }
}

TEST(methods_bodies_and_odd_targets_are_refused) {
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT",
            "get", "", "GETT"};
    static const char *const targets[] = {"", "x", "*", "http://127.0.0.1/", "/../etc/passwd",
            "/%2e%2e/x", "/a\\b", "/\x01", "/\xff", "/a b", "/a;b", "/..", "/api/../metrics",
            "/%00", "/#x"};
    page_request request = request_of("/");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        request.method = methods[i];
        assert_int_equal(status_of(request), 405);
    }
    request.method = "HEAD";
    assert_int_equal(status_of(request), 200);
    request.probe_alone = true; // where many ask, it is refused whoever it is, and probes are not
    assert_int_equal(status_of(request), 503);
    request.target = "/healthz";
    assert_int_equal(status_of(request), 200);
    request.has_body = true;
    assert_int_equal(status_of(request), 413);
    request.broken = true;
    assert_int_equal(status_of(request), 400);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (status_of(request_of(targets[i])) != 400) fail_msg("target \"%s\"", targets[i]);
    char longest[3000];
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "/?x=", 4);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(status_of(request_of(longest)), 400);
}

TEST(queries_are_read) {
    const page_request request = request_of("/api/metrics?from=9007199254740993");
    assert_int_equal(page_request_check(&request, &keys).from, 9007199254740993);
    const page_request none = request_of("/api/metrics");
    assert_int_equal(page_request_check(&none, &keys).status, 200);
    assert_int_equal(page_request_check(&none, &keys).from, 0);
    static const char *const wrong[] = {"/api/metrics?",
            "/api/metrics?from=", "/api/metrics?from=-1", "/api/metrics?from=1e3",
            "/api/metrics?from=99999999999999999999", "/api/metrics?from=1&from=2",
            "/api/metrics?to=1", "/api/metrics?from=%31", "/api/metrics?from=1x", "/metrics?x=1",
            "/healthz?x", "/?x=1"};
    assert_int_equal(status_of(request_of(wrong[0])), 200); // nothing asked for: all
    for (size_t i = 1; i < sizeof wrong / sizeof *wrong; i++)
        if (status_of(request_of(wrong[i])) != 400) fail_msg("target \"%s\"", wrong[i]);
}
