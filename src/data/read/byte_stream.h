// Reads the bytes of a file in order and decompresses them.
#pragma once
#include "data/read/inputs.h"

typedef struct byte_stream byte_stream; // single owner
// `file` outlives the stream. as_is: compression is recognised by the ending of the name alone,
// otherwise by the first bytes too.
DRV_CHECKED drv_status byte_stream_open(const input_file *file, bool as_is, byte_stream **out);
input_packing byte_stream_packing(const byte_stream *s); // as recognised
void byte_stream_close(byte_stream *s);
// Reads up to n bytes; *got 0: the end. DRV_E_DATA: the compressed data is broken or cut short.
DRV_CHECKED drv_status byte_stream_read(byte_stream *s, char *p, size_t n, size_t *got);
// Reads n bytes; *got is less than n at the end alone.
DRV_CHECKED drv_status byte_stream_read_all(byte_stream *s, char *p, size_t n, size_t *got);
int64_t byte_stream_where(const byte_stream *s); // bytes read of the file on the disk
