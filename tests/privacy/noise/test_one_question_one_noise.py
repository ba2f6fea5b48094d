"""One question, one noise: another question never meets the noise of the first, the same step done
again always does.

A real node (its state, its door, its keyed noise) whose neighbour is this test, which may send what
it likes.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from node_stage import small_contract
from tacenda.errors import LeakError, PrivacyError, StateError
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.secrets.bounded import question_of, seal
from tacenda.privacy.secrets.door import Door
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.secrets.noise_plan import ScaledPlan
from tacenda.privacy.secrets.question import digest
from tacenda.questions.queries import Queries
from tacenda_node.peer.member_records import problem_of
from tacenda_node.peer.peer import Peer
from tacenda_node.peer.run_plan import facts_of, make_plan
from tacenda_node.protocol.signed_rows import Witness
from tacenda_node.state.database import NodeState
from tacenda_node.state.mark import Mark
from tacenda_node.wire.exchange import Exchange

FEATURES = 40
FREE = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "whole numbers": {"name": "ipadmm", "penalty": 0.1, "inner_steps": 1},
    "doubles": {"name": "gossipgd", "noise": "independent", "step_size": 0.5},
    "samples": {"name": "gossipgd", "noise": "independent", "step_size": 0.5, "batch_size": 20},
    "inside the objective": {"name": "dvp", "penalty": 0.5},
    "on the minimiser": {"name": "pvp", "penalty": 0.5},
}
CASES = [
    pytest.param(a, id=k, marks=[pytest.mark.slow] if k == "samples" else [])
    for k, a in ALGORITHMS.items()
]
Says = Callable[[tuple[int, int, int]], np.ndarray]


class House:
    """Member m0 with its state folder;
    `says` is what its neighbour m1 sends under (view, round, call)."""

    def __init__(
        self,
        folder: Path,
        algorithm: dict[str, Any],
        says: Says,
        rounds: int = 4,
        mark: Path | None = None,
    ) -> None:
        self.plan = _plan(algorithm, rounds)
        rng = np.random.default_rng(3)
        x = rng.normal(size=(60, FEATURES))
        problem = problem_of(
            self.plan.contract,
            self.plan.contract.member("m0").size,
            x / np.linalg.norm(x, axis=1, keepdims=True),
            rng.integers(2, size=60),
        )
        self.state = NodeState(folder)
        self.state.bind(self.plan.contract.run_id(), "m0", "records")
        self.state.keep_mark(mark or folder / "mark")
        self.exchange = _Alone(self.plan.contract, self.state, says)
        self.peer = Peer(self.plan, "m0", problem, self.state, self.exchange)
        self.peer.restore(lambda view: frozenset())

    def go(self, rounds: int) -> dict[tuple[int, int], np.ndarray]:
        """Go on up to that round; every message that was sent, by (round, call)."""
        try:
            while self.peer.round < rounds:
                self.peer.advance()
        finally:
            self.state.close()
        return self.exchange.sent


class _Alone(Exchange):
    """The transport of a real node up to the network: durable first,
    then a neighbour that needs no wire."""

    def __init__(self, contract: Any, state: NodeState, says: Says) -> None:
        # Nobody here reads the signatures
        witness = Witness(contract, "m0", state, lambda text: "A" * 86 + "==")
        handshake = SimpleNamespace(
            view=0, done=0, started=False, witness=witness, identity=SimpleNamespace(name="m0")
        )
        mailbox = SimpleNamespace(
            frames=lambda key, peers: {},
            advance=lambda *place: None,
            take=lambda key, peers, seconds: (self.wait(key, peers), []),
        )
        nobody = SimpleNamespace(
            post=lambda frames: None, links={}, handshake=handshake, mailbox=mailbox
        )
        super().__init__(contract, state, nobody, lambda missing: None)
        self._says = says
        self.sent: dict[tuple[int, int], np.ndarray] = {}

    def exchange(self, tag: Any, outgoing: dict[int, Any], awaited: Any) -> dict[int, Any]:
        found = super().exchange(tag, outgoing, awaited)
        self.sent[tag] = next(iter(outgoing.values())).copy()
        return found

    def wait(self, key: Any, peers: list[str]) -> dict[str, Any]:
        return {peer: self._says(key) for peer in peers}


_plans: dict[str, Any] = {}


def _plan(algorithm: dict[str, Any], rounds: int) -> Any:
    name = f"{algorithm}{rounds}"
    if name not in _plans:
        contract = small_contract(2, rounds, FEATURES, "path", algorithm=algorithm, privacy=FREE)
        _plans[name] = make_plan(contract)
    return _plans[name]


def _honest(key: tuple[int, int, int]) -> np.ndarray:
    return np.random.default_rng(key[1:]).normal(size=(1, FEATURES)) * 0.1


def _lying(turn: int, by: float) -> Says:
    return lambda key: _honest(key) + (by if key[1] == turn else 0.0)


@pytest.mark.parametrize("algorithm", CASES)
def test_a_restored_copy_and_a_neighbour_that_says_something_else_never_meet_the_same_noise(
    tmp_path: Path, algorithm: dict[str, Any]
) -> None:
    """Without the noise's own name for each question the two messages differ by the raw answers'
    difference, 1e-8 here."""
    House(tmp_path / "first", algorithm, _honest).go(2)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    shutil.copytree(tmp_path / "first", tmp_path / "again")
    first = House(tmp_path / "first", algorithm, _honest).go(3)
    again = House(tmp_path / "again", algorithm, _honest).go(3)
    second = House(tmp_path / "copy", algorithm, _lying(2, 1e-7)).go(3)
    stranger = House(tmp_path / "stranger", algorithm, _honest).go(3)
    tags = [tag for tag in first if tag[0] == 3]
    assert tags
    for tag in tags:
        # The same question, the same noise, to the last bit
        np.testing.assert_array_equal(first[tag], again[tag])
        size = np.sqrt(np.mean((first[tag] - second[tag]) ** 2))
        other = np.sqrt(np.mean((first[tag] - stranger[tag]) ** 2))
        assert size > 0.1 * other, "the difference of two messages is not hidden by noise"


@pytest.mark.parametrize(
    "algorithm", [ALGORITHMS["whole numbers"], ALGORITHMS["inside the objective"]]
)
def test_a_mark_outside_the_copy_refuses_it(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    mark = tmp_path / "elsewhere" / "run.mark"

    def house(folder: str, says: Says) -> House:
        return House(tmp_path / folder, algorithm, says, mark=mark)

    house("first", _honest).go(2)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    house("first", _honest).go(3)
    with pytest.raises(
        StateError, match=r"an old copy: \d+ charges were noted .* and \d+ are here"
    ):
        house("copy", _lying(2, 1e-7))
    house("first", _honest).go(4)


@pytest.mark.parametrize("algorithm", CASES)
def test_a_redone_step_that_asks_something_else_is_refused_before_the_draw(
    tmp_path: Path, algorithm: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round is recorded, and is done again from another state of the model: by a changed
    program, or by other rows."""
    House(tmp_path, algorithm, _honest).go(3)
    before = _charges(tmp_path)
    house = House(tmp_path, algorithm, _honest)
    assert house.peer.round == 2 and before[-1][0][1] == 3
    host = house.peer._host
    moved = {f.name: getattr(host.state, f.name) for f in dataclasses.fields(host.state)}
    host.state = type(host.state)(
        **{name: v if v is None else v + 1e-9 for name, v in moved.items()}
    )
    drawn = _watched(monkeypatch)
    with pytest.raises(StateError, match="asks the records another question"):
        house.go(3)
    assert not drawn
    assert _charges(tmp_path) == before
    House(tmp_path, algorithm, _honest).go(4)  # and the true state goes on
    assert drawn


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the draws that keyed noise is asked for from now on."""
    drawn: list[str] = []

    def note(name: str) -> None:
        honest = getattr(KeyedNoise, name)
        monkeypatch.setattr(KeyedNoise, name, lambda *a: (drawn.append(name), honest(*a))[1])

    for name in ("add_gaussian", "l2_laplace", "shared"):
        note(name)
    return drawn


def _charges(folder: Path) -> list[Any]:
    state = NodeState(folder)
    try:
        return state.charges()
    finally:
        state.close()


# ---- the digest and what it holds
def _door(noise: Any) -> Door:
    return Door(np.zeros(1, np.int64), 4, ScaledPlan(np.ones(1), np.ones(3)), Ledger(None), noise)


def _released(
    noise: Any = None, kind: str = "gaussian", std: float | None = 1.0, **changes: Any
) -> np.ndarray:
    """factor * 0 + offset + noise, less the offset: the noise itself."""
    terms = {
        "core": np.zeros((1, 4)),
        "asked": b"q" * 32,
        "factor": 1.0,
        "offset": np.zeros((1, 4)),
        "turn": 1,
    } | changes
    value = (
        seal(terms["core"], np.ones(1), asked=terms["asked"]) * terms["factor"] + terms["offset"]
    )
    noise = (
        KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)
        if noise is None
        else noise
    )
    return (
        _door(noise).release(value, terms["turn"], 0, kind, std if kind == "gaussian" else None)
        - terms["offset"]
    )


def test_every_part_of_a_release_is_in_the_name_of_its_noise() -> None:
    tiny = np.nextafter(0.0, 1.0)
    found = [
        _released(),
        _released(asked=b"r" * 32),
        _released(factor=np.nextafter(1.0, 2.0)),
        _released(std=np.nextafter(1.0, 2.0)),
        _released(offset=np.full((1, 4), tiny)),
        _released(turn=2),
        _released(kind="l2-laplace"),
        _released(factor=-1.0),
        _released(KeyedNoise(KeyChain.begin(bytes(32)), "other run", floating_point=True)),
        _released(core=np.zeros((1, 4), np.float32)),
    ]
    np.testing.assert_array_equal(_released(), found[0])
    for k, one in enumerate(found):
        for other in found[k + 1 :]:
            # float32 and float64 cores of one digest would agree to seven digits
            assert np.min(np.abs(one - other)) > 1e-6 or np.max(np.abs(one - other)) > 1e-2


def test_the_noise_of_two_questions_is_independent_and_of_full_size() -> None:
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)
    core, std = np.zeros((1, 4000)), np.ones(1)
    one, other = (
        noise.asked(digest(k)).add_gaussian(np.zeros(1, int), 1, 0, (core, 1.0, None), std)[0]
        for k in (1, 2)
    )
    assert kstest((one - other) / np.sqrt(2), "norm").pvalue > 1e-3
    assert kstest((one + other) / np.sqrt(2), "norm").pvalue > 1e-3
    samples = [
        set(
            noise.asked(digest(k)).poisson_records(
                np.zeros(1, int), 1, 0, np.array([400]), np.array([0.5])
            )[1]
        )
        for k in (1, 2)
    ]
    assert 60 < len(samples[0] & samples[1]) < 140  # a quarter of 400, not half
    picks = {
        int(noise.asked(digest(k)).one_record(np.zeros(1, int), 1, 0, np.array([1000]))[1][0])
        for k in range(20)
    }
    assert len(picks) > 15


@pytest.mark.parametrize("one", [False, True])
def test_another_point_is_asked_of_another_sample(one: bool) -> None:
    contract = small_contract(2, 3, FEATURES, "path")
    rng = np.random.default_rng(0)
    problem = problem_of(
        contract, 60, rng.normal(size=(60, FEATURES)) / 9, rng.integers(2, size=60)
    )
    seen = []
    honest, here = problem.store.batch_gradient, np.zeros(1, np.int64)
    problem.store.batch_gradient = lambda *a: (seen.append(tuple(a[3])), honest(*a))[1]
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)
    queries = Queries(problem.store, problem.sizes, here, facts_of(contract).rows(here), noise)
    for k in (0, 1, 2, 3, 4, 0):
        queries.gradient(np.full((1, FEATURES), k * 1e-12), 1, 0, 20, one, True)
    assert seen[0] == seen[-1]
    assert len(set(seen)) >= 4


def test_every_argument_of_a_query_is_in_its_question() -> None:
    contract, here = small_contract(2, 3, FEATURES, "path"), np.zeros(1, np.int64)
    rng = np.random.default_rng(0)
    problem = problem_of(
        contract, 60, rng.normal(size=(60, FEATURES)) / 9, rng.integers(2, size=60)
    )
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)
    queries = Queries(problem.store, problem.sizes, here, facts_of(contract).rows(here), noise)
    zero, tiny, q = np.zeros((1, FEATURES)), np.full((1, FEATURES), 1e-12), np.ones((1, 1))
    gradients = [
        (zero, None, False, True),
        (tiny, None, False, True),
        (zero, None, False, False),
        (zero, 20, False, True),
        (zero, 21, False, True),
        (zero, 20, True, True),
    ]
    asked = [question_of(queries.gradient(w, 1, 0, *rest))[0] for w, *rest in gradients]
    hidden = [seal(zero, np.ones(1), asked=name * 32) for name in (b"a", b"b")]
    minima = [
        (zero, q, zero),
        (tiny, q, zero),
        (zero, 2 * q, zero),
        (zero, q, tiny),
        (tiny, q, tiny),
        (hidden[0], q, zero),
        (hidden[1], q, zero),
        (hidden[0] * 2.0, q, zero),
        (hidden[0] + tiny, q, zero),
        (zero, q, hidden[0]),
    ]
    for terms in minima:
        problem.store.restore_solver_state(
            {"anchors": np.zeros((0, FEATURES)), "ridges": np.zeros(0)}
        )
        asked.append(question_of(queries.argmin(*terms))[0])
    # The solver stands elsewhere now
    assert queries._named_argmin(*minima[0]) != asked[len(gradients)]
    problem.store.restore_solver_state({"anchors": np.zeros((0, FEATURES)), "ridges": np.zeros(0)})
    assert queries.question(*minima[0]).asked == asked[len(gradients)]
    assert len(set(asked)) == len(asked) == len(gradients) + len(minima)


def test_a_sum_of_two_answers_is_named_by_both() -> None:
    def asked(a: bytes, b: bytes, factor: float = 1.0) -> np.ndarray:
        total = seal(np.zeros((1, 4)), np.ones(1), asked=a * 32) * factor + seal(
            np.zeros((1, 4)), np.ones(1), asked=b * 32
        )
        return _door(KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)).release(
            total, 1, 0, "gaussian", 1.0
        )

    found = [asked(b"a", b"b"), asked(b"b", b"a"), asked(b"a", b"c"), asked(b"a", b"b", 2.0)]
    np.testing.assert_array_equal(asked(b"a", b"b"), found[0])
    assert len({row.tobytes() for row in found}) == len(found)


def test_an_answer_without_a_question_is_never_released_by_a_real_node() -> None:
    ledger_before = _door(KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True))
    with pytest.raises(LeakError, match="does not say what it was asked"):
        ledger_before.release(seal(np.zeros((1, 4)), np.ones(1)), 1, 0, "gaussian", None)
    assert len(ledger_before.ledger.charges) == 0
    with pytest.raises(PrivacyError, match="no question was given"):
        KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True).asked(b"")


def test_a_digest_tells_all_parts_apart() -> None:
    a = np.arange(4.0)
    parts = [
        (a,),
        (a.reshape(2, 2),),
        (a.astype(np.float32),),
        (a.astype(int),),
        (a, a),
        (a[:2], a[2:]),
        (np.append(a[:3], -4.0),),
        (None,),
        (b"",),
        ("",),
        (0,),
        (False,),
        (0.0,),
        (-0.0,),
        (np.nan,),
        (),
        ("a", "b"),
        ("ab",),
        (b"ab",),
        (1, 2),
        (12,),
    ]
    found = [digest(*p) for p in parts]
    assert len(set(found)) == len(parts)
    assert digest(a.reshape(2, 2)) == digest(np.asfortranarray(a.reshape(2, 2)))
    with pytest.raises(TypeError, match="not of a dict"):
        digest({})


# ---- noise shared by neighbours
@pytest.mark.parametrize(("degree", "ratio"), [(1, 0.5), (2, 3.0), (4, 10.0)])
def test_what_two_messages_under_one_edge_noise_tell(degree: int, ratio: float) -> None:
    """docs/decisions/0013: own noise is fresh, edges are not. The pair tells mu^2 = |a-b|^2/(2 s^2)
    + |a+b|^2/(2 s^2 (1 + 2 c^2 deg))."""
    rng = np.random.default_rng(0)
    s, (a, b) = 0.7, rng.normal(size=2)
    shared = s**2 * ratio**2 * degree
    covariance = np.array([[s**2 + shared, shared], [shared, s**2 + shared]])
    direct = np.array([a, b]) @ np.linalg.solve(covariance, np.array([a, b]))
    formula = (a - b) ** 2 / (2 * s**2) + (a + b) ** 2 / (2 * s**2 * (1 + 2 * ratio**2 * degree))
    assert formula == pytest.approx(direct, rel=1e-9)


def test_edge_streams_hold_no_question() -> None:
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True)
    noise.share(lambda k: KeyChain.begin(bytes([k]) * 32), "both")
    edges = (np.array([0, 1]), np.array([5]), np.array([1.0]))
    one, other = (noise.asked(digest(k)).shared(edges, 1, 0, 8) for k in (1, 2))
    np.testing.assert_array_equal(one, other)


def test_a_torn_mark_falls_back_to_the_one_before(tmp_path: Path) -> None:
    """Power fails in the middle of any write: the mark is the new one or the old one, never lost
    and never ahead."""
    key, heads = b"k" * 32, [(n, (bytes([n]) * 32).hex()) for n in range(6)]
    mark = Mark(tmp_path / "m" / "run.mark", key)
    noted = [(head, bytes([n]) * 32) for n, head in enumerate(heads)]
    mark.create(*noted[0])

    def read(key: bytes = key) -> Any:
        again = Mark(copy, key)
        try:
            return again.open()
        finally:
            again.close()

    copy = tmp_path / "copy.mark"
    for n in range(1, len(heads)):
        before = mark.path.read_bytes()
        mark.write(*noted[n])
        after = mark.path.read_bytes()
        changed = [k for k in range(len(after)) if before[k : k + 1] != after[k : k + 1]]
        for cut in range(changed[0], changed[-1] + 2, 7):
            copy.write_bytes(after[:cut] + before[cut:])
            assert read() in noted[n - 1 : n + 1]
        copy.write_bytes(after)
        assert read() == noted[n]
    with pytest.raises(StateError, match="damaged or belongs to another state"):
        read(b"x" * 32)
    mark.path.write_bytes(before)
    with pytest.raises(StateError, match="changed by another process"):
        mark.write((9, bytes(32).hex()), bytes(32))
    mark.close()
    with pytest.raises(StateError, match="not open"):
        mark.write((9, bytes(32).hex()), bytes(32))
