#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/flow.svg, the picture in ARCHITECTURE.md, from the two tables below: docs/flow.py > docs/flow.svg"""
from xml.sax.saxutils import escape

# Column, row, kind, title, lines of text.
BOXES = {
    "host": (0, 0, "outside", "the host", "QEMU's threads, GPUs,\nthe kernel's tracepoints"),
    "collectors": (1, 0, "room", "collectors/", "BPF, perf, /proc, NVML,\nlibvirt; a thread each"),
    "ledger": (2, 0, "room", "ledger/", "who ran, who waited,\nfor whom, on CPU and GPU"),
    "engine": (3, 0, "room", "engine/", "joins windows:\nscores, classes, snapshot"),
    "policy": (4, 0, "room", "policy/", "what should move where,\nwhat it gains and costs"),
    "recording": (0, 1, "outside", "a recording", "LTTng, perf, trace-cmd:\nCTF or text"),
    "trace": (1, 1, "room", "trace/", "formats; one adapter for\neach dialect of events"),
    "store": (2, 1, "room", "store/", "windows, and sums for\nminutes and hours"),
    "view": (3, 1, "data", "a view", "snapshot, figures, inventory;\nimmutable, shared"),
    "cluster": (4, 1, "room", "cluster/", "other vgpuds: snapshots,\nreservations, moves"),
    "clients": (0, 2, "outside", "clients", "vgpuctl, nova's scheduler,\nPrometheus, other vgpuds"),
    "api": (1, 2, "room", "api/", "unix socket and TLS;\nidentity, role, limits"),
    "journal": (3, 2, "room", "journal/", "plans, intents, outcomes,\nreservations, audit, events"),
    "libvirt": (0, 3, "outside", "what vgpud changes", "libvirt of two hosts, nova,\nvgpu-guestd in the VM"),
    "actuators": (1, 3, "room", "actuators/", "verbs: unplug, migrate,\nplug in, check"),
    "move": (3, 3, "room", "move/, mover/", "chooses the next verb;\nundoes a failed move"),
    "plan": (4, 2, "data", "a plan", "actions with reasons; stale\nafter its inputs change"),
}
# From, side, to, side, what goes there.
ARROWS = [
    ("host", "right", "collectors", "left", ""),
    ("collectors", "right", "ledger", "left", "events"),
    ("ledger", "right", "engine", "left", "windows"),
    ("engine", "right", "policy", "left", "snapshot"),
    ("recording", "right", "trace", "left", ""),
    ("trace", "top", "collectors", "bottom", "replay, live LTTng"),
    ("trace", "right", "ledger", "bottom-left", ""),
    ("engine", "bottom", "view", "top", ""),
    ("engine", "bottom-left", "store", "top", "windows"),
    ("cluster", "top", "policy", "bottom", "their snapshots"),
    ("policy", "right", "plan", "right", ""),
    ("plan", "left", "journal", "right", ""),
    ("clients", "right", "api", "left", "HTTP"),
    ("view", "left-low", "api", "top", "answers"),
    ("api", "right", "journal", "left", "writes"),
    ("plan", "bottom", "move", "right", "applied"),
    ("move", "top", "journal", "bottom", "intent, outcome"),
    ("move", "left", "actuators", "right", "a verb"),
    ("actuators", "left", "libvirt", "right", ""),
]
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 208, 78, 62, 46, 24
FILL = {"room": ("#e8f0fa", "#3465a4"), "outside": ("#f4f4f1", "#888a85"), "data": ("#fdf3d8", "#c4a000")}


def corner(name):
    column, row = BOXES[name][:2]
    return MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)


def point(name, side):
    x, y = corner(name)
    return {"left": (x, y + HEIGHT / 2), "right": (x + WIDTH, y + HEIGHT / 2), "top": (x + WIDTH / 2, y),
            "bottom": (x + WIDTH / 2, y + HEIGHT), "bottom-left": (x + 30, y + HEIGHT),
            "left-low": (x, y + HEIGHT - 12)}[side]


def route(start, start_side, end, end_side):
    """Corners of a line of horizontal and vertical pieces."""
    (x1, y1), (x2, y2) = start, end
    sideways = start_side in ("left", "left-low", "right"), end_side in ("left", "right")
    if x1 == x2 and not any(sideways) or y1 == y2:
        return [start, end]
    if all(sideways):
        middle = max(x1, x2) + 22 if start_side == end_side else (x1 + x2) / 2
        return [start, (middle, y1), (middle, y2), end]
    # Between two rows.
    between = y2 + (GAP_Y / 2 if end_side.startswith("bottom") else -GAP_Y / 2)
    if sideways[0]:
        aside = x1 + (-GAP_X / 2 if start_side.startswith("left") else GAP_X / 2)
        return [start, (aside, y1), (aside, between), (x2, between), end]
    if not any(sideways):
        return [start, (x1, between), (x2, between), end]
    return [start, (x1, y2), end]


def text(x, y, words, size, style=""):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="middle" fill="#2e3436"{style}>'
            f"{escape(words)}</text>")


def draw_box(name):
    _, _, kind, title, lines = BOXES[name]
    (x, y), (fill, line) = corner(name), FILL[kind]
    radius = 18 if kind == "data" else 4
    yield (f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}" fill="{fill}" '
           f'stroke="{line}" stroke-width="1.5"/>')
    yield text(x + WIDTH / 2, y + 23, title, 15, ' font-weight="bold"')
    for n, words in enumerate(lines.split("\n")):
        yield text(x + WIDTH / 2, y + 44 + 17 * n, words, 13)


def draw_arrow(source, source_side, target, target_side, words):
    corners = route(point(source, source_side), source_side, point(target, target_side), target_side)
    path = " ".join(f"{'ML'[n > 0]}{x:g} {y:g}" for n, (x, y) in enumerate(corners))
    yield f'<path d="{path}" fill="none" stroke="#555753" stroke-width="1.5" marker-end="url(#end)"/>'
    if words:
        # At its longest piece.
        (x1, y1), (x2, y2) = max(zip(corners, corners[1:]), key=lambda p: abs(p[0][0] - p[1][0]) + abs(p[0][1] - p[1][1]))
        if y1 == y2:
            yield text((x1 + x2) / 2, y1 - 6, words, 12)
        else:
            yield text(x1 + 6, (y1 + y2) / 2 + 4, words, 12).replace("middle", "start")


def main():
    width = 2 * MARGIN + 5 * WIDTH + 4 * GAP_X + 10
    height = 2 * MARGIN + 4 * HEIGHT + 3 * GAP_Y
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
          f'<rect width="{width}" height="{height}" fill="white"/>\n'
          '<marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
          '<path d="M0 0L8 4L0 8z" fill="#555753"/></marker>')
    for arrow in ARROWS:
        print("\n".join(draw_arrow(*arrow)))
    for name in BOXES:
        print("\n".join(draw_box(name)))
    print("</svg>")


main()
