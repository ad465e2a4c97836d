// Takes records that are token ids: checks them against the tokenizer, and derives roles from
// labels.
#pragma once
#include "data/read/reader.h"
#include "data/sft/sft.h"

// Appends the ids of a record, whose bytes are at `p`, and a role for each if it has labels: the
// last contiguous range of labelled tokens is the last answer. DRV_E_DATA (the message does not
// name the record): the tokenizer does not have an id, which also sets made->misfit, or no token
// has a label.
DRV_CHECKED drv_status build_take_ids(const record *of, const char *p, size_t n,
        const tokenizer *tok, sft_example *made);
