"""Figures of pages: the same picture as matplotlib's, smaller, in the reader's colours."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Tree

import numpy as np
import pytest

from tacenda.report import Chart, Series, write_charts
from tacenda_papers.experiments.slim_svg import CLASSES, SVG, slim

pytest.importorskip("matplotlib")
POINTS = np.geomspace(1, 100, 30)
CHARTS = [
    Chart(
        "line",
        "Risk",
        "round",
        "risk <of all>",
        [
            Series("DVP & more", POINTS, 1 / POINTS, 0, 0.5 / POINTS, 2 / POINTS),
            Series("grey", POINTS, 0 * POINTS + 0.3, 6),
            Series("level", POINTS[[0, -1]], np.full(2, 0.1), 1, style="level"),
        ],
        "Risk falls.",
        x_log=True,
        y_log=True,
    ),
    Chart(
        "points",
        "Share",
        "epsilon",
        "share",
        [Series("PVP", POINTS, 0.1 + 0 * POINTS, 1, 0 * POINTS, 0.3 + 0 * POINTS, style="points")],
        "As it is.",
        percent=True,
    ),
]


def numbers(element: Tree.Element) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", element.get("d", ""))]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.key)
def test_nothing_is_lost(chart: Chart, tmp_path: Path) -> None:
    (path,) = write_charts([chart], tmp_path, ["svg"])
    before = path.read_text("utf-8")
    after = slim(before)
    old, new = Tree.fromstring(before), Tree.fromstring(after)
    for tag in ("path", "use", "text", "clipPath"):
        pairs = list(zip(old.iter(SVG + tag), new.iter(SVG + tag), strict=True))
        assert pairs or tag == "use"
        for one, other in pairs:
            assert one.text is None or one.text.strip() == (other.text or "")
            np.testing.assert_allclose(numbers(one), numbers(other), atol=0.0051)
            for place in ("x", "y"):
                assert float(one.get(place, 0)) == pytest.approx(
                    float(other.get(place, 0)), abs=0.0051
                )
            for key, value in re.findall(r"(stroke|fill): (#\w{6})", one.get("style", "")):
                told = f"{key[0]}{CLASSES[value]}" if value in CLASSES else value
                assert told in (
                    other.get("class", "").split() if value in CLASSES else other.get(key)
                )
    # Nothing that is referred to has lost its name
    names = {e.get("id") for e in new.iter() if e.get("id")}
    assert names == set(re.findall(r"(?:url\(|href=\")#(\w+)", after))
    assert after.count("\n") < before.count("\n") / 10 and len(after) < 0.7 * len(before)


def test_colours_follow_the_reader(tmp_path: Path) -> None:
    (path,) = write_charts(CHARTS[:1], tmp_path, ["svg"])
    text = slim(path.read_text("utf-8"))
    assert text.count("prefers-color-scheme:dark") == 1
    style, _, drawn = text.partition("</style>")
    assert not any(colour in drawn for colour in CLASSES)
    for name in CLASSES.values():
        assert style.count(f".s{name}{{") == 2
