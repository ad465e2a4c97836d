// Draws the pages of `drover top` into a grid of cells.
#pragma once
#include "watch/views/screen.h"
#include "watch/views/watched_run.h"

typedef enum top_page { PAGE_RUN, PAGE_RANK, PAGE_LOG, PAGE_LIST } top_page;
typedef enum top_sort { SORT_RANK, SORT_OWN, SORT_WAIT, SORT_MEMORY, N_TOP_SORTS } top_sort;

enum { TOP_MAX_ROWS = 64 }; // ranks that are listed; more are drawn as a map

typedef struct top_view {
    top_page page;
    top_sort sort;
    bool plan; // show planned and held bytes instead of bars
    bool utf8;
    int selected, first_row; // in the list of ranks, or of runs
    char find[32];           // part of a host name, or a rank number; "": all
    const char *about;       // model and layout as text; "": not known
} top_view;

// Draw a page of a run, or the list of runs; limit the selection of `view` to the rows that exist.
void top_draw(screen *grid, const watched_run *run, top_view *view);
void top_draw_list(screen *grid, watched_run *const *runs, int count, top_view *view);
