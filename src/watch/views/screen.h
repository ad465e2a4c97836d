// A grid of characters with styles: what `drover top` draws into, whether it is printed once or
// shown by ncurses.
#pragma once
#include "base/str.h"

typedef enum cell_style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_SELECTED,
    STYLE_GOOD, // and computing
    STYLE_WAIT,
    STYLE_DATA,
    STYLE_SAVE,
    STYLE_BAD,
    N_STYLES
} cell_style;

typedef struct cell {
    char text[5]; // one character of one column in UTF-8; "": blank
    unsigned char style;
} cell;

typedef struct screen {
    int columns, rows;
    cell *cells; // [rows * columns], of mem_alloc
} screen;

screen screen_new(int columns, int rows);
void screen_free(screen *s);
// Puts text at a place, as far as there is room; returns the column after it. Text may be anything:
// control characters, wide ones and broken UTF-8 become "?".
int screen_put(screen *s, int row, int column, cell_style style, const char *text);
int screen_printf(screen *s, int row, int column, cell_style style, const char *fmt, ...)
        __attribute__((format(printf, 5, 6)));
// Puts lines below each other, at most so many rows; returns the row after them.
int screen_put_lines(screen *s, int row, int rows, cell_style style, const char *text);
// Adds the lines as text up to the last one with anything in it, with colours if asked.
void screen_print(const screen *s, bool colour, str *out);
