// Writes a row of a table as JSON. Arrow and Parquet give all structs of a column the same members,
// so a member that a record did not have is stored as null. Null members are therefore omitted, as
// TRL and ms-swift do.
#pragma once
#include <stdbool.h>

#include "base/str.h"

typedef struct json_row_notes {
    int depth;      // depth of the current struct; 1: the row
    bool nulls_cut; // null members of messages were omitted, which a template would have printed
} json_row_notes;

typedef struct json_members { // of a struct that is being written
    json_row_notes *notes;
    str *out;
    size_t before, value; // offsets at which the current member and its value begin
    int n;
} json_members;

void json_members_begin(json_row_notes *notes, json_members *m, str *out);
// The caller appends the member's value between these two calls.
void json_members_name(json_members *m, const char *name);
void json_members_added(json_members *m);
void json_members_end(json_members *m);
