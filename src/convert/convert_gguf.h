// Writes a model, or a base with its adapter, as a GGUF file, and proves that it is the same model.
#pragma once
#include "ckpt/gguf_writer.h"
#include "convert/compare.h"

// Writes the model to `file`. `name`: its name in messages and in the proof. `verify`: the file is
// compared with the model before it gets its name, and FILE.verify.json has the comparison. If that
// is out of bounds, the result is left at FILE.unproved, and the status is DRV_E_DATA. *compared
// has no tokens if nothing was compared.
DRV_CHECKED drv_status convert_gguf(arena *a, const model *from, const char *name, const char *file,
        const gguf_write_opts *opts, bool verify, comparison *compared);
