#!/usr/bin/env python3
"""Draws docs/images/path.svg: the path of the data through drover, a box per folder of src/.
Usage: tools/draw_path.py > docs/images/path.svg"""

W, H, GAP = 146, 58, 30  # a box; the space between boxes
TITLE, WHAT = 14, 12  # sizes of the two lines of a box
INK, LINE, TEXT_FILL, RUN_FILL, OUT_FILL = "#1f2933", "#7b8794", "#e3f2e8", "#e4ecf7", "#fdf0d5"

# (column, row): title, what happens there, fill
BOXES = {
    (0, 0): ("text", "files, hub, stdin", OUT_FILL),
    (1, 0): ("data/read", "records", TEXT_FILL),
    (2, 0): ("tok", "text to ids", TEXT_FILL),
    (3, 0): ("data/set", ".bin / .idx", TEXT_FILL),
    (4, 0): ("data/set", "rows, seeded order", TEXT_FILL),
    (0, 1): ("run.yaml", "what to train", OUT_FILL),
    (1, 1): ("config", "one checked struct", RUN_FILL),
    (2, 1): ("model, passes", "graphs, gradients", RUN_FILL),
    (3, 1): ("plan", "every byte placed", RUN_FILL),
    (4, 1): ("backend", "kernels run", RUN_FILL),
    (5, 1): ("programs, train", "steps, the loop", RUN_FILL),
    (5, 2): ("weights, ckpt", "saved, hashed", RUN_FILL),
    (4, 2): ("model folder", "loads anywhere", OUT_FILL),
    (3, 2): ("infer", "answers, scores", RUN_FILL),
    (5, 0): ("metrics", "jsonl, TensorBoard", OUT_FILL),
}
ARROWS = [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (3, 0)), ((3, 0), (4, 0)), ((4, 0), (5, 1)),
          ((0, 1), (1, 1)), ((1, 1), (2, 1)), ((2, 1), (3, 1)), ((3, 1), (4, 1)), ((4, 1), (5, 1)),
          ((5, 1), (5, 2)), ((5, 2), (4, 2)), ((5, 1), (5, 0)), ((4, 2), (3, 2)), ((4, 2), (1, 1))]
# What prints that part of the path, under its box.
VERBS = {(1, 1): "drover config", (2, 1): "drover graph", (3, 1): "drover plan", (3, 0): "drover data show",
         (2, 0): "drover tokenizer", (5, 0): "drover plot", (3, 2): "drover generate, eval"}
ROW = H + 52
EM = 0.62  # the mean width of a letter of DejaVu Sans Bold, the widest font that a viewer may take, as a part of its size

for title, what, _ in BOXES.values():
    for text, size in (title, TITLE), (what, WHAT):
        assert len(text) * EM * size <= W - 8, f'"{text}" does not fit into a box of {W}'


def corner(box):
    return 12 + box[0] * (W + GAP), 14 + box[1] * ROW


def path(a, b):
    (ax, ay), (bx, by) = corner(a), corner(b)
    if a == (4, 2) and b == (1, 1):  # a checkpoint continues a run: around the lower edge
        return f"M{ax + W / 2},{ay + H} v26 H{bx + W * 0.25} V{by + H + 6}"
    if a == (4, 0):
        return f"M{ax + W},{ay + H / 2} h{GAP / 2} V{by + H * 0.3} H{bx - 6}"
    if a[0] == b[0]:
        return f"M{ax + W / 2},{ay + H} V{by - 6}" if by > ay else f"M{ax + W / 2},{ay} V{by + H + 6}"
    return f"M{ax + W},{ay + H / 2} H{bx - 6}" if bx > ax else f"M{ax},{ay + H / 2} H{bx + W + 6}"


width, height = 24 + 6 * W + 5 * GAP, 14 + 2 * ROW + H + 36
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"')
print(f'     font-family="Helvetica, Arial, sans-serif" fill="{INK}">')
print("<title>The path of the data through drover</title>")
print(f'<defs><marker id="a" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
      f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>')
print(f'<rect width="{width}" height="{height}" fill="white"/>')
for a, b in ARROWS:
    print(f'<path d="{path(a, b)}" fill="none" stroke="{LINE}" stroke-width="1.6" marker-end="url(#a)"/>')
for box, (title, what, fill) in BOXES.items():
    x, y = corner(box)
    print(f'<rect x="{x}" y="{y}" width="{W}" height="{H}" rx="8" fill="{fill}" stroke="{LINE}"/>')
    print(f'<text x="{x + W / 2}" y="{y + 25}" text-anchor="middle" font-size="{TITLE}" font-weight="bold">{title}</text>')
    print(f'<text x="{x + W / 2}" y="{y + 44}" text-anchor="middle" font-size="{WHAT}">{what}</text>')
for box, verb in VERBS.items():
    x, y = corner(box)
    dy = H + 16
    print(f'<text x="{x + W / 2 + {(1, 1): 28, (5, 0): -46}.get(box, 0)}" y="{y + dy}" text-anchor="middle" font-size="11" '
          f'font-family="monospace" fill="#52606d">{verb}</text>')
x, y = corner((1, 2))
for line, words in enumerate(("a checkpoint, or any Llama from the hub,", "continues: model.from")):
    print(f'<text x="{x + W * 0.25 + 10}" y="{y + H / 2 + 14 * line}" font-size="11" fill="#52606d">{words}</text>')
print("</svg>")
