// Remembers, for the next run, where the parts of a large file go and which of them have arrived. A
// file for each object below the user's cache, which nobody else may read: the addresses in it are
// signed. Without a place for it an upload works, and begins anew when it is interrupted.
#pragma once
#include "base/json.h"
#include "push/lfs_upload.h"

typedef struct part_journal {
    const char *path; // NULL: there is no place for one
    int fd;           // -1: not open
} part_journal;

// Reads what an earlier run left: *action as the hub had given it (NULL: nothing, or of no use),
// which the caller owns, and *parts, an object of etags by the number of the part.
void part_journal_read(arena *a, const hub_link *link, const char *repo, const lfs_object *object,
        part_journal *out, json_t **action, json_t **parts);
// Begins a new one, or goes on with the one that was read (action NULL).
void part_journal_begin(part_journal *self, const json_t *action);
void part_journal_add(part_journal *self, int number, const char *etag);
void part_journal_close(part_journal *self);
void part_journal_remove(part_journal *self); // the parts are joined, or nobody takes them any more
