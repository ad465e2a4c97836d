// The keys of the live screen, and its frames.
#include "watch/views/live_top.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "watch/views/live_screen.h"

enum { FRAME_MS = 500 };
// Limits the time of reading metrics.jsonl, so that a long one does not delay the screen.
#define FIRST_FRAME_S 0.01
#define FRAME_READS_S 0.05

void top_draw_shown(top *self, screen *s) {
    if (self->open < 0) {
        top_draw_list(s, self->runs, self->n, &self->list);
        return;
    }
    self->view.about = self->about[self->open];
    top_draw(s, self->runs[self->open], &self->view);
}

void top_read_shown(top *self, double limit_s) {
    const double until = clock_s() + limit_s;
    const int first = self->open < 0 ? 0 : self->open, end = self->open < 0 ? self->n : first + 1;
    for (int i = first; i < end; i++) {
        const double share = (until - clock_s()) / (end - i);
        watched_run_read(self->runs[i], share > 1e-3 ? share : 1e-3);
    }
}

// --- keys
static void type_find(top_view *view, int key, bool *asks) {
    const size_t n = strlen(view->find);
    if (key == '\n' || key == '\r' || key == 27)
        *asks = false;
    else if (key == 127 || key == 8)
        view->find[n > 0 ? n - 1 : 0] = 0;
    else if (key >= ' ' && key < 127 && n + 1 < sizeof view->find)
        view->find[n] = (char)key, view->find[n + 1] = 0;
}

static void open_page(top_view *view, top_page page) {
    view->page = view->page == page ? PAGE_RUN : page;
}

// Returns false to quit.
static bool heed_run_key(top *self, int key) {
    top_view *view = &self->view;
    switch (key) {
    case 'q':
    case 27:
        if (view->page != PAGE_RUN) {
            view->page = PAGE_RUN;
            return true;
        }
        self->open = -1;
        return self->n > 1;
    case 's':
        view->sort = (view->sort + 1) % N_TOP_SORTS;
        return true;
    case '/':
        self->asks = view->page == PAGE_RUN;
        view->find[0] = 0;
        return true;
    case 'r':
    case '\n':
    case '\r':
        open_page(view, PAGE_RANK);
        return true;
    case 'l':
        open_page(view, PAGE_LOG);
        return true;
    case 'p':
        view->plan = !view->plan;
        return true;
    default:
        return true;
    }
}

static bool heed_list_key(top *self, int key) {
    if (key == 'q' || key == 27) return false;
    if (key == '\n' || key == '\r') {
        self->open = self->list.selected;
        self->view.selected = self->view.first_row = 0;
    }
    return true;
}

static bool heed(top *self, int key) {
    top_view *view = self->open < 0 ? &self->list : &self->view;
    if (self->asks) {
        type_find(view, key, &self->asks);
        return true;
    }
    view->selected += key == KEY_OF_DOWN        ? 1
                      : key == KEY_OF_UP        ? -1
                      : key == KEY_OF_PAGE_DOWN ? 10
                      : key == KEY_OF_PAGE_UP   ? -10
                                                : 0;
    if (view->selected < 0) view->selected = 0;
    return self->open < 0 ? heed_list_key(self, key) : heed_run_key(self, key);
}

drv_status live_top(arena *a, top *self) {
    live_screen *terminal;
    DRV_TRY(live_screen_open(a, terminal_has_colour(STDOUT_FILENO), &terminal));
    double next = 0;
    for (bool goes_on = true; goes_on;) {
        if (clock_s() >= next) {
            top_read_shown(self, next > 0 ? FRAME_READS_S : FIRST_FRAME_S);
            next = clock_s() + 1e-3 * FRAME_MS;
        }
        int columns, rows;
        live_screen_size(terminal, &columns, &rows);
        screen s = screen_new(columns, rows);
        top_draw_shown(self, &s);
        if (self->asks) screen_printf(&s, rows - 1, 0, STYLE_SELECTED, "find: %s", self->view.find);
        live_screen_show(terminal, &s);
        screen_free(&s);
        const double left = next - clock_s();
        const int key = live_screen_key(terminal, left > 0 ? (int)(1e3 * left) + 1 : 1);
        const int before = self->open;
        goes_on = key >= 0 && (key == KEY_OF_NONE || heed(self, key));
        if (self->open != before) next = 0;
    }
    live_screen_close(terminal);
    return DRV_OK;
}
