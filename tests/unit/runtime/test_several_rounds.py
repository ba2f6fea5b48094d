"""Several rounds in one compiled call are the algorithm's own steps, bit for bit: models, history,
charges, messages and records read; charged before anything is drawn; and stopped, resumed and told
about as any other run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacenda as tc
from support import same_statement
from tacenda import threads
from tacenda.errors import BudgetError, InputError, LeakError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.door import Door
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.runtime import round_kernels, several_rounds
from tacenda.runtime.block import Block
from tacenda.runtime.loop import drive
from tacenda.runtime.network import Network

A, N = tc.algorithms, 6
ROUNDS = 57
NOISE = tc.Privacy.from_noise(noise_multiplier=1.0)  # nobody waits for a calibration


@pytest.fixture(autouse=True)
def from_fifty_rounds_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test needs hundreds of them."""
    monkeypatch.setattr(several_rounds, "LEAST_ROUNDS", 50)


def data(
    dtype: Any = float, *, sparse: bool = False, p: int = 37, classes: Any = (0, 1), **settings: Any
) -> Any:
    """Nodes of 20 to 45 records: float32 sums of the larger ones are made in two turns."""
    rng, parts = np.random.default_rng(1), []
    for i in range(N):
        m = 20 + 5 * i
        x = rng.normal(size=(m, p)) * (rng.random((m, p)) < 0.6)
        x = (x / (1.001 * np.maximum(1e-9, np.linalg.norm(x, axis=1, keepdims=True)))).astype(dtype)
        y = rng.uniform(-1, 1, m)
        if classes is not None:
            y = rng.integers(0, len(classes), m)
        parts.append((csr_array(x) if sparse else x, y))
    settings = {"strength": 0.05, "loss": "logistic", "classes": classes, **settings}
    if settings.pop("weighted", False):
        settings["weights"] = [rng.random(len(y)) for _, y in parts]
    return tc.Problem(parts, **settings)


def simulated(problem: Any, algorithm: Any, **more: Any) -> Any:
    """A run on a ring that nobody looks at before its end, unless told otherwise."""
    usual = {"privacy": NOISE, "seed": 0, "record_every": 0, "progress": False}
    return tc.simulate(problem, tc.graph.ring(N), algorithm, ROUNDS, **{**usual, **more})


