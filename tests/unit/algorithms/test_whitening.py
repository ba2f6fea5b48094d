"""Whitening: its settings, the choice after the release, the way there and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda as tc
from support import TUNED, problem, run_spec
from tacenda.algorithms.spectrum import FLOOR
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import Chosen, Whitening, times
from tacenda.algorithms.whitening import choose as choose_for
from tacenda.errors import InputError, StateError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.runtime.places import OpenGate, row_forms
from tacenda.runtime.rehearsal import blank_host

A = tc.algorithms


def facts_for(d: int, **declared: Any) -> Facts:
    constants = Constants.declared(**{"loss": "logistic", "classes": 3, **declared})
    return Facts(np.full(4, 100.0), d * constants.n_outputs, constants)


def choose(
    moment: Any, std: float, facts: Facts, whitening: Whitening, algorithm: Any = None
) -> Chosen:
    """Before 20 rounds, of an algorithm that does not follow the release if none is named."""
    return choose_for(moment, std, facts, whitening, algorithm or A.PVP(), 2.0, 20, 400.0)


def moment(d: int, seed: int, spread: float = 3.0) -> Any:
    """The second moment of rows in the unit ball."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(500, d)) * 10.0 ** (-spread * rng.random(d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    return x.T @ x / len(x), x


@given(seed=st.integers(0, 1000), d=st.integers(1, 8), std=st.sampled_from([0.0, 1e-4, 1e-2, 1.0]))
@settings(max_examples=40)
def test_no_mapped_direction_is_steeper_than_is_said(seed: int, d: int, std: float) -> None:
    true, _ = moment(d, seed)
    rng = np.random.default_rng(seed)
    noise = np.triu(rng.normal(size=(d, d)))
    noise = std * (
        np.diag(np.diag(noise)) + (np.triu(noise, 1) + np.triu(noise, 1).T) / math.sqrt(2)
    )
    facts = facts_for(d)
    found = choose(true + noise, std, facts, Whitening())
    assert np.isfinite(found.matrix).all()
    squares = found.matrix.T @ found.matrix
    assert np.abs(squares - np.diag(np.diag(squares))).max() <= 1e-10 * squares.max()
    assert 0 < found.smoothness <= facts.constants.loss.curvature
    if std == 0.0:
        steepest = np.linalg.eigvalsh(found.matrix.T @ true @ found.matrix)[-1]
        assert steepest * facts.constants.loss.curvature <= found.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("target", [None, 0.3])
def test_rows_have_the_expected_norm(target: float | None) -> None:
    true, x = moment(6, 3, spread=1.0)
    found = choose(true, 0.0, facts_for(6), Whitening(norm=2.0, scale=target))
    mean = np.mean(np.sum((x @ found.matrix) ** 2, axis=1))
    assert math.sqrt(mean) == pytest.approx(2.0 * (0.7 if target is None else target), rel=1e-6)


def test_the_floor_is_in_units_of_the_noise_edge() -> None:
    true, std = np.diag([1.0, 0.1, 0.0]), 0.01
    edge = math.sqrt(2 * 3) * std
    for floor in (None, 2.0):
        found = choose(true, std, facts_for(3), Whitening(floor=floor))
        lengths = np.sum(found.matrix**2, axis=0)
        raised = 1.0 / lengths * lengths[0]  # in units of the first, which is not raised
        assert raised == pytest.approx([1.0, 0.1, (floor or FLOOR) * edge])


def test_what_follows_the_release_has_its_clip_and_step() -> None:
    """More noise, a lower clip and a shorter step; a clip that is set stays."""
    true, _ = moment(30, 3, spread=1.0)
    found = [choose(true, std, facts_for(30), Whitening(), A.TreeGD()) for std in (1e-6, 1e-3, 1.0)]
    clips = [f.clip for f in found]
    assert clips[0] > clips[1] and None not in clips
    assert found[2].smoothness > 10 * found[1].smoothness
    assert choose(true, 1e-3, facts_for(30), Whitening(clip=0.3), A.TreeGD()).clip == 0.3
    plain = choose(true, 1e-3, facts_for(30), Whitening())
    assert plain.clip == 0.5


def test_rank_keeps_the_first_directions() -> None:
    true, _ = moment(5, 1)
    found = choose(true, 0.0, facts_for(5), Whitening(rank=2))
    assert found.matrix.shape == (5, 2)


