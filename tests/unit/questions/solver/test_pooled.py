"""The pooled records of a problem or of one node against finite differences and plain loops, and
the solvers on them: they end where theory says, after few looks at the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tacenda as tc
from support import shards
from tacenda.errors import InputError, TacendaError, UnsupportedError
from tacenda.questions.solver import local, pooled, reference
from tacenda.questions.solver.pooled import Pooled

SIZES, P = [9, 14, 6], 3
TASKS = {"logistic": "binary", "multinomial": "classes", "huber": "regression"}
CLASSES: Any = {"binary": ("no", "yes"), "classes": (0, 1, 2), "regression": None}


@pytest.fixture(autouse=True, params=[1, 10, 1 << 20])
def _chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled, "_CHUNK_ELEMENTS", request.param)


def made(loss: str, csr: bool = False, kind: Any = np.float64, **more: Any) -> Any:
    parts = shards(SIZES, P, seed=3, task=TASKS[loss], dtype=kind)
    given = [(sparse.csr_matrix(x) if csr else x, y) for x, y in parts]
    settings = {"strength": 0.05, "loss_scale": 1.3, "data_norm": 1.1, **more}
    return tc.Problem(given, loss=loss, classes=CLASSES[TASKS[loss]], **settings)


def differences(f: Any, w: Any, h: float = 1e-6) -> Any:
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("loss", TASKS)
def test_value_gradient_and_curvature(loss: str, csr: bool, kind: Any) -> None:
    data = made(loss, csr, kind, regulariser="elastic-net")
    part = Pooled.of(data)
    w, v = np.random.default_rng(0).normal(size=(2, data.dim))
    assert part.composite_value(w) == pytest.approx(data.objective(w), rel=1e-6)
    assert (part.l1, part.l2) == pytest.approx((0.025, 0.025))
    regulariser = 0.05 * float(data.regulariser.value(w))
    assert part.value(w) == pytest.approx(data.objective(w) - regulariser, rel=1e-6)
    np.testing.assert_allclose(part.gradient(w), differences(part.value, w), rtol=1e-5, atol=1e-7)
    product = part.hessian_product(w)(v)
    slope = (part.gradient(w + 1e-6 * v) - part.gradient(w - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(product, slope, rtol=1e-4, atol=1e-7)
    if loss != "multinomial":
        np.testing.assert_allclose(part.hessian(w) @ v, product, rtol=1e-10)
    best = part.prox(w, 0.7)

    def cost(u: Any) -> float:
        return float(0.7 * (0.025 * np.abs(u).sum() + 0.0125 * u @ u) + 0.5 * ((u - w) @ (u - w)))

    for move in 1e-4 * np.random.default_rng(1).normal(size=(20, data.dim)):
        assert cost(best) <= cost(best + move)
    step = w - part.prox(w - part.gradient(w), 1.0)
    assert part.residual(w) == pytest.approx(float(np.linalg.norm(step)))


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("node", [0, 2])
def test_a_node_seen_from_an_anchor(loss: str, csr: bool, node: int) -> None:
    """F(u) = (c/m) sum_j loss(anchor + u), up to a constant: the same gradient as the table's own
    at anchor + u, without the regulariser."""
    data = made(loss, csr, public_sizes=[10, 20, 30])
    rng = np.random.default_rng(4)
    anchor, u = rng.normal(size=(2, data.dim))
    part = Pooled.around(data.store, node, anchor, 0.4)
    assert (part.l1, part.l2) == (0.0, 0.4) and len(part.labels) == SIZES[node]
    wanted = data.store.gradient(np.array([node]), (anchor + u)[None], None, False)[0]
    np.testing.assert_allclose(part.gradient(u), wanted, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(part.gradient(u), differences(part.value, u), rtol=1e-5, atol=1e-7)
    far = Pooled.around(data.store, node, 1e9 * anchor, 0.4)
    assert np.isfinite(far.gradient(u)).all()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    looks: list[int] = []
    plain = Pooled.gradient
    monkeypatch.setattr(Pooled, "gradient", lambda self, w: looks.append(1) or plain(self, w))
    return looks


@pytest.mark.parametrize("factorise", [True, False])
@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("strength", [1.0, 1e-2, 1e-5])
def test_newton_ends_after_few_looks(
    loss: str, strength: float, factorise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handful of steps, each with one or two gradients, by factorising or by CG."""
    monkeypatch.setattr(reference, "_FACTORISE_UP_TO", 1500 if factorise else 0)
    data, looks = made(loss, strength=strength), counted(monkeypatch)
    w = data.solve(1e-10)
    assert np.linalg.norm(differences(data.objective, w, 1e-5)) <= 1e-6
    assert len(looks) <= 60