class Calls:
    """Notes the rounds of every compiled call."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rounds: list[int] = []
        kernel = round_kernels.dual_averaging

        def noted(turn: int, shares: Any, *rest: Any) -> Any:
            self.rounds.append(len(shares))
            return kernel(turn, shares, *rest)

        patch.setattr(round_kernels, "dual_averaging", noted)


def both(
    run: Callable[[], Any], patch: pytest.MonkeyPatch, rounds: int = ROUNDS
) -> tuple[Any, Any]:
    """The run by compiled calls, and step by step."""
    calls = Calls(patch)
    compiled = run()
    assert sum(calls.rounds) == rounds
    with patch.context() as other:
        other.setattr(several_rounds, "LEAST_ROUNDS", 10**9)
        plain = run()
    assert sum(calls.rounds) == rounds
    return compiled, plain


def assert_same(one: Any, other: Any) -> None:
    assert one.models.dtype == other.models.dtype
    assert np.array_equal(one.models, other.models)
    assert np.array_equal(one.last, other.last)
    assert (one.messages, one.bytes) == (other.messages, other.bytes)
    assert [{**row, "seconds": 0} for row in one.history.rows] == [
        {**row, "seconds": 0} for row in other.history.rows
    ]
    assert (one.privacy is None) == (other.privacy is None)
    if one.privacy is not None:
        assert same_statement(one.privacy, other.privacy)


CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "all": ({}, A.DPDDA(), {}),
    "all, float32": ({"dtype": np.float32}, A.DPDDA(), {}),
    "sample": ({}, A.DPDDA(batch_size=3), {}),
    "sample, float32": ({"dtype": np.float32}, A.DPDDA(batch_size=1), {}),
    "large sample, float32": ({"dtype": np.float32}, A.DPDDA(batch_size=20), {}),
    "sparse": ({"sparse": True}, A.DPDDA(batch_size=2), {}),
    "sparse, float32": ({"dtype": np.float32, "sparse": True}, A.DPDDA(), {}),
    "older": ({}, A.DDA(batch_size=3), {}),
    "older, no privacy": ({}, A.DDA(), {"privacy": None}),
    "no privacy": ({"dtype": np.float32}, A.DPDDA(weights="constant"), {"privacy": None}),
    "last": ({}, A.DPDDA(batch_size=3), {"output": "last"}),
    "clipped": ({"clip_norm": 0.2}, A.DPDDA(), {}),
    "long": ({"p": 300}, A.DPDDA(), {}),
    "long, float32": ({"p": 600, "dtype": np.float32}, A.DPDDA(), {}),
    "long, sample": ({"p": 600}, A.DPDDA(batch_size=5), {}),
    "long, sample, float32": ({"p": 257, "dtype": np.float32}, A.DPDDA(batch_size=20), {}),
    "hinge": ({"loss": "hinge"}, A.DPDDA(batch_size=3), {}),
    "huber": ({"loss": "huber", "classes": None}, A.DPDDA(offset=3.0), {}),
    "weighted": ({"weighted": True}, A.DPDDA(batch_size=3), {}),
    "squared": ({"loss": "squared", "classes": None, "clip_norm": 1.0}, A.DPDDA(), {}),
    "absolute": ({"loss": "absolute-deviation", "classes": None}, A.DPDDA(batch_size=3), {}),
    "smoothed hinge": ({"loss": "smoothed-hinge"}, A.DPDDA(), {}),
    "quantile": ({"loss": "quantile", "classes": None}, A.DPDDA(), {}),
    "offset of NumPy": ({"dtype": np.float32}, A.DPDDA(offset=np.float64(20.3)), {}),
    "add-remove": (
        {"public_sizes": [50] * N},
        A.DPDDA(),
        {"privacy": tc.Privacy.from_noise(noise_multiplier=1.0, adjacency="add-remove")},
    ),
    "noise of the worst": (
        {},
        A.DPDDA(),
        {"privacy": tc.Privacy.from_noise(noise_multiplier=1.0, node_noise="worst")},
    ),
    "as published": ({}, A.DPDDA(), {"privacy": tc.Privacy(1.0, mode="as-published")}),
    "scaled": ({"loss_scale": 1.3}, A.DPDDA(batch_size=3), {}),
    "declared sizes": ({"public_sizes": [50] * N}, A.DPDDA(batch_size=3), {}),
    "schedule": ({}, A.DPDDA(offset=tc.schedules.SquareRoot(5.0, 2.0)), {}),
    "other mixing": ({}, A.DPDDA(), {"mixing": "max-degree"}),
    "narrow": ({"p": 1}, A.DPDDA(batch_size=3), {}),
    "spread": (
        {},
        A.DPDDA(batch_size=3),
        {
            "privacy": tc.Privacy.from_noise(
                noise_multiplier=1.0, spread=tc.schedules.Power(1.0, 0.3)
            )
        },
    ),
    "calibrated": ({}, A.DPDDA(), {"privacy": tc.Privacy(2.0)}),
    "closing": ({}, A.DPDDA(), {"finish_mixing": 3}),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_rounds_are_the_steps_bit_for_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, algorithm, more = CASES[name]
    problem = data(**how)
    task = "loss" if problem.classes is None else "accuracy"

    def run() -> Any:
        metrics = ("objective", "consensus", "data_passes", task)
        return simulated(problem, algorithm, metrics=metrics, **{"record_every": 20, **more})

    assert_same(*both(run, monkeypatch))


@pytest.mark.parametrize(
    ("how", "algorithm", "more"),
    [
        ({}, A.GossipGD(), {}),
        ({}, A.DPDDA(sampling="one", batch_size=1), {}),
        ({}, A.DPDDA(noise="correlated"), {}),
        ({}, A.DPDDA(), {"blocks": 2}),
        ({}, A.DPDDA(), {"mixing": tc.graph.RandomEdges(0.5)}),
        ({"regulariser": "elastic-net"}, A.DPDDA(), {}),
        ({"loss": "multinomial", "classes": (0, 1, 2)}, A.DPDDA(), {}),
    ],
    ids=["gossip", "one", "correlated", "blocks", "varying", "l1", "classes"],
)
def test_whatever_does_not_fit_is_left_to_the_step(
    how: dict[str, Any], algorithm: Any, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    simulated(data(**how), algorithm, **more)
    assert calls.rounds == []


def test_a_network_for_several_threads_is_left_to_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_rounds, "PARALLEL_ELEMENTS", N * 37 + 1)
    calls, problem = Calls(monkeypatch), data()
    simulated(problem, A.DPDDA())
    assert calls.rounds == []  # all records are more than that
    simulated(problem, A.DPDDA(batch_size=1))
    assert sum(calls.rounds) == ROUNDS


class Other(A.DPDDA):
    """Somebody's own, with a step of its own."""

    def step(self, s: Any, node: Any) -> Any:
        found = super().step(s, node)
        return type(found)(found.x, 0.5 * found.z)


