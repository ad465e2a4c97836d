// Opens files of torch.save in both forms, and finds their storages.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "pickle/torch_tensor_internal.h"

enum { FIRST_WINDOW = 1 << 20, MAX_PICKLE = 1 << 30, OLD_BEGINNING = 24 };

static const char data_name[] = "/data.pkl";

static drv_status bad(const torch_file *f, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: %s", f->part.path, what);
}

// Reads the next pickle of the bytes.
static drv_status read_pickle(arena *a, torch_file *f, const torch_opts *opts, int64_t at, size_t n,
        pickle *out) {
    const pickle_opts pickle_options = {.names = torch_names,
            .more_names = opts->more_names,
            .max_values = opts->max_values};
    return pickle_read(a, f->part.path, f->part.base + at, f->bytes, n, &pickle_options, out);
}

static drv_status load_bytes(torch_file *f, int64_t at, int64_t n) {
    if (n > MAX_PICKLE)
        return drv_fail(DRV_E_DATA, "%s: its pickle has more than %s", f->part.path,
                str_bytes(MAX_PICKLE));
    free(f->bytes);
    f->bytes = mem_alloc((size_t)n + 1);
    return file_part_read(&f->part, at, n, f->bytes);
}

static void add_storage(arena *a, torch_file *f, const char *key, int64_t at, int64_t bytes) {
    torch_storage *storage = ARENA_NEW(a, torch_storage);
    *storage = (torch_storage){at, bytes};
    name_map_set(&f->storages, key, storage);
}

// --- the zip form
static drv_status check_byte_order(arena *a, const torch_file *f, const zip_file *zip,
        const char *folder) {
    const zip_entry *e = zip_find(zip, arena_printf(a, "%s/byteorder", folder));
    char order[8] = "";
    if (!e) return DRV_OK; // older releases write what the machine has: little-endian by now
    if (e->bytes < (int64_t)sizeof order)
        DRV_TRY(file_part_read(&f->part, e->offset, e->bytes, order));
    if (strcmp(order, "little") == 0) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: its byte order is \"%s\", expected \"little\"", f->part.path,
            order);
}

static drv_status open_zip(arena *a, torch_file *f, const torch_opts *opts, pickle *out) {
    zip_file zip;
    const zip_entry *data = NULL;
    DRV_TRY(zip_read(a, &f->part, &zip));
    for (int i = 0; i < zip.n && !data; i++) {
        const char *slash = strchr(zip.entries[i].name, '/');
        if (slash && strcmp(slash, data_name) == 0) data = &zip.entries[i];
    }
    if (!data) return bad(f, "is a zip file without NAME/data.pkl, so torch.save did not write it");
    const int n_folder = (int)(strlen(data->name) - strlen(data_name));
    const char *folder = arena_printf(a, "%.*s", n_folder, data->name),
               *below = arena_printf(a, "%s/data/", folder);
    if (zip_find(&zip, arena_printf(a, "%s/constants.pkl", folder)))
        return bad(f, "is a program of torch.jit, expected a file of torch.save");
    DRV_TRY(check_byte_order(a, f, &zip, folder));
    for (int i = 0; i < zip.n; i++)
        if (str_starts(zip.entries[i].name, below))
            add_storage(a, f, zip.entries[i].name + strlen(below), zip.entries[i].offset,
                    zip.entries[i].bytes);
    DRV_TRY(load_bytes(f, data->offset, data->bytes));
    return read_pickle(a, f, opts, data->offset, (size_t)data->bytes, out);
}

// --- the older form
// The first pickle is the number 0x1950a86a20f9469cfc6c: opcode LONG1, 10, and its bytes. A
// protocol and a frame may stand before it.
static bool is_old(const unsigned char *p, size_t n) {
    static const unsigned char magic[] = {0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8,
            0x50, 0x19};
    return n && memmem(p, n, magic, sizeof magic);
}

