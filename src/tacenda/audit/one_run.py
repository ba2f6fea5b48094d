"""`audit_one_run`: one run with many canaries, for problems that are too large to run thousands of times.

Some records of every node are replaced by canaries. A fair coin decides each: which of two records is there (replace-one),
or whether there is one at all (add-remove). From the released values the adversary scores every coin, guesses those with
the clearest scores, abstains from the rest, and the number of right guesses bounds epsilon (`one_run_bound`).

The score of a coin adds up, over all releases of its node, how far the released value leans towards one of its two records:

    <released - middle, value with one - value with the other> / std^2

where the middle is what the node would have answered with all its canaries halfway. The adversary knows all other records,
both candidates of every canary and all settings. Canaries of one node point along different axes, so they hardly disturb
each other; more canaries than features would.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda import checks
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.published import published_form
from tacenda.algorithms.registry import by_name
from tacenda.audit.one_run_bound import best_count, epsilon_from_guesses
from tacenda.audit.one_run_tap import Adversary, Coins, Recorder, plant
from tacenda.audit.result import write_json
from tacenda.audit.worlds import copies_of
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.coalition import edge_streams
from tacenda.privacy.door import Door, SharedNoise
from tacenda.privacy.ledger import Ledger
from tacenda.privacy.noise import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.facts import Facts
from tacenda.problem.queries import Queries
from tacenda.runtime.block import Block
from tacenda.runtime.network import Network
from tacenda.runtime.progress import Progress
from tacenda.runtime.spec import RunSpec, check_privacy, match, start_rows
from tacenda.runtime.transport import NoTransport
from tacenda.words import counted

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class OneRunResult:
    """lower_bound: epsilon is at least this at delta, with the stated confidence; right of `guesses` of `coins` were right."""

    algorithm: dict[str, Any]
    mode: str
    adjacency: str
    rounds: int
    coins: int
    guesses: int
    right: int
    confidence: float
    delta: float
    claimed: tuple[float, float]
    true_epsilon: float
    lower_bound: float
    seed: int
    seconds: float
    why: str | None = None

    @property
    def broken(self) -> bool:
        return self.lower_bound > self.claimed[0]

    @property
    def verdict(self) -> str:
        return "broken" if self.broken else "consistent"

    def summary(self) -> str:
        """One sentence for people."""
        said = f"claimed {self.claimed[0]:.4g}"
        if self.mode == "as-published":
            said += f" by the paper; the accountant says {self.true_epsilon:.4g}"
        return (
            f"{self.algorithm['name']}: {self.verdict}: epsilon is at least {self.lower_bound:.4g} at delta {self.delta:g} with "
            f"{100 * self.confidence:g} % confidence ({said}); one run of {counted(self.rounds, 'round')}, "
            f"{self.right} of {counted(self.guesses, 'guess', 'guesses')} right, {counted(self.coins, 'canary', 'canaries')}, "
            f"{self.seconds:.1f} s, seed {self.seed}."
        )

    def __repr__(self) -> str:
        return f"OneRunResult({self.summary()})"

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files and --json."""
        return {"format": "tacenda-one-run-audit-1", "verdict": self.verdict, **dataclasses.asdict(self)}

    def save(self, path: str | Path) -> Path:
        """Write `to_plain` as JSON."""
        return write_json(path, self.to_plain())


