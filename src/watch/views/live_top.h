// Shows runs on a live screen until the user quits: a list of them, or the pages of one.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "watch/views/top_view.h"

typedef struct top {
    watched_run **runs;
    const char **about;
    int n, open; // open: the run that is shown; -1: the list
    top_view view, list;
    bool asks; // for a text to find
} top;

// Reads the files of the open run, or of all while the list is shown, for about limit_s at most.
void top_read_shown(top *self, double limit_s);
// Draws the open run, or the list.
void top_draw_shown(top *self, screen *s);
// Takes over the terminal and follows keys. DRV_E_IO: as live_screen_open.
DRV_CHECKED drv_status live_top(arena *a, top *self);
