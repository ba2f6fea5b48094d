"""What a regulariser becomes on mapped records, against R(matrix v) itself; and facts of mapped
records by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacenda import regularisers
from tacenda.errors import UnsupportedError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts, RecordMap
from tacenda.regularisers import L1, L2, ElasticNet, NoRegulariser, Unmapped, mapped

RNG = np.random.default_rng(0)
TURN = np.linalg.qr(RNG.normal(size=(4, 4)))[0]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("regulariser", [L2(), ElasticNet(0.0)])
def test_l2_is_a_weight_for_each_column(regulariser: Any, outputs: int) -> None:
    lengths = np.array([2.0, 0.5, 1e-3])
    v = RNG.normal(size=(5, outputs * 3))
    for matrix in (TURN[:, :3] * lengths, lengths):
        full = np.diag(matrix) if matrix.ndim == 1 else matrix
        found = mapped(regulariser, 0.1, matrix, outputs)
        w = np.hstack([v[:, 3 * c : 3 * c + 3] @ full.T for c in range(outputs)])
        np.testing.assert_allclose(found.value(v), regulariser.value(w), rtol=1e-12)
        np.testing.assert_allclose(found.gradient(v), np.tile(lengths**2, outputs) * v)
        np.testing.assert_allclose(found.prox(v, 0.7), v / (1 + 0.7 * np.tile(lengths**2, outputs)))
        assert found.weighted and found.strong_convexity == 0.0 and found.name == "weighted-l2"
        with pytest.raises(UnsupportedError, match="mapped already cannot be mapped again"):
            mapped(found, 0.1, lengths)


def test_what_is_left_out_stays_out() -> None:
    for regulariser, strength in ((NoRegulariser(), 0.1), (L2(), 0.0), (L1(), 0.0)):
        assert mapped(regulariser, strength, np.ones(3)) == NoRegulariser()
    assert not mapped(NoRegulariser(), 0.1, np.ones((3, 2))).weighted  # any map goes with none


@pytest.mark.parametrize("regulariser", [L1(), ElasticNet(0.3)])
def test_an_l1_part_cannot_be_asked_for(regulariser: Any) -> None:
    found = mapped(regulariser, 0.1, np.ones(3))
    assert found == Unmapped(regulariser.name)
    assert (found.name, found.weighted, found.strong_convexity) == ("unmapped", True, 0.0)
    asks: list[Any] = [
        lambda: found.l1,
        lambda: found.l2,
        lambda: found.smooth,
        lambda: found.value(np.ones(3)),
        lambda: found.gradient(np.ones(3)),
        lambda: found.prox(np.ones(3), 1.0),
    ]
    for ask in asks:
        with pytest.raises(UnsupportedError, match=f"^The regulariser '{regulariser.name}' acts"):
            ask()
    assert mapped(found, 0.1, np.ones(3)) == Unmapped("unmapped")


def test_columns_that_are_not_orthogonal_are_refused() -> None:
    for slant, crossed in ((1e-9, False), (1e-6, True)):
        matrix = np.array([[1.0, slant], [0.0, 1.0], [0.0, 0.0]])
        if crossed:
            with pytest.raises(UnsupportedError, match="needs a map with orthogonal columns"):
                mapped(L2(), 0.1, matrix)
        else:
            assert mapped(L2(), 0.1, matrix).weighted
    with pytest.raises(UnsupportedError, match="orthogonal"):
        mapped(L2(), 0.1, np.array([[math.nan, 0.0], [0.0, 1.0]]))


def test_the_names() -> None:
    assert sorted(regularisers.names()) == ["elastic-net", "l1", "l2", "none"]


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_facts_of_mapped_records_by_hand(loss: str) -> None:
    constants = Constants.declared(
        loss=loss, classes=3, strength=0.1, data_norm=2.0, loss_scale=1.5, clip_norm=0.7, radius=50
    )
    outputs = 3 if loss == "multinomial" else 1
    facts = Facts(np.array([30.0, 10.0]), 4 * outputs, constants)
    assert facts.n_features == 4
    for lengths, radius in (([2.0, 0.5, 4.0], 100.0), ([2.0, 3.0, 4.0], 50.0), ([0.0] * 3, 50.0)):
        for matrix in (TURN[:, :3] * np.array(lengths), np.array([*lengths, 1.0])):
            found = facts.mapped(RecordMap(matrix, 0.9, 0.2, 7.0))
            k = found.constants
            assert found.dim == outputs * matrix.shape[-1] and found.n_features == matrix.shape[-1]
            assert (k.data_norm, k.clip_norm, k.strength, k.loss_scale) == (0.9, 0.2, 0.1, 1.5)
            assert k.radius == pytest.approx(radius) and k.regulariser.strong_convexity == 0.0
            assert found.smoothness == 7.0 and np.array_equal(found.sizes, facts.sizes)
            assert found.worst_gradient_sensitivity == pytest.approx(2 * 0.2 * 1.5 / 10)
    bare = facts.mapped(RecordMap(np.eye(4), 0.9))
    assert bare.constants.clip_norm is None
    assert bare.smoothness == pytest.approx(1.5 * constants.loss.curvature * 0.9**2)
    assert facts.smoothness == pytest.approx(1.5 * constants.loss.curvature * 4.0)
    tiny = facts.mapped(RecordMap(np.full(4, 1e-100), 0.9))
    assert tiny.constants.radius == 1e15


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_sensitivities_of_the_moment_by_hand(adjacency: str) -> None:
    constants = Constants.declared(loss="squared", data_norm=2.0, clip_norm=1.0)
    facts = Facts(np.array([30.0, 10.0, 20.0]), 4, constants, adjacency)
    root = math.sqrt(2) if adjacency == "replace-one" else 1.0
    assert facts.moment_bound() == 4.0 and facts.moment_bound(0.5, 3.0) == 4.0 + 2.25
    for given, bound in (((), 4.0), ((0.5, 3.0), 6.25)):
        found = facts.moment_sensitivity(*given)
        np.testing.assert_allclose(found, root * bound / facts.sizes)
        assert found is facts.moment_sensitivity(*given)  # worked out once
        assert facts.worst_moment_sensitivity(*given) == pytest.approx(root * bound / 10)
        last = facts.rows(np.array([2]))
        assert last.worst_moment_sensitivity(*given) == pytest.approx(root * bound / 10)
        np.testing.assert_allclose(last.moment_sensitivity(*given), [root * bound / 20])
    changed = 2 if adjacency == "replace-one" else 1
    assert facts.worst_gradient_sensitivity == pytest.approx(changed * 1.0 / 10)
    worst = facts.for_the_smallest()
    np.testing.assert_allclose(worst.moment_sensitivity(), root * 4.0 / 10)
    assert np.array_equal(worst.sizes, facts.sizes)
