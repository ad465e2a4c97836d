// Finds the folder with the weights that a user's argument names.
#pragma once
#include "base/arena.h"
#include "base/status.h"

// Finds the folder that `name` means: a Hugging Face folder (a checkpoint is one), an adapter's
// folder, or a run directory, its checkpoints/ or its config. For a run it is the newest valid
// checkpoint, which is logged. DRV_E_IO: there is no such file or folder; DRV_E_USAGE: it is a GGUF
// file; DRV_E_DATA: it is not a model, or a run without a checkpoint.
DRV_CHECKED drv_status ckpt_resolve(arena *a, const char *name, const char **folder);
// A model and, if there is one, the adapter to use with it.
typedef struct model_ref {
    const char *folder, *adapter; // adapter "": none
} model_ref;
// Finds a model by `name`, as above or in another format (model_view.h), or an adapter by its
// folder (a checkpoint of a LoRA run is one). `beside` (NULL: none) names an adapter separately;
// then `name` may be NULL. An adapter without a model is used with the base that it names.
// DRV_E_USAGE: two adapters, or none where one was expected; DRV_E_DATA: the base does not exist.
DRV_CHECKED drv_status model_resolve(arena *a, const char *name, const char *beside,
        model_ref *out);
// Returns the folder of an adapter's base: `path`, or a view of a model in another format
// (model_view.h).
DRV_CHECKED drv_status model_base_folder(arena *a, const char *path, const char **folder);
// Returns the folder of the tokenizer to use with a model: that of the adapter `beside` (NULL or
// "": none) if it contains a tokenizer, as PEFT's trainers save it, else that of the model.
const char *model_tokenizer_folder(arena *a, const char *folder, const char *beside);
// Finds the newest valid checkpoint of a run directory. DRV_E_DATA: there is none.
DRV_CHECKED drv_status ckpt_of_run(arena *a, const char *run_dir, const char **folder);
