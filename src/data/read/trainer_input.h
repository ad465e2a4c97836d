// Gives the texts of all inputs to the trainer of a tokenizer, and shows the progress.
#pragma once
#include "data/read/reader.h"
#include "tok/bpe_trainer.h"

// Reads until the end of the inputs. *bytes: grows by the bytes of their texts.
DRV_CHECKED drv_status trainer_input_read(reader *in, bpe_trainer *trainer, int64_t *bytes);
