"""Masked sums at the door: what cancels, what a coalition can work out of all rows, what is charged
and when, and planted faults that must show."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

import tacenda as tc
from tacenda.errors import BudgetError, LeakError, PrivacyError
from tacenda.graph.coalition import edge_streams, leverage
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting import discrete_sums, events
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import Sample, seal
from tacenda.privacy.secrets.door import Door, SharedNoise
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger
from tacenda.privacy.secrets.noise_plan import ScaledPlan

GRAPH = Topology.of(nx.lollipop_graph(4, 3))  # a clique with a tail: coalitions cut it
STEP, STD, DIM = 2.0**-22, 0.75, 400
SCALE = STD / STEP


def door_of(
    noise: Any,
    topology: Topology = GRAPH,
    nodes: Any = None,
    std: float = STD,
    reserved: Charges | None = None,
    q: int = 1,
) -> Door:
    rows = np.arange(topology.n) if nodes is None else np.asarray(nodes)
    shares, _ = leverage(topology, math.inf, q)
    plan = ScaledPlan(np.full(len(rows), std), np.ones(5), shares[rows], q, STEP)
    shared = SharedNoise(edge_streams(topology, rows), math.inf)
    return Door(rows, DIM, plan, Ledger(reserved), noise, shared)


def secret(rows: int = GRAPH.n, dim: int = DIM, seed: int = 1) -> tuple[Any, np.ndarray]:
    """Whole numbers with sensitivity 1 in units of the release."""
    core = np.random.default_rng(seed).integers(-(2**30), 2**30, (rows, dim))
    return seal(core, np.full(rows, 1 / STEP), asked=b"question") * STEP, core


def centred(words: np.ndarray) -> np.ndarray:
    """Words modulo 2^64 as the nearest numbers to 0."""
    return words.view(np.int64).astype(float)


def looks_uniform(words: np.ndarray) -> bool:
    """The top and the bottom byte of the words."""
    flat = np.asarray(words).reshape(-1)
    return all(
        chisquare(np.bincount((flat >> np.uint64(shift)) & np.uint64(15), minlength=16)).pvalue
        > 1e-5
        for shift in (0, 60)
    )


def seen_by(
    rows: np.ndarray, noise: SimulatedNoise, coalition: tuple[int, ...], turn: int, call: int
) -> np.ndarray:
    """All rows, less the masks of the coalition's edges, which its members know."""
    known = rows.copy()
    ends = GRAPH.edges
    for k, (a, b) in enumerate(ends):
        if a in coalition or b in coalition:
            edge = (np.array([0, 1]), np.array([k]), np.array([1.0]))
            word = noise.masks(edge, turn, call, rows.shape[1])[0]
            known[a] -= word
            known[b] += word
    return known


# ---- the law
def test_the_masks_cancel_to_the_bit_and_the_noise_stays() -> None:
    noise = SimulatedNoise(3)
    value, core = secret()
    rows, unit = door_of(noise).release_masked(value, 1, 0, 1.0)
    assert rows.dtype == np.uint64
    assert unit == STEP
    own = noise.whole_gaussian(np.arange(GRAPH.n), 1, 0, np.full(GRAPH.n, SCALE), DIM)
    np.testing.assert_array_equal(rows.sum(axis=0).view(np.int64), (core + own).sum(axis=0))
    assert kstest(own.reshape(-1) / SCALE, "norm").pvalue > 1e-4


@pytest.mark.parametrize("coalition", [(), (0,), (3,), (4,), (2, 5)])
def test_a_coalition_sees_the_sums_of_components_and_nothing_else(
    coalition: tuple[int, ...],
) -> None:
    noise = SimulatedNoise(4)
    value, core = secret()
    rows, _ = door_of(noise).release_masked(value, 2, 1, 1.0)
    seen = seen_by(rows, noise, coalition, 2, 1)
    graph = nx.Graph(GRAPH.edges.tolist())
    left = [v for v in range(GRAPH.n) if v not in coalition]
    parts = [sorted(part) for part in nx.connected_components(graph.subgraph(left))]
    for part in parts:
        error = centred(seen[part].sum(axis=0)) - core[part].sum(axis=0)
        assert np.std(error) == pytest.approx(math.sqrt(len(part)) * SCALE, rel=0.15)
    for size in range(1, len(left)):
        for some in combinations(left, size):
            if not all(set(p) <= set(some) or not set(p) & set(some) for p in parts):
                assert looks_uniform(seen[list(some)].sum(axis=0))


