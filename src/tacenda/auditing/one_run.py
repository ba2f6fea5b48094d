"""`audit_one_run`: one run with many canaries, for problems that are too large to run thousands of
times.

Some records of every node are replaced by canaries. A fair coin decides each: which of two records
is there (replace-one), or whether there is one at all (add-remove). From the released values the
adversary scores every coin, guesses those with the clearest scores, abstains from the rest, and the
number of right guesses bounds epsilon (`one_run_bound`).

The score of a coin adds up, over all releases of its node, how far the released value leans towards
one of its two records:

    <released - middle, value with one - value with the other> / std^2

where the middle is what the node would have answered with all its canaries halfway. The adversary
knows all other records, both candidates of every canary and all settings. Canaries of one node
point along different axes, so they hardly disturb each other; more canaries than features would.
Noise that neighbours share is attacked as in `shared_noise`.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.auditing.one_run_bound import (
    best_count,
    curve_inverse,
    epsilon_from_guesses,
    impossible,
    independent_chance,
    largest,
)
from tacenda.auditing.one_run_result import OneRunResult
from tacenda.auditing.one_run_tap import Coins, Eavesdropper, Recorder, plant
from tacenda.auditing.shared_noise import Attacks, SharedScores
from tacenda.auditing.stage import refuse_maps, refuse_masks
from tacenda.auditing.worlds import copies_of
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.accounting.judge import Curve, judge
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.problem import Problem
from tacenda.runtime.assemble import (
    Placed,
    Records,
    ask,
    assemble,
    connect,
    open_door,
    shared_noise,
    take_seat,
)
from tacenda.runtime.host import Exits
from tacenda.runtime.progress import Progress
from tacenda.runtime.spec import RunSpec, check_privacy, start_rows
from tacenda.terms.method import Method, algorithm_of

COMMON = Attacks.title("an eavesdropper", "as declared")
STEPS = 14  # halvings in the search for the curve: four digits


def audit_one_run(
    problem: Problem,
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
    """Plant canaries in one run of a problem and count right guesses.

    A lower bound above the claim disproves the claim; one below it proves nothing.

    Parameters
    ----------
    problem : Problem
        The records; some are replaced by canaries.
    graph : networkx.Graph or Topology
        The network.
    algorithm : Algorithm or str
        An object of `tacenda.algorithms`, or a name with default settings.
    privacy : Privacy
        The noise under attack, in either mode.
    rounds : int
        Rounds of the run.
    canaries : int or None, default=None
        Canaries per node; by default as many as it has features, at most half of its smallest
        node's records, and one where the noise is not drawn for each feature by itself; where
        neighbours share noise, they share the features too.
    guesses : int or None, default=None
        How many coins the adversary guesses, fixed before it looks; by default a tenth, or 3 of
        10 for epsilon below 2.
    confidence : float, default=0.95
        Probability with which the lower bound holds.
    seed : int or None, default=None
        The same seed gives the same result.
    init : array_like or None, default=None
        As in `simulate`.
    mixing : str, default="metropolis"
        As in `simulate`.
    solver_tolerance : float, default=1e-08
        As in `simulate`.
    progress : {"auto", True, False}, default="auto"
        Whether to show a progress bar; "auto" shows one on a terminal.

    Returns
    -------
    OneRunResult
        Lower bounds on epsilon, and what they say about the claim.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> budget = tc.Privacy(1.0)
    >>> found = tc.audit_one_run(
    ...     problem, tc.graph.ring(4), "cdpadmm", privacy=budget, rounds=5, seed=0, progress=False
    ... )
    >>> found.lower_bound <= 1.0
    True
    """
    begin = time.perf_counter()
    if check_privacy(privacy, algorithm_of(algorithm)) is None:
        raise InputError(
            "privacy must be a tacenda.Privacy, not None: "
            "a run without noise has no claim to attack."
        )
    how = Method.of(algorithm, rounds=rounds, output="last", mixing=mixing)
    spec = RunSpec.of_problem(how, problem, graph, privacy, solver_tolerance)
    topology, facts, method = spec.topology, spec.facts, spec.algorithm
    refuse_masks(method)
    refuse_maps(method)
    if method.traits.sample != "all":
        raise UnsupportedError(
            "audit_one_run attacks full-batch runs; for sampled ones use tacenda.audit (in the "
            "shell: leave out --one-run), which knows their mixtures."
        )
    calibration = spec.calibration
    assert calibration is not None
    seed = secrets.randbits(63) if seed is None else checks.whole("seed", seed)
    noise = SimulatedNoise(seed)
    start = start_rows(init, problem.dim, topology.n)
    shared = method.traits.shared_noise is not None
    per_node = _per_node(problem, canaries, method)
    ahead = (
        start[0] if method.needs.smooth_loss and np.any(start) and problem.n_outputs == 1 else None
    )
    coins, store = plant(problem, facts, per_node, privacy.adjacency, noise, shared, ahead)
    listening = None
    if method.traits.shared_noise is not None:
        releases = sum(count for _, count in calibration.reserved)
        listening = SharedScores(
            topology,
            method.traits.shared_noise,
            privacy.pooled(method.title),
            releases,
            coins.owner,
        )
    scores = _play(spec, problem.sizes, noise, coins, store, start, progress, listening)
    statement = spec.statement(calibration.reserved, noise.kind)
    assert statement is not None
    claimed = calibration.claimed or (statement.epsilon, privacy.delta)
    count = (
        best_count(coins.count, claimed[0])
        if guesses is None
        else checks.whole("guesses", guesses, least=1)
    )
    if count > coins.count:
        raise InputError(
            f"guesses must be at most the number of canaries ({coins.count}), not {count}."
        )
    names = ["likelihood ratio"] if listening is None else listening.names
    counted_right = _Counts(coins, scores, count, names, _independent(coins, method))
    checks.between("confidence", confidence, 0.5, 1.0)
    lower, curve, attack = counted_right.bounds(statement, float(claimed[1]), confidence)
    return OneRunResult(
        method.to_plain(),
        privacy.mode,
        privacy.adjacency,
        spec.rounds,
        coins.count,
        count,
        counted_right.right,
        confidence,
        float(claimed[1]),
        (float(claimed[0]), float(claimed[1])),
        statement.curve().epsilon(claimed[1]),
        lower,
        curve,
        counted_right.independent,
        attack,
        tuple(zip(names, counted_right.all_right, strict=True)),
        seed,
        time.perf_counter() - begin,
        calibration.why,
    )


class _Counts:
    """How many guesses were right: `right` of the `guesses` clearest,
    all_right of all coins for each attack."""

    def __init__(
        self, coins: Coins, scores: Array, guesses: int, names: list[str], independent: bool
    ) -> None:
        self.coins = coins.count
        self.guesses = guesses
        self.names = names
        self.independent = independent
        # One view for all coins: the general bounds speak of one output, so not of a coalition
        # chosen for each node.
        common = scores[:, names.index(COMMON) if COMMON in names else 0]
        clearest = np.argsort(-np.abs(common), kind="stable")[:guesses]
        self.right = int(np.sum((common[clearest] > 0) == coins.heads[clearest]))
        self.all_right = [int(k) for k in np.sum((scores > 0) == coins.heads[:, None], axis=0)]

    def bounds(
        self, statement: Statement, delta: float, confidence: float
    ) -> tuple[float, float, str]:
        """(lower bound whatever the run is like, lower bound for the declared kind of noise, what
        gave the latter).

        Half of the risk goes to the clearest guesses, half to those of all coins, there shared by
        the attacks.
        """
        risk = (1 - confidence) / (2 if self.independent else 1)
        lower = epsilon_from_guesses(self.right, self.guesses, self.coins, delta, 1 - risk)
        curves: dict[float, Curve] = {}

        def at(loss: float) -> Curve:
            return curves.setdefault(loss, louder(statement, loss))

        found = {
            f"the {self.guesses} clearest guesses": largest(
                lambda k: (
                    k == 0
                    or impossible(curve_inverse(at(k)), self.right, self.guesses, self.coins, risk)
                ),
                STEPS,
            )
        }
        if self.independent:
            best = int(np.argmax(self.all_right))
            each, right = risk / len(self.names), self.all_right[best]
            found[f"guesses of all coins, {self.names[best]}"] = largest(
                lambda k: k == 0 or independent_chance(at(k), right, self.coins) <= each, STEPS
            )
        attack = max(found, key=lambda name: found[name])
        return lower, at(found[attack]).epsilon(delta) if found[attack] > 0 else 0.0, attack


def louder(statement: Statement, loss: float) -> Curve:
    """The worst node's curve if every release lost `loss` times as much as it was charged for."""
    larger = dict.fromkeys(("mu", "epsilon", "inner", "curvature", "gap", "gap_mu"), loss)
    factor = {"noise_multiplier": 1 / loss, **larger}
    listed = []
    for event, count in statement.ledger(statement.worst_node):
        changed = {
            field.name: getattr(event, field.name) * factor[field.name]
            for field in dataclasses.fields(event)
            if field.name in factor
        }
        listed.append((dataclasses.replace(event, **changed), count))
    return judge(listed, statement.adjacency)


