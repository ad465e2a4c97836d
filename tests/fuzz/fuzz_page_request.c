// A request's lines: method, target, Host, Origin, Authorization, Cookie. Whatever they are,
// nothing but the two open paths answers whom the secrets are unknown to.
#include "fuzz.h"

#include "watch/server/page_request.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const page_keys keys = {.token = "0123456789abcdef0123456789abcdef",
            .code = "11111111111111111111111111111111",
            .cookie = "22222222222222222222222222222222",
            .cookie_name = "drover_8080",
            .metrics_token = "a token of our own",
            .host = "run.example.org",
            .name = "node-7"};
    char *rest = arena_strndup(a, (const char *)bytes, n_bytes), *lines[6] = {0};
    for (int i = 0; i < 6 && rest; i++)
        lines[i] = strsep(&rest, "\n");
    const page_request request = {.method = lines[0] ? lines[0] : "",
            .target = lines[1] ? lines[1] : "",
            .host = lines[2],
            .origin = lines[3] && *lines[3] ? lines[3] : NULL,
            .authorization = lines[4],
            .cookie = lines[5],
            .has_body = rest != NULL};
    const page_answer answer = page_request_check(&request, &keys);
    const char *all = (const char *)bytes;
    const bool knows =
            memmem(all, n_bytes, keys.token, 32) || memmem(all, n_bytes, keys.code, 32) ||
            memmem(all, n_bytes, keys.cookie, 32) || memmem(all, n_bytes, keys.metrics_token, 18);
    if (answer.status == 200) {
        DRV_ASSERT(answer.path < N_PAGE_PATHS && answer.from >= 0, "what it asks for");
        DRV_ASSERT(knows || answer.path == PATH_HEALTH || answer.path == PATH_READY, "a secret");
        DRV_ASSERT(!request.has_body, "no body");
    } else {
        DRV_ASSERT(answer.status == 303 ? knows : *answer.why != 0, "a reason");
    }
}
