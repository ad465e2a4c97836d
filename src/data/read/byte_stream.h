// Reads the bytes of a file in order and decompresses them.
#pragma once
#include "data/read/inputs.h"

typedef struct byte_stream byte_stream; // single owner
// `file` outlives the stream. as_is: only the file's extension decides whether it is compressed,
// otherwise its first bytes as well.
DRV_CHECKED drv_status byte_stream_open(const input_file *file, bool as_is, byte_stream **out);
input_packing byte_stream_packing(const byte_stream *s); // as detected
void byte_stream_close(byte_stream *s);
// Reads up to n bytes; *got 0: the end. DRV_E_DATA: the compressed data is broken or cut short.
DRV_CHECKED drv_status byte_stream_read(byte_stream *s, char *p, size_t n, size_t *got);
// Reads n bytes; *got is less than n only at the end of the file.
DRV_CHECKED drv_status byte_stream_read_all(byte_stream *s, char *p, size_t n, size_t *got);
int64_t byte_stream_where(
        const byte_stream *s); // bytes of the file read so far, before decompression
