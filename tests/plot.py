#!/usr/bin/env python3
"""drover plot on runs made here: every drawing is read back. usage: plot.py DROVER"""
import json, math, os, pty, re, subprocess, tempfile, xml.etree.ElementTree as ET
from on_terminal import has_terminal
from story import check, drover, finish

SVG = "{http://www.w3.org/2000/svg}"


def plot(*args, env={}, code=0):
    run = subprocess.run([drover, "plot", *args], capture_output=True, text=True, env={**os.environ, **env})
    check(f"plot {' '.join(args)} exits {code}", run.returncode == code, run.stderr)
    return run.stdout, run.stderr


def write(name, lines):
    os.makedirs(name, exist_ok=True)
    with open(f"{name}/metrics.jsonl", "w") as f:
        f.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


def record(step, loss, **more):
    return {"step": step, "time": "2026-11-22T00:41:21.123Z", "loss": loss, "lr": 1e-3, "grad_norm": 1.5,
            "tokens_per_s": 14000 + step, **more}


def curve(svg, kind):
    """The points of all curves of one kind, in the order of the runs and panels."""
    paths = [p.get("d") for p in svg.iter(f"{SVG}path") if p.get("class") == kind]
    return [[tuple(map(float, xy.split())) for xy in re.split("[ML]", d)[1:]] for d in paths if "h" not in d]


def on_a_terminal():
    for width in (20, 40, 60, 80, 200):
        for more in ([], ["--ascii"]):
            out, _ = plot("falling", "flat", "--width", str(width), *more)
            wide = max(len(line) for line in out.splitlines())
            check(f"width {width} is kept", wide <= width and (wide > width - 12 or width < 40), wide)
    out, _ = plot("falling", "--width", "60", "--height", "20")
    rows = [line for line in out.splitlines() if re.search("[┤│]", line)]
    check("height is kept", len(rows) == 17, out)
    cells = [re.split("[┤│]", row)[1] for row in rows]
    starts = [len(c) - len(c.lstrip(" ⠀")) for c in cells if c.strip()]
    check("a falling line goes right as it goes down", starts == sorted(starts) and len(starts) > 10, out)
    check("its last value is named", "1 at step 90, validation (o) 2.5" in out, out)
    check("the evaluation is a point", sum("o" in c for c in cells) == 1, out)
    out, _ = plot("flat", "--ascii", "--width", "60")
    drawn = [line for line in out.splitlines() if re.search(r"[+|].*aaa", line)]
    check("a constant is one row", len(drawn) == 1, out)
    out, _ = plot("falling", env={"COLUMNS": "50"})
    check("COLUMNS is the width where there is no terminal", max(map(len, out.splitlines())) <= 50)
    out, _ = plot("falling", "flat", "--keys", "loss,lr")
    check("a chart per key", "loss\n" in out and "learning rate\n" in out, out)
    check("no colours in a file", "\033" not in out)
    for locale, braille in ("C", True), ("de_DE.UTF-8", True), ("de_DE.ISO-8859-1", False), ("ru_RU.KOI8-R", False):
        out, _ = plot("flat", env={"LC_ALL": locale})
        check(f"a file in {locale}", out.isascii() != braille, out)


def as_a_file():
    plot("falling", "flat", "--out", "x.svg")
    svg = ET.parse("x.svg").getroot()
    texts = [t.text for t in svg.iter(f"{SVG}text")]
    for title in ("loss", "learning rate", "gradient norm", "tokens per second", "falling", "flat", "step"):
        check(f"the svg says {title}", title in texts, texts)
    falling, flat = curve(svg, "mean")[:2]
    check("falling loss falls", all(a[1] < b[1] for a, b in zip(falling, falling[1:])), falling)
    check("flat loss is flat", len({y for _, y in flat}) == 1, flat)
    check("both on one x axis", math.isclose((flat[-1][0] - flat[0][0]) / (falling[-1][0] - falling[0][0]), 59 / 89,
                                             abs_tol=1e-2))
    check("one evaluation", len(list(svg.iter(f"{SVG}circle"))) == 1)
    box = [float(v) for v in svg.get("viewBox").split()]
    check("nothing outside of the picture", all(0 <= x <= box[2] and 0 <= y <= box[3]
                                               for line in curve(svg, "mean") for x, y in line))
    plot("falling", "flat", "--out", "x.html", "--keys", "loss,tokens_per_s")
    html = open("x.html").read()
    check("the page needs nothing else", not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)|@import", html))
    check("its table compares the runs", html.count("<tr>") == 3 and "<td>14.09 k</td>" in html, html[-700:])
    ET.fromstring(re.search("<svg.*</svg>", html, re.S)[0])


def seen(env, *args):
    """What a terminal is sent."""
    pid, fd = pty.fork()
    if pid == 0:
        kept = {k: v for k, v in os.environ.items() if k not in ("LC_ALL", "LC_CTYPE", "LANG", "TERM", "NO_COLOR")}
        os.execve(drover, [drover, "plot", *args], {**kept, **env})
    out = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    check(f"plot {' '.join(args)} on a terminal", os.waitpid(pid, 0)[1] == 0, out)
    return out.decode()


