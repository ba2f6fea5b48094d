"""MomentRegression by hand: every round's question, step, average and model from what was released
and from public numbers, written with matrices instead of rows and columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import listened, packed_matrix, run_spec, shards, uneven
from tacenda.algorithms.moments import MomentRegression, each_row
from tacenda.algorithms.quadratic import Quadratic, cleaned, curvature
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.runtime.spec import RunSpec

N, P = 5, 3
NORM, CLIP, SCALE, STRENGTH = 1.3, 0.4, 2.5, 0.07
GRAPH = Topology.of(tc.graph.ring(N))


def problem(clip: float | None = CLIP) -> tuple[Any, list[Any]]:
    parts = [(1.1 * x, 0.5 * y) for x, y in shards(uneven(N, 2), P, 2, task="regression")]
    declared = {"data_norm": NORM, "loss_scale": SCALE, "strength": STRENGTH, "clip_norm": clip}
    return tc.Problem(parts, loss="squared", **declared), parts


def played(
    algorithm: MomentRegression, rounds: int, privacy: Any, start: Any, clip: float | None = CLIP
) -> tuple[RunSpec, list[Any], list[Any]]:
    """(the run, the state after each round, what each release gave)."""
    data, _ = problem(clip)
    spec = run_spec(algorithm, GRAPH, Facts.of(data), rounds, privacy).checked()
    states, released, _ = listened(spec, data, start, rounds)
    return spec, states, released


def form_of(moment: Any, std: float) -> tuple[Any, float]:
    """(Q, its ridge) of a symmetric matrix with noise of that std."""
    e, vectors = np.linalg.eigh(moment)
    ridge = 0.5 * math.sqrt(2 * len(e)) * std
    values = []
    for one in e:
        pushed = sum((one - f) / ((one - f) ** 2 + 2 * std**2) for f in e if one != f)
        values.append(max(one - std**2 * pushed, 0.0) + max(ridge, 1e-12 * max(e)))
    return vectors @ np.diag(values) @ vectors.T, ridge


def by_hand(
    moment: Any,
    std: float,
    starts: Any,
    rounds: int,
    tail: float,
    parts: list[Any],
    released: list[Any] | None,
    clip: float | None = CLIP,
    vectors: Any = None,
) -> list[tuple[Any, Any, Any]]:
    """(x, centre, model) after each round; `released`: the rows of the gradients, in units of the
    smallest node's sensitivity and along these vectors, or None for the exact ones."""
    form, ridge = form_of(moment, std)
    vectors = np.linalg.eigh(form)[1] if vectors is None else vectors
    values = np.diag(vectors.T @ form @ vectors)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, form, rtol=1e-8, atol=1e-10)
    size2 = 0.25 * SCALE / sum(max(1 - ridge / v, 0.0) for v in values)
    whiten = vectors @ np.diag(np.sqrt(size2 / values))  # P: mapped rows are x P
    short = None if clip is None else 0.5 * clip / NORM
    unit = 1.0 if short is None else 2 * short * SCALE / min(len(y) for _, y in parts)
    x, centre, kept, out = starts.mean(axis=0), starts.mean(axis=0), 0, []
    out.append((starts, starts, starts))
    for turn in range(2, rounds + 1):
        if released is None:
            means = []
            for rows, labels in parts:
                g = (rows @ x - labels)[:, None] * (rows @ whiten)
                if short is not None:
                    length = np.linalg.norm(g, axis=1, keepdims=True)
                    g = g * np.minimum(1.0, short / length)
                means.append(SCALE * g.mean(axis=0))
            g = np.mean(means, axis=0)
        else:
            g = unit * released[turn - 1].mean(axis=0)
        x = x - whiten @ g / size2
        averaged = max(1, round(tail * (rounds - 1)))
        if turn > rounds - averaged:
            kept += 1
            centre = centre + (x - centre) / kept
        else:
            centre = x
        out.append((x, centre, np.linalg.solve(form + STRENGTH * np.eye(P), form @ centre)))
    return out


