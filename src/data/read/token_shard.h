// The token ids of a file that holds nothing else: .bin of llm.c and modded-nanogpt, .npy of OLMo
// (no header) and of numpy.save (with one). docs/formats.md has the layouts.
#pragma once
#include "data/read/inputs.h"
#include "data/read/token_type.h"

typedef struct token_shard token_shard; // single owner

// raw: the type of ids in an .npy file without a header; is_said: by the user, else it is checked
// that a file of uint16 does not look like uint32. DRV_E_DATA: the file is of another format,
// or not as long as its header says. `file` outlives the shard.
DRV_CHECKED drv_status token_shard_open(const input_file *file, token_type raw, bool is_said,
        token_shard **out);
// Appends the next ids, an int32_t each; *done: there were no more. DRV_E_DATA: the file ends
// within an id, or before or after the count of its header.
DRV_CHECKED drv_status token_shard_next(token_shard *shard, str *out, bool *done);
// The functions below take what token_shard_open has opened, as rows of record_source.c do.
int64_t token_shard_where(const void *source); // bytes read of the file
void token_shard_close(void *source);
