"""The declared sensitivity holds for every float: brute force over neighbouring data, hostile
points, rows and labels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import quickly
import tacenda as tc
from hostile import HOSTILE, LOSSES, MOST, QUESTIONS, case_of, excess
from tacenda._jit import FAST, njit
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.questions.facts import Facts
from tacenda.questions.kernels import gradient as kernels
from tacenda.questions.queries import Queries

NEARBY = 1.0  # nothing may be above


def begun(*choices: int) -> st.SearchStrategy[bytes]:
    """Bytes that begin with these choices."""
    return st.binary(min_size=40, max_size=400).map(lambda rest: bytes(choices) + rest)


@pytest.mark.parametrize(
    ("loss", "question"),
    quickly.cases(
        itertools.product(range(len(LOSSES)), range(len(QUESTIONS))),
        lambda case: sum(case) % 3 == 0,
        id=lambda case: f"{LOSSES[case[0]][0]}{case[0]}-{QUESTIONS[case[1]]}",
    ),
)
@settings(max_examples=15)
@given(data=st.data())
def test_no_float_moves_an_answer_beyond_its_declared_sensitivity(
    loss: int, question: int, data: Any
) -> None:
    case = case_of(data.draw(begun(loss, question)))
    assert excess(case) <= NEARBY


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(k, id=name, marks=() if name == "gradient" else pytest.mark.slow)
        for k, name in enumerate(QUESTIONS)
    ],
)
@settings(max_examples=40)
@given(data=st.data())
def test_no_float_moves_an_answer_of_weighted_records(question: int, data: Any) -> None:
    loss = data.draw(st.integers(0, len(LOSSES) - 1))
    assert excess(case_of(data.draw(begun(loss, question)), weighted=True)) <= NEARBY


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=3000)
@given(st.binary(min_size=40, max_size=500))
@example(b"")
def test_no_float_moves_any_answer(weighted: bool, data: bytes) -> None:
    assert excess(case_of(data, weighted)) <= NEARBY


def exact_gradient(data: Any, w: Any, linear: Any, quadratic: Any, centre: Any) -> Any:
    """The gradient of a logistic argmin's objective at w (1, d), in long doubles."""
    x, y = data.store.rows.astype(np.longdouble), data.store.labels.astype(np.longdouble)
    w, linear, centre = (part[0].astype(np.longdouble) for part in (w, linear, centre))
    slopes = -y / (1 + np.exp(np.clip(y * (x @ w), -11000, 11000)))
    return (
        slopes @ x / len(y)
        + np.longdouble(data.strength) * w
        + linear
        + 2 * np.longdouble(quadratic) * (w - centre)
    )


FAR = (0.0, 1.0, -40.0, 1e3, -1e5, 3e7, 1e9, -1e9, 1e17, -1.79e308, np.nan, np.inf)
THREE = st.lists(st.sampled_from(FAR), min_size=3, max_size=3)


@pytest.mark.parametrize("quadratic", [1e-3, 0.5, 200.0])
@settings(max_examples=60)
@given(linear=THREE, centre=THREE, near=st.booleans())
def test_an_answer_with_noise_inside_is_a_minimiser(
    quadratic: float, linear: Any, centre: Any, near: bool
) -> None:
    """Objective perturbation charges for gradient norm `tolerance`: there, in exact arithmetic, for
    whatever was sent.

    The public part of the anchor may be cut; then the answer is the minimiser of the objective with
    the cut one, and that depends on public numbers only.
    """
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
    data = tc.Problem([(x, rng.choice([-1, 1], 6))], classes=(-1, 1), strength=0.1)
    facts = Facts.of(data)
    queries = Queries(data.store, data.sizes, np.array([0]), facts, SimulatedNoise(0))
    size = 1e-3 if near else 1.0
    public = np.nan_to_num(size * np.array([linear]))
    around = np.nan_to_num(size * np.array([centre]))
    noise, extra, q = rng.normal(size=(1, 3)), np.array([0.02]), np.full((1, 1), quadratic)
    core, offset = queries.question(public, q, around).solve(noise, extra)
    answer = core if offset is None else core + offset
    wider = q + 0.01
    settled, wide, moved = queries._settled(
        public, wider, around * (q / wider), facts.answer_radius(wider)
    )
    found = exact_gradient(data, answer, settled + noise, wide[0, 0], moved)
    # The terms of the check itself are long doubles: their own rounding counts.
    own = 2.0**-62 * float(
        np.abs(settled).sum() + 2 * wide[0, 0] * (np.abs(moved).sum() + np.abs(answer).sum())
    )
    assert float(np.linalg.norm(found.astype(float))) <= facts.tolerance + own
    limit = facts.answer_radius(wider)[0]
    anchor = (2 * wide * moved - settled) / facts.argmin_convexity(wide)[:, None]
    assert np.all(np.abs(anchor) <= limit * (1 + 1e-12))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, object])
