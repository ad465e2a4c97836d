// Writes text into the grid of cells, and prints it.
#include "watch/views/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status_line.h"

screen screen_new(int columns, int rows) {
    const int c = columns > 0 ? columns : 1, r = rows > 0 ? rows : 1;
    return (screen){c, r, mem_zeroed(sizeof(cell) * (size_t)c * (size_t)r)};
}

void screen_free(screen *s) {
    free(s->cells);
    *s = (screen){0};
}

// Returns the bytes of the character at `text`, valid UTF-8; *narrow: it takes one column.
static size_t character(const char *text, bool *narrow) {
    size_t n = 1;
    while ((text[n] & 0xc0) == 0x80)
        n++;
    *narrow = n < sizeof((cell *)0)->text && text_fit(text, 1) >= n && text_fit(text, 0) == 0;
    return n;
}

int screen_put(screen *s, int row, int column, cell_style style, const char *text) {
    str clean = {0};
    if (row < 0 || row >= s->rows || column < 0) return column;
    text_add_clean(&clean, text, false);
    for (const char *glyph = clean.n ? clean.p : ""; *glyph && column < s->columns; column++) {
        bool narrow;
        const size_t n = character(glyph, &narrow);
        cell *c = &s->cells[row * s->columns + column];
        *c = (cell){.text = "?", .style = (unsigned char)style};
        if (narrow) memcpy(c->text, glyph, n);
        glyph += n;
    }
    str_free(&clean);
    return column;
}

int screen_printf(screen *s, int row, int column, cell_style style, const char *fmt, ...) {
    char text[1024];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return screen_put(s, row, column, style, text);
}

int screen_put_lines(screen *s, int row, int rows, cell_style style, const char *text) {
    char *copy = mem_alloc(strlen(text) + 1), *rest = copy;
    memcpy(copy, text, strlen(text) + 1);
    for (char *line; rows > 0 && row < s->rows && (line = strsep(&rest, "\n")); rows--, row++) {
        if (!rest && !*line) break;
        screen_put(s, row, 0, style, line);
    }
    free(copy);
    return row;
}

static const char *code_of(int style) {
    static const char *const codes[N_STYLES] = {"", "1", "2", "7", "32", "35", "33", "34", "1;31"};
    return codes[style];
}

static int last_used(const screen *s, int row) {
    int n = s->columns;
    while (n > 0 && (!*s->cells[row * s->columns + n - 1].text ||
                            strcmp(s->cells[row * s->columns + n - 1].text, " ") == 0))
        n--;
    return n;
}

void screen_print(const screen *s, bool colour, str *out) {
    int rows = s->rows;
    while (rows > 0 && last_used(s, rows - 1) == 0)
        rows--;
    for (int row = 0; row < rows; row++) {
        int style = STYLE_PLAIN;
        const int n = last_used(s, row);
        for (int i = 0; i < n; i++) {
            const cell *c = &s->cells[row * s->columns + i];
            if (colour && c->style != style) {
                str_printf(out, "\033[0;%sm", code_of(c->style));
                style = c->style;
            }
            str_puts(out, *c->text ? c->text : " ");
        }
        str_puts(out, style != STYLE_PLAIN ? "\033[0m\n" : "\n");
    }
}
