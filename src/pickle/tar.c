// Goes through an archive by its headers alone.
#include "pickle/tar.h"

#include "base/tar_members.h"

enum { MOST_MEMBERS = 1 << 20 };

typedef struct part_reader {
    const file_part *part;
    int64_t next; // byte of the part
} part_reader;

static drv_status skip(void *ctx, int64_t n, int64_t *got) {
    part_reader *from = ctx;
    const int64_t left = from->part->size - from->next;
    *got = n < left ? n : left;
    from->next += *got;
    return DRV_OK;
}

static drv_status read_part(void *ctx, char *out, size_t n, size_t *got) {
    part_reader *from = ctx;
    const int64_t first = from->next;
    int64_t there;
    DRV_TRY(skip(ctx, (int64_t)n, &there));
    *got = (size_t)there;
    return there ? file_part_read(from->part, first, there, out) : DRV_OK;
}

bool tar_is_tar(const file_part *part) {
    unsigned char block[TAR_BLOCK];
    return part->size >= TAR_BLOCK && file_part_read(part, 0, TAR_BLOCK, block) == DRV_OK &&
           tar_is_header(block);
}

static drv_status add_member(arena *a, const part_reader *from, const tar_member *m,
        tar_file *out) {
    const file_part *part = from->part;
    const char *name = m->name;
    while (str_starts(name, "./"))
        name += 2;
    if (m->bytes > part->size - from->next)
        return drv_fail(DRV_E_DATA, "%s: \"%.200s\" reaches beyond the end of the archive",
                part->path, name);
    if (out->n == MOST_MEMBERS)
        return drv_fail(DRV_E_DATA, "%s: has more than %d files", part->path, MOST_MEMBERS);
    ARENA_GROW(a, out->members, out->n, out->cap);
    out->members[out->n] = (tar_place){.name = arena_strdup(a, name), .part = *part};
    out->members[out->n].part.base += from->next;
    out->members[out->n++].part.size = m->bytes;
    return DRV_OK;
}

drv_status tar_read(arena *a, const file_part *part, tar_file *out) {
    part_reader from = {.part = part};
    tar_members *tar = tar_members_open(&(tar_input){part->path, read_part, skip, &from});
    drv_status status = DRV_OK;
    *out = (tar_file){0};
    for (bool done = false; status == DRV_OK && !done;) {
        tar_member member;
        status = tar_members_next(tar, &member, &done);
        if (status == DRV_OK && !done && member.is_file)
            status = add_member(a, &from, &member, out);
    }
    tar_members_close(tar);
    return status;
}
