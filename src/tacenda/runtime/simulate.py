"""`simulate`: a whole network of private nodes, in this process or over several ranks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.data.partition import broken_promise
from tacenda.errors import ConvergenceWarning, DeclarationWarning, InputError, WeakPrivacyWarning
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.rows import reused_memory
from tacenda.runtime import checkpoint as checkpoints
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.loop import Checkpointer
from tacenda.runtime.metrics import Snapshot, check_metrics, measure
from tacenda.runtime.progress import Progress
from tacenda.runtime.ranks import ALONE, Ranks
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulation import Simulation, Told
from tacenda.runtime.spec import RunSpec, start_rows
from tacenda.terms.method import Method, MethodOptions
from tacenda.terms.reference import takes


class GraphWarning(UserWarning):
    """The graph can be cut by a coalition, which costs noise that another graph would not."""


@takes(Method, default=None)
def simulate(
    problem: Problem,
    graph: Any,
    algorithm: Method | Algorithm | str,
    rounds: int | None = None,
    privacy: Privacy | None = None,
    seed: int | None = None,
    *,
    prepare: Any = None,
    init: Any = None,
    blocks: Any = 1,
    record_every: int = 1,
    metrics: Sequence[str] = ("objective", "consensus"),
    reference: Any = None,
    test: tuple[Any, Any] | None = None,
    callback: Callable[[int, Array], Any] | None = None,
    progress: str | bool = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    solver_tolerance: float = 1e-8,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    transport: Ranks | None = None,
    **settings: Unpack[MethodOptions],
) -> RunResult:
    """Simulate an algorithm over a network of nodes.

    A simulation is for research: its noise is seeded and its metrics read private data without
    noise. Real members run `tacenda node`, with the same algorithm files.

    Parameters
    ----------
    problem : Problem
        The records of every node, loss and regulariser.
    graph : networkx.Graph or Topology
        One node for each shard of the problem.
    algorithm : Method, Algorithm or str
        A `tacenda.Method`, as a plan has it; an object of `tacenda.algorithms`; or a name with
        default hyperparameters.
    rounds : int or None, default=None
        Number of rounds, at least 1; a method has its own.
    privacy : Privacy or None, default=None
        The budget, or the noise; None runs without noise.
    seed : int or None, default=None
        The same seed gives the same run. Two runs of `StatisticRelease` share no noise unless they
        ask the same of the same records at the same model.
    {settings}
    prepare : Whitening, str or None, default=None
        What happens to the records first, under the same budget: None, "whitening" or a
        `tacenda.Whitening`.
    init : array_like or None, default=None
        A public starting model (d,), or one row per node; zeros by default.
    blocks : int or list of list of int, default=1
        Into how many blocks (or which lists of positions) the nodes are placed; the result does
        not depend on it.
    record_every : int, default=1
        Rounds between two rows of the history; the last round has one. 0 for none.
    metrics : sequence of str, default=('objective', 'consensus')
        See `tacenda.runtime.metrics`; they read private data, as only a simulation may
        (coarsely under add-remove, where exact ones tell how many records there are).
    reference : array_like, "optimum" or None, default=None
        The optimum for the metrics "suboptimality" and "distance": a model, or "optimum" to
        have it solved for.
    test : (X, y) or None, default=None
        Records for the metrics "test_loss" and "test_accuracy"; over MPI the same on all ranks, or
        on each its own part of them.
    callback : callable or None, default=None
        Called as callback(round, models (n, d)) at every recorded round; if it returns a true
        value, the run stops.
    progress : {"auto", True, False}, default="auto"
        Whether to show a progress bar; "auto" shows one on a terminal.
    checkpoint : str, Path or None, default=None
        A file that is kept up to date between rounds, also on Ctrl-C.
    resume : bool, default=False
        Continue from the checkpoint, bit for bit.
    solver_tolerance : float, default=1e-08
        Gradient norm at which an exact local minimiser stops; its remaining gap is charged.
    ledger : str, Path or None, default=None
        File of a lasting ledger. The run's releases are charged to the account of its records
        there, and a run that would exceed that account's budget is refused before any noise is
        drawn; so is privacy=None where there is a budget. The noise then depends on all
        settings too, since two runs with the same noise would not compose.
    dataset : str or None, default=None
        Name of the account. Given once, it is remembered with the records: later runs on them,
        in any order and split, are charged there by themselves (see
        docs/decisions/0014-accounts.md for what is not recognised).
    transport : MPI or None, default=None
        `tacenda.MPI()` in a script that several processes run: each hosts a part of the nodes,
        all get the same result, bit for bit that of one process, and rank 0 writes the files.
        The problem may then hold the records of this rank's nodes only. None: this process
        hosts all.

    Returns
    -------
    RunResult
        Models, history, what was really guaranteed, and the cost.

    Raises
    ------
    InputError
        If a value is out of range, or the graph does not fit the problem.
    UnsupportedError
        If loss, regulariser, algorithm and graph do not go together.
    BudgetError
        If the account of the records has too little budget left.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, loss="logistic", strength=1e-3, classes=(0, 1))
    >>> result = tc.simulate(
    ...     problem, tc.graph.ring(4), "cdpadmm", rounds=5, privacy=tc.Privacy(2.0), seed=0
    ... )
    >>> result.models.shape
    (4, 3)
    >>> round(result.privacy.epsilon, 3)
    2.0
    """
    if not isinstance(transport, Ranks | None):
        raise InputError(f"transport must be tacenda.MPI() or None, not {transport!r}.")
    ranks = ALONE if transport is None else transport
    given = seed
    if seed is None and checkpoint is not None and resume:
        # The broken run's own, which it drew by itself
        seed = ranks.by_root(
            lambda: checkpoints.seed_of(Path(checkpoint)), "reading the checkpoint"
        )
    relation = privacy.adjacency if isinstance(privacy, Privacy) else "replace-one"
    shards, topology = LocalShards.of(problem, graph, blocks, ranks)
    shards.check_same()
    facts = shards.facts(relation, checks.positive("solver_tolerance", solver_tolerance))
    method = Method.of(algorithm, prepare, rounds=rounds, **settings)
    spec = RunSpec.of(method, topology, facts, privacy, row_type=problem.dtype)
    names = check_metrics(metrics, problem, reference, test)
    test_records = HeldOutRecords.of(test, problem, ranks)
    every = checks.whole("record_every", record_every)
    bar = Progress(progress if ranks.root else False, spec.algorithm.name, spec.rounds)
    told = Told(_announce(spec, shards), given)
    start = start_rows(init, problem.dim, topology.n)
    run = Simulation(spec, shards, _drawn_noise(seed, ranks), start, told)
    run.open(ledger, dataset)
    optimum = ranks.agreed(lambda: shards.reference(reference), "finding the reference")
    lowest = shards.objective(optimum) if optimum is not None and "suboptimality" in names else None
    file = None
    if checkpoint is not None:
        identity = run.identity
        file, found = ranks.by_root(
            lambda: _stored(checkpoints.prepare(checkpoint, resume), identity),
            "reading the checkpoint",
        )
        if found is not None:
            run.restore(found)

    before = shards.reads()

    def measured(models: Array) -> dict[str, Any]:
        begin = time.perf_counter()
        passes = (shards.reads() - before) / max(1, int(shards.sizes.sum()))
        found = measure(
            names,
            Snapshot(shards, spec.topology, models, optimum, test_records, lowest, passes),
            spec.facts.adjacency,
        )
        run.measuring += time.perf_counter() - begin
        return found

    def record(done: int, asked: bool) -> bool:
        last = done == spec.rounds or run.hosts.converged
        if not every or (done % every and not last):
            return False
        models = run.hosts.outputs()
        run.history.add({"round": done, **measured(models), **run.cost()})
        if callback is None:
            return False
        return ranks.by_root(lambda: bool(callback(done, models)), "in the callback")

    saver = None if file is None else Checkpointer(file, run.saved, ranks)
    with reused_memory():
        with bar as show:
            run.drive([record, *([] if saver is None else [saver]), lambda done, asked: show(done)])
        if saver is not None:
            saver.write()
        return run.result(measured if every and names else None)


def _announce(spec: RunSpec, shards: LocalShards) -> list[str]:
    """Warn of settings that may not converge or protect little; refuse a split of the records that
    breaks the promise. The warnings' sentences are returned."""
    problem, root = shards.given, shards.ranks.root
    weak = [] if spec.privacy is None else spec.privacy.advice(float(spec.facts.sizes.sum()))
    for kind, sentences in (
        (ConvergenceWarning, spec.advice()),
        (GraphWarning, spec.cut_advice()),
        (WeakPrivacyWarning, weak),
    ):
        for sentence in sentences if root else ():
            warnings.warn(sentence, kind, stacklevel=3)
    if spec.privacy is not None:
        _check_spread(problem, shards.n, spec.privacy.adjacency, quiet=not root)
        missing = problem.declaration_missing()
        if missing is not None and root:
            warnings.warn(missing, DeclarationWarning, stacklevel=3)
    return [*spec.advice(), *spec.cut_advice(), *weak]


def _drawn_noise(seed: int | None, ranks: Ranks) -> SimulatedNoise:
    """The run's noise, by the same seed on all ranks."""
    known = None if seed is None else checks.whole("seed", seed)
    return SimulatedNoise(ranks.by_root(lambda: SimulatedNoise(known).seed, "drawing the seed"))


def _stored(path: Path, identity: dict[str, Any]) -> tuple[Path, checkpoints.Saved | None]:
    """The file of the checkpoint, and what it holds already."""
    return path, checkpoints.read(path, identity) if path.exists() else None


def _check_spread(problem: Problem, n: int, adjacency: str, *, quiet: bool) -> None:
    """Refuse, or warn of, a split of the records that the promise does not survive."""
    why = broken_promise(problem.partition, adjacency, n)
    if why is None:
        return
    if adjacency == "add-remove":
        raise InputError(
            f"problem must not be spread like this under adjacency 'add-remove': {why}, "
            "and the promise would not hold. Give each node's own records as its shard "
            "(by_column, or a list), or use 'replace-one'."
        )
    words = (
        f"{why}: the promise is for the records as they are on the nodes, "
        "not for the table that was divided."
    )
    if not quiet:
        warnings.warn(words, DeclarationWarning, stacklevel=4)