@pytest.mark.parametrize(
    ("declared", "whitening", "clip"),
    [
        ({}, Whitening(), 0.5),
        ({}, Whitening(norm=2.0), 1.0),
        ({}, Whitening(clip=0.2), 0.2),
        ({"loss": "multinomial"}, Whitening(), math.sqrt(0.5)),
        ({"loss": "squared", "clip_norm": 3.0, "data_norm": 2.0}, Whitening(), 1.5),
    ],
)
def test_what_gradients_are_clipped_to(declared: Any, whitening: Any, clip: float) -> None:
    assert choose(np.eye(3), 0.1, facts_for(3, **declared), whitening).clip == pytest.approx(clip)


@given(
    seed=st.integers(0, 100), d=st.integers(1, 5), k=st.integers(1, 5), outputs=st.integers(1, 3)
)
def test_each_row_is_mapped_by_itself(seed: int, d: int, k: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, rows = rng.normal(size=(d, k)), rng.normal(size=(6, outputs * k))
    rows[4:] = rows[3]
    found = times(matrix, rows)
    plain = np.einsum("dk,bck->bcd", matrix, rows.reshape(6, outputs, k)).reshape(6, -1)
    assert np.allclose(found, plain, rtol=1e-12, atol=1e-12)
    for part in ([0], [3, 4, 5], [5, 1]):
        assert np.array_equal(times(matrix, rows[part]), found[part])


@given(seed=st.integers(0, 100), d=st.integers(1, 5), outputs=st.integers(1, 3))
def test_a_diagonal_map_is_that_of_the_diagonal_matrix(seed: int, d: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    diagonal, rows = rng.normal(size=d), rng.normal(size=(4, outputs * d))
    assert np.array_equal(times(diagonal, rows), times(np.diag(diagonal), rows))
    assert times(diagonal, rows.astype(np.float32)).dtype == np.float32


@given(seed=st.integers(0, 1000), d=st.integers(1, 8), std=st.sampled_from([0.0, 1e-4, 1e-2, 1.0]))
@settings(max_examples=40)
def test_of_a_diagonal_no_direction_is_steeper_than_is_said(seed: int, d: int, std: float) -> None:
    """However much the features go together; here they all do."""
    rng = np.random.default_rng(seed)
    lengths = 10.0 ** (-2 * rng.random(d))
    x = rng.normal(size=(500, 1)) * lengths / np.linalg.norm(lengths)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    true, facts = x.T @ x / len(x), facts_for(d)
    noise = std * rng.normal(size=d)
    found = choose(np.diag(true) + noise, std, facts, Whitening())
    assert found.matrix.shape == (d,) and (found.matrix > 0).all()
    assert np.isfinite(found.matrix).all() and found.clip == 0.5
    if std == 0.0:
        steepest = np.linalg.eigvalsh(true * np.outer(found.matrix, found.matrix))[-1]
        said = found.smoothness / facts.constants.loss.curvature
        assert steepest == pytest.approx(said, rel=1e-9)  # all of a row lies in one direction


def test_the_floor_of_a_diagonal_is_in_units_of_the_largest_of_its_noises() -> None:
    mean_squares, std = np.array([0.0, 0.3, -0.1, 0.05]), 0.01
    for floor in (None, 2.0):
        found = choose(mean_squares, std, facts_for(4), Whitening(floor=floor))
        raised = 0.3 * (found.matrix[1] / found.matrix) ** 2
        least = (floor or FLOOR) * math.sqrt(2 * math.log(4)) * std
        assert raised == pytest.approx([least, 0.3, least, 0.05])


def test_which_map_it_is() -> None:
    assert Whitening().kind_for(1000) == "full" and Whitening().kind_for(1001) == "diagonal"
    for kind in ("full", "diagonal"):
        assert Whitening(kind=kind).kind_for(5) == Whitening(kind=kind).kind_for(5000) == kind
        assert Whitening(kind=kind).to_plain()["kind"] == kind
    assert "kind" not in Whitening().to_plain()
    with pytest.raises(InputError, match=r"Whitening.kind"):
        Whitening(kind="sparse")
    with pytest.raises(InputError, match="leave it out with kind='diagonal'"):
        Whitening(kind="diagonal", rank=3)


def test_many_sparse_features_from_end_to_end() -> None:
    """1500 features, CSR rows that stay sparse: one message of 1500 numbers, the same bits in any
    blocks, a better model than without, and no more than the budget."""
    rng = np.random.default_rng(0)
    n, d, filled = 4000, 1500, 15
    chance = 1.0 / np.arange(1, d + 1)
    columns = rng.choice(d, size=n * filled, p=chance / chance.sum())
    x = sp.csr_matrix((np.ones(n * filled), columns, np.arange(0, n * filled + 1, filled)), (n, d))
    x.sum_duplicates()
    scores = x @ rng.normal(size=d)
    x = sp.diags(1 / np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())) @ x
    y = scores > np.median(scores)
    shards = tc.data.partition.even(x.tocsr(), y.astype(int), 4)
    data = tc.Problem(shards, classes=(0, 1), strength=1e-4)

    def run(prepare: Any, **more: Any) -> Any:
        private = {"privacy": tc.Privacy(20.0), "seed": 1, "record_every": 0, **more}
        return tc.simulate(
            data, tc.graph.ring(4), A.TreeGD(), 15, prepare=prepare, output="last", **private
        )

    with pytest.warns(UserWarning, match="only their mean squares are released"):
        found = run("whitening")
    assert found.released["diagonal"].shape == (d,) and found.models.shape == (4, d)
    assert found.privacy.epsilon <= 20.0 * (1 + 1e-9)
    named = run(Whitening(kind="diagonal"), blocks=3)
    assert np.array_equal(named.models, found.models)
    right = [np.mean((x @ r.models[0] > 0) == y) for r in (found, run(None))]
    assert right[0] > right[1] + 0.03


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("name", ["treegd", "ipadmm", "cdpadmm"])
def test_a_run_on_a_diagonal_map_reaches_the_same_optimum(name: str, layout: Any) -> None:
    data = problem(5)
    rows = data.store.rows
    cuts = list(zip(data.store.offsets[:-1], data.store.offsets[1:], strict=True))
    shards = [(layout(rows[a:b]), data.store.labels[a:b]) for a, b in cuts]
    data = tc.Problem(shards, classes=(-1, 1), strength=data.strength)
    wide = Whitening(norm=50.0, scale=0.02, clip=50.0, kind="diagonal")  # nothing is cut
    run = tc.simulate(
        data, tc.graph.ring(5), TUNED[name], 1500, prepare=wide, output="last", record_every=0
    )
    assert np.abs(run.models - data.solve()).max() < 1e-3


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", 0.0), ("share", 1.0), ("norm", 0.0), ("clip", -1.0), ("floor", 0.0), ("rank", 0)],
)
def test_settings_without_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        Whitening(**{name: value})


