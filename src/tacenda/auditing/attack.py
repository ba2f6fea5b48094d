"""`audit`: attack an algorithm on neighbouring data sets, and bound its epsilon from below."""

from __future__ import annotations

import dataclasses
import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.auditing import bounds, stage
from tacenda.auditing.listeners import listeners
from tacenda.auditing.masked_noise import MaskedAttacks, Spread, plan_masked
from tacenda.auditing.portion import run_portion, trials_at_once, truth_of
from tacenda.auditing.result import AuditResult
from tacenda.auditing.shared_noise import Attacks, Moments, declared_chance, plan_attacks
from tacenda.auditing.trials import run_trials
from tacenda.auditing.worlds import Canary, Script, two_worlds
from tacenda.engines import Workers
from tacenda.errors import InputError, PrivacyError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.facts import Facts
from tacenda.problem.problem import Problem
from tacenda.runtime.budget import Calibration
from tacenda.runtime.spec import RunSpec, check_privacy, match, start_rows
from tacenda.terms.method import Method, algorithm_of

SEARCH_ROUNDS, SEARCH_TRIALS = 3, 4
STAGED_MEMBERS = (
    5  # on the default stage where neighbours share noise: of two, one would be the coalition
)
# Trials that measure shared noise and choose among canaries; a fixed number, so that an audit can
# be resumed with more.
SCOUTS = 1000
SCOUT_SEED = 0x5C0075


