// Writes a row of a table as JSON. Arrow and Parquet give all structs of a column the same members,
// so a member that a record did not have reads as null; such members are omitted, as in TRL and
// ms-swift.
#pragma once
#include <stdbool.h>

#include "base/str.h"

typedef struct json_row_notes {
    int depth;      // of the struct at hand; 1: the row
    bool nulls_cut; // members of messages were omitted that a template would have printed
} json_row_notes;

typedef struct json_members { // of a struct at work
    json_row_notes *notes;
    str *out;
    size_t before, value; // where the member at hand and its value begin
    int n;
} json_members;

void json_members_begin(json_row_notes *notes, json_members *m, str *out);
// Its value is appended between the two.
void json_members_name(json_members *m, const char *name);
void json_members_added(json_members *m);
void json_members_end(json_members *m);
