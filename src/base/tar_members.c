// Blocks of 512 bytes: a header, then the bytes of the member, padded (POSIX.1-1988 and -2001, pax;
// GNU tar manual, "Basic Tar Format").
#include "base/tar_members.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { MAX_ABOUT = 1 << 20 }; // bytes of a name, or of a pax header

struct tar_members {
    tar_input input;
    str name, about;
    int64_t left;       // bytes of the member at hand
    int padding;        // behind them
    int64_t number;     // of members, with headers that describe the next member
    int64_t said_bytes; // by pax, of the next member; -1: not said
    bool named;         // `name` is of the next member, by GNU or pax
};

tar_members *tar_members_open(const tar_input *input) {
    tar_members *tar = mem_alloc(sizeof *tar);
    *tar = (tar_members){.input = *input, .said_bytes = -1};
    return tar;
}

void tar_members_close(tar_members *tar) {
    if (!tar) return;
    str_free(&tar->name);
    str_free(&tar->about);
    free(tar);
}

static drv_status odd_member(const tar_members *tar, const char *why) {
    return drv_fail(DRV_E_DATA, "%s: member %lld of the tar archive: %s", tar->input.name,
            (long long)tar->number, why);
}

static drv_status refuse_sparse(const tar_members *tar) {
    return odd_member(tar, "is sparse, which is not read; GNU tar without --sparse writes others");
}

// --- headers
// Reads a number in octal digits or, if the first bit is set, in bytes. False: it is neither.
static bool number_at(const unsigned char *p, size_t n, int64_t *out) {
    uint64_t x = 0;
    size_t i = 0;
    if (*p & 0x80) {
        x = *p & 0x7F;
        for (i = 1; i < n; i++) {
            if (x >> 54) return false;
            x = x << 8 | p[i];
        }
        *out = (int64_t)x;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    const size_t first = i;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        x = x << 3 | (uint64_t)(p[i] - '0');
    *out = (int64_t)x;
    return i > first && (i == n || p[i] == ' ' || !p[i]);
}

bool tar_is_header(const unsigned char *block) {
    enum { AT = 148, N = 8 };
    int64_t said, sum = 0, signed_sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++) {
        const bool own = i >= AT && i < AT + N;
        sum += own ? ' ' : block[i];
        signed_sum += own ? ' ' : (signed char)block[i]; // as some old programs add
    }
    return number_at(block + AT, N, &said) && (said == sum || said == signed_sum);
}

// Reads a header; *done: the archive ends here, with a block of zeros or without.
static drv_status read_header(tar_members *tar, unsigned char *block, bool *done) {
    size_t got;
    DRV_TRY(tar->input.read(tar->input.ctx, (char *)block, TAR_BLOCK, &got));
    *done = got == 0;
    if (*done && tar->number > 0) return DRV_OK;
    tar->number++;
    if (got < TAR_BLOCK) return odd_member(tar, "is cut short within its header of 512 bytes");
    *done = true;
    for (int i = 0; i < TAR_BLOCK && *done; i++)
        *done = block[i] == 0;
    if (!*done && !tar_is_header(block))
        return odd_member(tar, "has a header that does not fit its checksum");
    return DRV_OK;
}

static drv_status pass(tar_members *tar, int64_t n) {
    int64_t got;
    DRV_TRY(tar->input.skip(tar->input.ctx, n, &got));
    return got == n ? DRV_OK : odd_member(tar, "is cut short");
}

drv_status tar_members_take(tar_members *tar, str *out) {
    enum { STEP = 1 << 20 };
    while (tar->left) {
        const size_t want = tar->left < STEP ? (size_t)tar->left : STEP;
        size_t got;
        str_reserve(out, want);
        DRV_TRY(tar->input.read(tar->input.ctx, out->p + out->n, want, &got));
        out->n += got;
        out->p[out->n] = 0;
        tar->left -= (int64_t)got;
        if (got < want) return odd_member(tar, "is cut short");
    }
    return DRV_OK;
}

// --- members about the next one
static bool has_key(const char *key, size_t n, const char *name) {
    return strlen(name) == n && memcmp(key, name, n) == 0;
}

