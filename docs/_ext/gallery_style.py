"""How the gallery's pictures look: no background, so that they fit light and dark pages."""

from __future__ import annotations

from typing import Any

INK = "#7d8590"
COLOURS = ["#1f7fbf", "#d9772b", "#2a9d6f", "#c2508c", "#8a6fd1", "#8d8d8d"]


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    mpl.rcParams.update(
        dict.fromkeys(ink, INK)
        | {
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
            "figure.figsize": (6.4, 3.6),
            "font.size": 11,
        }
    )
