// Commits files to a model's repository on the Hugging Face hub, by the API that huggingface_hub
// uses (hf_api.py, _commit_api.py).
#pragma once
#include "push/lfs_upload.h"

typedef struct push_file {
    const char *name; // in the repository
    const char *path; // on disk; NULL: the text instead
    const char *text;
    int64_t size, changed_ns; // bytes, and time of the last change, when it was listed
    // The hub's response.
    bool asked, lfs, ignored, there; // there: the hub already has this content
    char sha256[HASH_TEXT_BYTES];    // of a file that LFS stores; "": not computed
} push_file;

typedef struct push_opts {
    http_link link;
    const char *repo, *branch; // ORG/NAME; main
    const char *message;       // of the commit
    bool create, is_private, pull_request;
} push_opts;

typedef struct push_result {
    lfs_stats lfs;
    int n_sent, n_there, n_ignored; // files; ignored: by the repository's .gitignore
    int n_commits;
    const char *url; // of the last commit or the pull request; NULL: there was nothing to commit
} push_result;

// Asks the hub how each file is to be uploaded. *exists: the repository and the branch exist.
DRV_CHECKED drv_status hub_push_ask(arena *a, const push_opts *o, push_file *files, int n,
        bool *exists);
// Uploads and commits the files that the hub does not have. DRV_E_USAGE: the repository or branch
// does not exist and opts->create is not set; DRV_E_DATA: a response is invalid; DRV_E_IO: the hub
// refused, or all attempts failed.
DRV_CHECKED drv_status hub_push(arena *a, const push_opts *opts, push_file *files, int n_files,
        push_result *out);
