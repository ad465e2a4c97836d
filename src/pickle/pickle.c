// The machine that reads pickles: a stack, a memo, and one function for each kind of opcode.
#include "pickle/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "pickle/pickle_check_internal.h"

enum { SLAB_VALUES = 512, MAX_VALUES = 4 << 20, MAX_DEPTH = 100, MAX_NAME = 200 };

typedef struct machine {
    arena *a;
    const char *path;
    int64_t base;
    const unsigned char *p;
    size_t n, at, opcode_at;
    const pickle_opts *opts;
    int64_t max_values, n_values;
    pickle_value *slab; // room for values
    int slab_left;
    pickle_value **stack; // NULL: a mark
    int n_stack, stack_cap;
    pickle_value **memo;
    int64_t n_memo, memo_cap;
    pickle_list persistent;
    bool stopped;
} machine;

static _Thread_local bool ended_early;

bool pickle_ended_early(void) {
    return ended_early;
}

static const char *opcode_name(unsigned char code);

static drv_status bad(const machine *m, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: byte %lld: opcode %s %s", m->path,
            (long long)(m->base + (int64_t)m->opcode_at), opcode_name(m->p[m->opcode_at]), what);
}

static drv_status bad_kind(const machine *m, const char *does, const pickle_value *v,
        const char *expected) {
    return drv_fail(DRV_E_DATA, "%s: byte %lld: opcode %s %s %s, expected %s", m->path,
            (long long)(m->base + (int64_t)m->opcode_at), opcode_name(m->p[m->opcode_at]), does,
            pickle_kind_name(v->kind), expected);
}

// --- bytes
static drv_status take(machine *m, uint64_t n, const unsigned char **out) {
    if (n > m->n - m->at) {
        ended_early = true;
        return drv_fail(DRV_E_DATA,
                "%s: the pickle ends at byte %lld, within opcode %s at byte %lld: is it truncated?",
                m->path, (long long)(m->base + (int64_t)m->n), opcode_name(m->p[m->opcode_at]),
                (long long)(m->base + (int64_t)m->opcode_at));
    }
    *out = m->p + m->at;
    m->at += (size_t)n;
    return DRV_OK;
}

// Takes an unsigned number of `bytes`, little-endian.
static drv_status take_number(machine *m, int bytes, uint64_t *out) {
    const unsigned char *p;
    DRV_TRY(take(m, (uint64_t)bytes, &p));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | p[i];
    return DRV_OK;
}

// Takes a line of text, without its end.
static drv_status take_line(machine *m, const char **out, size_t *n) {
    const unsigned char *p = m->p + m->at, *end = memchr(p, '\n', m->n - m->at);
    if (!end) return take(m, UINT64_MAX, &p);
    *out = (const char *)p;
    *n = (size_t)(end - p);
    return take(m, *n + 1, &p);
}

// --- values, the stack and the memo
static drv_status make(machine *m, pickle_kind kind, pickle_value **out) {
    if (++m->n_values > m->max_values)
        return drv_fail(DRV_E_DATA, "%s: byte %lld: the pickle has more than %lld values", m->path,
                (long long)(m->base + (int64_t)m->opcode_at), (long long)m->max_values);
    if (m->slab_left == 0) {
        m->slab = ARENA_ARRAY(m->a, pickle_value, SLAB_VALUES);
        m->slab_left = SLAB_VALUES;
    }
    *out = &m->slab[SLAB_VALUES - m->slab_left--];
    (*out)->kind = kind;
    (*out)->at = m->base + (int64_t)m->opcode_at;
    return DRV_OK;
}

static drv_status push(machine *m, pickle_value *v) {
    if (m->n_stack >= m->max_values) return bad(m, "makes the stack too long");
    MEM_GROW(m->stack, m->n_stack, m->stack_cap);
    m->stack[m->n_stack++] = v;
    return DRV_OK;
}

static drv_status push_new(machine *m, pickle_kind kind, pickle_value **out) {
    DRV_TRY(make(m, kind, out));
    return push(m, *out);
}

