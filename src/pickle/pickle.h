// Python's pickles, protocols 1 to 5 (docs.python.org/3/library/pickle, and the opcodes of
// CPython's Lib/pickletools.py), read as data: a pickle is a program that builds objects, and this
// reader records which objects it would build. It creates no object and calls nothing. Names of
// classes and functions are refused unless the caller allows them, and a call of one becomes a node
// with its arguments.
//
// The cost of a pickle is bounded: the number of values and of memo entries, and the depth of the
// result. A value that the memo repeats is one node, so the result is a directed acyclic graph;
// code that walks it has to bound the number of visits.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_LONG, // an integer of more than 64 bits
    PICKLE_REAL,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_SET,
    PICKLE_DICT,
    PICKLE_NAME, // a class, a function or a constant of a module
    PICKLE_CALL,
    PICKLE_PERSISTENT, // something outside the pickle: the storage of a tensor
} pickle_kind;

// A name that a pickle may contain.
typedef struct pickle_name {
    const char *module, *name;
} pickle_name;

typedef struct pickle_value pickle_value;

typedef struct pickle_entry {
    pickle_value *key, *value;
} pickle_entry;

typedef struct pickle_list {
    pickle_value **items;
    int n, cap;
} pickle_list;

typedef struct pickle_dict {
    pickle_entry *entries; // in the order of the pickle; of a repeated key the last entry is valid
    int n, cap;
} pickle_dict;

// A call of a name, and the changes that Python would then make to the object.
typedef struct pickle_call {
    const pickle_name *name;
    const pickle_value *arguments; // a tuple
    const pickle_value *state;     // given to __setstate__; NULL: nothing
    pickle_list appended;          // added to an object that is a list or a set
    pickle_dict set;               // set in an object that is a dict
} pickle_call;

struct pickle_value {
    pickle_kind kind;
    int height; // used while the result is checked
    int64_t at; // the byte of the opcode that made it
    union {
        int64_t integer; // PICKLE_INT, PICKLE_BOOL
        double real;
        struct {
            const char *p; // in the pickle's bytes, which outlive the values; no NUL ends it
            size_t n;      // PICKLE_LONG: two's complement, the lowest byte first
        } text;            // PICKLE_TEXT, PICKLE_BYTES, PICKLE_LONG
        pickle_list list;  // PICKLE_LIST, PICKLE_TUPLE, PICKLE_SET
        pickle_dict dict;
        const pickle_name *name; // the caller's own
        pickle_call *call;
        const pickle_value *id; // PICKLE_PERSISTENT
    };
};

typedef struct pickle_opts {
    const pickle_name *names, *more_names; // the allowed names; a name of NULL ends each list
    int64_t max_values;                    // 0: 4 million
    int max_depth;                         // 0: 100
} pickle_opts;

typedef struct pickle {
    pickle_value *root;
    pickle_list persistent; // all values of that kind, in the order of the bytes
    size_t n_bytes;
} pickle;

// Reads the first pickle of `n` bytes, which must outlive the values. `path` is for messages, and
// `base` is the offset of the bytes in that file. DRV_E_DATA: the pickle is invalid; the message
// names the byte and the opcode.
DRV_CHECKED drv_status pickle_read(arena *a, const char *path, int64_t base, const void *p,
        size_t n, const pickle_opts *opts, pickle *out);
// Returns whether the last pickle_read of this thread failed because the bytes ended too early.
bool pickle_ended_early(void);

const char *pickle_kind_name(pickle_kind kind); // "a list", for messages
bool pickle_is_text(const pickle_value *v, const char *text);
bool pickle_is_call(const pickle_value *v, const char *module, const char *name);
// Returns the entries of a dict, an OrderedDict or a defaultdict, or the attributes of an
// argparse.Namespace. NULL: the value is none of these.
const pickle_dict *pickle_entries(const pickle_value *v);
// Returns the value of a key of text, NULL: `v` is no dict or has no such key.
const pickle_value *pickle_get(const pickle_value *v, const char *key);
// Finds a value by the keys that lead to it, joined by dots; a key may have dots itself. Numbers
// that are keys, and places in lists and tuples, count as their digits. NULL: there is none.
const pickle_value *pickle_find(const pickle_value *v, const char *path);
