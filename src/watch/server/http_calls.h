// The libmicrohttpd functions that the page of a run calls; only files of this folder see its
// header. The library is loaded when the first page is opened (base/library.h).
#pragma once
#include <microhttpd.h>

#include "base/status.h"

typedef struct http_calls {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_get_daemon_info) *get_daemon_info;
    __typeof__(MHD_get_timeout) *get_timeout;
    __typeof__(MHD_run) *run;
    __typeof__(MHD_get_connection_info) *get_connection_info;
    __typeof__(MHD_lookup_connection_value) *lookup_connection_value;
    __typeof__(MHD_get_connection_values) *get_connection_values;
    __typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
    __typeof__(MHD_add_response_header) *add_response_header;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_destroy_response) *destroy_response;
} http_calls;

extern const http_calls *const http; // valid after http_open

// DRV_E_IO: libmicrohttpd is not installed; the message says how to get it.
DRV_CHECKED drv_status http_open(void);