def audit_one_run(
    problem: Any,
    graph: Any,
    algorithm: Algorithm | str,
    *,
    privacy: Privacy,
    rounds: int,
    canaries: int | None = None,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    init: Any = None,
    mixing: str = "metropolis",
    solver_tolerance: float = 1e-8,
    progress: str | bool = "auto",
) -> OneRunResult:
    """Plant canaries in one run of `problem` and count right guesses.

    canaries   per node; by default as many as it has features, at most half of its smallest node's records
    guesses    how many coins the adversary guesses, fixed before it looks; by default a tenth, or a quarter for epsilon below 1
    """
    begin = time.perf_counter()
    method = by_name(algorithm) if isinstance(algorithm, str) else algorithm
    if check_privacy(privacy, method) is None:
        raise InputError("privacy must be a tacenda.Privacy, not None: a run without noise has no claim to attack.")
    if getattr(method, "batch_size", None) is not None:
        raise UnsupportedError(
            "audit_one_run attacks full-batch runs; for sampled ones use tacenda.audit (in the shell: leave out --one-run), which "
            "knows their mixtures."
        )
    if privacy.mode == "as-published":
        method = published_form(method)
    rounds, topology = checks.whole("rounds", rounds, least=1), match(problem, graph)
    facts = Facts.of(problem, privacy.adjacency, checks.positive("solver_tolerance", solver_tolerance))
    method.check(facts, topology, rounds, True)
    calibration = RunSpec(method, topology, facts, rounds, privacy).checked().calibration
    assert calibration is not None
    seed = secrets.randbits(63) if seed is None else checks.whole("seed", seed)
    noise = SimulatedNoise(seed)
    start = start_rows(init, problem.dim, topology.n)
    coins, store = plant(problem, facts, _per_node(problem, canaries), privacy.adjacency, noise)
    scores = _play(method, facts, topology, rounds, calibration, noise, coins, store, start, mixing, problem.sizes, progress)
    statement = Statement(
        calibration.reserved, topology.n, privacy.delta, privacy.adjacency, privacy.mode, None, noise.kind, "uniform",
        calibration.claimed, calibration.why,
    )  # fmt: skip
    claimed = calibration.claimed or (statement.epsilon, privacy.delta)
    count = best_count(coins.count, claimed[0]) if guesses is None else checks.whole("guesses", guesses, least=1)
    if count > coins.count:
        raise InputError(f"guesses must be at most the number of canaries ({coins.count}), not {count}.")
    clearest = np.argsort(-np.abs(scores), kind="stable")[:count]
    right = int(np.sum((scores[clearest] > 0) == coins.heads[clearest]))
    return OneRunResult(
        method.to_plain(), privacy.mode, privacy.adjacency, rounds, coins.count, count, right, confidence, float(claimed[1]),
        (float(claimed[0]), float(claimed[1])), statement.curve().epsilon(claimed[1]),
        epsilon_from_guesses(right, count, coins.count, claimed[1], confidence), seed, time.perf_counter() - begin,
        calibration.why,
    )  # fmt: skip


def _per_node(problem: Any, canaries: int | None) -> int:
    most = int(problem.sizes.min())
    if canaries is None:
        return max(1, min(problem.n_features, most // 2))
    count = checks.whole("canaries", canaries, least=1)
    if count > most:
        raise InputError(f"canaries must be at most the smallest node's {most} records, not {count}.")
    return count


def _play(
    method: Algorithm, facts: Facts, topology: Any, rounds: int, calibration: Any, noise: SimulatedNoise, coins: Coins,
    store: Any, start: Array, mixing: str, sizes: Array, progress: str | bool,
) -> Array:  # fmt: skip
    nodes, n = np.arange(topology.n), topology.n
    shared = None if method.shared_noise is None else SharedNoise(edge_streams(topology, nodes), method.shared_noise)
    gate = Recorder(Door(nodes, facts.dim, calibration.plan, Ledger(calibration.reserved), noise, shared))
    adversary, both = Adversary(facts, coins), np.tile(nodes, 2)

    def block(queries: Any, door: Any, network: Any, rows: Array) -> Block:
        plan = calibration.plan.rows(rows)
        return Block(
            queries, door, Network(network, [np.arange(len(rows))], 0, NoTransport(), np.float64, mixing),
            degree=topology.degrees[rows], is_hub=rows == topology.hub(), n_nodes=n, rounds=rounds, noise_scale=plan.scale,
            weights=plan.weights,
        )  # fmt: skip

    real = block(Queries(store, sizes, nodes, facts, noise), gate, topology, nodes)
    played = block(adversary, adversary, copies_of(topology, 2), both)
    state, known = method.init(real, start), method.init(played, start[both])
    with Progress(progress, f"audit {method.name}", rounds) as show:
        for turn in range(1, rounds + 1):
            real.start(turn)
            state = method.step(state, real)
            adversary.hear(gate.releases)
            gate.releases.clear()
            played.start(turn)
            known = method.step(known, played)
            show(turn)
    return adversary.scores
