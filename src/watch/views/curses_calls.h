// The ncurses functions that `drover top` calls; no other file sees its header. The library is
// loaded when the first screen is opened (base/library.h).
#pragma once
#define NCURSES_NOMACROS 1 // no macros, since only functions can be looked up
#define NCURSES_WIDECHAR 0
#include <curses.h>

#include "base/status.h"

typedef struct curses_calls {
    __typeof__(newterm) *newterm;
    __typeof__(newwin) *newwin;
    __typeof__(delwin) *delwin;
    __typeof__(endwin) *endwin;
    __typeof__(delscreen) *delscreen;
    __typeof__(cbreak) *cbreak;
    __typeof__(noecho) *noecho;
    __typeof__(keypad) *keypad;
    __typeof__(curs_set) *curs_set;
    __typeof__(wtimeout) *wtimeout;
    __typeof__(wgetch) *wgetch;
    __typeof__(werase) *werase;
    __typeof__(wmove) *wmove;
    __typeof__(waddnstr) *waddnstr;
    __typeof__(wattrset) *wattrset;
    __typeof__(wrefresh) *wrefresh;
    __typeof__(clearok) *clearok;
    __typeof__(getmaxx) *getmaxx;
    __typeof__(getmaxy) *getmaxy;
    __typeof__(has_colors) *has_colors;
    __typeof__(start_color) *start_color;
    __typeof__(use_default_colors) *use_default_colors;
    __typeof__(init_pair) *init_pair;
    __typeof__(COLOR_PAIR) *COLOR_PAIR;
} curses_calls;

extern const curses_calls *const curses; // valid after curses_open

// DRV_E_IO: ncurses is not installed; the message says how to get it.
DRV_CHECKED drv_status curses_open(void);