def test_members_that_start_apart_agree_first() -> None:
    """In round 1, and in any round after a change of the members; each such row has its place."""
    data = problem(4)
    apart = np.random.default_rng(0).normal(size=(4, 4))
    for prepare in (None, "whitening"):
        run = tc.simulate(
            data, tc.graph.ring(4), A.TreeGD(), 2, prepare=prepare, init=apart, record_every=0
        )
        assert np.array_equal(run.models, np.tile(run.models[0], (4, 1)))
    topology, facts = tc.graph.Topology.of(tc.graph.ring(4)), Facts.of(data)
    spec = run_spec(A.TreeGD(), topology, facts, 2, tc.Privacy(1.0)).checked()
    forms = row_forms(spec)
    assert {call for turn, call in forms if turn == 1} == {0, 1, 4, 5}
    assert {call for turn, call in forms if turn == 2} == {0, 1, 2, 3, 4, 5}
    assert forms[2, 2].dtype == forms[2, 4].dtype == np.uint64


def test_who_missed_the_map_cannot_go_on() -> None:
    state = Whitened(A.TreeGD())
    spec = run_spec(state, tc.graph.Topology.of(tc.graph.ring(4)), Facts.of(problem(4)), 3)
    host = blank_host(spec.checked(), np.arange(4), OpenGate(float))
    with pytest.raises(StateError, match="no other member has sent it the map"):
        host.step(2)


def test_the_start_means_the_same_model() -> None:
    data, start = problem(4), np.array([0.3, -0.2, 0.5, 0.1])
    run = tc.simulate(
        data,
        tc.graph.ring(4),
        A.TreeGD(step_size=1e-9),
        1,
        prepare="whitening",
        init=start,
        record_every=0,
    )
    assert np.abs(run.models - start).max() < 1e-6


@pytest.mark.parametrize("name", ["treegd", "ipadmm", "ddpadmm", "cdpadmm", "dpadmm"])
def test_a_whitened_run_reaches_the_same_optimum(name: str) -> None:
    graph = tc.graph.star(5) if name == "dpadmm" else tc.graph.ring(5)
    data = problem(5)
    wide = Whitening(norm=50.0, scale=0.02, clip=50.0)  # nothing is cut
    run = tc.simulate(data, graph, TUNED[name], 600, prepare=wide, output="last", record_every=0)
    assert np.abs(run.models - data.solve()).max() < 1e-3