// Returns the value on top of the stack; NULL (also for a mark): bad was not called.
static pickle_value *top(const machine *m) {
    return m->n_stack ? m->stack[m->n_stack - 1] : NULL;
}

static drv_status pop(machine *m, pickle_value **out) {
    *out = top(m);
    if (!*out) return bad(m, "takes a value where the stack has none");
    m->n_stack--;
    return DRV_OK;
}

// Takes the values above the last mark off the stack, and the mark. They stay in place until the
// next push.
static drv_status pop_mark(machine *m, pickle_value ***items, int *n) {
    int i = m->n_stack;
    while (i > 0 && m->stack[i - 1])
        i--;
    if (i == 0) return bad(m, "needs a mark, and there is none");
    *items = m->stack + i;
    *n = m->n_stack - i;
    m->n_stack = i - 1;
    return DRV_OK;
}

static drv_status memo_put(machine *m, uint64_t index) {
    if (!top(m)) return bad(m, "keeps a value where the stack has none");
    if (index >= (uint64_t)m->max_values) return bad(m, "has a memo index that is too large");
    const int64_t old = m->memo_cap, i = (int64_t)index;
    MEM_GROW(m->memo, i, m->memo_cap);
    if (m->memo_cap > old) memset(m->memo + old, 0, sizeof *m->memo * (size_t)(m->memo_cap - old));
    m->n_memo += !m->memo[i];
    m->memo[i] = top(m);
    return DRV_OK;
}

static drv_status memo_get(machine *m, uint64_t index) {
    if (index >= (uint64_t)m->memo_cap || !m->memo[index])
        return bad(m, "asks the memo for a value that is not there");
    return push(m, m->memo[index]);
}

// --- opcodes: numbers and constants. `arg` comes from the table below.
static drv_status op_constant(machine *m, int arg) {
    pickle_value *v;
    DRV_TRY(push_new(m, arg < 0 ? PICKLE_NONE : PICKLE_BOOL, &v));
    if (arg >= 0) v->integer = arg;
    return DRV_OK;
}

// arg: bytes; 4 of them are signed.
static drv_status op_int(machine *m, int arg) {
    uint64_t bits;
    pickle_value *v;
    DRV_TRY(take_number(m, arg, &bits));
    DRV_TRY(push_new(m, PICKLE_INT, &v));
    v->integer = arg == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    return DRV_OK;
}

// arg: bytes of the length.
static drv_status op_long(machine *m, int arg) {
    uint64_t n, bits = 0;
    const unsigned char *p;
    pickle_value *v;
    DRV_TRY(take_number(m, arg, &n));
    DRV_TRY(take(m, n, &p));
    DRV_TRY(push_new(m, n > 8 ? PICKLE_LONG : PICKLE_INT, &v));
    if (n > 8) {
        v->text.p = (const char *)p;
        v->text.n = (size_t)n;
        return DRV_OK;
    }
    for (int i = 7; i >= 0; i--) // the sign fills the bytes above
        bits = bits << 8 | (i < (int)n ? p[i] : n && p[n - 1] & 0x80 ? 0xFF : 0);
    memcpy(&v->integer, &bits, sizeof bits);
    return DRV_OK;
}

// A number of protocol 1 in digits: "7", "7L", and "01" for true. arg: the letter that ends it.
static drv_status op_digits(machine *m, int arg) {
    const char *p;
    size_t n;
    char digits[32];
    pickle_value *v;
    DRV_TRY(take_line(m, &p, &n));
    const bool is_bool = !arg && n == 2 && p[0] == '0' && (p[1] == '0' || p[1] == '1');
    if (arg && n && p[n - 1] == arg) n--;
    if (n >= sizeof digits) return bad(m, "has a number that is too long");
    memcpy(digits, p, n);
    digits[n] = 0;
    DRV_TRY(push_new(m, is_bool ? PICKLE_BOOL : PICKLE_INT, &v));
    return str_to_i64(digits, &v->integer) ? DRV_OK : bad(m, "has no integer of 64 bits");
}

