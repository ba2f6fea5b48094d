"""A neighbour that sends whatever it likes: an honest member's releases move by no more than
declared, and nothing else tells.

The victim is a real block (queries, door, network); its only neighbour is a transport that lies.
Two worlds differ in one record of the victim. Both draw the same noise, and after each release both
go on from the first world's value, so the two answers of every single question of the run can be
compared: their difference is that of the noiseless values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import A, privacy_for, run_spec
from tacenda.algorithms.base import Algorithm
from tacenda.errors import NetworkError
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.door import Door
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.runtime.assemble import assemble, shared_noise
from tacenda.runtime.host import Exits, Seat
from tacenda.runtime.network import Network

HUGE, RADIUS, ROUNDS, P = 1.79e308, 1e9, 5, 3
PAIR = tc.graph.Topology.of(tc.graph.path(2))

ALGORITHMS: dict[str, Algorithm] = {
    "gossip": A.GossipGD(noise="independent", step_size=0.5),
    "gossip, shared noise": A.GossipGD(noise="correlated", step_size=0.5),
    "dpdda": A.DPDDA(offset=1.0),
    "dpadmm": A.DPADMM(),
    "ipadmm": A.IPADMM(inner_steps=2),
    "ddpadmm, batches": A.DDPADMM(batch_size=3),
    "pvp": A.PVP(penalty=0.2),
    "pvp, gaussian": A.PVP(penalty=0.2, noise="gaussian"),
    "dvp": A.DVP(penalty=0.2),
    "madmm": A.MADMM(penalty=0.2),
    "radmm": A.RADMM(penalty=0.2),
}
# Full gradients with independent noise: on the lattice
WHOLE = ("gossip", "dpdda", "dpadmm", "ipadmm")
LOSSES = ("logistic", "multinomial", "squared")

LIES: dict[str, Any] = {
    "opposite ends": lambda t: np.array([1.0, -1.0, 1.0]) * RADIUS,
    "alternating": lambda t: np.full(P, (-1.0) ** t * RADIUS),
    "near zero": lambda t: np.array([5e-324, -0.0, 1e-300]),
    "far, to the last place": lambda t: np.array([RADIUS, -np.nextafter(RADIUS, 0), 1e-8]),
}


class Liar:
    """Sends its rows instead of a block's."""

    def __init__(self, lie: Any) -> None:
        self.lie = lie

    def exchange(self, tag: Any, outgoing: dict[int, Any], awaited: Any) -> dict[int, Any]:
        ((other, rows),) = outgoing.items()
        said = np.resize(self.lie(tag[0]), rows.shape[1])
        return {other: np.ascontiguousarray(said[None]).astype(rows.dtype)}


class Watch:
    """A door that notes what it releases;
    the second world's goes on with the first one's values."""

    def __init__(self, door: Door, follow: list[Any] | None) -> None:
        self.door, self.follow, self.seen = door, follow, []

    def _next(self, out: Any, bound: Any) -> Any:
        self.seen.append((out, float(np.max(bound))))
        return out if self.follow is None else self.follow[len(self.seen) - 1][0]

    def release(self, value: Any, *how: Any) -> Any:
        return self._next(self.door.release(value, *how), value.sensitivity)

    def release_argmin(self, question: Any, *how: Any) -> Any:
        terms = question.terms
        return self._next(
            self.door.release_argmin(question, *how),
            (terms.slope + 2 * terms.tolerance) / terms.convexity,
        )


def records(loss: str, last: tuple[Any, Any]) -> Any:
    """Two members of eight records; the victim's last one is given."""
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(2):
        x = rng.normal(size=(8, P))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
        y = {
            "logistic": rng.choice([-1, 1], 8),
            "multinomial": rng.integers(0, 3, 8),
            "squared": rng.normal(size=8),
        }[loss]
        parts.append((x, y))
    parts[0][0][-1], parts[0][1][-1] = last
    classes = {"logistic": (-1, 1), "multinomial": (0, 1, 2), "squared": None}[loss]
    return tc.Problem(
        parts,
        loss=loss,
        classes=classes,
        strength=0.1,
        clip_norm=0.5 if loss == "squared" else None,
    )


WORLDS = (((1.0, 0.0, 0.0), 1), ((-0.6, 0.8, 0.0), 0))
WORLDS_BINARY = (((1.0, 0.0, 0.0), 1), ((-0.8, 0.6, 0.0), 1))


