// Finds tensors in the files of ranks or, with xser, in the separate files that they refer to.
#pragma once
#include "source/foreign_source.h"

// Opens a file of torch.save, which is closed with the model. Unless `keeps_open`, it is opened
// again for each read.
DRV_CHECKED drv_status rank_open_file(foreign_model *m, const char *path, bool keeps_open,
        torch_file **out);
// Opens a part of an open file.
DRV_CHECKED drv_status rank_open_part(foreign_model *m, const file_part *part, torch_file **out);
// Returns whether a value is a reference of xser.
bool rank_is_reference(const pickle_value *v);
// Finds the tensor that a value of `file` is or refers to, and the file that contains it. `name`:
// for messages. DRV_E_DATA: the value is not a tensor.
DRV_CHECKED drv_status rank_tensor_of(foreign_model *m, torch_file *file, const char *name,
        const pickle_value *v, torch_file **from, const torch_tensor **out);
