// Writes pickles that Python's pickle module reads, with the few opcodes of protocol 2 that
// checkpoints need. The caller writes them in the order of the pickle, operands first.
#pragma once
#include <stdint.h>

#include "base/str.h"

// An opcode without an operand (Lib/pickletools.py has their list).
typedef enum pickle_put_op {
    PUT_NONE = 'N',
    PUT_TRUE = 0x88,
    PUT_FALSE = 0x89,
    PUT_MARK = '(',    // begins the values of a tuple, a list or a dict
    PUT_TUPLE = 't',   // of all values from the mark on
    PUT_TUPLE1 = 0x85, // of the last value
    PUT_EMPTY_TUPLE = ')',
    PUT_EMPTY_LIST = ']',
    PUT_APPENDS = 'e', // the values from the mark on to the list below it
    PUT_EMPTY_DICT = '}',
    PUT_SETITEMS = 'u',   // the keys and values from the mark on to the dict below it
    PUT_REDUCE = 'R',     // calls a global with a tuple
    PUT_NEWOBJ = 0x81,    // makes an instance of a class with a tuple
    PUT_BUILD = 'b',      // gives an instance its state
    PUT_PERSISTENT = 'Q', // an object that the reader finds by this tuple, such as a storage
} pickle_put_op;

void pickle_begin(str *out);
void pickle_end(str *out);
void pickle_put(str *out, pickle_put_op op);
void pickle_put_int(str *out, int64_t value);
void pickle_put_real(str *out, double value);
void pickle_put_bool(str *out, bool value);
void pickle_put_text(str *out, const char *text);
void pickle_put_global(str *out, const char *module, const char *name);
// Writes a tuple of integers.
void pickle_put_ints(str *out, const int64_t *values, int n);
