// The bytes of a file from front to back, unpacked on the way.
#pragma once
#include "data/read/inputs.h"

typedef struct byte_stream byte_stream; // single owner
// `file` outlives the stream. as_is: what is packed is known by its ending alone, else also by its
// first bytes.
DRV_CHECKED drv_status byte_stream_open(const input_file *file, bool as_is, byte_stream **out);
input_packing byte_stream_packing(const byte_stream *s); // what it turned out to be
void byte_stream_close(byte_stream *s);
// Up to n bytes; *got 0 is the end. DRV_E_DATA: what is packed is broken or cut short.
DRV_CHECKED drv_status byte_stream_read(byte_stream *s, char *p, size_t n, size_t *got);
int64_t byte_stream_where(const byte_stream *s); // bytes of the file as it lies
