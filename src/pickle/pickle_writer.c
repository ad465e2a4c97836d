// Writes opcodes, each as Lib/pickletools.py describes it.
#include "pickle/pickle_writer.h"

#include <string.h>

static void put_byte(str *out, int byte) {
    const unsigned char b = (unsigned char)byte;
    str_add(out, &b, 1);
}

void pickle_put(str *out, pickle_put_op op) {
    put_byte(out, (int)op);
}

void pickle_begin(str *out) {
    str_add(out, "\x80\x02", 2); // PROTO 2
}

void pickle_end(str *out) {
    put_byte(out, '.');
}

void pickle_put_int(str *out, int64_t value) {
    const int32_t small = (int32_t)value;
    if (value >= 0 && value < 256) {
        put_byte(out, 'K');
        put_byte(out, (int)value);
    } else if (small == value) {
        put_byte(out, 'J');
        str_add(out, &small, sizeof small);
    } else {
        str_add(out, "\x8a\x08", 2); // LONG1 of 8 bytes
        str_add(out, &value, sizeof value);
    }
}

// The only number of a pickle that is big-endian.
void pickle_put_real(str *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_byte(out, 'G');
    for (int shift = 56; shift >= 0; shift -= 8)
        put_byte(out, (int)(bits >> shift & 0xFF));
}

void pickle_put_bool(str *out, bool value) {
    pickle_put(out, value ? PUT_TRUE : PUT_FALSE);
}

void pickle_put_text(str *out, const char *text) {
    const uint32_t n = (uint32_t)strlen(text);
    put_byte(out, 'X');
    str_add(out, &n, sizeof n);
    str_add(out, text, n);
}

void pickle_put_global(str *out, const char *module, const char *name) {
    str_printf(out, "c%s\n%s\n", module, name);
}

void pickle_put_ints(str *out, const int64_t *values, int n) {
    if (n == 0) {
        pickle_put(out, PUT_EMPTY_TUPLE);
        return;
    }
    pickle_put(out, PUT_MARK);
    for (int i = 0; i < n; i++)
        pickle_put_int(out, values[i]);
    pickle_put(out, PUT_TUPLE);
}
