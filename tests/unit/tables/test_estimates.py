"""Counts that agree: against a general least squares, by brute force, and by what must hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacenda.questions.tables import ColumnCells, TableSums
from tacenda.tables.estimates import Cells, Sizes, agreeing, difference, quantile_of, whole_counts

ASKED = TableSums(3, (ColumnCells(2, (), False, 1.0), ColumnCells(0, (0.5,), True, 2.0)))


@pytest.mark.parametrize("records", [400, None])
def test_agreeing_counts_are_the_weighted_least_squares(records: int | None) -> None:
    """Unknown are the cells of both columns; everything that was released is linear in them, and
    the constraints are eliminated by a null space."""
    rng, noise = np.random.default_rng(1), 3.0
    total = rng.normal(size=ASKED.length) * noise + 5
    sizes = Sizes.of(ASKED, total, noise, records)
    found = agreeing(ASKED, total, noise, sizes)
    parts, cells = ASKED.parts(total), [3, 3]
    unknown = 3 * sum(cells)
    design, seen, weights = [], [], []
    for k, offset in ((0, 0), (1, 9)):
        for g, j in itertools.product(range(3), range(3)):
            row = np.zeros(unknown)
            row[offset + 3 * g + j] = 1
            design.append(row)
            seen.append(parts[str(k)][g, j])
            weights.append(ASKED.scales[str(k)] / noise)
    for g in range(3):
        row = np.zeros(unknown)
        row[3 * g : 3 * g + 3] = 1
        design.append(row)
        seen.append(parts["groups"][0, g])
        weights.append(ASKED.scales["groups"] / noise)
    rules, values = [], []
    for g in range(3):
        row = np.zeros(unknown)
        row[3 * g : 3 * g + 3], row[9 + 3 * g : 12 + 3 * g] = 1, -1
        rules.append(row)
        values.append(0.0)
    if records is not None:
        rules.append(np.append(np.ones(9), np.zeros(9)))
        values.append(float(records))
    A, r, w = np.array(design), np.array(rules), np.array(weights)
    start = np.linalg.lstsq(r, np.array(values), rcond=None)[0]
    free = np.linalg.svd(r)[2][len(r) :].T
    best = np.linalg.lstsq(w[:, None] * (A @ free), w * (seen - A @ start), rcond=None)[0]
    wanted = start + free @ best
    got = np.concatenate([cells.counts for column in found for cells in column[:3]])
    assert got == pytest.approx(wanted)
    covariance = (
        free @ np.linalg.inv((w[:, None] * (A @ free)).T @ (w[:, None] * (A @ free))) @ free.T
    )
    one, two, everyone = np.zeros(3), np.zeros(3), found[1][3]
    one[0], two[:2] = 1, 1
    assert found[0][1].covariance(one, two) == pytest.approx(covariance[3, 3:5].sum())
    pick = np.zeros(unknown)
    pick[[9, 12, 15]] = 1
    assert everyone.covariance(one, one) == pytest.approx(pick @ covariance @ pick)
    assert sizes.variance == pytest.approx(covariance[:3, :3].sum())


def test_whole_counts_are_the_nearest_that_add_up() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, total = rng.normal(1.5, 2, 3), 5
        found = whole_counts(values, total)
        assert found.sum() == total and found.min() >= 0
        every = [c for c in itertools.product(range(6), repeat=3) if sum(c) == total]
        best = min(np.sum((np.array(c) - values) ** 2) for c in every)
        assert np.sum((found - values) ** 2) <= best + 1e-9
    assert whole_counts(np.array([-3.0, 1.0]), 0).tolist() == [0, 0]


def test_quantiles_lie_between_the_edges_of_their_bin() -> None:
    u = np.random.default_rng(2).beta(2, 3, 5000)
    edges = np.linspace(0, 1, 11)
    counts = np.append(np.histogram(u, edges)[0], 7.0)
    found = quantile_of(Cells(counts, 0.0, 0.0), edges, 0.5, 0.95)
    assert found.low <= np.median(u) <= found.high
    assert found.value == pytest.approx(np.median(u), abs=0.02)
    assert quantile_of(Cells(counts, 1e8, 0.0), edges, 0.5, 0.95)[1:] == (0.0, 1.0)


def test_difference_is_cohens_d() -> None:
    found = difference((5.0, 0.1, 4.0, 0.0), (3.0, 0.1, 4.0, 0.0), 0.95)
    assert found.value == pytest.approx(1.0)
    assert found.high - found.value == pytest.approx(1.96 * np.sqrt(0.02) / 2, rel=1e-3)
