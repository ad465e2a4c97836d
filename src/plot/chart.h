// Drawings: curves on a terminal, and as an SVG or HTML file; bars as an SVG.
#pragma once
#include "base/str.h"
#include "plot/series.h"

// The runs and keys of a drawing. keys[i] belongs to runs[r].series[i]; key "val_loss" is drawn as
// points into the panel of "loss".
typedef struct plot {
    const plot_run *runs;
    int n_runs;
    const char *const *keys;
    int n_keys;
    bool styled; // the page that it goes into has plot_style already
} plot;

// Index of a key; -1: not asked for.
int plot_key(const plot *p, const char *key);
// Returns the title of a key's panel: "loss", "learning rate"...
const char *plot_title(const char *key);

typedef struct plot_terminal_opts {
    int columns, rows; // of a chart with its axes
    bool utf8;         // draws in braille; otherwise in letters
    bool colour;       // one colour per run
} plot_terminal_opts;

void plot_terminal(arena *a, const plot *p, const plot_terminal_opts *opts, str *out);
// Appends text as HTML shows it: clean, and with its markup taken for letters.
void plot_add_text(str *out, const char *text);
// Returns the CSS of a drawing.
const char *plot_style(void);
// Returns a colour for the i-th of a few things; it begins anew after six.
const char *plot_colour(int i);
// Draws one <svg> element with everything in it.
void plot_svg(arena *a, const plot *runs, str *out);
// A bar: a value, and which part of it is needed at least, drawn darker; beside it a note. Bars
// that follow each other with one group have one colour.
typedef struct plot_bar {
    const char *group, *name, *note;
    double value, least;
} plot_bar;
// Draws one <svg> element: horizontal bars of values of one unit ("ms").
void plot_bars_svg(const char *title, const char *unit, const plot_bar *bars, int n, str *out);
// Makes a page of its own: the SVG and a table that compares the runs.
void plot_html(arena *a, const plot *runs, str *out);