def test_somebodys_own_step_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    own, ours = simulated(data(), Other()), simulated(data(), A.DPDDA())
    assert sum(calls.rounds) == ROUNDS and not np.array_equal(own.models, ours.models)


def test_points_beyond_the_radius_are_cut_where_records_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step turns z into points more than ten times as large."""
    problem = data(np.float32, radius=1.0, strength=1e-6)
    algorithm = A.DDA(offset=0.05)
    factors = []
    factor_of = several_rounds.dual_factor

    def noted(*terms: Any) -> Any:
        factors.append(factor_of(*terms))
        return factors[-1]

    monkeypatch.setattr(several_rounds, "dual_factor", noted)

    def run() -> Any:
        return simulated(problem, algorithm, seed=1, output="last")

    compiled, plain = both(run, monkeypatch)
    assert_same(compiled, plain)
    assert min(factors) < -10 and np.abs(compiled.last).max() > 1.0


def test_a_message_at_the_radius_ends_both_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words, calls = [], Calls(monkeypatch)
    for least in (50, 10**9):
        monkeypatch.setattr(several_rounds, "LEAST_ROUNDS", least)
        with pytest.raises(InputError, match="reached the radius") as caught:
            simulated(data(radius=0.5), A.DPDDA(), privacy=tc.Privacy(0.5))
        words.append(str(caught.value))
        assert len(calls.rounds) == 1  # the second run made none
    assert words[0] == words[1]


def test_a_call_that_ends_at_the_radius_tells_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far it came, the messages of so many rounds, and the rounds of the step."""
    found, counted = [], []
    steps, count = several_rounds.SeveralRounds.run, Network.count_rounds

    def noted(self: Any, *rest: Any) -> Any:
        found.append(steps(self, *rest))
        return found[-1]

    def note_count(self: Any, rounds: int, *rest: Any) -> None:
        counted.append(rounds)
        count(self, rounds, *rest)

    monkeypatch.setattr(several_rounds.SeveralRounds, "run", noted)
    monkeypatch.setattr(Network, "count_rounds", note_count)
    with pytest.raises(InputError, match="reached the radius"):
        simulated(data(radius=0.5), A.DPDDA(), privacy=tc.Privacy(0.5))
    by_step: list[int] = []
    monkeypatch.setattr(several_rounds, "LEAST_ROUNDS", 10**9)
    step = Block.start
    monkeypatch.setattr(Block, "start", lambda b, t: (by_step.append(t), step(b, t))[1])
    with pytest.raises(InputError, match="reached the radius"):
        simulated(data(radius=0.5), A.DPDDA(), privacy=tc.Privacy(0.5))
    assert [done for _, done in found] == [by_step[-1]] == [sum(counted)]
    assert 0 < by_step[-1] < ROUNDS


def test_every_release_is_charged_before_its_noise_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[tuple[str, int]] = []
    charge, draw = Ledger.charge, SimulatedNoise.normals_of_rounds

    def charged(self: Any, turn: int, *rest: Any) -> None:
        order.append(("charged", turn))
        charge(self, turn, *rest)

    def drawn(self: Any, nodes: Any, turn: int, call: int, out: Any) -> None:
        order.extend(("drawn", turn + k) for k in range(len(out)))
        draw(self, nodes, turn, call, out)

    monkeypatch.setattr(Ledger, "charge", charged)
    monkeypatch.setattr(SimulatedNoise, "normals_of_rounds", drawn)
    monkeypatch.setattr(several_rounds, "_PER_CALL", 20 * N * 37)
    monkeypatch.setattr(several_rounds, "_PER_DRAW", 4 * N * 37)
    simulated(data(), A.DPDDA(batch_size=1))
    for turn in range(1, ROUNDS + 1):
        assert order.count(("charged", turn)) == order.count(("drawn", turn)) == 1
        assert order.index(("charged", turn)) < order.index(("drawn", turn))


