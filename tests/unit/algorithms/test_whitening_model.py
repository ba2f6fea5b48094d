"""A whitened run by hand: the map from what was released, the questions, steps and models from the
map; and all else as the wrapped algorithm has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, listened, packed_matrix, run_spec, shards, uneven
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.outset import outset
from tacenda.algorithms.spectrum import decide, records_moment
from tacenda.algorithms.treegd import TreeState
from tacenda.algorithms.whitened import Whitened, WhitenedState
from tacenda.algorithms.whitening import Chosen, Whitening, choose, clip_of, times
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.questions.constants import PUBLIC_STRENGTH, Constants
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import unpacked
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.spec import RunSpec

A = tc.algorithms
N, P, ROUNDS = 5, 3, 4
NORM, SCALE, STRENGTH = 1.3, 2.5, 0.07
LABEL = 0.15 * NORM  # the label's weight in the moment
RING = Topology.of(tc.graph.ring(N))


def problem() -> tuple[Any, list[Any]]:
    parts = [(1.1 * x, y) for x, y in shards(uneven(N, 2), P, 2)]
    declared = {"data_norm": NORM, "loss_scale": SCALE, "strength": STRENGTH}
    return tc.Problem(parts, classes=("no", "yes"), **declared), parts


def played(
    wrapped: Whitened, privacy: Any, start: Any, rounds: int = ROUNDS
) -> tuple[RunSpec, list[Any], list[Any], Any]:
    """(the run, the state after each round, what each release gave, the newest models)."""
    data, _ = problem()
    spec = run_spec(wrapped, RING, Facts.of(data), rounds, privacy).checked()
    states, released, hosts = listened(spec, data, start, rounds)
    return spec, states, released, hosts.last()


def map_of(moment: Any, std: float, whitening: Whitening, weight: float, rounds: int) -> Any:
    """P P', the same whichever signs the vectors have; clip and smoothness over the step. moment:
    with the label behind, but of a diagonal."""
    diagonal = moment.ndim == 1
    both, moment = moment, moment if diagonal else moment[:P, :P]
    e, vectors = (moment, np.eye(P)) if diagonal else np.linalg.eigh(moment)
    order = slice(None) if diagonal else slice(None, None, -1)
    e, vectors = e[order], vectors[:, order]
    k = Constants.declared(
        loss="logistic", data_norm=NORM, loss_scale=SCALE, strength=STRENGTH, classes=2
    )
    told: dict[str, float] = {}
    start = np.zeros(P)
    if not diagonal:
        edge = math.sqrt(2 * P) * std
        a = records_moment(e, std, NORM**2)
        variance = np.where(e > edge, a, np.maximum(a, 0.7 * edge))
        begin = outset(vectors, variance, both[:P, P:] / LABEL, std / math.sqrt(2) / LABEL)
        start = begin.start
        told = {"unexplained": begin.unexplained, "largest": NORM**2 + LABEL**2}
    found = decide(
        e,
        std,
        weight,
        rounds,
        k,
        norm=whitening.norm,
        floor=whitening.floor,
        scale=whitening.scale,
        clip=whitening.clip,
        tail=0.5,
        diagonal=diagonal,
        guess=diagonal,
        **told,
    )
    lengths = found.scale / np.sqrt(np.maximum(e, found.floor))
    square = vectors @ np.diag(lengths**2) @ vectors.T
    return square, found.clip, found.smoothness / found.step, start


def moment_of(parts: list[Any], kind: str) -> Any:
    """The mean second moment of the records, with their labels behind but for a diagonal."""
    found = []
    for x, labels in parts:
        y = LABEL * np.where(labels == "yes", 1.0, -1.0)
        z = x if kind == "diagonal" else np.column_stack([x, y])
        found.append(z.T @ z / len(z))
    return np.mean(found, axis=0)


def gradient(parts: list[Any], matrix: Any, v: Any, clip: float | None) -> Any:
    """(N, k) of the loss on mapped rows, which stay as long as they are; clipped."""
    out = []
    for rows, labels in parts:
        z = rows @ (np.diag(matrix) if matrix.ndim == 1 else matrix)
        y = np.where(labels == "yes", 1.0, -1.0)
        g = -(y / (1 + np.exp(y * (z @ v))))[:, None] * z
        if clip is not None:
            g = g * np.minimum(1.0, clip / np.linalg.norm(g, axis=1, keepdims=True))
        out.append(SCALE * g.mean(axis=0))
    return np.array(out)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": 0.6, "clip": 0.2}, {"scale": 0.9, "norm": 2.0, "floor": 2.0, "share": 0.4}],
)
@pytest.mark.parametrize(("epsilon", "named"), [(None, True), (40.0, True), (None, False)])
def test_every_round_by_hand(
    kind: str, settings: dict[str, Any], epsilon: float | None, named: bool
) -> None:
    """From a start that somebody named, or from where the moment says."""
    whitening = Whitening(kind=kind, **settings)
    wrapped = Whitened(A.TreeGD(noise="independent"), whitening)
    start = np.tile(np.array([0.3, -0.2, 0.1]) * named, (N, 1))
    privacy = None if epsilon is None else tc.Privacy(epsilon)
    spec, states, released, last = played(wrapped, privacy, start)
    _, parts = problem()
    sizes = np.array([len(y) for _, y in parts])
    share = whitening.share
    weight = share / (1 - share) * ROUNDS
    moved = math.sqrt(2) * (NORM**2 + (LABEL**2 if kind == "full" else 0.0)) / sizes
    z = np.zeros(N) if spec.calibration is None else np.asarray(spec.calibration.plan.scale)
    std = math.sqrt(np.mean((z * moved) ** 2) / weight / N)
    row = NORM**2 * released[0].mean(axis=0)
    moment = row if kind == "diagonal" else packed_matrix(row, P + 1)
    if epsilon is None:
        true = moment_of(parts, kind)
        np.testing.assert_allclose(moment, np.diag(true) if kind == "diagonal" else true)
    square, clip, smoothness, outset_start = map_of(moment, std, whitening, weight, ROUNDS)
    if not named:
        start = np.tile(outset_start, (N, 1))
        assert start.any() == (kind == "full")
    matrix = states[0].matrix
    full = np.diag(matrix) if matrix.ndim == 1 else matrix
    np.testing.assert_allclose(full @ full.T, square, rtol=1e-7, atol=1e-10)
    # The noise's edge: its largest eigenvalue (d = 3), or the largest of its three entries
    edge = std * math.sqrt(2 * math.log(3) if kind == "diagonal" else 6)
    assert states[0].numbers == pytest.approx([clip or 0.0, smoothness, -1.0, edge, 1.0])
    # From here on with the map as it is kept, whose signs are its own
    v = np.linalg.solve(full, start[0])
    length = clip or NORM * np.linalg.norm(full, ord=2)  # of logistic gradients on mapped rows
    unit = 2 * length * SCALE / sizes.min()
    eta = 1 / smoothness
    before = np.zeros(P)
    for turn in range(1, ROUNDS + 1):
        if epsilon is None:
            exact = gradient(parts, matrix, v, clip)
            np.testing.assert_allclose(unit * released[turn], exact, rtol=1e-7, atol=1e-10)
        g = unit * released[turn].mean(axis=0)
        if kind == "diagonal" and g @ before < -0.1 * np.linalg.norm(g) * np.linalg.norm(before):
            eta /= 2  # the step is a guess, and this one overshot
        v, before = v - eta * g, g
        v = np.linalg.solve(np.eye(P) + eta * STRENGTH * full.T @ full, v)
        np.testing.assert_allclose(states[turn - 1].inner.x, np.tile(v, (N, 1)), rtol=1e-6)
    np.testing.assert_allclose(last, np.tile(full @ v, (N, 1)), rtol=1e-6)


@pytest.mark.parametrize("noise", ["masked", "correlated"])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_of_shared_noise_the_map_is_that_of_the_mean_of_all(noise: str, kind: str) -> None:
    """The std that the map counts on is that of the released mean: n times less variance."""
    inner = A.TreeGD() if noise == "masked" else A.GossipGD(noise="correlated")
    seen: list[tuple[Any, float]] = []
    honest = Whitened._moment

    def listening(self: Whitened, *asked: Any) -> Any:
        seen.append(honest(self, *asked))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Whitened, "_moment", listening)
        wrapped = Whitened(inner, Whitening(share=0.3, kind=kind))
        # The first is of the rehearsal, on blank records
        spec, *_ = played(wrapped, tc.Privacy(50.0), np.zeros((N, P)), 1)
    _, parts = problem()
    smallest = min(len(y) for _, y in parts)
    z = float(np.asarray(spec.calibration.plan.scale)[0])
    row, std = seen[-1]
    weight = 0.3 / 0.7
    labelled = noise == "masked" and kind == "full"  # TreeGD asks for labels too
    bound = NORM**2 + (LABEL**2 if labelled else 0.0)
    per = math.sqrt(2) * bound / smallest / math.sqrt(weight * N)
    if noise == "correlated":  # z is then in units of a gradient's sensitivity, clipped at 0.5
        per = per / (2 * 0.5 * SCALE / smallest)
    assert std == pytest.approx(z * per, rel=1e-9)
    exact = moment_of(parts, "full" if labelled else "diagonal")
    found = row if kind == "diagonal" else packed_matrix(row, len(exact))
    exact = np.diag(exact) if kind == "diagonal" else exact
    assert np.abs(found - exact).max() < 6 * std


FACTS = Facts(np.full(4, 100.0), 3, Constants.declared(loss="logistic", classes=2))
SAME = ("private", "needs", "default_output", "batch_size")
SAME_TRAITS = (
    "masks",
    "mixes_only",
    "reaches_consensus",
    "exact_means_only",
    "shared_noise",
    "sample",
    "noise_in_objective",
    "keeps_secret",
    "steps_per_round",
    "exchanges_per_round",
)


@pytest.mark.parametrize(
    "inner",
    [
        *TUNED.values(),
        MomentRegression(),
        A.TreeGD(noise="independent", tail=0.2),
        A.IPADMM(batch_size=3, inner_steps=4),
    ],
    ids=lambda a: a.name,
)
def test_all_else_is_as_the_wrapped_algorithm_has_it(inner: Any) -> None:
    wrapped = Whitened(inner)
    for name in SAME:
        assert getattr(wrapped, name) == getattr(inner, name), name
    for name in SAME_TRAITS:
        assert getattr(wrapped.traits, name) == getattr(inner.traits, name), name
    assert wrapped.traits.learns and not wrapped.traits.repeats_releases
    for turn in (1, 5, 10):
        assert wrapped.averaging_weight(turn, 10) == inner.averaging_weight(turn, 10)
    assert wrapped.title == f"{inner.title}, whitened"
    assert wrapped.to_plain()["algorithm"] == inner.to_plain()
    ring = Topology.of(tc.graph.ring(4))
    assert wrapped.advice(FACTS, ring, 7) == inner.advice(wrapped.mapped_facts(FACTS), ring, 7)


def test_no_paper_prints_noise_for_whitened_records() -> None:
    wrapped = Whitened(A.IPADMM())
    with pytest.raises(UnsupportedError, match="no paper here publishes noise"):
        wrapped.published_noise(FACTS, {}, np.ones(1), tc.Privacy(1.0))
    with pytest.raises(UnsupportedError, match="no paper here publishes noise"):
        wrapped.published_form()


def test_before_the_map_a_model_is_itself_and_after_it_the_map_of_it() -> None:
    wrapped = Whitened(A.TreeGD())
    start = np.random.default_rng(0).normal(size=(N, P))
    state = wrapped.init(None, start)
    assert np.array_equal(wrapped.last(state), start)
    assert np.array_equal(wrapped.iterate(state), start)
    assert wrapped.released(state) == {}
    _, states, _, last = played(wrapped, None, np.tile(start[0], (N, 1)), 2)
    s = states[-1]
    for found in (wrapped.last(s), wrapped.iterate(s)):
        np.testing.assert_allclose(found, s.inner.x @ s.matrix.T)
        assert np.array_equal(found, last)
    assert list(wrapped.released(s)) == ["for_next", "second_moment", "second_moment_floor"]


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_after_a_change_of_members_the_map_stays(kind: str) -> None:
    wrapped = Whitened(A.TreeGD(), Whitening(kind=kind))
    data, _ = problem()
    spec = run_spec(wrapped, RING, Facts.of(data), 3).checked()
    hosts = LocalHosts(spec, LocalShards(data, [np.arange(N)]), SimulatedNoise(0), np.zeros((N, P)))
    host = hosts._hosts[0]
    for before in (True, False):
        if not before:
            hosts.step(1)
        again = wrapped.restart(host.state, host.block)
        assert again.matrix is host.state.matrix and again.numbers is host.state.numbers
        assert np.array_equal(again.inner.x, host.state.inner.x) and not again.inner.agreed.any()


def test_rank_keeps_the_directions_of_the_largest_eigenvalues() -> None:
    facts = Facts(np.full(4, 100.0), P, Constants.declared(loss="logistic", classes=2))
    moment = np.diag([0.1, 0.5, 0.02])
    found: Chosen = choose(moment, 0.0, facts, Whitening(rank=2), A.PVP(), 2.0, 20, 400.0)
    assert found.matrix.shape == (3, 2) and found.matrix.flags.c_contiguous
    lengths = np.abs(found.matrix)
    assert lengths[[1, 0], [0, 1]].min() > 0
    assert not np.delete(lengths.ravel(), [1 * 2 + 0, 0 * 2 + 1]).any()
    assert lengths[0, 1] / lengths[1, 0] == pytest.approx(math.sqrt(5))
    more = choose(moment, 0.0, facts, Whitening(rank=9), A.PVP(), 2.0, 20, 400.0)
    assert more.matrix.shape == (3, 3)


def test_only_what_follows_the_release_has_its_step_chosen() -> None:
    """Others keep the plain smoothness, rows of 0.7 and half the slope for a clip."""
    facts = Facts(np.full(4, 100.0), P, Constants.declared(loss="logistic", classes=2))
    moment, std = np.diag([0.3, 0.1, 0.02]), 0.02
    e = np.array([0.3, 0.1, 0.02])
    for inner, follows in ((A.TreeGD(tail=0.3), True), (A.IPADMM(), False)):
        found = choose(moment, std, facts, Whitening(label_scale=0.0), inner, 2.0, 20, 400.0)
        same = decide(
            e,
            std,
            2.0,
            20,
            facts.constants,
            scale=None if follows else 0.7,
            clip=None if follows else 0.5,
            tail=0.3 if follows else 1.0,
            records=400.0 if follows else None,
        )
        assert found.clip == same.clip
        assert found.smoothness == pytest.approx(same.smoothness / (same.step if follows else 1.0))
        np.testing.assert_allclose(
            np.linalg.norm(found.matrix, axis=0), same.scale / np.sqrt(np.maximum(e, same.floor))
        )
    given = choose(moment, std, facts, Whitening(scale=0.4), A.IPADMM(), 2.0, 20, 400.0)
    assert given.matrix[0, 0] / found.matrix[0, 0] == pytest.approx(0.4 / 0.7)


def test_a_loss_without_slope_or_clip_has_no_clip_beforehand() -> None:
    plain = Facts(np.full(4, 100.0), P, Constants.declared(loss="squared"))
    assert clip_of(plain, Whitening()) is None
    assert clip_of(plain, Whitening(clip=0.2)) == 0.2


def test_rows_that_are_alike_are_mapped_once_and_others_by_themselves() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 2))
    for rows in (rng.normal(size=(1, 6)), np.tile(rng.normal(size=6), (3, 1))):
        found = times(matrix, rows.astype(np.float32))
        plain = np.hstack([rows[:, c : c + 2] @ matrix.T for c in (0, 2, 4)])
        np.testing.assert_allclose(found, plain, rtol=1e-5)
        assert found.dtype == np.float32 and found.shape == (len(rows), 12)


@pytest.mark.parametrize("diagonal", [False, True])
def test_what_the_noise_of_the_moment_does_to_the_model_is_minus_the_inverse_times_noise(
    diagonal: bool,
) -> None:
    """-A^-1 E w by drawing E, of std s on the diagonal and s/sqrt(2) off it; no gradient noise, no
    round that corrects anything, nothing below the floor."""
    rng = np.random.default_rng(3)
    d, s, draws = 4, 0.02, 40_000
    vectors = np.eye(d) if diagonal else np.linalg.qr(rng.normal(size=(d, d)))[0]
    values, w = np.array([0.9, 0.5, 0.3, 0.2]), np.array([2.0, -1.0, 0.5, 3.0])
    noise = s * rng.normal(size=(draws, d, d)) / np.sqrt(2)
    noise = (noise + noise.transpose(0, 2, 1)) / np.sqrt(2)
    noise *= np.eye(d) if diagonal else 1.0
    inverse = vectors / values @ vectors.T
    moved = -np.einsum("ij,tjk,k->ti", inverse, noise, w)
    scale = 1 / np.sqrt(values)
    state = WhitenedState(
        TreeState((w @ vectors / scale)[None], np.ones((1, 1))),
        scale if diagonal else vectors * scale,
        np.array([0.0, 1.0, -1.0, 0.0, 1.0]),
        np.zeros(d),
        np.array([s / values, np.ones(d)]),
    )
    facts = Facts.of(tc.Problem([(np.eye(d) / 2, [0, 1, 0, 1])], classes=(0, 1)))
    found = Whitened(tc.algorithms.TreeGD()).noise_std(state, facts, 20)
    np.testing.assert_allclose(found, moved.std(axis=0), rtol=0.03)


def test_a_strength_that_was_left_open_is_chosen_after_the_release_and_used() -> None:
    """A power of sqrt(10), the same in any blocks, told, and what the mapped problem has; nothing
    that is planned before the release knows of it."""
    parts = problem()[1]
    left_open = tc.Problem(parts, data_norm=NORM, classes=("no", "yes"), strength="auto")
    wrapped = Whitened(A.TreeGD(), Whitening())
    told = {}
    for blocks in (1, 3):
        run = tc.simulate(left_open, RING, wrapped, ROUNDS, tc.Privacy(3.0), seed=1, blocks=blocks)
        told[blocks] = run.strength
        assert run.released["strength"].tolist() == [run.strength]
        assert run.settings["problem"]["auto_strength"]
    power = 2 * math.log10(told[1])
    assert power == pytest.approx(round(power)) and told[1] == told[3] != PUBLIC_STRENGTH
    facts = Facts.of(left_open)
    assert facts.constants.strength == left_open.strength == PUBLIC_STRENGTH
    there = facts.mapped(RecordMap(2.0 * np.eye(P), 1.0, strength=told[1])).constants
    assert there.strength == told[1] and there.strong_convexity == 0.0
    assert there.regulariser.l2.tolist() == [4.0] * P
    given = tc.simulate(problem()[0], RING, wrapped, ROUNDS, tc.Privacy(3.0), seed=1)
    assert given.strength == STRENGTH and "strength" not in given.released
    plain = tc.simulate(left_open, RING, A.GossipGD(step_size=0.1), 2, tc.Privacy(3.0), seed=1)
    assert plain.strength == PUBLIC_STRENGTH


def test_a_rare_class_takes_longer_steps_and_its_noise_is_told() -> None:
    """One round without noise is -eta_k P P' times the gradient of class k; and what noise does to
    its weights is so many times more."""
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1, 2, 3], [150, 100, 44, 6])
    x = np.column_stack([rng.normal(size=(300, 2)).clip(-2, 2) / 4, np.full(300, 0.5)])
    own = tc.Problem([(x, y)], classes=(0, 1, 2, 3), loss="multinomial", strength=0.0)
    run = tc.simulate(own, tc.graph.ring(1), Whitened(A.TreeGD()), 1, seed=1)
    moment = unpacked(run.released["second_moment"])
    hot = np.eye(4)[y]
    shares = hot.mean(axis=0)
    bends = shares * (1 - shares)
    square = np.linalg.inv(moment)  # P P' over a number, where nothing is raised
    steps = run.models.reshape(4, 3) / ((hot - 0.25).T @ x / 300 @ square)
    np.testing.assert_allclose(
        steps,
        steps[:1, :1] * np.clip(np.median(bends) / bends, 1, 10)[:, None] * np.ones(3),
        rtol=1e-6,
    )
    longer = np.array([1.0, 1.0, 2.0, 8.0])
    state = WhitenedState(
        TreeState(np.zeros((1, 12)), np.ones((1, 1))),
        np.eye(3),
        np.array([0.0, 1.0, -1.0, 0.0, *longer]),
        np.array([0.1, 0.2, 0.3]),
        np.array([np.zeros(3), np.ones(3)]),
    )
    found = Whitened(A.TreeGD()).noise_std(state, Facts.of(own), 20)
    np.testing.assert_allclose(found.reshape(4, 3), np.outer(longer, [0.1, 0.2, 0.3]))