def audit(
    algorithm: Algorithm | str,
    *,
    privacy: Privacy,
    rounds: int = 10,
    problem: Problem | None = None,
    graph: Any = None,
    records: int = 10,
    dim: int | None = None,
    trials: int = 10_000,
    canary: Any = "worst",
    node: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    jobs: int = 1,
    engine: str = "loky",
    init: Any = None,
    mixing: str = "metropolis",
    solver_tolerance: float = 1e-8,
    progress: str | bool = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> AuditResult:
    """Attack an algorithm: run it many times on two data sets that differ in one record.

    The adversary sees every released value of every node, knows all records but one and all
    settings, and uses the exact likelihood ratio of all that it saw. Where neighbours share noise
    it also listens as each curious member, and supposes faults of that noise (`shared_noise`);
    `result.attacks` lists what was tried. A lower bound above the claim disproves the claim; one
    below it proves nothing.

    Parameters
    ----------
    algorithm : Algorithm or str
        An object of `tacenda.algorithms`, or a name with default settings.
    privacy : Privacy
        The noise under attack, in either mode; `mode="as-published"` attacks the paper's own
        formula.
    rounds : int, default=10
        Rounds of each run.
    problem : Problem or None, default=None
        By default the worst case: `records` rows per node that hide nothing, on two nodes, or
        on a ring of five where neighbours share noise.
    graph : networkx.Graph, Topology or None, default=None
        The network of the problem.
    records : int, default=10
        Records of each node of the default problem.
    dim : int or None, default=None
        Number of features of the default problem.
    trials : int, default=10000
        Runs in total, half of them with each data set; the bound grows with them.
    canary : "worst" or pair of records, default="worst"
        "worst": the tool searches; or a pair ((x0, y0), (x1, y1)) of records in the problem's
        own labels.
    node : int or None, default=None
        Position of the attacked node; by default the one with the least privacy.
    confidence : float, default=0.95
        Probability with which the lower bound holds.
    seed : int or None, default=None
        The same seed gives the same result.
    jobs : int, default=1
        Number of processes; the result does not depend on it.
    engine : str, default="loky"
        Where the trials run: "loky" (processes of this machine), "dask://host:port",
        "ray://host:port" or "ray".
    init : array_like or None, default=None
        As in `simulate`.
    mixing : str, default="metropolis"
        As in `simulate`.
    solver_tolerance : float, default=1e-08
        As in `simulate`.
    progress : {"auto", True, False}, default="auto"
        Whether to show a progress bar; "auto" shows one on a terminal.
    checkpoint : str, Path or None, default=None
        A file that keeps the finished trials.
    resume : bool, default=False
        Continue from the checkpoint.

    Returns
    -------
    AuditResult
        Lower bounds on epsilon, and what they say about the claim.

    Examples
    --------
    >>> import tacenda as tc
    >>> attacked = tc.audit(
    ...     "cdpadmm", privacy=tc.Privacy(1.0), rounds=2, trials=200, seed=0, progress=False
    ... )
    >>> attacked.verdict
    'consistent'
    """
    begin = time.perf_counter()
    trials = checks.whole("trials", trials, least=100) // 4 * 4
    seed = secrets.randbits(63) if seed is None else checks.whole("seed", seed)
    scene = _scene(
        algorithm,
        privacy,
        rounds,
        problem,
        graph,
        records,
        dim,
        node,
        init,
        mixing,
        solver_tolerance,
        seed,
    )
    aim = aimed(scene, _pairs(canary, scene))
    scores = run_trials(aim.script, trials, Workers.of(engine, jobs), progress, checkpoint, resume)
    return _judged(
        scene, aim, scores, truth_of(0, trials), confidence, jobs, time.perf_counter() - begin
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Scene:
    """A checked setting, before a canary is chosen."""

    spec: RunSpec
    problem: Problem
    statement: Statement
    node: int
    start: Array
    init: Any
    seed: int

    @property
    def privacy(self) -> Privacy:
        assert self.spec.privacy is not None
        return self.spec.privacy

    @property
    def calibration(self) -> Calibration:
        assert self.spec.calibration is not None
        return self.spec.calibration

    def script(self, canary: Canary) -> Script:
        return Script(
            self.spec,
            *two_worlds(self.problem, self.node, canary),
            self.node,
            self.start,
            self.seed,
            self.attacks(None),
        )

    def attacks(self, measured: Moments | Spread | None) -> Attacks | MaskedAttacks | None:
        """On noise that neighbours share; `measured` adds the attacks that believe their own
        measurement."""
        ratio = self.spec.algorithm.shared_noise
        if ratio is None:
            return None
        if self.spec.algorithm.masks:
            pooled = self.privacy.pooled(self.spec.algorithm.title)
            return plan_masked(self.spec.topology, pooled, self.node)
        assert not isinstance(measured, Spread)
        heard = listeners(
            self.spec.topology, ratio, self.privacy.pooled(self.spec.algorithm.title), self.node
        )
        return plan_attacks(self.spec.topology, ratio, self.node, heard, self.releases, measured)

    @property
    def releases(self) -> int:
        """Of each node in a run."""
        return sum(count for _, count in self.calibration.reserved)


def _scene(
    algorithm: Algorithm | str,
    privacy: Privacy,
    rounds: int,
    problem: Problem | None,
    graph: Any,
    records: int,
    dim: int | None,
    node: int | None,
    init: Any,
    mixing: str,
    solver_tolerance: float,
    seed: int,
) -> _Scene:
    method = algorithm_of(algorithm)
    if privacy is None:
        raise InputError(
            "privacy must be a tacenda.Privacy, not None: "
            "a run without noise has no claim to attack."
        )
    check_privacy(privacy, method)
    stage.refuse_maps(method)
    rounds = checks.whole("rounds", rounds, least=1)
    if graph is None:
        from tacenda.graph import path, ring, star

        if problem is None and method.shared_noise is not None:
            graph = ring(STAGED_MEMBERS)
        else:
            graph = path(2) if problem is None or problem.n_nodes == 2 else star(problem.n_nodes)
    if problem is None:
        n = Topology.of(graph).n
        problem = stage.default_problem(
            method, n, checks.whole("records", records, least=1), privacy.adjacency, dim
        )
        init = stage.default_start(problem, method, rounds) if init is None else init
    topology = match(problem, graph)
    facts = Facts.of(
        problem, privacy.adjacency, checks.positive("solver_tolerance", solver_tolerance)
    )
    how = Method.of(method, rounds=rounds, mixing=mixing)
    spec = RunSpec(how, topology, facts, privacy).checked()
    assert spec.calibration is not None
    statement = spec.statement(spec.calibration.reserved, SimulatedNoise.kind)
    assert statement is not None
    attacked = statement.worst_node if node is None else checks.whole("node", node)
    if attacked >= topology.n:
        raise InputError(f"node must be a position from 0 to {topology.n - 1}, not {node!r}.")
    start = start_rows(init, problem.dim, topology.n)
    return _Scene(spec, problem, statement, attacked, start, init, seed)


def _pairs(given: Any, scene: _Scene) -> list[Canary]:
    """The canaries worth attacking with: the one that the declared noise hides least, then what
    else faults may show."""
    if not isinstance(given, str):
        return [_given(given, scene)]
    checks.one_of("canary", given, ("worst",))
    start = scene.start[scene.node] if np.any(scene.start) else None
    start = start if scene.problem.n_outputs == 1 else None
    pairs = stage.candidates(scene.problem, start, scene.privacy.adjacency, scene.seed)
    few = min(scene.spec.rounds, SEARCH_ROUNDS)
    found = [
        float(run_portion(scene.script(pair), 0, SEARCH_TRIALS, few).separation.mean())
        for pair in pairs
    ]
    # Of equal ones the first
    best = pairs[int(np.argmax(np.asarray(found) * (1 - 1e-6 * np.arange(len(found)))))]
    changing = [pair for pair in pairs if stage.CHANGING in pair.name and pair is not best]
    return [best, *changing[:1]]


@dataclasses.dataclass(frozen=True, eq=False)
class Aim:
    """What the trials will play: canary, script, the attacks' names, and the chance of what was
    measured of shared noise."""

    canary: Canary
    script: Script
    names: tuple[str, ...]
    chance: float | None = None


def aimed(scene: _Scene, pairs: list[Canary]) -> Aim:
    """Choose the canary and prepare the attacks, from trials that are used for nothing else and so
    cost no confidence."""
    script = scene.script(pairs[0])
    if script.attacks is None:
        return Aim(pairs[0], script, ("likelihood ratio",))
    ratio = scene.spec.algorithm.shared_noise
    assert ratio is not None
    scouts = dataclasses.replace(script, seed=scene.seed + SCOUT_SEED)
    moments = _joined(
        [run_portion(scouts, first, count).moments for first, count in _portions(scouts)]
    )
    chance = (
        moments.chance()
        if isinstance(moments, Spread)
        else declared_chance(
            moments, scene.spec.topology, ratio, script.attacks.edges, scene.releases
        )
    )
    attacks = scene.attacks(moments)
    assert attacks is not None
    scripts = [dataclasses.replace(scene.script(pair), attacks=attacks) for pair in pairs]
    best = 0
    if len(pairs) > 1:
        seen = [
            _strength(dataclasses.replace(one, seed=scene.seed + 2 * SCOUT_SEED)) for one in scripts
        ]
        best = int(
            np.argmax(
                np.asarray(seen) * np.where(np.arange(len(seen)) > 0, 1 / bounds.CLEARLY, 1.0)
            )
        )
    return Aim(pairs[best], scripts[best], tuple(attacks.titles), chance)


def _portions(script: Script) -> list[tuple[int, int]]:
    size = trials_at_once(script)
    return [(first, min(size, SCOUTS - first)) for first in range(0, SCOUTS, size)]


def _strength(script: Script) -> float:
    """How far the best attack tells the worlds apart, in standard deviations."""
    scores = np.concatenate(
        [run_portion(script, first, count).scores for first, count in _portions(script)]
    )
    return float(bounds.separations(scores, truth_of(0, len(scores))).max())


def _joined(parts: list[Moments | Spread | None]) -> Moments | Spread:
    found = [one for one in parts if one is not None]
    kind = type(found[0])
    return kind(*(sum(getattr(one, f.name) for one in found) for f in dataclasses.fields(kind)))


def _given(pair: Any, scene: _Scene) -> Canary:
    try:
        (x0, y0), (x1, y1) = pair
        first, second = np.asarray(x0, float), np.asarray(x1, float)
    except (TypeError, ValueError):
        raise InputError(
            f"canary must be 'worst' or a pair ((x0, y0), (x1, y1)) of records, not {pair!r}."
        ) from None
    if scene.privacy.adjacency == "add-remove" and np.any(first):
        raise InputError(
            "canary's first record must be all zeros under add-remove, "
            "where it represents a record that is not there."
        )
    return Canary(first, _encoded(scene.problem, y0), second, _encoded(scene.problem, y1))


def _encoded(problem: Problem, label: Any) -> float:
    """A label as the losses see it."""
    if problem.loss.kind == "regression":
        return float(label)
    classes = list(problem.classes or ())
    if label not in classes:
        raise InputError(
            f"canary's label must be one of the problem's classes {classes}, not {label!r}."
        )
    k = classes.index(label)
    return float(k) if problem.loss.kind == "multiclass" else 2.0 * k - 1.0


def _judged(
    scene: _Scene,
    aim: Aim,
    scores: Array,
    truth: Array,
    confidence: float,
    jobs: int,
    seconds: float,
) -> AuditResult:
    if not np.isfinite(scores).all():
        raise PrivacyError(
            "The attack's scores are not finite: the run diverged. "
            "Use a smaller step or more noise."
        )
    curve = scene.statement.curve(scene.node)
    claimed = scene.calibration.claimed or (curve.epsilon(scene.privacy.delta), scene.privacy.delta)
    delta = claimed[1]
    sound = scene.privacy.mode == "sound"
    # Two claims are tested where mu is claimed too, so each test then gets half of the risk. Which
    # attack is used costs nothing: it is chosen on the half of the trials that chooses the
    # threshold, and the bound comes from the other half.
    tests = 2 if curve.mu is not None and sound else 1
    sure = 1 - (1 - checks.between("confidence", confidence, 0.5, 1.0)) / tests
    best, strengths = bounds.choose_attack(scores, truth)
    chosen = np.ascontiguousarray(scores[:, best])
    return AuditResult(
        algorithm=scene.spec.algorithm.to_plain(),
        mode=scene.privacy.mode,
        adjacency=scene.privacy.adjacency,
        rounds=scene.spec.rounds,
        trials=len(scores),
        confidence=confidence,
        delta=delta,
        claimed=(float(claimed[0]), float(delta)),
        true_epsilon=curve.epsilon(delta),
        epsilon=bounds.epsilon_bound(chosen, truth, delta, sure),
        mu=None if curve.mu is None else bounds.mu_bound(chosen, truth, sure),
        mu_fit=None if curve.mu is None else bounds.gaussian_fit(chosen, truth, confidence),
        mu_claimed=curve.mu if sound else None,
        canary=aim.canary.to_plain(),
        node=scene.node,
        seed=scene.seed,
        jobs=jobs,
        seconds=seconds,
        attacks=tuple(zip(aim.names, strengths.tolist(), strict=True)),
        attack=aim.names[best],
        declared_chance=aim.chance,
        why=scene.calibration.why,
        scores=chosen,
        truth=truth,
    )
