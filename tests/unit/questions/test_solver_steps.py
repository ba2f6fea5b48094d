"""The solver that cannot fail takes no more steps than public numbers say, and a problem for which
these are too many is refused before a record is asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards
from tacenda.errors import InputError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts, descent_steps
from tacenda.questions.solver import around
from tacenda.questions.solver.pooled import Pooled

A = tc.algorithms


def facts(tolerance: float = 1e-8, **declared: Any) -> Facts:
    constants = Constants.declared(**{"loss": "logistic", **declared})
    return Facts(np.array([10.0, 30.0]), 4, constants, tolerance=tolerance)


def test_the_bound_by_hand() -> None:
    """sqrt(L/kappa) ln(2 L B^2 / (kappa tol^2)), for the least curved of the nodes."""
    found = facts(strength=1e-3, loss_scale=2.0, data_norm=3.0).solver_steps(
        np.array([[0.5], [0.01]])
    )
    kappa = 1e-3 + 2 * 0.01
    smooth, bound, tol = kappa + 2.0 * 0.25 * 9.0, 3.0 * 2.0, 1e-8 / 4
    wanted = math.sqrt(smooth / kappa) * math.log(2 * smooth * bound**2 / (kappa * tol**2))
    assert found == math.ceil(wanted) + 1
    assert descent_steps(2.0, 1.0, 1e-9, 1.0) == 1  # it is there already


def test_nothing_is_said_where_nothing_is_promised() -> None:
    assert facts(loss="squared").solver_steps(np.zeros(1)) == 0  # no bounded slope
    assert facts(loss="hinge").solver_steps(np.zeros(1)) == 0  # no curvature
    assert facts(strength=0.0).solver_steps(np.zeros(1)) == 0  # no strong convexity
    facts(strength=0.0).check_solver(np.zeros(1))


@pytest.mark.parametrize(("loss", "scale"), [("logistic", 1.0), ("huber", 3.0)])
@pytest.mark.parametrize("strength", [0.3, 1e-3])
def test_descent_reaches_the_tolerance_in_that_many_steps(
    loss: str, scale: float, strength: float
) -> None:
    """From far away and alone, without Newton's method before it."""
    task = "binary" if loss == "logistic" else "regression"
    data = tc.Problem(
        shards([12, 25], task=task, noise=0.1),
        loss=loss,
        strength=strength,
        loss_scale=scale,
        classes=("no", "yes") if loss == "logistic" else None,
    )
    for node in range(2):
        for anchor in (np.zeros(4), np.full(4, 1e6), np.array([-3.0, 0.0, 2.0, 9.0])):
            part, asked = Pooled.around(data.store, node, anchor, strength), []
            plain = part.gradient
            part.gradient = lambda u, f=plain, a=asked: a.append(1) or f(u)  # type: ignore
            u = around.descend(part, data.store, node, 1e-8)
            assert np.linalg.norm(plain(u) + strength * u) <= 1e-8 * (1 + 1e-6)
            assert len(asked) <= Facts.of(data).solver_steps(np.zeros(1))


def test_where_newton_gives_up_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Newton's method leaves behind, also NaN, the answer is a minimiser."""
    data = tc.Problem(shards([12, 25, 9]), strength=0.02, loss_scale=2.0, classes=("no", "yes"))
    nodes, kappa = np.array([2, 0]), np.array([0.3, 0.02])
    anchors = np.array([[1.0, -2.0, 0.5, 0.0], [1e5, 0.0, 0.0, -1e5]])
    wanted = around.argmin(data.store, nodes, anchors, kappa, 1e-9)
    for left in (0.0, np.nan):
        gives_up = lambda part, w, *_, left=left: (w + left, 1.0 if left == 0 else left)  # noqa: E731
        monkeypatch.setattr(around, "newton", gives_up)
        found = around.argmin(data.store, nodes, anchors, kappa, 1e-9)
        for k in range(2):
            assert np.linalg.norm(found[k] - wanted[k]) <= 2e-9 / kappa[k]
    assert around.can_solve(data.store, kappa) and not around.can_solve(data.store, 0 * kappa)


def test_an_endless_argmin_is_refused_by_what_was_declared() -> None:
    endless = {"strength": 1e-13, "data_norm": 1e3}
    facts(strength=1e-4).check_solver(np.array([[0.5]]))
    facts(**endless).check_solver(np.array([[0.5]]))  # the penalty curves it enough
    with pytest.raises(InputError, match=r"may take .* steps.*strength 1e-13.*norm 1000"):
        facts(**endless).check_solver(np.array([[0.5], [0.0]]))
    steps = facts(strength=1e-6).solver_steps(np.zeros(1))  # weak, and far from endless
    assert 1e3 < steps < Facts.MOST_STEPS == 1e6


def test_a_run_that_would_never_end_is_refused_before_its_first_round() -> None:
    data = tc.Problem(shards([8, 9, 7]), strength=1e-13, data_norm=1e4, classes=("no", "yes"))

    def never(*_: Any) -> Any:
        raise AssertionError("a record was asked")

    data.store.argmin = data.store.argmin_around = never
    for algorithm in (A.PVP(penalty=1e-9), A.DVP(penalty=1e-9)):
        with pytest.raises(InputError, match="larger strength or penalty"):
            tc.simulate(data, tc.graph.ring(3), algorithm, 2, privacy=tc.Privacy(epsilon=1.0))