@pytest.mark.parametrize("coalition", [(), (0,), (3,), (4,), (2, 5)])
def test_no_other_combination_of_rows_is_free_of_masks(coalition: tuple[int, ...]) -> None:
    """Linear algebra over the rows: combinations in which all unknown masks cancel are those that
    are constant on the components."""
    left = [v for v in range(GRAPH.n) if v not in coalition]
    unknown = [(a, b) for a, b in GRAPH.edges.tolist() if a in left and b in left]
    incidence = np.zeros((len(left), len(unknown)))
    indptr, numbers, signs = edge_streams(GRAPH, np.arange(GRAPH.n))
    for k, v in enumerate(left):
        for at in range(indptr[v], indptr[v + 1]):
            edge = tuple(GRAPH.edges[numbers[at]].tolist())
            if edge in unknown:
                incidence[k, unknown.index(edge)] = signs[at]
    graph = nx.Graph()
    graph.add_nodes_from(left)
    graph.add_edges_from(unknown)
    free = len(left) - np.linalg.matrix_rank(incidence)
    assert free == nx.number_connected_components(graph)
    for part in nx.connected_components(graph):
        assert not np.any([v in part for v in left] @ incidence)


def test_blocks_draw_what_one_block_draws() -> None:
    value, core = secret()
    whole, _ = door_of(SimulatedNoise(3)).release_masked(value, 1, 0, 1.0)
    for part in ([0, 2, 5], [6], [1, 3, 4]):
        mine = seal(core[part], np.full(len(part), 1 / STEP), asked=b"question") * STEP
        rows, _ = door_of(SimulatedNoise(3), nodes=part).release_masked(mine, 1, 0, 1.0)
        np.testing.assert_array_equal(rows, whole[part])


def test_every_round_and_place_has_masks_of_its_own() -> None:
    noise, edges = SimulatedNoise(1), edge_streams(GRAPH, np.arange(GRAPH.n))
    made = [noise.masks(edges, turn, call, 50) for turn in (1, 2) for call in (0, 1)]
    made += [noise.named("other").masks(edges, 1, 0, 50)]
    for a, b in combinations(made, 2):
        assert looks_uniform(np.concatenate([a[:3], b[:3]]))
        assert looks_uniform(a - b)


# ---- real nodes
def keyed(node: int, keys: dict[tuple[int, int], bytes], view: int = 0) -> KeyedNoise:
    source = KeyedNoise(
        KeyChain.begin(bytes([node]) * 32), "run", floating_point=False, masked=True
    )
    ends = GRAPH.edges.tolist()
    source.share(lambda k: KeyChain.begin(keys[tuple(ends[k])]), "run/all")
    if view:
        source.enter(view)
    return source


KEYS = {(a, b): bytes([a, b]) * 16 for a, b in GRAPH.edges.tolist()}


def keyed_rows(view: int = 0, asked: bytes = b"question") -> tuple[np.ndarray, np.ndarray]:
    """(rows, cores) of all members, each from its own keys; floating-point noise is not accepted,
    and not needed."""
    _, core = secret()
    rows = []
    for k in range(GRAPH.n):
        mine = seal(core[[k]], np.array([1 / STEP]), asked=asked) * STEP
        door = door_of(keyed(k, KEYS, view), nodes=[k])
        rows.append(door.release_masked(mine, 1, 0, 1.0)[0])
    return np.concatenate(rows), core