static drv_status op_real(machine *m, int arg DRV_UNUSED) {
    uint64_t bits;
    pickle_value *v;
    DRV_TRY(take_number(m, 8, &bits));
    bits = __builtin_bswap64(bits); // the one big-endian number of the format
    DRV_TRY(push_new(m, PICKLE_REAL, &v));
    memcpy(&v->real, &bits, sizeof bits);
    return DRV_OK;
}

// --- texts. arg: bytes of the length
static drv_status push_text(machine *m, int arg, pickle_kind kind) {
    uint64_t n;
    const unsigned char *p;
    pickle_value *v;
    DRV_TRY(take_number(m, arg, &n));
    DRV_TRY(take(m, n, &p));
    DRV_TRY(push_new(m, kind, &v));
    v->text.p = (const char *)p;
    v->text.n = (size_t)n;
    return DRV_OK;
}

static drv_status op_text(machine *m, int arg) {
    return push_text(m, arg, PICKLE_TEXT);
}

static drv_status op_bytes(machine *m, int arg) {
    return push_text(m, arg, PICKLE_BYTES);
}

// --- lists, tuples, dicts
static drv_status op_mark(machine *m, int arg DRV_UNUSED) {
    return push(m, NULL);
}

static drv_status op_empty(machine *m, int arg) {
    pickle_value *v;
    return push_new(m, (pickle_kind)arg, &v);
}

// arg: items; -1: as many as there are above the mark.
static drv_status op_tuple(machine *m, int arg) {
    pickle_value **items, *v = NULL;
    int n = arg;
    if (arg < 0) {
        DRV_TRY(pop_mark(m, &items, &n));
    } else {
        for (int i = 0; i < n; i++)
            if (i >= m->n_stack || !m->stack[m->n_stack - 1 - i])
                return bad(m, "takes a value where the stack has none");
        m->n_stack -= n;
        items = n ? m->stack + m->n_stack : NULL;
    }
    DRV_TRY(make(m, PICKLE_TUPLE, &v));
    v->list = (pickle_list){ARENA_ARRAY(m->a, pickle_value *, n + 1), n, n};
    if (n) memcpy(v->list.items, items, sizeof *items * (size_t)n);
    return push(m, v);
}

static drv_status op_frozenset(machine *m, int arg) {
    DRV_TRY(op_tuple(m, arg));
    top(m)->kind = PICKLE_SET;
    return DRV_OK;
}

static drv_status list_of(machine *m, pickle_value *v, pickle_list **out) {
    if (!v) return bad(m, "adds to a value where the stack has none");
    if (v->kind == PICKLE_LIST || v->kind == PICKLE_SET)
        *out = &v->list;
    else if (v->kind == PICKLE_CALL)
        *out = &v->call->appended;
    else
        return bad_kind(m, "adds to", v, "a list");
    return DRV_OK;
}

static drv_status add_items(machine *m, pickle_value **items, int n) {
    pickle_list *list = NULL;
    DRV_TRY(list_of(m, top(m), &list));
    for (int i = 0; i < n; i++) {
        ARENA_GROW(m->a, list->items, list->n, list->cap);
        list->items[list->n++] = items[i];
    }
    return DRV_OK;
}

static drv_status op_append(machine *m, int arg DRV_UNUSED) {
    pickle_value *v;
    DRV_TRY(pop(m, &v));
    return add_items(m, &v, 1);
}

static drv_status op_appends(machine *m, int arg DRV_UNUSED) {
    pickle_value **items;
    int n;
    DRV_TRY(pop_mark(m, &items, &n));
    return add_items(m, items, n);
}

static drv_status set_items(machine *m, pickle_value **items, int n) {
    pickle_value *v = top(m);
    if (!v) return bad(m, "sets a key of a value where the stack has none");
    if (v->kind != PICKLE_DICT && v->kind != PICKLE_CALL)
        return bad_kind(m, "sets a key of", v, "a dict");
    pickle_dict *dict = v->kind == PICKLE_DICT ? &v->dict : &v->call->set;
    if (n % 2) return bad(m, "has a key without a value");
    for (int i = 0; i < n; i += 2) {
        ARENA_GROW(m->a, dict->entries, dict->n, dict->cap);
        dict->entries[dict->n++] = (pickle_entry){items[i], items[i + 1]};
    }
    return DRV_OK;
}

