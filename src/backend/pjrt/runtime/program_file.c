// Writes and checks files of compiled programs.
#include "backend/pjrt/runtime/program_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/str.h"

// File: this head, then the payload. Little-endian, as the machines that plugins are for.
typedef struct file_head {
    char magic[8];
    uint64_t n_payload;
    uint64_t hash[2]; // of the bytes after it
    program_about about;
} file_head;
static const char magic[] = "drvprog5";
enum { HASHED_FROM = offsetof(file_head, about) };

void program_hash(const void *bytes, size_t n, uint64_t out[2]) {
    const XXH128_hash_t hash = XXH3_128bits(bytes, n);
    out[0] = hash.high64;
    out[1] = hash.low64;
}

void program_about_set(char to[ABOUT_TEXT], const char *text) {
    snprintf(to, ABOUT_TEXT, "%s", text);
}

static bool ends(const char text[ABOUT_TEXT]) {
    return memchr(text, '\0', ABOUT_TEXT) != NULL;
}

drv_status program_file_check(const unsigned char *bytes, size_t n, program_about *about,
        const unsigned char **payload, size_t *n_payload) {
    file_head head;
    uint64_t hash[2];
    if (n < sizeof head)
        return drv_fail(DRV_E_DATA, "%zu bytes, expected %zu or more", n, sizeof head);
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof head.magic) != 0)
        return drv_fail(DRV_E_DATA, "it does not begin with \"%s\"", magic);
    if (head.n_payload != n - sizeof head)
        return drv_fail(DRV_E_DATA, "the program has %zu bytes, expected %llu", n - sizeof head,
                (unsigned long long)head.n_payload);
    program_hash(bytes + HASHED_FROM, n - HASHED_FROM, hash);
    const program_about *said = &head.about;
    if (memcmp(hash, head.hash, sizeof hash) != 0 || !ends(said->program) || !ends(said->plugin) ||
            !ends(said->kind) || !ends(said->interface) || !ends(said->drover))
        return drv_fail(DRV_E_DATA, "its hash does not match its contents");
    *about = head.about;
    *payload = bytes + sizeof head;
    *n_payload = n - sizeof head;
    return DRV_OK;
}

// Returns "PATH.HOST.PROCESS.COUNT", which is unique even if machines share a folder.
static const char *aside_of(arena *a, const char *path) {
    static atomic_int count;
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '_';
    return arena_printf(a, "%s.%s.%ld.%d", path, host, (long)getpid(), atomic_fetch_add(&count, 1));
}

drv_status program_file_write(const char *path, const program_about *about, const void *payload,
        size_t n) {
    arena *a = arena_new("program file");
    str bytes = {0};
    file_head head = {.n_payload = n, .about = *about};
    memcpy(head.magic, magic, sizeof head.magic);
    str_add(&bytes, &head, sizeof head);
    str_add(&bytes, payload, n);
    program_hash(bytes.p + HASHED_FROM, bytes.n - HASHED_FROM, head.hash);
    memcpy(bytes.p, &head, sizeof head);
    const char *aside = aside_of(a, path);
    drv_status status = dir_make_parent(path);
    if (status == DRV_OK) status = file_write_atomic(aside, bytes.p, bytes.n);
    if (status == DRV_OK && rename(aside, path) != 0) {
        status = file_fail("rename into place", path);
        unlink(aside);
    }
    str_free(&bytes);
    arena_free(a);
    return status;
}
