// Loads ncurses at its first use.
#include "watch/views/curses_calls.h"

#include "base/library.h"

#define CALL(name)                                                                                 \
    { #name, offsetof(curses_calls, name) }

static const library_call calls[] = {CALL(newterm), CALL(newwin), CALL(delwin), CALL(endwin),
        CALL(delscreen), CALL(cbreak), CALL(noecho), CALL(keypad), CALL(curs_set), CALL(wtimeout),
        CALL(wgetch), CALL(werase), CALL(wmove), CALL(waddnstr), CALL(wattrset), CALL(wrefresh),
        CALL(clearok), CALL(getmaxx), CALL(getmaxy), CALL(has_colors), CALL(start_color),
        CALL(use_default_colors), CALL(init_pair), CALL(COLOR_PAIR)};
enum { N_CALLS = sizeof calls / sizeof *calls };
_Static_assert(sizeof(curses_calls) == N_CALLS * sizeof(void *), "every function has a row");

static curses_calls table;
const curses_calls *const curses = &table;

drv_status curses_open(void) {
    static library ncurses = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    if (library_ready(&ncurses)) return DRV_OK;
    return drv_fail(DRV_E_IO,
            "a live screen needs ncurses, which cannot be loaded: %s (on Debian: apt-get install libncursesw6); "
            "--once does without it",
            ncurses.why);
}
