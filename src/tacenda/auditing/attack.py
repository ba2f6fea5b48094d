"""`audit`: attack an algorithm on neighbouring data sets, and bound its epsilon from below."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.auditing import bounds, stage
from tacenda.auditing.aim import Aim, Scene, choose_canaries, take_aim
from tacenda.auditing.portion import truth_of
from tacenda.auditing.result import AuditResult
from tacenda.auditing.trials import run_trials
from tacenda.engines import Workers
from tacenda.errors import InputError, PrivacyError
from tacenda.graph import path, ring, star
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.runtime.spec import RunSpec, check_privacy, start_rows
from tacenda.terms.method import Method, algorithm_of
from tacenda.terms.setting import Auto

# On the default stage where neighbours share noise: of two, one would be the coalition. A sum of
# many hides one member well, so that masks which do not hide show
STAGED_MEMBERS, STAGED_MASKED = 5, 12


def audit(
    algorithm: Algorithm | str,
    *,
    privacy: Privacy,
    rounds: int = 10,
    problem: Problem | None = None,
    graph: Any = None,
    records: int = 10,
    dim: int | None = None,
    records_per_person: int = 1,
    trials: int = 10_000,
    canary: Any = "worst",
    node: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    jobs: int = 1,
    engine: str = "loky",
    init: Any = None,
    mixing: str = "metropolis",
    groups: int | Auto = 1,
    solver_tolerance: float = 1e-8,
    keyed: bool = False,
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
        on a ring of five where neighbours share noise, of twelve where they mask.
    graph : networkx.Graph, Topology or None, default=None
        The network of the problem.
    records : int, default=10
        Records of each node of the default problem.
    dim : int or None, default=None
        Number of features of the default problem.
    records_per_person : int, default=1
        Of each person of the default problem, who then is what the worlds differ by; your own
        problem says it itself.
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
    groups : int or "auto", default=1
        As in `simulate`; whoever listens then hears each group's sum.
    solver_tolerance : float, default=1e-08
        As in `simulate`.
    keyed : bool, default=False
        Whether noise is drawn as real nodes draw it: whole numbers and masks, from keyed streams
        named by what is asked. Slower by far; for masks, and full gradients or moments with
        Gaussian noise.
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
        groups,
        solver_tolerance,
        seed,
        bool(keyed),
        checks.whole("records_per_person", records_per_person, least=1),
    )
    aim = take_aim(scene, choose_canaries(canary, scene))
    scores = run_trials(aim.script, trials, Workers.of(engine, jobs), progress, checkpoint, resume)
    return _judged(
        scene, aim, scores, truth_of(0, trials), confidence, jobs, time.perf_counter() - begin
    )


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
    groups: int | Auto,
    solver_tolerance: float,
    seed: int,
    keyed: bool = False,
    most: int = 1,
) -> Scene:
    method = algorithm_of(algorithm)
    if privacy is None:
        raise InputError(
            "privacy must be a tacenda.Privacy, not None: "
            "a run without noise has no claim to attack."
        )
    check_privacy(privacy, method)
    stage.refuse_mapped_objectives(method)
    rounds = checks.whole("rounds", rounds, least=1)
    if graph is None:
        if problem is None and method.traits.shared_noise is not None:
            graph = ring(STAGED_MASKED if method.traits.masks else STAGED_MEMBERS)
        else:
            graph = path(2) if problem is None or problem.n_nodes == 2 else star(problem.n_nodes)
    if problem is None:
        n = Topology.of(graph).n
        problem = stage.default_problem(
            method, n, checks.whole("records", records, least=1), privacy.adjacency, dim, most
        )
        init = stage.default_start(problem, method, rounds) if init is None else init
    how = Method.of(method, rounds=rounds, mixing=mixing, groups=groups)
    spec = RunSpec.of_problem(how, problem, graph, privacy, solver_tolerance)
    topology = spec.topology
    assert spec.calibration is not None
    statement = spec.statement(spec.calibration.reserved, SimulatedNoise.kind)
    assert statement is not None
    attacked = statement.worst_node if node is None else checks.whole("node", node)
    if attacked >= topology.n:
        raise InputError(f"node must be a position from 0 to {topology.n - 1}, not {node!r}.")
    start = start_rows(init, problem.dim, topology.n)
    return Scene(spec, problem, statement, attacked, start, init, seed, keyed)


def _judged(
    scene: Scene,
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