// Reads a pickle at a byte of the file, whose length only its end tells: more of the file while it
// reaches beyond what was read. The values are in `a`, the bytes in f->bytes.
static drv_status read_pickle_at(arena *a, torch_file *f, const torch_opts *opts, int64_t at,
        pickle *out) {
    const int64_t left = f->part.size - at;
    for (int64_t window = FIRST_WINDOW;; window *= 4) {
        if (window > left) window = left;
        DRV_TRY(load_bytes(f, at, window));
        const drv_status status = read_pickle(a, f, opts, at, (size_t)window, out);
        if (status == DRV_OK || window == left || !pickle_ended_early()) return status;
    }
}

static drv_status check_facts(const torch_file *f, const pickle_value *facts) {
    const pickle_value *little = pickle_get(facts, "little_endian");
    if (little && little->kind == PICKLE_BOOL && little->integer) return DRV_OK;
    return bad(f, "was written on a big-endian machine, expected little_endian to be True");
}

// Returns, by key, the bytes of an element of the storages that the pickle names.
static drv_status element_sizes(arena *a, const torch_file *f, const pickle *p, name_map *out) {
    *out = (name_map){.a = a};
    for (int i = 0; i < p->persistent.n; i++) {
        const torch_type *type, *before;
        const char *key;
        int64_t elements;
        DRV_TRY(torch_storage_id(a, f->part.path, p->persistent.items[i], &type, &key, &elements));
        before = name_map_get(out, key);
        if (before && before->bytes != type->bytes)
            return drv_fail(DRV_E_DATA, "%s: storage \"%.80s\" has elements of %s and of %s",
                    f->part.path, key, before->name, type->name);
        name_map_set(out, key, (void *)(uintptr_t)type);
    }
    return DRV_OK;
}

static drv_status place_storages(arena *a, torch_file *f, const pickle *p, const pickle_value *keys,
        int64_t at) {
    name_map types;
    DRV_TRY(element_sizes(a, f, p, &types));
    if (keys->kind != PICKLE_LIST) return bad(f, "has no list of the keys of its storages");
    for (int i = 0; i < keys->list.n; i++) {
        const pickle_value *item = keys->list.items[i];
        uint64_t elements;
        if (item->kind != PICKLE_TEXT) return bad(f, "has a storage whose key is no text");
        const char *key = arena_strndup(a, item->text.p, item->text.n);
        const torch_type *type = name_map_get(&types, key);
        if (!type)
            return drv_fail(DRV_E_DATA, "%s: storage \"%.80s\" belongs to no tensor", f->part.path,
                    key);
        if (f->part.size - at < 8)
            return drv_fail(DRV_E_DATA, "%s: ends before storage \"%.80s\": is it truncated?",
                    f->part.path, key);
        DRV_TRY(file_part_read(&f->part, at, 8, &elements));
        at += 8;
        if (elements > (uint64_t)((f->part.size - at) / type->bytes))
            return drv_fail(DRV_E_DATA,
                    "%s: storage \"%.80s\" has %llu elements from byte %lld, but the file has only "
                    "%lld bytes: is it truncated?",
                    f->part.path, key, (unsigned long long)elements, (long long)(f->part.base + at),
                    (long long)f->part.size);
        add_storage(a, f, key, at, (int64_t)elements * type->bytes);
        at += (int64_t)elements * type->bytes;
    }
    return DRV_OK;
}

static drv_status open_old(arena *a, torch_file *f, const torch_opts *opts, pickle *out) {
    pickle head;
    int64_t at = 0;
    char *kept;
    for (int i = 0; i < 3; i++) { // the magic number, the protocol, the machine
        DRV_TRY(read_pickle_at(a, f, opts, at, &head));
        if (i == 2) DRV_TRY(check_facts(f, head.root));
        at += (int64_t)head.n_bytes;
    }
    DRV_TRY(read_pickle_at(a, f, opts, at, out));
    at += (int64_t)out->n_bytes;
    kept = f->bytes;
    f->bytes = NULL; // the values point into them
    drv_status status = read_pickle_at(a, f, opts, at, &head);
    if (status == DRV_OK) status = place_storages(a, f, out, head.root, at + (int64_t)head.n_bytes);
    free(f->bytes);
    f->bytes = kept;
    return status;
}