static drv_status op_set_item(machine *m, int arg DRV_UNUSED) {
    pickle_value *pair[2];
    DRV_TRY(pop(m, &pair[1]));
    DRV_TRY(pop(m, &pair[0]));
    return set_items(m, pair, 2);
}

static drv_status op_set_items(machine *m, int arg DRV_UNUSED) {
    pickle_value **items;
    int n;
    DRV_TRY(pop_mark(m, &items, &n));
    return set_items(m, items, n);
}

// --- names and calls
static drv_status push_name(machine *m, const char *module, size_t n_module, const char *name,
        size_t n_name) {
    const pickle_name *lists[] = {m->opts->names, m->opts->more_names};
    pickle_value *v;
    for (int k = 0; k < 2; k++)
        for (const pickle_name *i = lists[k]; i && i->name; i++)
            if (strlen(i->module) == n_module && memcmp(i->module, module, n_module) == 0 &&
                    strlen(i->name) == n_name && memcmp(i->name, name, n_name) == 0) {
                DRV_TRY(push_new(m, PICKLE_NAME, &v));
                v->name = i;
                return DRV_OK;
            }
    return drv_fail(DRV_E_DATA,
            "%s: byte %lld: the pickle names \"%.*s.%.*s\", which is not one of the names that "
            "tensors need; nothing of it was run",
            m->path, (long long)(m->base + (int64_t)m->opcode_at),
            (int)(n_module < MAX_NAME ? n_module : MAX_NAME), module,
            (int)(n_name < MAX_NAME ? n_name : MAX_NAME), name);
}

static drv_status op_global(machine *m, int arg DRV_UNUSED) {
    const char *module, *name;
    size_t n_module, n_name;
    DRV_TRY(take_line(m, &module, &n_module));
    DRV_TRY(take_line(m, &name, &n_name));
    return push_name(m, module, n_module, name, n_name);
}

static drv_status op_stack_global(machine *m, int arg DRV_UNUSED) {
    pickle_value *module, *name;
    DRV_TRY(pop(m, &name));
    DRV_TRY(pop(m, &module));
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)
        return bad(m, "has a name that is not a text");
    return push_name(m, module->text.p, module->text.n, name->text.p, name->text.n);
}

// arg: whether a dict of named arguments is on top, which has to be empty.
static drv_status op_call(machine *m, int arg) {
    pickle_value *callee, *arguments, *named, *v;
    if (arg) {
        DRV_TRY(pop(m, &named));
        if (named->kind != PICKLE_DICT || named->dict.n) return bad(m, "has named arguments");
    }
    DRV_TRY(pop(m, &arguments));
    DRV_TRY(pop(m, &callee));
    if (callee->kind != PICKLE_NAME) return bad_kind(m, "calls", callee, "a name");
    if (arguments->kind != PICKLE_TUPLE)
        return bad_kind(m, "calls a name with", arguments, "a tuple");
    DRV_TRY(push_new(m, PICKLE_CALL, &v));
    v->call = ARENA_NEW(m->a, pickle_call);
    v->call->name = callee->name;
    v->call->arguments = arguments;
    // Protocol 1 makes an object by a call of this function with its class.
    if (strcmp(callee->name->name, "_reconstructor") == 0 && arguments->list.n &&
            arguments->list.items[0]->kind == PICKLE_NAME)
        v->call->name = arguments->list.items[0]->name;
    return DRV_OK;
}

static drv_status op_build(machine *m, int arg DRV_UNUSED) {
    pickle_value *state;
    DRV_TRY(pop(m, &state));
    if (!top(m) || top(m)->kind != PICKLE_CALL)
        return bad(m, "sets the state of a value that is not an object");
    if (top(m)->call->state) return bad(m, "sets the state of an object that has one");
    top(m)->call->state = state;
    return DRV_OK;
}

