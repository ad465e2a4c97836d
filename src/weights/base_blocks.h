// The frozen base of a LoRA run in blocks of quantised numbers (model.base_dtype, docs/adr/0039).
#pragma once
#include "weights/held_model.h"

// Sets the quantised type of each frozen matrix, including embedding and output weight. Blocks run
// along the input, so they do not depend on the layout. DRV_E_USAGE names a weight whose rows on
// this rank are not whole blocks, or a model.from that was not made from a GGUF file; DRV_E_DATA,
// DRV_E_IO: the GGUF file cannot be read, or has a type that drover does not widen.
DRV_CHECKED drv_status base_blocks_choose(arena *mem, const run_config *cfg, dtype compute,
        param_list *params);
// Sets each matrix of a model that is not trained, except its adapter, to the blocks of the GGUF
// file in `folder`, and records that in `cfg`. DRV_E_USAGE: there is no such file.
DRV_CHECKED drv_status base_blocks_hold(arena *mem, run_config *cfg, const char *folder,
        dtype compute, param_list *params);
// Reads the blocks of the GGUF file in `folder` unchanged if the run keeps them; other bases are
// quantised when their values are written (held_write_weight).
DRV_CHECKED drv_status base_blocks_load(held_model *model, const char *folder);
