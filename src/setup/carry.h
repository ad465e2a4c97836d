// The files that a run's checkpoints take over from its tokenizer and from the model it started from.
#pragma once
#include "ckpt/ckpt.h"
#include "config/config.h"
#include "data/set/rows.h"

// Takes the token ids that the config leaves open from the tokenizer. DRV_E_USAGE: it has more
// tokens than the model; others as tokenizer_open.
DRV_CHECKED drv_status carry_token_ids(arena *a, run_config *cfg);

// Reads the files that every checkpoint gets: those of the tokenizer's folder, chat template and
// generation_config.json included; what is missing there, from model.from when that has the same
// tokenizer. They are held in memory, so a checkpoint does not depend on folders that may go.
DRV_CHECKED drv_status carry_files(arena *a, const run_config *cfg, ckpt_content *out);
// Adds to them what data sets of conversations say: the tokens with which their answers end, since
// what generates with the model has to end there too and looks into generation_config.json; and, as
// chat_template.jinja, the template that they were built with, where it was not the tokenizer's.
// `say`: a line tells of each that is new.
DRV_CHECKED drv_status carry_conversations(arena *a, const run_config *cfg, const rows *stream,
        bool say, ckpt_content *out);
// Returns the memory that they take, by the sizes of the tokenizer's files.
int64_t carry_bytes(const run_config *cfg);
// Says which of them are not those of this checkpoint, from which the run resumes.
void carry_say_changes(const ckpt_content *now, const char *folder);

// DRV_E_USAGE: the ids of a data set mean other text to the config's tokenizer, or nothing, than to
// the one that built it. Where the set does not tell what its ids mean, another tokenizer.json is
// warned of.
DRV_CHECKED drv_status carry_check_data(const run_config *cfg, const rows *stream);