static drv_status op_persistent(machine *m, int arg DRV_UNUSED) {
    pickle_value *id, *v;
    DRV_TRY(pop(m, &id));
    DRV_TRY(push_new(m, PICKLE_PERSISTENT, &v));
    v->id = id;
    ARENA_GROW(m->a, m->persistent.items, m->persistent.n, m->persistent.cap);
    m->persistent.items[m->persistent.n++] = v;
    return DRV_OK;
}

// --- the machine itself
static drv_status op_proto(machine *m, int arg DRV_UNUSED) {
    uint64_t version;
    DRV_TRY(take_number(m, 1, &version));
    return version <= 5 ? DRV_OK : bad(m, "has a protocol above 5");
}

// A frame announces how many bytes follow. All are in memory, so it is only checked.
static drv_status op_frame(machine *m, int arg DRV_UNUSED) {
    uint64_t n;
    const unsigned char *p;
    DRV_TRY(take_number(m, 8, &n));
    const size_t at = m->at;
    DRV_TRY(take(m, n, &p));
    m->at = at;
    return DRV_OK;
}

static drv_status op_stop(machine *m, int arg DRV_UNUSED) {
    if (m->n_stack != 1 || !top(m)) return bad(m, "ends a pickle that is not one value");
    m->stopped = true;
    return DRV_OK;
}

static drv_status op_pop(machine *m, int arg) {
    pickle_value **items, *v;
    int n;
    if (arg || (m->n_stack && !top(m))) return pop_mark(m, &items, &n);
    return pop(m, &v);
}

static drv_status op_dup(machine *m, int arg DRV_UNUSED) {
    return top(m) ? push(m, top(m)) : bad(m, "takes a value where the stack has none");
}

// arg: bytes of the index; 0: the number of entries so far (MEMOIZE).
static drv_status op_put(machine *m, int arg) {
    uint64_t index = (uint64_t)m->n_memo;
    if (arg) DRV_TRY(take_number(m, arg, &index));
    return memo_put(m, index);
}

static drv_status op_get(machine *m, int arg) {
    uint64_t index;
    DRV_TRY(take_number(m, arg, &index));
    return memo_get(m, index);
}

