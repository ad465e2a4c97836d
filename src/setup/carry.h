// The files that a run's checkpoints copy from its tokenizer and from the model it started from.
#pragma once
#include "ckpt/ckpt.h"
#include "config/config.h"
#include "data/set/rows.h"

// Sets token ids that the config does not give from the tokenizer. DRV_E_USAGE: it has more tokens
// than the model. Otherwise fails as tokenizer_open does.
DRV_CHECKED drv_status carry_token_ids(arena *a, run_config *cfg);

// Reads the files that every checkpoint gets from the tokenizer's folder, chat template and
// generation_config.json included, and missing ones from model.from if that has the same tokenizer.
// They stay in memory, so saving a checkpoint does not depend on folders that may be removed.
DRV_CHECKED drv_status carry_files(arena *a, const run_config *cfg, ckpt_content *out);
// Adds facts from data sets of conversations: to generation_config.json the tokens with which
// answers end, so that generation ends there too; and, as chat_template.jinja, the template with
// which the data was built, if it was not the tokenizer's. `say`: logs each addition.
DRV_CHECKED drv_status carry_conversations(arena *a, const run_config *cfg, const rows *stream,
        bool say, ckpt_content *out);
// Estimates the memory of these files from the sizes of the tokenizer's files.
int64_t carry_bytes(const run_config *cfg);
// Logs which of these files differ from those in the checkpoint from which the run resumes.
void carry_say_changes(const ckpt_content *now, const char *folder);

// Checks the tokenizer against the data sets. DRV_E_USAGE: the ids of a data set decode to another
// text, or to none, with the config's tokenizer than with the one that built it. If the data set
// does not record the texts of its ids, a different tokenizer.json causes a warning.
DRV_CHECKED drv_status carry_check_data(const run_config *cfg, const rows *stream);
