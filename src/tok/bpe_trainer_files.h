// Writes the files of a trained tokenizer, as Hugging Face does.
#pragma once
#include "tok/bpe_trainer.h"
#include "tok/split.h"
#include "tok/train_merges.h"

// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into an existing folder.
// `split` is the kind of o->pattern.
DRV_CHECKED drv_status bpe_trainer_write(const bpe_trainer_opts *o, split_kind split,
        const bpe_merges *m, const char *dir);