@pytest.mark.parametrize("choice", ["error", "scale"])
def test_rows_without_a_norm_are_refused_at_the_start(
    bad: float, csr: bool, dtype: Any, choice: str
) -> None:
    x = np.array([[0.5, 0.0], [bad, 0.1]], dtype)
    table: Any = x
    if csr:
        if dtype in (np.float16, object):
            pytest.skip("SciPy has no such sparse matrices")
        table = sparse.csr_matrix(x)
    for loss, y in (("logistic", [0, 1]), ("huber", [0.3, 2.0])):
        with pytest.raises(InputError, match="NaN or infinity"):
            tc.Problem([(table, y)], loss=loss, on_large_rows=choice)


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
def test_rows_whose_norm_overflows_are_refused_at_the_start(csr: bool) -> None:
    for big in (np.array([[MOST, 0.0]]), np.array([["1e4000", "0"]]).astype(np.longdouble)):
        table = sparse.csr_matrix(big) if csr else big
        with pytest.raises(InputError, match="overflows|NaN or infinity"):
            tc.Problem([(table, [0.5])], loss="huber", on_large_rows="scale")
    x = np.full((1, 4), 3e38, np.float32)
    with pytest.raises(InputError, match="rounding spoils"):  # the factor is no normal float32
        tc.Problem(
            [(sparse.csr_matrix(x) if csr else x, [0.5])],
            loss="huber",
            on_large_rows="scale",
            data_norm=1.3e-6,
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, np.longdouble("1e4000")])
def test_labels_that_are_no_numbers_are_refused_at_the_start(bad: Any) -> None:
    x = np.full((2, 2), 0.1)
    with pytest.raises(InputError, match="NaN or infinity"):
        tc.Problem([(x, np.array([0.5, bad]))], loss="huber")
    # A long double may name a class
    for classes in ((0.5, 1.0),) if np.isfinite(bad) else (None, (0.5, 1.0)):
        with pytest.raises(InputError, match="NaN or infinity|not one of"):
            tc.Problem([(x, np.array([0.5, bad]))], loss="logistic", classes=classes)
    with pytest.raises(InputError, match="different labels of one type"):
        tc.Problem([(x, np.array([0.5, 1.0]))], loss="logistic", classes=(0.5, float(bad)))


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared", "huber"])
def test_whole_numbers_stop_at_the_top_instead_of_turning_over(loss: str) -> None:
    """Records enough to leave 64 bits on a very fine grid: the sum stops, and no record moves it by
    more than its own."""
    count = 12
    x = np.tile([[1.0, 0.0]], (count, 1))
    y = {"logistic": 1, "multinomial": 0, "squared": -9.0, "huber": -9.0}[loss]
    classes = {"logistic": (-1, 1), "multinomial": (0, 1, 2), "squared": None, "huber": None}[loss]
    full = tc.Problem([(x, np.full(count, y))], loss=loss, classes=classes)
    less = tc.Problem([(x[1:], np.full(count - 1, y))], loss=loss, classes=classes)
    w, grid = np.zeros((1, full.dim)), 2.0**-60
    a, b = (data.store.integer_gradient(np.array([0]), w, grid, 1.0) for data in (full, less))
    assert np.abs(a).max() == 1 << 62
    assert sum((int(u) - int(v)) ** 2 for u, v in zip(a[0], b[0], strict=True)) ** 0.5 <= 1.0 / grid


