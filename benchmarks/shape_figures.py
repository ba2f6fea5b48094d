"""The pictures of docs/additive.md: `python -m benchmarks.shape_figures`; one fit of each set of
`benchmarks.models` at epsilon 1, seed 0, with the defaults."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc
from benchmarks import models

INK = "#7d8590"  # seen on light and dark pages
FOLDER = Path(__file__).parents[1] / "docs" / "_static"
BAND = 1.96


def curve(ax: Any, shape: Any, unit: str) -> None:
    """A curve with its band, or bars."""
    if shape.kind == "levels":
        where = np.arange(len(shape.steps) - 1)
        ax.bar(where, shape.step_y[0, :-1], yerr=BAND * shape.step_noise[0, :-1], color="#7ab3d4")
        ax.set_xticks(where, shape.steps[:-1], rotation=30, ha="right", fontsize=7)
    else:
        x, y = np.array(shape.x), shape.y[0]
        band = BAND * shape.noise[0]
        ax.fill_between(x, y - band, y + band, color="#0072b2", alpha=0.2, lw=0)
        ax.plot(x, y, color="#0072b2")
    ax.axhline(0, color=INK, lw=0.6)
    ax.set(title=shape.column, ylabel=unit)


def adult() -> None:
    """Four columns, and what each adds to the log-odds of more than 50,000 dollars."""
    one = models.SETS["Adult"]()
    model = tc.PrivateAdditiveClassifier(
        1.0, models.DELTA, classes=(0, 1), n_nodes=20, random_state=0, **one.declared
    ).fit(one.train, one.y)
    shapes = {shape.column: shape for shape in model.shapes_}
    fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for ax, name in zip(
        axes.flat, ("age", "hours-per-week", "capital-gain", "education"), strict=True
    ):
        curve(ax, shapes[name], "log-odds")
    axes[1, 0].set_xscale("symlog", linthresh=100)
    axes[1, 0].set_xlim(left=0)
    fig.savefig(FOLDER / "additive-adult.svg", metadata={"Date": None})


def bicycles() -> None:
    """The hour, and the hour together with the working day."""
    one = models.SETS["bicycles by the hour (ISLP)"]()
    model = tc.PrivateAdditiveRegressor(
        1.0, models.DELTA, target_bounds=one.label_bounds, n_nodes=20, random_state=0,
        pairs=[one.pair], **one.declared,
    ).fit(one.train, one.y)  # fmt: skip
    shapes = {shape.column: shape for shape in model.shapes_}
    pair = shapes["hour*workingday"]
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    curve(axes[0], shapes["day"], "root of bicycles")
    hours, days = pair.x
    both = shapes["hour"], shapes["workingday"]
    base = np.interp(hours, both[0].x, both[0].y[0])
    for k, day in enumerate(days[:2]):
        own = pair.y[0].reshape(len(hours), len(days))[:, k]
        axes[1].plot(hours, base + both[1].step_y[0, both[1].steps.index(day)] + own, label=day)
    axes[1].legend()
    axes[1].set(title="hour, with workingday", xlabel="hour", ylabel="root of bicycles")
    fig.savefig(FOLDER / "additive-bicycles.svg", metadata={"Date": None})


def main() -> None:
    warnings.simplefilter("ignore")
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    mpl.rcParams.update(dict.fromkeys(ink, INK) | dict.fromkeys(clear, "none"))
    mpl.rcParams["svg.hashsalt"] = "tacenda"
    bicycles()
    adult()


if __name__ == "__main__":
    main()
