// Writing a tokenised data set so that it can be resumed after a kill: the tokens grow in
// PREFIX.bin.tmp, the lengths of documents in PREFIX.idx.tmp, the roles of tokens in
// PREFIX.roles.tmp; at the end they get their names.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct dataset_writer dataset_writer; // single owner

// n_vocab decides the type as in Megatron: u16 below 65500 ids, else i32. n_tokens, n_documents:
// what an earlier writer has synced and is kept (0, 0: a new set). DRV_E_DATA: that is not there.
// roles: PREFIX.roles grows beside the tokens.
DRV_CHECKED drv_status dataset_writer_open(arena *a, const char *prefix, int64_t n_vocab,
        int64_t n_tokens, int64_t n_documents, bool roles, dataset_writer **out);
// Adds tokens of the document at hand; several calls make a long one.
DRV_CHECKED drv_status dataset_writer_add(dataset_writer *writer, const int32_t *ids,
        int64_t n_tokens);
// Adds an sft_role for each of them.
DRV_CHECKED drv_status dataset_writer_add_roles(dataset_writer *writer, const char *roles,
        int64_t n);
DRV_CHECKED drv_status dataset_writer_end_document(dataset_writer *writer);
// Sees to it that all that was written is on the disk.
DRV_CHECKED drv_status dataset_writer_sync(dataset_writer *writer);
// Puts the files in place. Nothing is at PREFIX before. What another set left as PREFIX.roles goes.
DRV_CHECKED drv_status dataset_writer_finish(dataset_writer *writer);
// keep: what was synced stays for a later writer; else it is removed. Fine after finish.
void dataset_writer_close(dataset_writer *writer, bool keep);
