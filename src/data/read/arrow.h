// Reads the rows of an Arrow file or stream, as Hugging Face datasets writes them
// (datasets.save_to_disk): the text of one column, whole rows as JSON, or lists of token ids. Holds
// the wanted columns of one record batch in memory.
#pragma once
#include "data/read/record_source.h"

// Takes the column that the options name, of text or of ids; if they have fields, rows of those
// columns. Where they take ids, "input_ids" counts if there is no text, with "labels" if rows are
// wanted. DRV_E_DATA: the file has none of the columns; the message lists its columns.
DRV_CHECKED drv_status arrow_open(const source_job *job, record_source *out);
// Returns whether its rows are ids with labels.
bool arrow_has_labels(const record_source *source);
