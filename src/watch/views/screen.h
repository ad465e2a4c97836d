// A grid of styled characters that `drover top` draws into, to be printed once or shown by ncurses.
#pragma once
#include "base/str.h"

typedef enum cell_style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_SELECTED,
    STYLE_GOOD, // also: computing
    STYLE_WAIT,
    STYLE_DATA,
    STYLE_SAVE,
    STYLE_BAD,
    N_STYLES
} cell_style;

typedef struct cell {
    char text[5]; // a character one column wide, in UTF-8; "": blank
    unsigned char style;
} cell;

typedef struct screen {
    int columns, rows;
    cell *cells; // [rows * columns], of mem_alloc
} screen;

screen screen_new(int columns, int rows);
void screen_free(screen *s);
// Writes text at a position, truncated to the row, and returns the column after it. Control
// characters, wide characters and invalid UTF-8 become "?".
int screen_put(screen *s, int row, int column, cell_style style, const char *text);
int screen_printf(screen *s, int row, int column, cell_style style, const char *fmt, ...)
        __attribute__((format(printf, 5, 6)));
// Writes lines one below the other, at most `rows` of them, and returns the row after the last.
int screen_put_lines(screen *s, int row, int rows, cell_style style, const char *text);
// Appends the rows as text, up to the last one that is not blank, with colours if asked.
void screen_print(const screen *s, bool colour, str *out);