def test_members_keys_cancel_and_no_row_tells_anything() -> None:
    rows, core = keyed_rows()
    error = centred(rows.sum(axis=0)) - core.sum(axis=0)
    assert kstest(error / (math.sqrt(GRAPH.n) * SCALE), "norm").pvalue > 1e-4
    assert all(looks_uniform(row) for row in rows)
    np.testing.assert_array_equal(keyed_rows()[0], rows)  # done again after a crash: the same


def test_a_round_redone_in_another_view_shares_nothing_with_the_first() -> None:
    """Else the difference of the two sums would be that of the values, with no noise at all."""
    first, second = keyed_rows(view=1)[0], keyed_rows(view=2)[0]
    assert all(looks_uniform(a - b) for a, b in zip(first, second, strict=True))
    between = centred((first - second).sum(axis=0))
    assert np.std(between) == pytest.approx(math.sqrt(2 * GRAPH.n) * SCALE, rel=0.2)


def test_another_question_meets_other_noise_and_other_masks() -> None:
    """Else a member that asks again from an old copy of its state would show its value under its
    own noise alone."""
    first, second = keyed_rows()[0], keyed_rows(asked=b"another")[0]
    assert all(looks_uniform(a - b) for a, b in zip(first, second, strict=True))
    between = centred((first - second).sum(axis=0))
    assert np.std(between) == pytest.approx(math.sqrt(2 * GRAPH.n) * SCALE, rel=0.2)
    mixed = np.concatenate([first[:3], second[3:]])  # one half was led to another point
    assert looks_uniform(mixed.sum(axis=0))


def test_the_statement_says_what_is_used() -> None:
    """Also before anything is drawn: a finished node that is started again draws nothing."""
    assert keyed(0, KEYS).kind.endswith("exact discrete Gaussian, under masks from the edges' keys")
    plain = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=False)
    assert "masks" not in plain.kind
    mine = seal(secret()[1][[0]], np.array([1 / STEP]), asked=b"question") * STEP
    with pytest.raises(PrivacyError, match="set up without masks"):
        door_of(plain, nodes=[0]).release_masked(mine, 1, 0, 1.0)


def test_without_the_edges_keys_nothing_is_drawn() -> None:
    mine = seal(secret()[1][[0]], np.array([1 / STEP]), asked=b"question") * STEP
    source = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=False, masked=True)
    door = door_of(source, nodes=[0])
    with pytest.raises(PrivacyError, match="keys of the edges"):
        door.release_masked(mine, 1, 0, 1.0)


# ---- the charge
class Never(SimulatedNoise):
    """A source that must not be asked."""

    def whole_gaussian(self, *_: Any) -> Any:
        raise AssertionError("noise was drawn")

    masks = whole_gaussian  # type: ignore[assignment]


@pytest.mark.parametrize("q", [0, 1, 2])
def test_the_charge_is_that_of_the_components(q: int) -> None:
    door = door_of(SimulatedNoise(1), q=q)
    door.release_masked(secret()[0], 1, 0, 4.0)
    [(charge, count)] = list(door.ledger.charges)
    members = 1 / leverage(GRAPH, math.inf, q)[0]
    assert (charge.kind, count) == (events.MaskedSum, 1)
    expected = 1 / (STD / 2 * np.sqrt(members))  # weight 4 halves the noise
    np.testing.assert_allclose(charge.parameters["mu"], expected, rtol=2e-9)
    assert np.all(charge.parameters["mu"] >= expected * (1 + 0.9 * discrete_sums.MARGIN))
    for k in range(GRAPH.n):
        true = discrete_sums.sum_mu(1 / STEP, SCALE / 2, round(members[k]))
        assert charge.parameters["mu"][k] > true
        assert charge.event(k) == events.MaskedSum(float(charge.parameters["mu"][k]), q)


