#!/usr/bin/env python3
"""Draws docs/images/step.svg: one step on tensor 2 x pipeline 2 x data 2, two micro-batches a data rank, 1F1B: the work of each
of the eight ranks, and the messages between them. Usage: tools/draw_step.py > docs/images/step.svg"""

INK, LINE = "#1f2933", "#7b8794"
FILL = {"F": "#e4ecf7", "B": "#fdf0d5", "U": "#e3f2e8"}
COLOUR = {"tensor": "#b4690e", "pipeline": "#2b6cb0", "data": "#2f855a"}
UNIT, ROW, LEFT, TOP = 74, 50, 150, 64
# (pipeline place, first unit, units, text, fill). A backward takes as long as two forwards.
TASKS = [(0, 0, 1, "F 0", "F"), (0, 1, 1, "F 1", "F"), (0, 4, 2, "B 0", "B"), (0, 7, 2, "B 1", "B"),
         (1, 1, 1, "F 0", "F"), (1, 2, 2, "B 0", "B"), (1, 4, 1, "F 1", "F"), (1, 5, 2, "B 1", "B"),
         (0, 9.6, 2, "update", "U"), (1, 9.6, 2, "update", "U")]
# activations to the next stage, gradients back: (from, unit at its end, to, unit at its begin)
MESSAGES = [(0, 1, 1, 1), (0, 2, 1, 4), (1, 4, 0, 4), (1, 7, 0, 7)]
WIDTH, HEIGHT = int(LEFT + 11.9 * UNIT), TOP + 8 * ROW + 142


def row(pipeline, data, tensor):  # the number of the rank: tensor fastest, then data, then pipeline
    return (pipeline * 2 + data) * 2 + tensor


def text(x, y, what, size=12, anchor="middle", fill=INK, weight="normal"):
    print(f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}">{what}</text>')


def line(x0, y0, x1, y1, axis, both=False):
    start = f' marker-start="url(#{axis})"' if both else ""
    print(f'<path d="M{x0},{y0} L{x1},{y1}" stroke="{COLOUR[axis]}" stroke-width="1.5" fill="none" '
          f'marker-end="url(#{axis})"{start}/>')


print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
      f'font-family="Helvetica, Arial, sans-serif" fill="{INK}">')
print("<title>One step on tensor 2 x pipeline 2 x data 2: who sends what, when</title>")
print("<defs>" + "".join(
    f'<marker id="{axis}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto-start-reverse">'
    f'<path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>' for axis, colour in COLOUR.items()) + "</defs>")
print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
text(LEFT, 24, "One step: tensor 2 x pipeline 2 x data 2, two micro-batches (0, 1) a data rank, schedule 1f1b", 15, "start", weight="bold")
text(LEFT, 44, "time goes to the right; F forward, B backward of a micro-batch", 12, "start", LINE)
for pipeline in range(2):
    for data in range(2):
        for tensor in range(2):
            r = row(pipeline, data, tensor)
            y = TOP + r * ROW
            text(12, y + 18, f"rank {r}", 13, "start", weight="bold")
            text(12, y + 33, f"stage {pipeline}, rows {data}, part {tensor}", 10, "start", LINE)
            for place, at, units, name, fill in TASKS:
                if place != pipeline:
                    continue
                print(f'<rect x="{LEFT + at * UNIT + 1}" y="{y + 4}" width="{units * UNIT - 2}" height="34" rx="4" '
                      f'fill="{FILL[fill]}" stroke="{LINE}"/>')
                text(LEFT + (at + units / 2) * UNIT, y + 25, name)
        # tensor ranks gather and reduce inside every task, at each layer
        for place, at, units, name, fill in TASKS:
            if place == pipeline and fill != "U":
                x = LEFT + (at + units * 0.82) * UNIT
                line(x, TOP + row(pipeline, data, 0) * ROW + 38, x, TOP + row(pipeline, data, 1) * ROW + 4, "tensor", True)
# stages: from each rank to the one with the same rows and part
for source, end, target, begin in MESSAGES:
    for data in range(2):
        for tensor in range(2):
            a, b = row(source, data, tensor), row(target, data, tensor)
            x0, x1 = LEFT + end * UNIT + (3 if end == begin else 0), LEFT + begin * UNIT + 6
            y0 = TOP + a * ROW + (38 if b > a else 4)
            y1 = TOP + b * ROW + (4 if b > a else 38)
            line(x0 - 6 + 3 * data, y0, x1 + 3 * data - 3, y1, "pipeline")
# data ranks: gradients to shards from the last backward pass on, weights after the update
for pipeline in range(2):
    for tensor in range(2):
        a, b = row(pipeline, 0, tensor), row(pipeline, 1, tensor)
        for at in (8.2 if pipeline == 0 else 6.2, 11.72):
            x = LEFT + (at + 0.09 * tensor) * UNIT
            line(x, TOP + a * ROW + 22, x, TOP + b * ROW + 22, "data", True)
y = TOP + 8 * ROW + 24
for axis, what in (("tensor", "tensor, in each layer: all_gather of the tokens before a product, reduce_scatter of its sums after it; the loss's "
                              "maxima and sums, the gradients of norms"),
                   ("pipeline", "pipeline, after a task: activations to the next stage, their gradients to the one before; received while the task "
                                "in front computes"),
                   ("data", "data, once a step: gradients to the shards of the optimizer, during the last B (fixed tree); the weights back, "
                            "during the next F")):
    line(LEFT - 40, y - 4, LEFT - 10, y - 4, axis, axis != "pipeline")
    text(LEFT, y, what, 11, "start")
    y += 20
for what in ("first and last stage, once a step: the gradient of a table that reads tokens and predicts them (tie_word_embeddings)",
             "all, once a step: 544 bytes each for the norms of gradients and weights, the losses, times, and whether a stop or a save was asked for",
             "on the side: a ring of sockets that names a rank that dies; the checkpoint, whose parts ranks send each other and write during the next steps"):
    text(LEFT, y, what, 11, "start", LINE)
    y += 20
print("</svg>")
