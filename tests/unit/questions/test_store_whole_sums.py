"""Sums of whole numbers that reach the top: record by record, in order, each addition stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tacenda as tc
from tacenda.errors import InputError

TOP = 1 << 62


def folded(numbers: Any) -> list[int]:
    """Column by column, in Python's own whole numbers."""
    total = [0] * len(numbers[0])
    for row in numbers:
        total = [min(max(t + int(v), -TOP), TOP) for t, v in zip(total, row, strict=True)]
    return total


def records(count: int, seed: int) -> tuple[Any, Any]:
    """Near the axes and long, so that few of them fill the range; runs of one sign, so that the top
    is reached and left again."""
    rng = np.random.default_rng(seed)
    x = 0.05 * rng.normal(size=(count, 3))
    x[np.arange(count), rng.integers(0, 2, count)] = 0.97 * np.where(rng.random(count) < 0.8, 1, -1)
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9)
    return x, np.where(np.arange(count) % 17 < 11, 1, 0)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_gradients_that_fill_the_range(loss: str, layout: Any) -> None:
    x, y = records(40, 1)
    y = np.where(np.arange(40) % 5 == 3, 2, y) if loss == "multinomial" else y
    classes = (0, 1, 2) if loss == "multinomial" else (0, 1)
    one_by_one = tc.Problem(
        [(layout(x[k : k + 1]), y[k : k + 1]) for k in range(40)], loss=loss, classes=classes
    )
    together = tc.Problem([(layout(x), y), (layout(x[::-1]), y[::-1])], loss=loss, classes=classes)
    w = np.zeros(one_by_one.dim)
    clip = 0.4
    grid = clip / 2.0**60.9  # a record's numbers stay below 2^61
    each = one_by_one.store.integer_gradient(np.arange(40), np.tile(w, (40, 1)), grid, clip)
    found = together.store.integer_gradient(np.arange(2), np.tile(w, (2, 1)), grid, clip)
    assert found[0].tolist() == folded(each) and found[1].tolist() == folded(each[::-1])
    plain = [sum(int(v) for v in column) for column in each.T]
    assert found[0].tolist() != plain, "the top is reached on the way"
    assert np.abs(found).max() <= TOP


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_moments_that_fill_the_range(layout: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 3))
    x[:, 1] = x[:, 0] * np.where(np.arange(30) % 14 < 9, 1.0, -1.0)  # products of either sign
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9)
    y = np.zeros(30)
    one_by_one = tc.Problem([(layout(x[k : k + 1]), y[:1]) for k in range(30)], loss="squared")
    together = tc.Problem([(layout(x), y), (layout(x[::-1]), y)], loss="squared")
    grid = 2.0**-60.9
    for diagonal in (False, True):
        each = one_by_one.store.integer_second_moment(np.arange(30), grid, 1.0, 0.0, 1.0, diagonal)
        found = together.store.integer_second_moment(np.arange(2), grid, 1.0, 0.0, 1.0, diagonal)
        assert found[0].tolist() == folded(each) and found[1].tolist() == folded(each[::-1])
        assert (found == TOP).any() and np.abs(found).max() <= TOP
        if not diagonal:
            assert (found < 0).any() or found[0].tolist() != found[1].tolist()


def test_a_grid_is_too_fine_from_where_a_record_could_reach_2_to_the_61() -> None:
    x, y = records(3, 2)
    data = tc.Problem([(x, y)], classes=(0, 1))
    w, node = np.zeros((1, 3)), np.zeros(1, np.int64)
    for steps, fits in ((2.0**61, False), (np.nextafter(2.0**61, 0), True)):
        asks: list[Any] = [
            lambda grid=1 / steps: data.store.integer_gradient(node, w, grid, 1.0),
            lambda grid=1 / steps: data.store.integer_second_moment(node, grid, 1.0, 0.0, 1.0),
            lambda grid=1 / steps: data.store.integer_second_moment(
                node, grid, 1.0, 0.0, 1.0, True
            ),
        ]
        for ask in asks:
            if fits:
                assert np.abs(ask()).max() <= TOP
            else:
                with pytest.raises(InputError, match="64 bits"):
                    ask()