def on_poor_terminals():
    good = {"LANG": "C.UTF-8", "TERM": "xterm"}
    check("braille and colours", re.search("[\u2800-\u28ff]", seen(good, "falling", "flat")) and "\033[3" in seen(good, "falling", "flat"))
    check("one run needs no colour", "\033" not in seen(good, "falling"))
    for change in {"NO_COLOR": "1"}, {"TERM": "dumb"}:
        check(f"no colour with {change}", "\033" not in seen({**good, **change}, "falling", "flat"))
    check("an empty NO_COLOR says nothing", "\033[3" in seen({**good, "NO_COLOR": ""}, "falling", "flat"))
    for locale in {"LANG": "C"}, {"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, {"LANG": ""}, {"LANG": "de_DE.ISO-8859-1"}:
        out = seen({"TERM": "xterm", **locale}, "falling", "flat")
        check(f"ASCII alone in {locale}", out.isascii(), ascii(out))


def decode(chart):
    """Of the first panel: labels by row, cells by row, [(column, number)] of the x axis."""
    lines = chart.splitlines()
    rows = [re.match("(.*?) ([┤│])(.*)", line) for line in lines]
    rows = [row for row in rows if row]
    labels = {i: float(re.match(r" *([\d.]+)", row[1])[1]) for i, row in enumerate(rows) if row[2] == "┤"}
    left = rows[0].start(3)
    ticks = next(line for line in lines if line.rstrip().endswith("step"))
    return labels, [row[3] for row in rows], [(t.start() - left, float(t[0])) for t in re.finditer(r"[\d.]+", ticks)]


def dots(cells):
    """Braille dots as {column of dots: [rows of dots]}."""
    bits, found = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)), {}
    for row, line in enumerate(cells):
        for column, c in enumerate(line):
            for y in range(4):
                for x in range(2):
                    if 0x2800 <= ord(c) < 0x2900 and ord(c) & bits[y][x]:
                        found.setdefault(2 * column + x, []).append(4 * row + y)
    return found


