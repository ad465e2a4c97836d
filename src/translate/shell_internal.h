// The state and functions that the files of the shell reader share.
#pragma once
#include "base/str.h"
#include "translate/shell.h"

enum { MAX_NESTED = 64, MAX_VALUE = 1 << 16, MAX_WORDS = 10000 };
#define WORD_ENDS " \t\r\n;&|<>()"

typedef struct reader {
    arena *a;
    const char *file, *p, *end;
    int line;
    shell_script *script;
    const char *block; // the enclosing block if it is unknown whether it runs: "the if in line 12";
                       // NULL: none
    const char *why;   // the unknown on which the block depends; NULL: the block itself
    bool dead;         // the text being read does not run: nothing is assigned
    int n_words;
} reader;

typedef struct word_list {
    shell_word *words;
    int n, cap;
} word_list;

typedef enum verdict { TEST_FALSE, TEST_TRUE, TEST_UNKNOWN } verdict;

// The character at the reader's position; 0 at the end.
bool shell_at_end(const reader *self);
char shell_peek(const reader *self, int ahead);
void shell_advance(reader *self, int n);
int shell_name_length(const reader *self);
const char *shell_take(reader *self, int n);
void shell_skip_blanks(reader *self);
drv_status shell_refuse(const reader *self, int line, const char *what);
// Refuses a form of the shell that is not in the grammar, by its name.
drv_status shell_refuse_form(const reader *self, int line, const char *name);

// Sets a variable; it becomes unknown inside a block. `items`: the elements of a list; NULL: none.
void shell_assign(reader *self, const char *name, const shell_word *value, const word_list *items);
// Adds the word at the reader's position to `list`: none if its variables are empty, several if
// they contain blanks.
DRV_CHECKED drv_status shell_read_word(reader *self, word_list *list);
// Reads the value of an assignment, up to a character in WORD_ENDS; the words of a list are added
// to `items`. `before`: the variable to which it is appended; NULL: none.
DRV_CHECKED drv_status shell_read_value(reader *self, const shell_variable *before, shell_word *out,
        word_list *items);

// Counts a word or an assignment. DRV_E_USAGE: there are too many.
DRV_CHECKED drv_status shell_count_word(reader *self, int line);
// Returns the variable of this name, and makes it if there is none.
shell_variable *shell_variable_named(shell_script *script, const char *name);
// Returns the length of the name of an argument, as "1" or "@", at the reader's position; 0: there
// is none, or the arguments are not known.
int shell_argument_length(const reader *self);
// Returns an argument; one that was not given is empty. "@" and "*" mean all of them, "#" their
// number.
shell_word shell_argument(const reader *self, const char *name);
void shell_shift(shell_script *script, const shell_word *words, int n_words);
// Runs getopts OPTIONS NAME: sets NAME, OPTARG and OPTIND from the next option.
verdict shell_getopts(reader *self, const word_list *list);

// Computes the content of $((...)) with the variables of the script; false: one is not known, or it
// is not + - * / and brackets on 64-bit integers.
bool shell_arithmetic(const shell_script *script, const char *text, size_t n, int64_t *out);
// Evaluates a condition: [ ... ], [[ ... ]] or test with strings and numbers, -v, -z, -n. *why: the
// unknown part if the result is unknown; NULL: the command itself.
verdict shell_test(const shell_script *script, const shell_word *words, int n_words,
        const char **why);
