// Lists the files of a model's folder that go to the hub.
#pragma once
#include "push/hub_push.h"

typedef struct push_list {
    push_file *files; // the weights first: a push of several commits ends with what names them
    int n;
    const char **left_out; // names of other files and folders
    int n_left_out;
    bool is_adapter, has_card;
} push_list;

// Lists the files of a Hugging Face folder, a checkpoint or an adapter. `optimizer`: with what
// resuming needs. DRV_E_DATA: it is no such folder, or a file is missing or broken.
DRV_CHECKED drv_status push_files_list(arena *a, const char *folder, bool optimizer,
        push_list *out);
// Adds a text as a file, or puts it in the place of one.
void push_files_add_text(arena *a, push_list *list, const char *name, const char *text);
