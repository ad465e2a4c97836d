// Records the upload URLs of a large file's parts and which parts have been uploaded, so that the
// next run can resume. There is a file for each object below the user's cache, readable by the user
// alone since the URLs are signed. Without a cache an upload works, but starts over when it is
// interrupted.
#pragma once
#include "base/json.h"
#include "push/lfs_upload.h"

typedef struct part_journal {
    const char *path; // NULL: there is no cache
    int fd;           // -1: not open
} part_journal;

// Reads the journal of an earlier run: *action, which the caller owns, as the hub sent it (NULL: no
// usable journal), and *parts, an object that maps part numbers to etags.
void part_journal_read(arena *a, const http_link *link, const char *repo, const lfs_object *object,
        part_journal *out, json_t **action, json_t **parts);
// Begins a new journal, or continues the one that was read (action NULL).
void part_journal_begin(part_journal *self, const json_t *action);
void part_journal_add(part_journal *self, int number, const char *etag);
void part_journal_close(part_journal *self);
void part_journal_remove(
        part_journal *self); // once the parts are joined, or their URLs have expired
