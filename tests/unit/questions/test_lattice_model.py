"""Whole-numbered answers by hand: every record's gradient and products over the grid, cut toward
zero, times the public factor that makes them values again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_parts, open_values
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.lattice import LatticeQueries, grid_for, power_of_two

SIZES = (5, 8, 3)
NORM, SCALE, STRENGTH, CLIP = 1.5, 2.0, 0.3, 0.4
NODES = np.array([2, 0])


def problem(clip: float | None = CLIP, loss: str = "squared") -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(0)
    parts = []
    for m in SIZES:
        x = rng.normal(size=(m, 3))
        parts.append(
            (
                NORM * x / np.maximum(NORM, np.linalg.norm(x, axis=1))[:, None] / 1.01,
                rng.normal(size=m),
            )
        )
    declared = {"data_norm": NORM, "loss_scale": SCALE, "strength": STRENGTH, "clip_norm": clip}
    return tc.Problem(parts, loss=loss, **declared), parts


def queries(data: Any, grid: float, common: bool) -> LatticeQueries:
    facts = Facts.of(data)
    return LatticeQueries(
        data.store, data.sizes, NODES, facts.rows(NODES), SimulatedNoise(0), grid, common
    )


def near_whole(found: Any, exact: Any) -> None:
    """The same whole numbers, but for a product that lies within rounding of one."""
    assert np.issubdtype(found.dtype, np.integer)
    assert np.abs(found - exact).max() <= 1 and (found == exact).mean() > 0.9


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("regularised", [False, True])
def test_gradients(common: bool, regularised: bool) -> None:
    data, parts = problem()
    w = np.random.default_rng(1).normal(size=(2, 3))
    grid = 2.0**-12
    value = queries(data, grid, common).gradient(w, 1, 0, None, False, regularised)
    worst = 2 * CLIP * SCALE / min(SIZES)
    core, factor, offset = open_parts(value)
    for row, node in enumerate(NODES):
        x, y = parts[node]
        m = len(y)
        step = grid * worst if common else grid
        own = step * m / SCALE if common else grid  # of the sum of gradients of this node
        each = (x @ w[row] - y)[:, None] * x
        each *= np.minimum(1.0, CLIP / np.linalg.norm(each, axis=1))[:, None]
        near_whole(core[row], np.trunc(each / own).sum(axis=0))
        assert np.ravel(factor)[row] == pytest.approx(step if common else SCALE * step / m)
    np.testing.assert_allclose(
        value.sensitivity, [2 * CLIP * SCALE / len(parts[i][1]) for i in NODES]
    )
    if regularised:
        np.testing.assert_allclose(offset, STRENGTH * w)
    else:
        assert offset is None
    sampled = queries(data, grid, common).gradient(w, 1, 0, 2, False, regularised)
    assert open_parts(sampled)[0].dtype == np.float64  # a sample has no whole numbers


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("label", [(0.0, 1.0), (0.5, 0.8)])
def test_second_moments(common: bool, diagonal: bool, label: tuple[float, float]) -> None:
    data, parts = problem()
    grid, (scale, bound) = 2.0**-14, label
    value = queries(data, grid, common).second_moment(scale, bound, diagonal)
    square = NORM**2 + (scale * bound) ** 2
    moved = math.sqrt(2) * square
    core, factor, offset = open_parts(value)
    assert offset is None
    for row, node in enumerate(NODES):
        x, y = parts[node]
        m = len(y)
        z = np.column_stack([x, scale * np.clip(y, -bound, bound)]) if scale else x
        ratio = 2.0 ** math.floor(math.log2(moved / (2 * CLIP)))
        step = grid * moved / min(SIZES) if common else grid * ratio
        own = step * m if common else step
        pairs = [(a, b) for a in range(z.shape[1]) for b in range(a, z.shape[1])]
        if diagonal:
            pairs = [(a, a) for a in range(z.shape[1])]
        exact = [
            np.trunc(z[:, a] * z[:, b] * (1 if a == b else math.sqrt(2)) / own).sum()
            for a, b in pairs
        ]
        near_whole(core[row], np.array(exact))
        assert np.ravel(factor)[row] == pytest.approx(step if common else step / m)
    np.testing.assert_allclose(value.sensitivity, [moved / len(parts[i][1]) for i in NODES])


@pytest.mark.parametrize("common", [False, True])
def test_mapped_records_keep_the_noise_as_many_steps_wide(common: bool) -> None:
    data, _ = problem()
    grid = 2.0**-14
    asked = queries(data, grid, common)
    for clip, times in ((CLIP, 1.0), (CLIP * 9, 8.0), (CLIP / 3, 0.25)):
        there = asked.mapped(RecordMap(np.eye(3), NORM, clip))
        assert there._grid == grid * (1.0 if common else times)
        assert there._common is common and there.facts.constants.clip_norm == pytest.approx(clip)
        w = np.zeros((2, 3))
        np.testing.assert_allclose(
            open_values(there.gradient(w, 1, 0, None, False, False)),
            open_values(
                queries(problem(clip)[0], 2.0**-30, common).gradient(w, 1, 0, None, False, False)
            ),
            atol=8 * grid * times * max(SIZES),
        )


def test_the_grid_of_a_run() -> None:
    """2^26 to 2^27 steps of the noise; by the moment where nothing bounds a gradient."""
    for clip, moved in ((CLIP, 2 * CLIP), (None, math.sqrt(2) * NORM**2)):
        facts = Facts.of(problem(clip)[0])
        for z in (0.3, 1.0, 77.0):
            grid = grid_for(z, facts)
            assert math.frexp(grid)[0] == 0.5 and 2.0**26 <= z * moved / grid < 2.0**27
    assert [power_of_two(v) for v in (1.0, 1.99, 2.0, 0.3)] == [1.0, 1.0, 2.0, 0.25]