def compare(states: list[Any], expected: list[tuple[Any, Any, Any]], rtol: float) -> None:
    for state, (x, centre, model) in zip(states, expected, strict=True):
        for found, one in ((state.x, x), (state.centre, centre), (state.model, model)):
            np.testing.assert_allclose(found, np.broadcast_to(one, (N, P)), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("tail", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("clip", [CLIP, 0.05, None])
def test_without_noise_every_round_is_the_recursion(tail: float, clip: float | None) -> None:
    start = np.random.default_rng(0).normal(size=(N, P))
    _, states, _ = played(MomentRegression(tail=tail), 7, None, start, clip)
    _, parts = problem()
    moment = SCALE * np.mean([x.T @ x / len(x) for x, _ in parts], axis=0)
    compare(states, by_hand(moment, 0.0, start, 7, tail, parts, None, clip), 1e-7)
    assert [bool(s.agreed.all()) for s in states] == [False] + 6 * [True]
    for state in states:
        np.testing.assert_allclose(
            (state.vectors * state.values) @ state.vectors.T, moment, rtol=1e-9
        )


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_with_noise_every_round_follows_from_what_was_released(share: float) -> None:
    start = np.tile(np.array([0.3, -0.2, 0.1]), (N, 1))
    algorithm = MomentRegression(share, "independent", 0.5)
    spec, states, released = played(algorithm, 6, tc.Privacy(30.0), start)
    _, parts = problem()
    sizes = np.array([len(y) for _, y in parts])
    weight, z = share / (1 - share) * 5, np.asarray(spec.calibration.plan.scale)
    moved = math.sqrt(2) * NORM**2
    std = SCALE * math.sqrt(np.mean((z * moved / sizes) ** 2 / weight) / N)
    moment = SCALE * packed_matrix(released[0].mean(axis=0) * moved / sizes.min(), P)
    expected = by_hand(moment, std, start, 6, 0.5, parts, released, vectors=states[0].vectors)
    compare(states, expected, 1e-6)
    assert states[0].noise == pytest.approx([std], rel=1e-9)
    assert len(released) == 6


def test_masked_noise_is_that_of_the_mean_of_all_nodes() -> None:
    """And the second moment that is kept differs from the true one by about as much."""
    start = np.zeros((N, P))
    found = []
    _, parts = problem()
    for share in (0.2, 0.6):
        spec, states, _ = played(MomentRegression(share), 6, tc.Privacy(30.0), start)
        weight, smallest = share / (1 - share) * 5, min(len(y) for _, y in parts)
        z = float(np.asarray(spec.calibration.plan.scale)[0])
        std = SCALE * z * math.sqrt(2) * NORM**2 / smallest / math.sqrt(weight * N)
        assert states[0].noise == pytest.approx([std], rel=1e-9)
        found.append(states)
    assert found[0][0].noise[0] > found[1][0].noise[0]


@pytest.mark.parametrize("label_scale", [0.4, 1.5])
def test_one_round_solves_least_squares_from_the_moment_with_labels(label_scale: float) -> None:
    start = np.zeros((N, P))
    algorithm = MomentRegression(0.3, "independent", 0.5, label_scale, label_bound=0.6)
    spec, states, released = played(algorithm, 1, tc.Privacy(30.0), start)
    _, parts = problem()
    sizes, z = np.array([len(y) for _, y in parts]), np.asarray(spec.calibration.plan.scale)
    moved = math.sqrt(2) * (NORM**2 + (0.6 * label_scale) ** 2)
    std = SCALE * math.sqrt(np.mean((z * moved / sizes) ** 2) / N)
    moment = SCALE * packed_matrix(released[0].mean(axis=0) * moved / sizes.min(), P + 1)
    form, _ = form_of(moment[:P, :P], std)
    centre = np.linalg.solve(form, moment[:P, P] / label_scale)
    model = np.linalg.solve(form + STRENGTH * np.eye(P), form @ centre)
    compare(states, [(centre, centre, model)], 1e-6)
    assert states[0].agreed.all() and states[0].noise == pytest.approx([std])


def test_after_a_change_of_members_the_map_stays_and_the_rows_are_agreed_anew() -> None:
    algorithm = MomentRegression()
    start = np.random.default_rng(1).normal(size=(N, P))
    _, states, _ = played(algorithm, 4, None, start)
    again = algorithm.restart(states[-1], None)
    assert not again.agreed.any() and again.agreed.shape == (N, 1)
    for name in ("x", "centre", "count", "model", "vectors", "values", "noise"):
        assert np.array_equal(getattr(again, name), getattr(states[-1], name))
    assert algorithm.released(algorithm.init(None, start)) == {}
    left = algorithm.released(states[-1])
    assert {"centre", "values", "vectors"} <= set(left)
    assert np.array_equal(left["centre"], states[-1].centre[0])
    assert algorithm.traits.reaches_consensus and algorithm.traits.masks
    assert not MomentRegression(noise="independent").traits.masks


@pytest.mark.parametrize("std", [0.0, 1e-3, 0.3])
def test_curvature_term_by_term(std: float) -> None:
    rng = np.random.default_rng(3)
    for d in (1, 2, 7):
        e = np.sort(rng.normal(size=d))
        form, _ = form_of(np.diag(e), std)
        found = np.sort(curvature(e, std))
        np.testing.assert_allclose(found, np.sort(np.linalg.eigvalsh(form)), rtol=1e-9, atol=1e-13)
        assert (found > 0).all() and (cleaned(e, std) >= 0).all()
    assert cleaned(np.zeros(0), std).shape == (0,)


def test_the_map_whitens_rows_to_half_the_norm() -> None:
    """Rows with the form's own moment have expected square 1/4 after P, whatever the scale."""
    rng = np.random.default_rng(5)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    values = np.array([3.0, 1.0, 0.4, 0.2])
    for scale in (1.0, 7.0):
        p = Quadratic(vectors, scale * values, np.zeros(4)).columns(0.0, scale)
        assert math.fsum(p**2 * values) == pytest.approx(0.25)
        seen = Quadratic(vectors, scale * values, np.zeros(4)).columns(0.05, scale)
        ridge = 0.5 * math.sqrt(8) * 0.05
        beside = np.maximum(scale * values - ridge, 0.0) / scale
        assert math.fsum(seen**2 * beside) == pytest.approx(0.25)
    drowned = Quadratic(vectors, values, np.zeros(4)).columns(1e3, 1.0)
    np.testing.assert_allclose(drowned, 0.5 / np.sqrt(1e-12 * values))


def test_rows_are_worked_on_one_by_one() -> None:
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [1.0, 2.0]], np.float32)
    seen: list[Any] = []

    def double(row: Any) -> Any:
        seen.append(row)
        return 2 * row

    found = each_row(rows, double)
    assert np.array_equal(found, 2 * rows) and found.dtype == np.float32
    assert len(seen) == 3 and all(row.dtype == np.float64 for row in seen)


def test_the_ends_of_the_settings() -> None:
    assert MomentRegression(tail=1.0).tail == 1.0
    for name, value in (("tail", 0.0), ("tail", 1.0 + 1e-9), ("tail", math.nan)):
        with pytest.raises(InputError, match=f"MomentRegression.{name}"):
            MomentRegression(**{name: value})