def test_it_is_charged_before_anything_is_drawn() -> None:
    mu, none = np.full(GRAPH.n, 1e-3), np.ones(GRAPH.n)
    reserved = Charges([(Charge(events.MaskedSum, {"mu": mu, "coalition": none}), 1)])
    door = door_of(Never(1), reserved=reserved)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        door.release_masked(secret()[0], 1, 0, 1.0)
    door = door_of(Never(1))
    with pytest.raises(AssertionError, match="noise was drawn"):
        door.release_masked(secret()[0], 1, 0, 1.0)
    assert len(door.ledger.charges) == 1


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda core: core.astype(float), LeakError, "Bounded"),
        (lambda core: seal(core * 1.0, np.ones(GRAPH.n)), LeakError, "whole numbers"),
        (lambda core: seal(core, np.ones(GRAPH.n)) * -1.0, LeakError, "one public factor"),
        (
            lambda core: seal(core, np.ones(GRAPH.n)) * np.arange(1.0, GRAPH.n + 1)[:, None],
            LeakError,
            "one public factor",
        ),
        (
            lambda core: seal(core, np.ones(GRAPH.n)) + np.ones(core.shape),
            LeakError,
            "no public part",
        ),
        (
            lambda core: (
                seal(core, np.full(GRAPH.n, 1 / STEP), Sample("poisson", np.full(GRAPH.n, 0.1)))
                * STEP
            ),
            PrivacyError,
            "use all records",
        ),
        (lambda core: seal(core, np.ones(GRAPH.n)) * 2.0**-10, PrivacyError, "finer grid"),
    ],
)
def test_what_cannot_be_masked_is_refused_before_the_draw(
    make: Any, error: type[Exception], match: str
) -> None:
    door = door_of(Never(1))
    with pytest.raises(error, match=match):
        door.release_masked(make(secret()[1]), 1, 0, 1.0)
    assert not len(door.ledger.charges)


def test_a_door_without_the_edges_masks_refuses() -> None:
    for ratio in (None, 3.0):
        door = door_of(Never(1))
        door.shared = None if ratio is None else SharedNoise(door.shared.edges, ratio)
        with pytest.raises(LeakError, match=r"Traits\.masks"):
            door.release_masked(secret()[0], 1, 0, 1.0)
    with pytest.raises(tc.errors.InputError, match="noise must be one of"):
        door_of(Never(1)).release(secret()[0], 1, 0, "masked", None)


# ---- planted faults, found from the rows alone
class NoMasks(SimulatedNoise):
    def masks(self, edges: Any, turn: int, call: int, dim: int) -> Any:
        return np.zeros((len(edges[0]) - 1, dim), np.uint64)


class SameMasks(SimulatedNoise):
    def masks(self, edges: Any, turn: int, call: int, dim: int) -> Any:
        return super().masks(edges, 0, call, dim)


class OneSign(SimulatedNoise):
    def masks(self, edges: Any, turn: int, call: int, dim: int) -> Any:
        return super().masks((*edges[:2], np.ones_like(edges[2])), turn, call, dim)


class HalfNoise(SimulatedNoise):
    def whole_gaussian(self, nodes: Any, turn: int, call: int, scale: Any, dim: int) -> Any:
        return super().whole_gaussian(nodes, turn, call, scale / 2, dim)


def faults(noise: Any) -> set[str]:
    """What an onlooker who knows the values finds wrong with two rounds of rows."""
    door, (value, core) = door_of(noise), secret()
    first, second = (door.release_masked(value, turn, 0, 1.0)[0] for turn in (1, 2))
    found = set()
    if not all(looks_uniform(row) for row in first):
        found.add("a row can be read")
    if not all(looks_uniform(row) for row in first - second):
        found.add("masks repeat")
    error = centred(first.sum(axis=0)) - core.sum(axis=0)
    spread = float(np.std(error)) / (math.sqrt(GRAPH.n) * SCALE)
    if spread > 1.2:
        found.add("masks do not cancel")
    if spread < 0.8:
        found.add("too little noise")
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SimulatedNoise, set()),
        (NoMasks, {"a row can be read", "masks repeat"}),
        (SameMasks, {"masks repeat"}),
        (OneSign, {"masks do not cancel"}),
        (HalfNoise, {"too little noise"}),
    ],
)
def test_planted_faults_show(source: Any, expected: set[str]) -> None:
    assert faults(source(9)) == expected