def test_what_was_not_reserved_is_refused_and_nothing_of_its_call_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charge, drawn = Ledger.charge, []

    def one_more(self: Any, turn: int, *rest: Any) -> None:
        charge(self, turn, *rest)
        if turn == ROUNDS:
            charge(self, turn, *rest)

    monkeypatch.setattr(Ledger, "charge", one_more)
    monkeypatch.setattr(SimulatedNoise, "normals_of_rounds", lambda *given: drawn.append(given))
    with pytest.raises(BudgetError, match="budget is spent"):
        simulated(data(), A.DPDDA())
    assert drawn == []


def test_noise_named_by_questions_is_not_drawn_for_several_rounds() -> None:
    class Named(SimulatedNoise):
        by_question = True

    plan = object()
    door = Door(np.arange(2), 3, plan, Ledger(None), Named(0))  # type: ignore[arg-type]
    with pytest.raises(LeakError, match="release by release"):
        door.charge_rounds(range(1, 3), 1, np.ones(2), None)  # type: ignore[arg-type]


def test_an_interrupted_run_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, algorithm = data(np.float32), A.DPDDA(batch_size=2)

    def run(**more: Any) -> Any:
        return simulated(problem, algorithm, seed=5, record_every=10, **more)

    whole, calls = run(), Calls(monkeypatch)

    def stop(done: int, models: Any) -> None:
        if done == 30:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    monkeypatch.setattr("tacenda.runtime.loop.SAVE_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=file, callback=stop)
    assert calls.rounds == [10, 10, 10]
    resumed = run(checkpoint=file, resume=True)
    assert sum(calls.rounds) == 30 + ROUNDS - 20  # the state of round 20 was the last one written
    assert_same(whole, resumed)
    monkeypatch.setattr(several_rounds, "LEAST_ROUNDS", 10**9)
    assert_same(whole, run(checkpoint=file, resume=True))


def test_a_callback_sees_every_round_that_it_asks_for_and_may_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    kept: list[Any] = []

    def look(done: int, models: Any) -> bool:
        seen.append(done)
        kept.append((models, models.copy()))
        return done == 45

    def run() -> Any:
        seen.clear()
        return simulated(data(), A.DPDDA(), output="last", record_every=15, callback=look)

    compiled, plain = both(run, monkeypatch, rounds=45)
    assert seen == [15, 30, 45] and compiled.settings["rounds"] == 45
    assert_same(compiled, plain)
    assert all(np.array_equal(given, copy) for given, copy in kept)  # nobody writes to them later


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_threads_and_calls_of_any_length_change_no_bit(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Any:
        return simulated(data(np.float32), A.DPDDA())

    once, calls = run(), Calls(monkeypatch)
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    monkeypatch.setattr(threads, "_limit", None)
    monkeypatch.setattr(threads, "_pool", None)
    for per_call, per_draw, parts in ((1, 1, 57), (10, 3, 23), (57, 7, 9), (57, 1, 57)):
        monkeypatch.setattr(several_rounds, "_MOST_ROUNDS", per_call)
        monkeypatch.setattr(several_rounds, "_PER_DRAW", per_draw * N * 37)
        calls.rounds.clear()
        assert_same(once, run())
        # Both rooms of noise are used, in turn
        assert len(calls.rounds) == parts and sum(calls.rounds) == ROUNDS


def test_normals_of_several_rounds_are_those_of_each() -> None:
    source, nodes = SimulatedNoise(7), np.array([4, 0, 9])
    out = np.empty((5, 3, 11), np.float32)
    source.normals_of_rounds(nodes, 3, 1, out)
    nothing = (np.zeros((3, 11), np.float32), 1.0, None)
    for k in range(5):
        assert np.array_equal(out[k], source.add_gaussian(nodes, 3 + k, 1, nothing, np.ones(3)))


@pytest.mark.parametrize(("every", "told"), [(0, [7, 14, 17]), (5, [5, 10, 15, 17]), (1, None)])
def test_rounds_pause_where_somebody_looks(every: int, told: list[int] | None) -> None:
    asked, seen = [], []

    def steps(first: int, last: int) -> int:
        asked.append((first, last))
        return min(last, first + 6)

    assert drive(steps, 0, 17, every, [lambda done, stop: seen.append(done)]) == 17
    assert seen == (list(range(1, 18)) if told is None else told)
    assert all(first <= last <= 17 for first, last in asked)
