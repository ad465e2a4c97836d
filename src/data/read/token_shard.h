// Reads files that contain only token ids: .bin of llm.c and modded-nanogpt, .npy of OLMo (no
// header) and of numpy.save (with one). docs/formats.md has the layouts.
#pragma once
#include "data/read/inputs.h"
#include "data/read/token_type.h"

typedef struct token_shard token_shard; // single owner

// raw: the type of ids in an .npy file without a header; is_said: the user named it; otherwise it
// is an error if a file of uint16 looks like uint32. DRV_E_DATA: the file is in another format, or
// its length differs from its header. `file` outlives the shard.
DRV_CHECKED drv_status token_shard_open(const input_file *file, token_type raw, bool is_said,
        token_shard **out);
// Appends the next ids, an int32_t each; *done is set at the end. DRV_E_DATA: the file ends within
// an id, or has more or fewer ids than its header says.
DRV_CHECKED drv_status token_shard_next(token_shard *shard, str *out, bool *done);
// record_source.c has these in a table for all formats, so `source` is untyped: a token_shard.
int64_t token_shard_where(const void *source); // bytes of the file read so far
void token_shard_close(void *source);
