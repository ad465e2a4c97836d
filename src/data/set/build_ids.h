// Records that are token ids already: checked against the tokenizer, with roles where they have
// labels.
#pragma once
#include "data/read/reader.h"
#include "data/sft/sft.h"

// Appends the ids of a record, its bytes at `p`, and a role for each if it has labels: the last run
// of labelled tokens is the last answer. DRV_E_DATA, without a place: an id that the tokenizer does
// not have, so that made->misfit is set, or no label.
DRV_CHECKED drv_status build_take_ids(const record *of, const char *p, size_t n,
        const tokenizer *tok, sft_example *made);
