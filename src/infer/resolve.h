// Finds which folder holds the weights that a person means.
#pragma once
#include "base/arena.h"
#include "base/status.h"

// Finds the folder of `name`: a Hugging Face folder (a checkpoint is one), that of an adapter, a
// run directory, its checkpoints/ or a config: of a run the newest valid checkpoint is taken, and
// log_info says which. DRV_E_IO: there is no such name; DRV_E_USAGE: a GGUF file; DRV_E_DATA: no
// model, or a run without a checkpoint.
DRV_CHECKED drv_status ckpt_resolve(arena *a, const char *name, const char **folder);
// A model and, where there is one, the adapter that it is used with.
typedef struct model_ref {
    const char *folder, *adapter; // adapter "": none
} model_ref;
// Finds a model by `name` as above or in another format (model_view.h; NULL: none), or an adapter's
// folder, as checkpoints of LoRA runs are; `beside` (NULL: none): one more way to name that. An
// adapter without a model is used with the base that it names. DRV_E_USAGE: two adapters, or none
// where one was expected; DRV_E_DATA: the base is not there.
DRV_CHECKED drv_status model_resolve(arena *a, const char *name, const char *beside,
        model_ref *out);
// Finds the folder of the base of an adapter: `path`, or one made of a model in another format.
DRV_CHECKED drv_status model_base_folder(arena *a, const char *path, const char **folder);
// Returns the folder of the tokenizer that belongs to a model: that of the adapter
// `beside` (NULL or "": none), where it has one, as trainers of PEFT save it, else that of the model.
const char *model_tokenizer_folder(arena *a, const char *folder, const char *beside);
// Finds the newest valid checkpoint of a run directory. DRV_E_DATA: there is none.
DRV_CHECKED drv_status ckpt_of_run(arena *a, const char *run_dir, const char **folder);
