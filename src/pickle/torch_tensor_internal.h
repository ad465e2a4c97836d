// Functions on storages and their views, which the files of this reader share.
// Legend: f a torch file, v a value of the pickle, t a tensor, p a pickle.
#pragma once
#include "pickle/torch_file.h"

typedef struct torch_storage {
    int64_t at, bytes; // in the part
} torch_storage;

// Returns the element type of a class of storages; for UntypedStorage bytes. NULL: unknown.
const torch_type *torch_type_of_storage(const char *name);
// Parses a persistent id: ("storage", class, key, device, elements). The key lives in `a`.
// DRV_E_DATA: it is something else.
DRV_CHECKED drv_status torch_storage_id(arena *a, const char *path, const pickle_value *persistent,
        const torch_type **type, const char **key, int64_t *elements);
// Lists the tensors below f->root.
DRV_CHECKED drv_status torch_list(arena *a, torch_file *f);
// Maps the file; the caller unmaps as many bytes as the file has.
DRV_CHECKED drv_status torch_map(const torch_file *f, unsigned char **map);