@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("regulariser", ["l1", "elastic-net"])
def test_sparse_optima(loss: str, regulariser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, looks = made(loss, regulariser=regulariser, strength=0.05), counted(monkeypatch)
    w = data.solve(1e-9)
    part = Pooled.of(data)
    assert part.residual(w) <= 1e-9
    for move in 1e-3 * np.random.default_rng(1).normal(size=(30, data.dim)):
        assert data.objective(w) <= data.objective(w + move)
    assert len(looks) <= 600


def test_newton_on_some_coordinates_with_a_slope() -> None:
    data = made("logistic")
    part, shift = Pooled.of(data), np.array([0.3, -0.2, 0.1])
    start, free = np.array([0.5, -0.25, 0.0]), np.array([True, False, True])
    w, norm = reference.newton(part, start, shift, free, 1e-11)
    g = part.gradient(w) + part.l2 * w + shift
    assert w[1] == -0.25 and norm <= 1e-11
    assert np.linalg.norm(g[free]) == pytest.approx(norm, abs=1e-15)


def test_conjugate_gradients_solve_in_as_many_steps_as_there_are_directions() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 6))
    matrix, g = root @ root.T + 0.1 * np.eye(6), rng.normal(size=6)
    asked: list[int] = []
    found = reference._conjugate_gradient(lambda v: asked.append(1) or matrix @ v, g, 1e-10)
    np.testing.assert_allclose(found, -np.linalg.solve(matrix, g), rtol=1e-6)
    assert len(asked) <= 8
    flat = reference._conjugate_gradient(lambda v: 0 * v, g, 1e-10)
    np.testing.assert_array_equal(flat, -g)  # no curvature at all: downhill


def test_an_optimum_that_is_not_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_MAX_NEWTON", 1)
    for regulariser in ("l2", "l1"):
        with pytest.raises(TacendaError, match="stopped at optimality residual"):
            made("logistic", regulariser=regulariser, strength=1e-4).solve(1e-14)


def test_the_cache_is_kept_where_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    store = made("logistic").store
    assert local.uses_chords(store) and not local.uses_chords(made("multinomial").store)
    size = 4 * 3 * 3**2
    monkeypatch.setattr(local, "_CACHE_LIMIT", size - 1)
    assert not local.uses_chords(store)
    monkeypatch.setattr(local, "_CACHE_LIMIT", size)
    assert local.uses_chords(store)
    monkeypatch.setattr(local, "_CACHE_FLOOR", size - store.nbytes - 1)
    assert not local.uses_chords(store)
    monkeypatch.setattr(local, "_CACHE_FLOOR", size - store.nbytes)
    assert local.uses_chords(store)
    empty = local.Chords.empty(2, 3)
    assert empty.anchors.tolist() == [[0.0] * 3] * 2 and empty.ridges.tolist() == [-1.0, -1.0]
    assert empty.inverses.shape == (2, 3, 3) and empty.inverses.dtype == np.float32
    for changes, words in (
        ({"loss": "hinge"}, "smooth loss"),
        ({"regulariser": "l1"}, "smooth reg"),
    ):
        wrong = tc.Problem(shards(SIZES, P), classes=("no", "yes"), **changes).store
        with pytest.raises(UnsupportedError, match=words):
            local.check_supported(wrong)


def test_terms_of_an_argmin_may_be_of_any_number_and_of_one_row() -> None:
    store, nodes = made("logistic").store, np.array([0, 2])
    linear, centre = np.array([[0.5, -0.25, 1.0]] * 2), np.array([[1.0, 2.0, -3.0]] * 2)
    wanted = store.argmin(nodes, linear, np.full((2, 1), 0.5), centre, 0 * centre, 1e-10)
    for kind in (np.float32, np.float64):
        again = store.argmin(
            nodes, linear[0].astype(kind), np.array(0.5), centre[:1].astype(kind), 0 * centre, 1e-10
        )
        assert np.array_equal(again, wanted) and again.dtype == np.float64
    whole = store.argmin(nodes, np.array([[1, 2, 3]]), np.array([[1]]), centre, 0 * centre, 1e-10)
    as_floats = store.argmin(nodes, [[1.0, 2.0, 3.0]], [[1.0]], centre, 0 * centre, 1e-10)
    assert np.array_equal(whole, as_floats)
    for bad in (np.ones((3, 3)), np.ones((2, 4))):
        with pytest.raises(InputError, match=r"linear must have shape \(2, 3\)"):
            store.argmin(nodes, bad, np.array(0.5), centre, 0 * centre, 1e-10)
    for negative in (-0.1, np.nan):
        with pytest.raises(InputError, match="at least 0"):
            store.argmin(nodes, linear, np.array(negative), centre, 0 * centre, 1e-10)