// Applies a pax record to the next member.
static drv_status take_pax(tar_members *tar, const char *key, size_t n_key, const char *value,
        size_t n_value, bool is_global) {
    if (n_key >= 10 && memcmp(key, "GNU.sparse", 10) == 0) return refuse_sparse(tar);
    if (is_global) return DRV_OK;
    if (has_key(key, n_key, "path")) {
        str_clear(&tar->name);
        str_add(&tar->name, value, n_value);
        tar->named = true;
    }
    if (has_key(key, n_key, "size")) {
        char *after;
        tar->said_bytes = strtoll(value, &after, 10);
        if (after != value + n_value || n_value == 0 || tar->said_bytes < 0 ||
                tar->said_bytes > INT64_MAX / 2)
            return odd_member(tar, "is a pax header with a size that is no number");
    }
    return DRV_OK;
}

// Reads the records "LENGTH key=value\n" of a pax header.
static drv_status read_pax(tar_members *tar, bool is_global) {
    const char *left = tar->about.p ? tar->about.p : "", *end = left + tar->about.n;
    for (const char *next; left < end; left = next) {
        char *key;
        const unsigned long n = strtoul(left, &key, 10);
        const bool fits = key != left && *key == ' ' && n <= (size_t)(end - left) &&
                          n > (size_t)(key + 1 - left);
        if (!fits || left[n - 1] != '\n')
            return odd_member(tar, "is a pax header with a broken record");
        next = left + n;
        key++;
        const char *equals = memchr(key, '=', (size_t)(next - key));
        if (!equals) return odd_member(tar, "is a pax header with a record without a value");
        DRV_TRY(take_pax(tar, key, (size_t)(equals - key), equals + 1,
                (size_t)(next - 1 - (equals + 1)), is_global));
    }
    return DRV_OK;
}

// Takes a long name or a pax header; *is: the member is one.
static drv_status read_about(tar_members *tar, char type, int64_t bytes, bool *is) {
    *is = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!*is) return DRV_OK;
    if (bytes > MAX_ABOUT) return odd_member(tar, "is a name or a pax header of more than 1 MiB");
    tar->left = bytes;
    str_clear(&tar->about);
    DRV_TRY(tar_members_take(tar, &tar->about));
    if (type == 'x' || type == 'g') return read_pax(tar, type == 'g');
    if (type == 'K') return DRV_OK; // what a link leads to
    str_clear(&tar->name);
    str_puts(&tar->name, tar->about.p ? tar->about.p : ""); // up to the NUL
    tar->named = true;
    return DRV_OK;
}

static void take_name(tar_members *tar, const unsigned char *block) {
    enum { NAME = 100, MAGIC_AT = 257, PREFIX_AT = 345, PREFIX = 155 };
    const char *name = (const char *)block, *prefix = name + PREFIX_AT;
    if (tar->named) return;
    str_clear(&tar->name);
    if (memcmp(block + MAGIC_AT, "ustar", 6) == 0 && *prefix) {
        str_add(&tar->name, prefix, strnlen(prefix, PREFIX));
        str_puts(&tar->name, "/");
    }
    str_add(&tar->name, name, strnlen(name, NAME));
}

drv_status tar_members_next(tar_members *tar, tar_member *out, bool *done) {
    enum { SIZE_AT = 124, SIZE = 12, TYPE_AT = 156 };
    unsigned char block[TAR_BLOCK];
    for (tar->named = false, tar->said_bytes = -1;;) {
        DRV_TRY(pass(tar, tar->left));
        tar->left = 0;
        DRV_TRY(pass(tar, tar->padding));
        tar->padding = 0;
        DRV_TRY(read_header(tar, block, done));
        if (*done) return DRV_OK;
        const char type = (char)block[TYPE_AT];
        int64_t bytes;
        bool is_about;
        if (!number_at(block + SIZE_AT, SIZE, &bytes))
            return odd_member(tar, "has a size that is no number");
        if (type == 'S') return refuse_sparse(tar);
        if (type >= '1' && type <= '6') bytes = 0; // links, devices, folders
        const bool is_file = type == '0' || type == 0 || type == '7';
        if (is_file && tar->said_bytes >= 0) bytes = tar->said_bytes;
        tar->padding = (int)((TAR_BLOCK - bytes % TAR_BLOCK) % TAR_BLOCK);
        DRV_TRY(read_about(tar, type, bytes, &is_about));
        if (is_about) continue;
        take_name(tar, block);
        tar->left = bytes;
        *out = (tar_member){tar->name.p ? tar->name.p : "", bytes, is_file};
        return DRV_OK;
    }
}