@njit(**FAST)
def shrink(size: float, norm: float, clip: float) -> float:
    return kernels.shrink(size, norm, clip)


@njit(**FAST)
def whole(value: float, most: float) -> int:
    return kernels.whole(value, most)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_slope_is_shrunk_to_its_clip_or_to_nothing(value: float) -> None:
    for norm in (0.0, 5e-324, 1e-310, 1e-160, 0.3, 1.0, 1e9):
        factor = shrink(abs(value), norm, 0.5)
        assert 0.0 <= factor <= 1.0
        assert not abs(value) * norm * factor > 0.5 * (1 + 1e-15) or not np.isfinite(
            abs(value) * norm
        )
        assert whole(value, 1000.5) == (
            -1000 if np.isnan(value) else int(max(-1000.5, min(1000.5, value)))
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [2.0, 1e5])
def test_points_are_cut_to_the_declared_radius(radius: float, dtype: Any) -> None:
    """Queries answer at the cut point, also where the radius is small, and the public part of the
    answer is that point's."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(9, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.001
    data = tc.Problem(
        [(x.astype(dtype), rng.choice([-1, 1], 9))] * 4,
        classes=(-1, 1),
        strength=0.3,
        radius=radius,
    )
    queries = Queries(data.store, data.sizes, np.arange(4), Facts.of(data), SimulatedNoise(0))
    w = np.array(
        [
            [0.5, -1.0, 1.5],
            [np.nan, 1e300, -np.inf],
            [radius, -radius, 0.0],
            [3 * radius, 1.0, -9e99],
        ]
    )
    with np.errstate(over="ignore"):
        w = w.astype(dtype)
    cut = np.array(
        [[0.5, -1.0, 1.5], [0.0, radius, -radius], [radius, -radius, 0.0], [radius, 1.0, -radius]],
        dtype,
    )
    close = 1e-5 if dtype == np.float32 else 1e-12
    for batch in (None, 4):
        got = open_values(queries.gradient(w, 1, 0, batch, False, True))
        assert np.allclose(
            got, open_values(queries.gradient(cut, 1, 0, batch, False, True)), rtol=close
        )
        plain = open_values(queries.gradient(cut, 1, 0, batch, False, False)) + dtype(0.3) * cut
        assert np.allclose(got, plain, rtol=close)
    q = np.full((4, 1), 0.7)
    found = open_values(queries.argmin(np.zeros((4, 3)), q, w.astype(float)))
    anchors = np.clip(
        np.nan_to_num(1.4 * w.astype(float) / 1.7, posinf=np.inf, neginf=-np.inf), -radius, radius
    )
    again = open_values(queries.argmin(np.zeros((4, 3)), q, anchors * 1.7 / 1.4))
    assert np.allclose(found, again, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rows", [1e-6, 1.0])
def test_an_argmin_of_a_loss_with_kinks_is_refused_near_and_far_whatever_the_records(
    rows: float,
) -> None:
    """Far away it once stopped, or did not, by the records."""
    problem = tc.Problem(
        [(np.full((3, 2), rows / 2), np.array([0, 1, 1]))],
        loss="hinge",
        strength=1.0,
        classes=(0, 1),
    )
    facts = Facts(np.array([3.0]), 2, problem.constants, "replace-one", 1e-5)
    queries = Queries(problem.store, np.array([3]), np.zeros(1, np.int64), facts, SimulatedNoise(1))
    for size in (0.0, 1e9):
        with pytest.raises(UnsupportedError, match="smooth"):
            queries.argmin(np.zeros((1, 2)), np.ones((1, 1)), np.full((1, 2), size))