def _independent(coins: Coins, method: Algorithm) -> bool:
    """Whether each canary is seen through noise of its own: its node's, or for gradients its node's
    on its axis."""
    if method.needs.smooth_loss:
        channel = coins.owner
    elif method.traits.shared_noise is not None:
        channel = coins.axis
    else:
        channel = coins.owner * (1 + int(coins.axis.max())) + coins.axis
    return len(np.unique(channel)) == coins.count


def _per_node(problem: Problem, canaries: int | None, method: Algorithm) -> int:
    most = int(problem.sizes.min())
    if canaries is None:
        if method.needs.smooth_loss:
            return 1
        axes = (
            problem.n_features // problem.n_nodes
            if method.traits.shared_noise is not None
            else problem.n_features
        )
        return max(1, min(axes, most // 2))
    count = checks.whole("canaries", canaries, least=1)
    if count > most:
        raise InputError(
            f"canaries must be at most the smallest node's {most} records, not {count}."
        )
    return count


def _play(
    spec: RunSpec,
    sizes: Array,
    noise: SimulatedNoise,
    coins: Coins,
    store: Any,
    start: Array,
    progress: str | bool,
    listening: SharedScores | None,
) -> Array:
    topology, found = spec.topology, spec.calibration
    assert found is not None
    nodes = np.arange(topology.n)
    seat, records = take_seat(spec, nodes), Records(store, sizes, nodes, noise)
    door = open_door(seat, records, Ledger(found.reserved), shared_noise(spec, topology, nodes))
    # Neither is a whole gate: masks and maps were refused
    gate: Any = Recorder(door)
    adversary: Any = Eavesdropper(spec.facts, coins, listening)
    both = np.tile(nodes, 2)
    network = connect(spec, Placed(topology, [nodes]))
    real = assemble(seat, ask(seat, records), Exits(gate, network), start)
    copies = connect(spec, Placed(copies_of(topology, 2), [np.arange(len(both))]))
    played = assemble(take_seat(spec, both), adversary, Exits(adversary, copies), start[both])
    with Progress(progress, f"audit {spec.algorithm.name}", spec.rounds) as show:
        for turn in range(1, spec.rounds + 1):
            real.step(turn)
            adversary.hear(gate.releases)
            gate.releases.clear()
            played.step(turn)
            show(turn)
    return np.asarray(adversary.scores)
