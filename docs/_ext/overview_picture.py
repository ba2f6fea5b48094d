"""The picture of the front page: `python docs/_ext/overview_picture.py` writes
docs/_static/overview.svg.

It has no background and takes the colour of text from the page, so that it fits light and dark; by
itself, as in the README, it is drawn in colours that can be read on both.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

FILE = Path(__file__).parents[1] / "_static" / "overview.svg"
WIDTH, HEIGHT = 800, 470
INK = "var(--pst-color-text-base, #7d8590)"
RECORD, NOISE, MODEL = "#1f7fbf", "#d9772b", "#2a9d6f"
BOX = (150, 116)
PLACES = {"Hospital": (12, 40), "Clinic": (352, 40), "Laboratory": (12, 310), "Insurer": (352, 310)}
EDGES = [
    ("Hospital", "Clinic"),
    ("Clinic", "Insurer"),
    ("Insurer", "Laboratory"),
    ("Laboratory", "Hospital"),
]


def text(x: float, y: float, words: str, size: int = 19, weight: int = 400) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="middle" fill="{INK}">{words}</text>'
    )


def box(x: float, y: float, width: float, height: float, colour: str, fill: str = "none") -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="10" '
        f'fill="{fill}" fill-opacity="0.1" stroke="{colour}" stroke-width="2.5"/>'
    )


def padlock(x: float, y: float) -> str:
    return (
        f'<path d="M{x - 6:g} {y:g}v-6a6 6 0 0 1 12 0v6" fill="none" stroke="{RECORD}" '
        f'stroke-width="3"/><rect x="{x - 10:g}" y="{y:g}" width="20" height="15" rx="3" '
        f'fill="{RECORD}"/>'
    )


def organisation(name: str) -> list[str]:
    """A box with its records under lock."""
    x, y = PLACES[name]
    width, height = BOX
    parts = [
        box(x, y, width, height, RECORD, RECORD),
        text(x + width / 2, y + 27, name, weight=600),
    ]
    for row in range(4):
        top = y + 42 + 16 * row
        for column, long in enumerate((26, 18, 30)):
            left = x + 16 + 33 * column
            parts.append(
                f'<rect x="{left:g}" y="{top:g}" width="{long}" height="8" rx="3" '
                f'fill="{RECORD}" fill-opacity="{0.85 - 0.15 * row:.2f}"/>'
            )
    return [*parts, padlock(x + width - 22, y + 72)]


def message(a: str, b: str, rng: random.Random) -> list[str]:
    """A line between two organisations, and noise on the middle of it."""
    (ax, ay), (bx, by) = ((x + BOX[0] / 2, y + BOX[1] / 2) for x, y in (PLACES[a], PLACES[b]))
    dx, dy = (bx - ax) / math.dist((ax, ay), (bx, by)), (by - ay) / math.dist((ax, ay), (bx, by))
    gap = BOX[0] / 2 + 8 if dx else BOX[1] / 2 + 8
    start, end = (ax + dx * gap, ay + dy * gap), (bx - dx * gap, by - dy * gap)
    middle = ((ax + bx) / 2, (ay + by) / 2)
    points = [
        (middle[0] - 30 + 4 * k, middle[1] + (0 if k in (0, 15) else rng.uniform(-15, 15)))
        for k in range(16)
    ]
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [
        f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" '
        f'stroke="{INK}" stroke-width="2.5" stroke-dasharray="2 7" stroke-linecap="round" '
        'marker-start="url(#tip)" marker-end="url(#tip)"/>',
        f'<polyline points="{curve}" fill="none" stroke="{NOISE}" stroke-width="3.2" '
        'stroke-linejoin="round"/>',
    ]


def model(x: float, y: float) -> list[str]:
    """What comes out: some coefficients, and the guarantee."""
    parts = [box(x, y, 190, 166, MODEL, MODEL), text(x + 95, y + 30, "One model", weight=600)]
    parts.append(
        f'<line x1="{x + 95}" y1="{y + 44}" x2="{x + 95}" y2="{y + 116}" stroke="{INK}" '
        'stroke-width="1.5"/>'
    )
    for k, value in enumerate((58, -34, 22, -12)):
        left = x + 95 + min(0, value)
        parts.append(
            f'<rect x="{left:g}" y="{y + 47 + 18 * k:g}" width="{abs(value)}" height="12" rx="3" '
            f'fill="{MODEL}"/>'
        )
    return [*parts, text(x + 95, y + 146, "private: (ε, δ)", 18)]


def drawing() -> str:
    rng = random.Random(4)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" class="overview" '
        'aria-labelledby="overview-title overview-text">',
        '<title id="overview-title">What Tacenda does</title>',
        '<desc id="overview-text">Four organisations keep their records under lock. They exchange '
        "messages with noise, without a server, and all obtain one model with a privacy "
        "guarantee for every record.</desc>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="5" '
        f'markerHeight="5" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/>'
        "</marker></defs>",
    ]
    for a, b in EDGES:
        parts += message(a, b, rng)
    for name in PLACES:
        parts += organisation(name)
    parts += [
        text(257, 22, "Records stay where they are", 20, 600),
        text(257, 224, "Only messages with", 19),
        text(257, 250, "noise are exchanged;", 19),
        text(257, 276, "there is no server", 19),
        text(257, HEIGHT - 10, "Every organisation obtains the model", 20, 600),
        f'<line x1="516" y1="233" x2="588" y2="233" stroke="{INK}" stroke-width="4" '
        'marker-end="url(#tip)"/>',
        *model(600, 150),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(drawing(), "utf-8")
