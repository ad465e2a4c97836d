// The files of the shell reader share these: where it is, and what it knows of a word.
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
    const char *block; // the block of which nobody knows whether it runs: "the if in line 12";
                       // NULL: none
    const char *why;   // what is not known of the block; NULL: the block itself
    bool dead;         // what is read does not run: nothing is assigned
    int n_words;
} reader;

typedef struct word_list {
    shell_word *words;
    int n, cap;
} word_list;

typedef enum verdict { TEST_FALSE, TEST_TRUE, TEST_UNKNOWN } verdict;

// The letters at the reader's place; 0 behind the end.
bool shell_at_end(const reader *self);
char shell_peek(const reader *self, int ahead);
void shell_advance(reader *self, int n);
int shell_name_length(const reader *self);
const char *shell_take(reader *self, int n);
void shell_skip_blanks(reader *self);
drv_status shell_refuse(const reader *self, int line, const char *what);
// Refuses a form of the shell that is not in the grammar, by its name.
drv_status shell_refuse_form(const reader *self, int line, const char *name);

// Sets a variable, which is unknown where the block is. `items`: those of a list; NULL: none.
void shell_assign(reader *self, const char *name, const shell_word *value, const word_list *items);
// Goes from an opening bracket past the one that closes it. DRV_E_USAGE: none does.
DRV_CHECKED drv_status shell_skip_balanced(reader *self, char open, char close);
// Adds the word at the reader's place to `list`: none where variables leave nothing of it, several
// where they hold blanks.
DRV_CHECKED drv_status shell_read_word(reader *self, word_list *list);
// Reads the value of an assignment, up to a letter in WORD_ENDS; the words of a list are added to
// `items`. `before`: what it is appended to; NULL: nothing.
DRV_CHECKED drv_status shell_read_value(reader *self, const shell_variable *before, shell_word *out,
        word_list *items);

// Counts a word or an assignment. DRV_E_USAGE: they are too many.
DRV_CHECKED drv_status shell_count_word(reader *self, int line);
// Returns the variable of this name, which is made where there is none.
shell_variable *shell_variable_named(shell_script *script, const char *name);
// The length of the name of an argument at the reader's place, as "1" or "@"; 0: none stands there,
// or the arguments are not known.
int shell_argument_length(const reader *self);
// Returns an argument; one that was not given is empty. "@" and "*" are all, "#" their number.
shell_word shell_argument(const reader *self, const char *name);
void shell_shift(shell_script *script, const shell_word *words, int n_words);
// getopts OPTIONS NAME: takes the next option into NAME, OPTARG and OPTIND.
verdict shell_getopts(reader *self, const word_list *list);

// Finds the value of what stands in $((...)) by the variables of the script; false: it is not
// known, or it is not + - * / and brackets on whole numbers of 64 bits.
bool shell_arithmetic(const shell_script *script, const char *text, size_t n, int64_t *out);
// Decides the command of a condition: [ ... ], [[ ... ]] or test on strings and numbers, -v, -z,
// -n. *why: what is not known where it is unknown; NULL: the command itself.
verdict shell_test(const shell_script *script, const shell_word *words, int n_words,
        const char **why);
