// Pickles that are hostile or broken: each ends in one line that names the byte and the opcode, in
// little memory. tests/test_torch_file.c has the good ones.
#include "harness.h"

#include "pickle/torch_file.h"

static drv_status read_bytes(arena *a, const void *p, size_t n, pickle *out) {
    static const pickle_opts opts = {.names = torch_names};
    return pickle_read(a, "x.pt", 0, p, n, &opts, out);
}

#define BYTES(text)                                                                                \
    { text, sizeof(text) - 1 }
typedef struct bytes {
    const char *p;
    size_t n;
} bytes;

TEST(names_that_tensors_do_not_need) {
    static const struct {
        bytes pickle;
        const char *says;
    } cases[] = {{BYTES("\x80\2cos\nsystem\nX\2\0\0\0id\x85R."),
                         "byte 2: the pickle names \"os.system\""},
            {BYTES("\x80\4\x8c\5posix\x8c\6system\x93\x8c\2id\x85R."), "names \"posix.system\""},
            {BYTES("c__builtin__\neval\nX\1\0\0\0001\x85R."), "names \"__builtin__.eval\""},
            {BYTES("cbuiltins\ngetattr\n."), "names \"builtins.getattr\""},
            {BYTES("ctorch._utils\n_rebuild_tensor_v2x\n."), "_rebuild_tensor_v2x"},
            {BYTES("ctorch\nTensor.__class__\n."), "names \"torch.Tensor.__class__\""},
            {BYTES("ctorch._utils._rebuild_tensor_v2\n\n."), "which is not one of the names"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pickle found;
        FAILS(read_bytes(a, cases[i].pickle.p, cases[i].pickle.n, &found), DRV_E_DATA,
                cases[i].says);
        if (!strstr(drv_message(), "nothing of it was run")) fail_msg("%s", drv_message());
    }
}

TEST(opcodes_that_do_not_fit) {
    static const struct {
        bytes pickle;
        const char *says;
    } cases[] = {{BYTES(""), "ends at byte 0 without STOP"}, {BYTES("."), "is not one value"},
            {BYTES("NN."), "is not one value"}, {BYTES("(."), "is not one value"},
            {BYTES("0."), "byte 0: opcode POP takes a value"}, {BYTES("t."), "needs a mark"},
            {BYTES("N\x87."), "opcode TUPLE3 takes a value"}, {BYTES("(\x85."), "TUPLE1 takes"},
            {BYTES("}(Nu."), "SETITEMS has a key without"}, {BYTES("NNNs."), "sets a key of None"},
            {BYTES("NNa."), "opcode APPEND adds to None, expected a list"},
            {BYTES("(Na."), "adds to a value where the stack has none"},
            {BYTES("N)R."), "opcode REDUCE calls None, expected a name"},
            {BYTES("ctorch\nSize\nNR."), "calls a name with None, expected a tuple"},
            {BYTES("ctorch\nSize\n)}(NNu\x92."), "has named arguments"},
            {BYTES("]Nb."), "BUILD sets the state of a value that is not an object"},
            {BYTES("ctorch\nSize\n)R}b}b."), "of an object that has one"},
            {BYTES("h\5."), "opcode BINGET asks the memo"}, {BYTES("q\0."), "keeps a value where"},
            {BYTES("j\377\377\377\377."), "asks the memo"},
            {BYTES("Nr\377\377\377\377."), "LONG_BINPUT has a memo index that is too large"},
            {BYTES("\x80\6N."), "has a protocol above 5"},
            {BYTES("Fx\n."), "opcode FLOAT is not one"},
            {BYTES("\x82\1."), "opcode EXT1 is not one"}, {BYTES("\x97."), "NEXT_BUFFER"},
            {BYTES("Pid\n."), "opcode PERSID is not one"},
            {BYTES("\377."), "is not one that tensors"},
            {BYTES("(ios\nsystem\n."), "opcode INST is not one"},
            {BYTES("I1x\n."), "no integer of 64"},
            {BYTES("L99999999999999999999L\n."), "no integer of 64 bits"},
            {BYTES("NN\x93."), "has a name that is not a text"},
            {BYTES("X\377\377\377\377ab."), "within opcode BINUNICODE at byte 0: is it truncated?"},
            {BYTES("\x8d\377\377\377\377\377\377\377\377x."), "within opcode BINUNICODE8"},
            {BYTES("\x8e\0\0\0\0\0\0\0\x80x."), "within opcode BINBYTES8"},
            {BYTES("\x8b\0\0\0\x80x."), "within opcode LONG4"},
            {BYTES("\x80\4\x95\0\0\0\0\1\0\0\0N."), "within opcode FRAME at byte 2"},
            {BYTES("ctorch\nSize"), "within opcode GLOBAL"},
            {BYTES("]q\0h\0a."), "byte 0: the pickle has a list that contains itself"},
            {BYTES("}q\0Nh\0s."), "a dict that contains itself"},
            {BYTES("]q\0(h\0ta."), "contains itself"},
            {BYTES("ctorch\nSize\n)Rq\0h\0b."), "an object that contains itself"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pickle found;
        FAILS(read_bytes(a, cases[i].pickle.p, cases[i].pickle.n, &found), DRV_E_DATA,
                cases[i].says);
        assert_null(strchr(drv_message(), '\n'));
    }
}

// A list in a list and so on. 99 of them can be read, 101 cannot; a million cost no stack.
TEST(deep_values) {
    static const int depths[] = {99, 101, 1000000};
    for (int i = 0; i < 3; i++) {
        str s = {0};
        pickle found;
        for (int k = 0; k < depths[i]; k++)
            str_puts(&s, "]");
        for (int k = 1; k < depths[i]; k++)
            str_puts(&s, "a");
        str_puts(&s, ".");
        if (i == 0)
            OK(read_bytes(a, s.p, s.n, &found));
        else
            FAILS(read_bytes(a, s.p, s.n, &found), DRV_E_DATA, "nests values more than 100 deep");
        str_free(&s);
    }
}

// Each list has the one before it twice: 2^90 paths, 91 values. The same deeper than is allowed.
TEST(lists_that_double) {
    for (int depth = 90; depth <= 120; depth += 30) {
        str s = {0};
        pickle found;
        // Only the last list stays on the stack: the others go into a tuple that is dropped.
        str_add(&s, "(]q\0", 4);
        for (int k = 1; k < depth; k++)
            str_add(&s,
                    (char[]){']', '(', 'h', (char)(k - 1), 'h', (char)(k - 1), 'e', 'q', (char)k},
                    9);
        str_add(&s, (char[]){'t', '0', 'h', (char)(depth - 1), '.'}, 5);
        if (depth == 90) {
            OK(read_bytes(a, s.p, s.n, &found));
            assert_ptr_equal(found.root->list.items[0], found.root->list.items[1]);
        } else {
            FAILS(read_bytes(a, s.p, s.n, &found), DRV_E_DATA, "more than 100 deep");
        }
        str_free(&s);
    }
}

TEST(more_values_than_are_allowed) {
    const pickle_opts opts = {.names = torch_names, .max_values = 1000};
    static const char *const fillers[] = {"N", "K\1", "(", "]", "2"};
    pickle found;
    for (int i = 0; i < 5; i++) {
        str s = {0};
        str_puts(&s, "]");
        for (int k = 0; k < 2000; k++)
            str_puts(&s, fillers[i]);
        FAILS(pickle_read(a, "x.pt", 0, s.p, s.n, &opts, &found), DRV_E_DATA,
                i == 2 || i == 4 ? "makes the stack too long" : "has more than 1000 values");
        str_free(&s);
    }
}
