// Filters that stand in files of their own, and what filters share.
#pragma once
#include "chat/jinja_text_internal.h"

// Fails when there are arguments.
DRV_CHECKED drv_status filter_no_args(const call_args *args, const char *what);
// A whole number, if v is given and not none.
DRV_CHECKED drv_status filter_whole(const value *v, const char *what, int64_t *inout);

drv_status filter_trim(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_upper(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_lower(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_capitalize(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_title(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_replace(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_indent(jinja_context *context, const value *self, const call_args *args,
        value *out);
drv_status filter_escape(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_string(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_safe(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_format(jinja_context *c, const value *v, const call_args *args, value *out);
drv_status filter_tojson(jinja_context *context, const value *self, const call_args *args,
        value *out);
drv_status filter_wordcount(jinja_context *c, const value *v, const call_args *args, value *out);