// --- both
static drv_status nothing_under(const torch_file *f, const char *key) {
    enum { NAMED = 10, MOST = 60 };
    const pickle_dict *dict = pickle_entries(f->top);
    str keys = {0};
    for (int i = 0, n = 0; dict && i < dict->n && n <= NAMED; i++) {
        const pickle_value *name = dict->entries[i].key;
        if (name->kind != PICKLE_TEXT) continue;
        const int shown = name->text.n < MOST ? (int)name->text.n : MOST;
        str_printf(&keys, "%s", n ? ", " : "");
        if (n++ < NAMED)
            str_printf(&keys, "\"%.*s\"", shown, name->text.p);
        else
            str_puts(&keys, "...");
    }
    const drv_status status = drv_fail(DRV_E_DATA,
            "%s: has nothing under the key \"%s\", expected one of its keys: %s", f->part.path, key,
            keys.n ? keys.p : "there are none");
    str_free(&keys);
    return status;
}

static drv_status open_all(arena *a, torch_file *f, const torch_opts *opts) {
    unsigned char first[OLD_BEGINNING];
    const size_t n = f->part.size < (int64_t)sizeof first ? (size_t)f->part.size : sizeof first;
    pickle p;
    DRV_TRY(file_part_read(&f->part, 0, (int64_t)n, first));
    f->storages = (name_map){.a = a};
    if (zip_is_zip(&f->part))
        DRV_TRY(open_zip(a, f, opts, &p));
    else if (is_old(first, n))
        DRV_TRY(open_old(a, f, opts, &p));
    else
        return bad(f, "is not a file of torch.save, neither a zip file nor one of the older form");
    f->top = p.root;
    f->root = opts->key ? pickle_find(f->top, opts->key) : f->top;
    if (!f->root) return nothing_under(f, opts->key);
    DRV_TRY(torch_list(a, f));
    bool contiguous = true;
    for (int i = 0; i < f->n; i++)
        contiguous &= f->tensors[i].contiguous;
    return contiguous || f->part.fd < 0 ? DRV_OK : torch_map(f, &f->map);
}

drv_status torch_open_part(arena *a, const file_part *part, const torch_opts *opts,
        torch_file *out) {
    static const torch_opts none;
    torch_file f = {.part = *part};
    const drv_status status = open_all(a, &f, opts ? opts : &none);
    if (status == DRV_OK)
        *out = f;
    else
        torch_close(&f);
    return status;
}

drv_status torch_open(arena *a, const char *path, const torch_opts *opts, torch_file *out) {
    file_part part = {.path = arena_strdup(a, path), .fd = -1};
    DRV_TRY(file_open_regular(path, &part.fd, &part.size));
    const drv_status status = torch_open_part(a, &part, opts, out);
    if (status == DRV_OK)
        out->owns_fd = true;
    else
        close(part.fd);
    return status;
}

void torch_close(torch_file *f) {
    if (f->map) munmap(f->map, (size_t)(f->part.base + f->part.size));
    if (f->owns_fd) close(f->part.fd);
    free(f->bytes);
    *f = (torch_file){.part = {.fd = -1}};
}

bool torch_is_file(const char *path) {
    file_part part = {.path = path, .fd = -1};
    unsigned char first[OLD_BEGINNING];
    if (file_open_regular(path, &part.fd, &part.size) != DRV_OK) return false;
    const int64_t n = file_read_at(part.fd, first, sizeof first, 0);
    const bool found = n > 0 && (is_old(first, (size_t)n) || zip_is_zip(&part));
    close(part.fd);
    return found;
}

bool torch_is_called_so(const char *path) {
    static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt"};
    bool found = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        found |= str_ends(path, endings[i]);
    return found;
}

const torch_tensor *torch_find(const torch_file *f, const char *name) {
    return name_map_get(&f->by_name, name);
}
