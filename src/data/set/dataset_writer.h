// Writes a tokenised data set so that writing can be resumed after a kill: tokens are appended to
// PREFIX.bin.drover-tmp, roles of tokens to PREFIX.roles.drover-tmp, lengths of documents to
// PREFIX.lengths.drover-tmp. At the end the index is made of the lengths, and the other two are
// renamed.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct dataset_writer dataset_writer; // single owner

// n_vocab decides the type as in Megatron: u16 below 65500 ids, else i32. n_tokens, n_documents:
// counts that an earlier writer synced and that are kept (0, 0: a new set). DRV_E_DATA: the files
// are shorter than that. roles: also write PREFIX.roles. The prefix must outlive the writer.
DRV_CHECKED drv_status dataset_writer_open(arena *a, const char *prefix, int64_t n_vocab,
        int64_t n_tokens, int64_t n_documents, bool roles, dataset_writer **out);
// Appends tokens to the current document.
DRV_CHECKED drv_status dataset_writer_add(dataset_writer *writer, const int32_t *ids,
        int64_t n_tokens);
// Appends an sft_role for each of them.
DRV_CHECKED drv_status dataset_writer_add_roles(dataset_writer *writer, const char *roles,
        int64_t n);
DRV_CHECKED drv_status dataset_writer_end_document(dataset_writer *writer);
// Syncs everything that was written to the disk.
DRV_CHECKED drv_status dataset_writer_sync(dataset_writer *writer);
// Renames the files into place. Removes the PREFIX.idx.json, .pairs and .roles of an earlier set. A
// failure before the first rename leaves the earlier set as it was.
DRV_CHECKED drv_status dataset_writer_finish(dataset_writer *writer);
// keep: leave the synced files for a later writer, otherwise remove them. May be called after
// dataset_writer_finish.
void dataset_writer_close(dataset_writer *writer, bool keep);
