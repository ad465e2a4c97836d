// Uses the terminal as a live screen that shows a grid of cells and reads keys. One may be open at
// a time.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "watch/views/screen.h"

enum {
    KEY_OF_NONE = 0,
    KEY_OF_UP = 256,
    KEY_OF_DOWN,
    KEY_OF_PAGE_UP,
    KEY_OF_PAGE_DOWN,
    KEY_OF_RESIZE
};

typedef struct live_screen live_screen;

// Takes over the terminal. DRV_E_IO: ncurses is not installed, or does not know the terminal.
DRV_CHECKED drv_status live_screen_open(arena *a, bool colour, live_screen **out);
void live_screen_size(const live_screen *self, int *columns, int *rows);
void live_screen_show(live_screen *self, const screen *shown);
// Waits for a key for at most `milliseconds`; returns a byte or one of KEY_OF_*. -1: the terminal
// is closed.
int live_screen_key(live_screen *self, int milliseconds);
void live_screen_close(live_screen *self);