static const struct opcode {
    const char *name;
    drv_status (*run)(machine *m, int arg);
    int arg;
} opcodes[256] = {
        [0x80] = {"PROTO", op_proto, 0},
        [0x95] = {"FRAME", op_frame, 0},
        ['.'] = {"STOP", op_stop, 0},
        ['0'] = {"POP", op_pop, 0},
        ['1'] = {"POP_MARK", op_pop, 1},
        ['2'] = {"DUP", op_dup, 0},
        ['q'] = {"BINPUT", op_put, 1},
        ['r'] = {"LONG_BINPUT", op_put, 4},
        [0x94] = {"MEMOIZE", op_put, 0},
        ['h'] = {"BINGET", op_get, 1},
        ['j'] = {"LONG_BINGET", op_get, 4},
        ['N'] = {"NONE", op_constant, -1},
        [0x89] = {"NEWFALSE", op_constant, 0},
        [0x88] = {"NEWTRUE", op_constant, 1},
        ['I'] = {"INT", op_digits, 0},
        ['L'] = {"LONG", op_digits, 'L'},
        ['K'] = {"BININT1", op_int, 1},
        ['M'] = {"BININT2", op_int, 2},
        ['J'] = {"BININT", op_int, 4},
        [0x8a] = {"LONG1", op_long, 1},
        [0x8b] = {"LONG4", op_long, 4},
        ['G'] = {"BINFLOAT", op_real, 0},
        ['U'] = {"SHORT_BINSTRING", op_text, 1}, // the text of Python 2
        ['T'] = {"BINSTRING", op_text, 4},
        [0x8c] = {"SHORT_BINUNICODE", op_text, 1},
        ['X'] = {"BINUNICODE", op_text, 4},
        [0x8d] = {"BINUNICODE8", op_text, 8},
        ['C'] = {"SHORT_BINBYTES", op_bytes, 1},
        ['B'] = {"BINBYTES", op_bytes, 4},
        [0x8e] = {"BINBYTES8", op_bytes, 8},
        [0x96] = {"BYTEARRAY8", op_bytes, 8},
        ['('] = {"MARK", op_mark, 0},
        [')'] = {"EMPTY_TUPLE", op_tuple, 0},
        [0x85] = {"TUPLE1", op_tuple, 1},
        [0x86] = {"TUPLE2", op_tuple, 2},
        [0x87] = {"TUPLE3", op_tuple, 3},
        ['t'] = {"TUPLE", op_tuple, -1},
        [']'] = {"EMPTY_LIST", op_empty, PICKLE_LIST},
        ['l'] = {"LIST", NULL, 0},
        ['a'] = {"APPEND", op_append, 0},
        ['e'] = {"APPENDS", op_appends, 0},
        [0x8f] = {"EMPTY_SET", op_empty, PICKLE_SET},
        [0x90] = {"ADDITEMS", op_appends, 0},
        [0x91] = {"FROZENSET", op_frozenset, -1},
        ['}'] = {"EMPTY_DICT", op_empty, PICKLE_DICT},
        ['d'] = {"DICT", NULL, 0},
        ['s'] = {"SETITEM", op_set_item, 0},
        ['u'] = {"SETITEMS", op_set_items, 0},
        ['c'] = {"GLOBAL", op_global, 0},
        [0x93] = {"STACK_GLOBAL", op_stack_global, 0},
        ['R'] = {"REDUCE", op_call, 0},
        [0x81] = {"NEWOBJ", op_call, 0},
        [0x92] = {"NEWOBJ_EX", op_call, 1},
        ['b'] = {"BUILD", op_build, 0},
        ['Q'] = {"BINPERSID", op_persistent, 0},
        // Opcodes of protocol 0, of a registry of classes, and of buffers outside the pickle.
        ['F'] = {"FLOAT", NULL, 0},
        ['S'] = {"STRING", NULL, 0},
        ['V'] = {"UNICODE", NULL, 0},
        ['p'] = {"PUT", NULL, 0},
        ['g'] = {"GET", NULL, 0},
        ['P'] = {"PERSID", NULL, 0},
        ['i'] = {"INST", NULL, 0},
        ['o'] = {"OBJ", NULL, 0},
        [0x82] = {"EXT1", NULL, 0},
        [0x83] = {"EXT2", NULL, 0},
        [0x84] = {"EXT4", NULL, 0},
        [0x97] = {"NEXT_BUFFER", NULL, 0},
        [0x98] = {"READONLY_BUFFER", NULL, 0},
};

static const char *opcode_name(unsigned char code) {
    return opcodes[code].name ? opcodes[code].name : "(that does not exist)";
}

static drv_status run(machine *m) {
    while (!m->stopped) {
        m->opcode_at = m->at;
        if (m->at == m->n) {
            ended_early = true;
            return drv_fail(DRV_E_DATA,
                    "%s: the pickle ends at byte %lld without STOP: is it truncated?", m->path,
                    (long long)(m->base + (int64_t)m->n));
        }
        const struct opcode *op = &opcodes[m->p[m->at++]];
        if (!op->run) return bad(m, "is not one that tensors need");
        DRV_TRY(op->run(m, op->arg));
    }
    return DRV_OK;
}

drv_status pickle_read(arena *a, const char *path, int64_t base, const void *p, size_t n,
        const pickle_opts *opts, pickle *out) {
    machine m = {.a = a,
            .path = path,
            .base = base,
            .p = p,
            .n = n,
            .opts = opts,
            .max_values = opts->max_values ? opts->max_values : MAX_VALUES};
    ended_early = false;
    drv_status status = run(&m);
    if (status == DRV_OK) {
        const int max_depth = opts->max_depth ? opts->max_depth : MAX_DEPTH;
        status = pickle_check(path, m.stack[0], max_depth);
    }
    if (status == DRV_OK) *out = (pickle){m.stack[0], m.persistent, m.at};
    free(m.stack);
    free(m.memo);
    return status;
}
