// Draws curves on a terminal and as an SVG or HTML file, and bars as an SVG.
#pragma once
#include "base/str.h"
#include "plot/series.h"

// The runs and keys of a drawing. runs[r].series[i] has the values of keys[i]; the key "val_loss"
// is drawn as points in the panel of "loss".
typedef struct plot {
    const plot_run *runs;
    int n_runs;
    const char *const *keys;
    int n_keys;
    bool styled; // the page has plot_style already
} plot;

// Returns the index of a key; -1: it was not asked for.
int plot_key(const plot *p, const char *key);
// Returns the title of a key's panel: "loss", "learning rate"...
const char *plot_title(const char *key);

typedef struct plot_terminal_opts {
    int columns, rows; // of a chart with its axes
    bool utf8;         // draws in braille; otherwise in letters
    bool colour;       // one colour per run
} plot_terminal_opts;

void plot_terminal(arena *a, const plot *p, const plot_terminal_opts *opts, str *out);
// Appends text for HTML: without control characters, and with its markup escaped.
void plot_add_text(str *out, const char *text);
// Returns the CSS of a drawing.
const char *plot_style(void);
// Returns the i-th of six colours, which repeat.
const char *plot_colour(int i);
// Draws all panels as one <svg> element.
void plot_svg(arena *a, const plot *runs, str *out);
// A bar: a value, the least part of it that is needed, which is drawn darker, and a note next to
// it. Consecutive bars of one group have the same colour.
typedef struct plot_bar {
    const char *group, *name, *note;
    double value, least;
} plot_bar;
// Draws one <svg> element: horizontal bars of values of one unit ("ms").
void plot_bars_svg(const char *title, const char *unit, const plot_bar *bars, int n, str *out);
// Makes an HTML page of the SVG and a table that compares the runs.
void plot_html(arena *a, const plot *runs, str *out);
