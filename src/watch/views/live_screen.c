// Shows the grid of cells by ncurses and reads keys.
#include "watch/views/live_screen.h"

#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "watch/views/curses_calls.h"

struct live_screen {
    FILE *out;
    SCREEN *terminal;
    WINDOW *all;
    bool colour;
};

drv_status live_screen_open(arena *a, bool colour, live_screen **out) {
    DRV_TRY(curses_open());
    setlocale(LC_CTYPE, ""); // or ncurses takes UTF-8 for Latin 1
    live_screen *self = ARENA_NEW(a, live_screen);
    // ncurses writes to the descriptor of a stream, and stdout may have none (cli/stdout.c).
    const int fd = dup(STDOUT_FILENO);
    self->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!self->out) return file_fail("open", "standard output");
    self->terminal = curses->newterm(NULL, self->out, stdin);
    if (!self->terminal) {
        fclose(self->out);
        const char *term = getenv("TERM");
        return drv_fail(DRV_E_IO,
                "ncurses does not know the terminal \"%s\" (TERM); --once does without it",
                term ? term : "");
    }
    self->colour = colour && curses->has_colors();
    if (self->colour) {
        static const short colours[N_STYLES] = {[STYLE_GOOD] = COLOR_GREEN,
                [STYLE_WAIT] = COLOR_MAGENTA,
                [STYLE_DATA] = COLOR_YELLOW,
                [STYLE_SAVE] = COLOR_BLUE,
                [STYLE_BAD] = COLOR_RED};
        curses->start_color();
        curses->use_default_colors();
        for (short i = STYLE_GOOD; i < N_STYLES; i++)
            curses->init_pair(i, colours[i], -1);
    }
    curses->cbreak();
    curses->noecho();
    curses->curs_set(0);
    self->all = curses->newwin(0, 0, 0, 0);
    curses->keypad(self->all, true);
    *out = self;
    return DRV_OK;
}

void live_screen_size(const live_screen *self, int *columns, int *rows) {
    *columns = curses->getmaxx(self->all);
    *rows = curses->getmaxy(self->all);
}

static int attributes(const live_screen *self, int style) {
    static const int of[N_STYLES] = {[STYLE_BOLD] = (int)A_BOLD,
            [STYLE_DIM] = (int)A_DIM,
            [STYLE_SELECTED] = (int)A_REVERSE,
            [STYLE_BAD] = (int)A_BOLD};
    return of[style] | (self->colour && style >= STYLE_GOOD ? curses->COLOR_PAIR(style) : 0);
}

void live_screen_show(live_screen *self, const screen *shown) {
    int columns, rows;
    live_screen_size(self, &columns, &rows);
    curses->werase(self->all);
    for (int row = 0; row < rows && row < shown->rows; row++)
        for (int i = 0; i < columns && i < shown->columns; i++) {
            const cell *c = &shown->cells[row * shown->columns + i];
            if (!*c->text) continue;
            curses->wattrset(self->all, attributes(self, c->style));
            curses->wmove(self->all, row, i);
            curses->waddnstr(self->all, c->text, -1);
        }
    curses->wrefresh(self->all);
}

int live_screen_key(live_screen *self, int milliseconds) {
    curses->wtimeout(self->all, milliseconds);
    const int key = curses->wgetch(self->all);
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    switch (key) {
    case ERR: // no key, or the terminal is gone
        return poll(&in, 1, 0) > 0 && in.revents & (POLLHUP | POLLERR | POLLNVAL) ? -1
                                                                                  : KEY_OF_NONE;
    case KEY_UP:
        return KEY_OF_UP;
    case KEY_DOWN:
        return KEY_OF_DOWN;
    case KEY_PPAGE:
        return KEY_OF_PAGE_UP;
    case KEY_NPAGE:
        return KEY_OF_PAGE_DOWN;
    case KEY_RESIZE:
        return KEY_OF_RESIZE;
    default:
        return key > 0 && key < 256 ? key : KEY_OF_NONE;
    }
}

void live_screen_close(live_screen *self) {
    curses->endwin();
    curses->delwin(self->all);
    curses->delscreen(self->terminal);
    fclose(self->out);
}