def play(
    data: Any, algorithm: Algorithm, lie: Any, whole: bool, follow: list[Any] | None
) -> tuple[list[Any], str]:
    """The releases of a run of the victim, and how it ended."""
    facts, mine = Facts.of(data), np.array([0])
    name = "ipadmm" if algorithm.name == "pvp" and algorithm.noise == "gaussian" else algorithm.name
    alone = name == "gossipgd" and algorithm.traits.shared_noise is None
    privacy = tc.Privacy.from_noise(noise_multiplier=1.0) if alone else privacy_for(name)
    spec = run_spec(algorithm, PAIR, facts, ROUNDS, privacy, "last").checked()
    calibration = spec.calibration
    assert calibration is not None
    own, plan = facts.rows(mine), calibration.plan.rows(mine)
    source: Any = (
        KeyedNoise(KeyChain.begin(bytes(32)), "a run", floating_point=False)
        if whole
        else SimulatedNoise(4)
    )
    args = (data.store, data.sizes, mine, own, source)
    queries = LatticeQueries(*args, 2.0**-24) if whole else Queries(*args)
    reserved = calibration.reserved.rows(mine)
    door = Watch(
        Door(mine, data.dim, plan, Ledger(reserved), source, shared_noise(spec, PAIR, mine)), follow
    )
    network = Network(PAIR, [mine, np.array([1])], 0, Liar(lie), np.float64)
    host = assemble(Seat(spec, mine, plan), queries, Exits(door, network), np.zeros((1, data.dim)))
    try:
        for turn in range(1, ROUNDS + 1):
            host.step(turn)
    except NetworkError as error:
        return door.seen, str(error)
    return door.seen, "done"


def compare(name: str, loss: str, lie: Any, whole: bool) -> float:
    """The largest (moved - one unit in the last place) / declared over all releases;
    both worlds end alike."""
    worlds = WORLDS_BINARY if loss == "logistic" else WORLDS
    algorithm = ALGORITHMS[name]
    first, ending = play(records(loss, worlds[0]), algorithm, lie, whole, None)
    second, other = play(records(loss, worlds[1]), algorithm, lie, whole, first)
    assert ending == other and len(first) == len(second)
    worst = 0.0
    for (a, bound), (b, same) in zip(first, second, strict=True):
        assert bound == same and np.isfinite(a).all() and np.isfinite(b).all()
        # Both were rounded after the noise
        grain = np.linalg.norm(np.spacing(np.maximum(np.abs(a), np.abs(b))))
        worst = max(worst, (np.linalg.norm(a - b) - 2 * grain) / (bound * (1 + 1e-9)))
    return float(worst)


def supported(name: str, loss: str) -> bool:
    return loss != "squared" or not ALGORITHMS[name].needs.bounded_loss_slope


CASES = [(name, loss) for name in ALGORITHMS for loss in LOSSES if supported(name, loss)]


@pytest.mark.parametrize(("name", "loss"), CASES, ids=lambda part: str(part))
def test_no_lie_moves_a_release_beyond_its_declared_sensitivity(name: str, loss: str) -> None:
    for lie in LIES.values():
        assert compare(name, loss, lie, whole=False) <= 1.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", WHOLE)
def test_nor_does_it_on_the_lattice(name: str, loss: str) -> None:
    for lie in LIES.values():
        assert compare(name, loss, lie, whole=True) <= 1.0


@pytest.mark.parametrize("whole", [False, True], ids=["doubles", "lattice"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_neighbour_beyond_the_radius_is_named_in_both_worlds_alike(
    loss: str, whole: bool
) -> None:
    for rows in ([HUGE, -HUGE, HUGE], [1e10, 0, 0], [np.nan, 0, 0], [np.inf, -np.inf, 0]):

        def lie(t: int, rows: Any = rows) -> Any:
            return np.array(rows, float)

        for name in WHOLE:
            assert compare(name, loss, lie, whole) <= 1.0
        _, ending = play(records(loss, WORLDS_BINARY[0]), ALGORITHMS["gossip"], lie, whole, None)
        assert (
            ending
            == "Block 1 sent rows with values that are not finite or beyond the radius 1e+09."
        )


def test_the_comparison_sees_a_record_that_counts_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With gradients three times as long as declared the same comparison exceeds 1: it can fail."""
    gradient = Queries._gradient
    monkeypatch.setattr(Queries, "_gradient", lambda self, *args: 3 * gradient(self, *args))
    assert compare("gossip", "logistic", LIES["near zero"], whole=False) > 1.0
