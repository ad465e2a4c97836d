// Cuts a stream of token ids into documents at the token with which each begins or ends. The token
// stays in its document.
#pragma once
#include <stdint.h>

#include "base/str.h"

typedef enum cut_place { CUT_NOT, CUT_BEFORE, CUT_AFTER } cut_place;
typedef struct id_cut {
    cut_place where; // CUT_BEFORE: a document begins with the token; CUT_AFTER: it ends with it
    int32_t token;
} id_cut;

typedef struct id_cutter { // zero-initialise but for `cut`; id_cutter_free
    id_cut cut;
    str ids; // input, int32_t each; ids before byte `at` have been returned
    size_t at;
    bool within;    // part of a document has been returned, and its end has not
    int64_t passed; // ids of that document that have been returned
    bool found;     // the token occurred in this file
} id_cutter;

// Appends the next piece of a document to `out`; returns false if no ids are left. *begins and
// *ends: whether the piece is the first and the last one of its document. A piece may be empty.
bool id_cutter_take(id_cutter *cutter, str *out, bool *begins, bool *ends);
void id_cutter_reset(id_cutter *cutter); // for another file
void id_cutter_free(id_cutter *cutter);
