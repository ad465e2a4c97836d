// Lists the files of a model's folder to upload.
#pragma once
#include "push/hub_push.h"

typedef struct push_list {
    push_file *files; // the weights first, so that of several commits the last one adds the files
                      // that refer to them
    int n;
    const char **left_out; // names of other files and folders
    int n_left_out;
    bool is_adapter, has_card;
} push_list;

// Lists the files of a Hugging Face folder, a checkpoint or an adapter. `optimizer`: include the
// files that resuming needs. DRV_E_DATA: it is not such a folder, or a file is missing or broken.
DRV_CHECKED drv_status push_files_list(arena *a, const char *folder, bool optimizer,
        push_list *out);
// Adds a text as a file, or replaces the file of that name.
void push_files_add_text(arena *a, push_list *list, const char *name, const char *text);