def at(points, x):
    """The line through the first and the last of [(x, y)], at x."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def axes_tell_the_truth():
    out, _ = plot("diagonal", "--keys", "loss", "--width", "70", "--height", "24")
    labels, cells, ticks = decode(out)
    steps = {b - a for a, b in zip(sorted(labels.values()), sorted(labels.values())[1:])}
    check("numbers of the y axis are round", len(steps) == 1 and steps <= {10, 20, 50} and
          all(v % next(iter(steps)) == 0 for v in labels.values()), labels)
    check("numbers of the x axis are round", all(v % 10 == 0 for _, v in ticks), ticks)
    for row, value in labels.items():
        drawn = [i for i, c in enumerate(cells[row]) if c.strip(" ⠀")]
        middle = at(ticks, sum(drawn) / len(drawn)) if drawn else math.nan
        check(f"y is {value} where x is", abs(middle - value) < 5 or value >= 100, (middle, out))
    for run, n in (("diagonal", 100), ("million", 1000)):
        out, _ = plot(run, "--keys", "loss", "--width", "70", "--height", "24")
        _, cells, _ = decode(out)
        curve_dots = dots(cells)
        columns = sorted(curve_dots)
        check(f"{run}: every column has a dot, up to the last", columns == list(range(2 * out.count("─"))), (columns, out))
        check(f"{run}: a line that rises goes up", all(min(curve_dots[a]) >= max(curve_dots[b])
                                                     for a, b in zip(columns, columns[1:])), out)
    out, _ = plot("growing", "--keys", "grad_norm", "--width", "70", "--height", "24")
    check("an axis that nearly begins at zero begins there", 0 in decode(out)[0].values(), out)
    out, _ = plot("falling", "diagonal", "--keys", "loss", "--width", "70")
    _, cells, _ = decode(out)
    check("a letter at the end of each curve", {"a", "b"} <= set("".join(cells)), out)
    out, _ = plot("valid", "--keys", "loss,val_loss", "--width", "70")
    check("the last evaluation is named", "validation (o) 2.25" in out and "".join(decode(out)[1]).count("o") == 2, out)


def pictures_tell_the_truth():
    plot("falling", "flat", "valid", "--out", "x.html", "--keys", "loss,val_loss,lr,grad_norm")
    html = open("x.html").read()
    svg = ET.fromstring(re.search("<svg.*</svg>", html, re.S)[0])
    notes = [t.text for t in svg.iter(f"{SVG}tspan")]
    check("last values are named", notes == ["loss 1.0000 at step 90, validation 2.5000", "loss 5.0000 at step 60",
                                             "loss 4.0000 at step 40, validation 2.2500"], notes)
    titles = [t.text for t in svg.iter(f"{SVG}title")]
    check("evaluations are named", titles == ["step 90: validation loss 2.5000", "step 20: validation loss 3.0000",
                                              "step 40: validation loss 2.2500"], titles)
    # A moving mean of what is straight is the line itself, up to the ends.
    thin, thick = curve(svg, "raw")[0], curve(svg, "mean")[0]
    check("a mean does not lag", len(thin) == len(thick) == 90 and
          all(abs(a[1] - b[1]) < 0.3 for a, b in zip(thin, thick)), list(zip(thin, thick))[:3])
    ys = [(float(t.get("y")) - 4, float(t.text)) for t in svg.iter(f"{SVG}text") if t.get("class") == "y"]
    ys = ys[:next((i for i in range(1, len(ys)) if ys[i][0] > ys[i - 1][0]), len(ys))]  # of the first panel
    check("the grid's numbers are those of the curves", abs(at(ys, curve(svg, "mean")[1][0][1]) - 5) < 0.05, ys)
    boxes = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in svg.iter(f"{SVG}rect") if r.get("x")]
    check("panels do not overlap", len(boxes) == 3 and all(
        a[0] + a[2] < b[0] or a[1] + a[3] < b[1] for a, b in zip(boxes, boxes[1:])), boxes)
    check("the table has the last step", "<tr><td>falling</td><td>90</td>" in html, html[-900:])
    write("spikes", [record(s, 90.0 if s == 777 else 1.0 if s == 3333 else 10.0 + s % 2) for s in range(1, 5001)])
    plot("spikes", "--out", "x.svg", "--keys", "loss")
    thin = curve(ET.parse("x.svg").getroot(), "raw")[0]
    ordinary = sorted(y for _, y in thin)[len(thin) // 2]
    check("spikes are not lost among many points", min(y for _, y in thin) < ordinary - 300 and
          max(y for _, y in thin) > ordinary + 30, (len(thin), ordinary))


def odd_runs():
    write("torn", [record(1, 4.0), "{broken\n", "\n", record(2, 3.0), '[1]\n', '{"step": 3, "loss"'])
    out, err = plot("torn", "--ascii")
    check("broken lines are counted, the one being written is not", "2 lines are broken" in err, err)
    check("the good lines are drawn", "3 at step 2" in out, out)
    write("again", [record(s, 9.0) for s in range(1, 20)] + [record(s, 2.0) for s in range(10, 12)])
    out, _ = plot("again", "--ascii")
    check("steps that come again replace the old ones", "2 at step 11" in out, out)
    plot("again", "--out", "x.svg", "--keys", "loss")
    xs = [x for x, _ in curve(ET.parse("x.svg").getroot(), "mean")[0]]
    check("and the curve does not go back", len(xs) == 11 and xs == sorted(xs), xs)
    write("nan", [record(1, 4.0), record(2, None), '{"step": 3, "loss": 1e999}\n', record(3, 1e200), record(4, 2.0)])
    out, _ = plot("nan", "--ascii")
    check("null is a gap", "2 at step 4" in out, out)
    plot("nan", "--out", "x.svg", "--keys", "loss")
    check("and so is what no axis has room for", len(curve(ET.parse("x.svg").getroot(), "mean")[0]) == 2)
    write("empty", [])
    out, err = plot("empty", "falling", "--ascii")
    check("an empty run is named", "empty: nothing to draw yet" in err and "empty  nothing yet" in out, err + out)
    check("only empty runs", "no run has a step yet" in plot("empty", code=1)[1])
    check("no run", "nowhere" in plot("nowhere", code=1)[1])
    check("an unknown key", '"losss"' in plot("falling", "--keys", "losss", code=2)[1])
    check("another ending", ".svg or .html" in plot("falling", "--out", "x.png", code=2)[1])
    check("no width for a file", "--width" in plot("falling", "--out", "x.svg", "--width", "90", code=2)[1])
    check("a file that cannot be written", "could not" in plot("falling", "--out", "none/x.svg", code=1)[1])
    name = 'a&b "<c>"'
    write(name, [record(1, 3.0), record(2, 2.0)])
    plot(name, "--out", "y.svg")
    check("names are escaped", name in [t.text for t in ET.parse("y.svg").getroot().iter(f"{SVG}text")])
    write("long", [record(s, 2 + math.exp(-s / 9e3)) for s in range(1, 50001)])
    plot("long", "--out", "z.svg")
    check("a long run makes a small file", os.path.getsize("z.svg") < 300_000, os.path.getsize("z.svg"))


with tempfile.TemporaryDirectory() as folder:
    start = os.getcwd()
    os.chdir(folder)
    write("falling", [record(s, 10 - s / 10) for s in range(1, 91)] + [{"step": 90, "val_loss": 2.5}])
    write("flat", [record(s, 5.0) for s in range(1, 61)])
    write("diagonal", [record(s, float(s)) for s in range(1, 101)])
    write("growing", [record(s, 1.0, grad_norm=2.0 + s) for s in range(1, 21)])
    write("million", [record(s, 1e6 * s) for s in range(1, 1001)])
    write("valid", [record(s, 4.0) for s in range(1, 41)] + [{"step": 20, "val_loss": 3.0}, {"step": 40, "val_loss": 2.25}])
    on_a_terminal()
    if has_terminal():
        on_poor_terminals()
    axes_tell_the_truth()
    as_a_file()
    pictures_tell_the_truth()
    odd_runs()
    os.chdir(start)
finish()
