"""Code points of Unicode for the scripts here that write tables of them."""

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]  # all but surrogates


def ranges(points):
    """[[first, last], ...] of rising code points."""
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out
