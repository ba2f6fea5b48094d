"""`simulate`: a whole network of private nodes, in this process or over several ranks."""

from __future__ import annotations

import time
import warnings as python_warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.content import content_hash, program
from tacenda.data.partition import broken_promise
from tacenda.errors import DeclarationWarning, InputError, WeakPrivacyWarning
from tacenda.graph.varying import Varying
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.rows import reused_memory
from tacenda.runtime import checkpoint as checkpoints
from tacenda.runtime.held import Held
from tacenda.runtime.history import History
from tacenda.runtime.lasting_run import LastingRun
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.loop import Checkpointer, Observer, drive
from tacenda.runtime.metrics import Snapshot, check_metrics, measure
from tacenda.runtime.progress import Progress
from tacenda.runtime.ranks import ALONE, Ranks
from tacenda.runtime.result import RunResult, with_strength
from tacenda.runtime.spec import RunSpec, start_rows
from tacenda.runtime.unseen import Unseen
from tacenda.terms.closing import closing_rounds
from tacenda.terms.method import Method


class GraphWarning(UserWarning):
    """The graph can be cut by a coalition, which costs noise that another graph would not."""


class ConvergenceWarning(UserWarning):
    """The settings do not meet a sufficient condition for convergence."""


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
    output: str | None = None,
    finish_mixing: int | str | None = None,
    blocks: Any = 1,
    record_every: int = 1,
    metrics: Sequence[str] = ("objective", "consensus"),
    reference: Any = None,
    test: tuple[Any, Any] | None = None,
    callback: Callable[[int, Array], Any] | None = None,
    progress: str | bool = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    mixing: str | Varying | None = None,
    solver_tolerance: float = 1e-8,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    transport: Ranks | None = None,
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
    prepare : Whitening, str or None, default=None
        What happens to the records first, under the same budget: None, "whitening" or a
        `tacenda.Whitening`.
    init : array_like or None, default=None
        A public starting model (d,), or one row per node; zeros by default.
    output : {"average", "last"} or None, default=None
        Which model a node returns; by default the algorithm's own rule.
    finish_mixing : int, "exact" or None, default=None
        Closing rounds that only mix what was released: they cost no privacy and bring all nodes
        near the average model. "exact" makes one exact average over a spanning tree, which is
        cheaper and the same at every node.
    blocks : int or list of list of int, default=1
        Into how many blocks (or which lists of positions) the nodes are placed; the result does
        not depend on it.
    record_every : int, default=1
        A history row every so many rounds, and after the last; 0 for none.
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
    mixing : str, RandomEdges, PeriodicEdges or None, default=None
        Weights of dual averaging, gossip and the closing rounds: "metropolis" (the default),
        "uniform" or "max-degree"; or edges that vary from round to round
        (`tacenda.graph.RandomEdges`, `PeriodicEdges`), where closing rounds use all edges.
    solver_tolerance : float, default=1e-08
        Gradient norm at which an exact local minimiser stops; its remaining gap is charged.
    ledger : str, Path or None, default=None
        File of a lasting ledger. The run's releases are charged to the account of its records
        there, and a run that would exceed that account's budget is refused before any noise is
        drawn; so is privacy=None where there is a budget. The noise then depends on all
        settings besides the seed, since two runs with one noise would not compose.
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
    held, topology = Held.of(problem, graph, blocks, ranks)
    held.check_same()
    facts = held.facts(relation, checks.positive("solver_tolerance", solver_tolerance))
    fixed = {"rounds": rounds, "output": output, "finish_mixing": finish_mixing, "mixing": mixing}
    spec = RunSpec(
        Method.of(algorithm, prepare, **fixed), topology, facts, privacy, problem.dtype
    ).checked()
    names = check_metrics(metrics, problem, reference, test)
    unseen = Unseen.of(test, problem, ranks)
    every = checks.whole("record_every", record_every)
    bar = Progress(progress if ranks.root else False, spec.algorithm.name, spec.rounds)
    run = _Simulation(spec, held, seed, given, init, ledger, dataset)
    optimum = ranks.agreed(lambda: held.reference(reference), "finding the reference")
    lowest = held.objective(optimum) if optimum is not None and "suboptimality" in names else None
    file = None
    if checkpoint is not None:
        identity = run.identity
        file, found = ranks.by_root(
            lambda: _stored(checkpoints.prepare(checkpoint, resume), identity),
            "reading the checkpoint",
        )
        if found is not None:
            run.restore(found)

    before = held.reads()

    def measured(models: Array) -> dict[str, Any]:
        begin = time.perf_counter()
        passes = (held.reads() - before) / max(1, int(held.sizes.sum()))
        found = measure(
            names,
            Snapshot(held, spec.topology, models, optimum, unseen, lowest, passes),
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


class _Simulation:
    """One simulation: its spec on hosts of this process, and what has happened so far."""

    def __init__(
        self,
        spec: RunSpec,
        held: Held,
        seed: int | None,
        given_seed: int | None,
        init: Any,
        ledger: str | Path | None,
        dataset: str | None,
    ) -> None:
        self.spec, self.held, self._given_seed = spec, held, given_seed
        ranks = held.ranks
        problem = self.problem = held.problem if held.whole is None else held.whole
        weak = [] if spec.privacy is None else spec.privacy.advice(float(spec.facts.sizes.sum()))
        self.warnings = [*spec.advice(), *spec.cut_advice(), *weak]
        for kind, sentences in (
            (ConvergenceWarning, spec.advice()),
            (GraphWarning, spec.cut_advice()),
            (WeakPrivacyWarning, weak),
        ):
            for sentence in sentences if ranks.root else ():
                python_warnings.warn(sentence, kind, stacklevel=3)
        if spec.privacy is not None:
            _check_spread(problem, held.n, spec.privacy.adjacency, quiet=not ranks.root)
            missing = problem.declaration_missing()
            if missing is not None and ranks.root:
                python_warnings.warn(missing, DeclarationWarning, stacklevel=3)
        known = None if seed is None else checks.whole("seed", seed)
        drawn = ranks.by_root(lambda: SimulatedNoise(known).seed, "drawing the seed")
        self.noise = SimulatedNoise(drawn)
        self.start = start_rows(init, problem.dim, spec.topology.n)
        self.history, self.done, self.seconds, self.measuring = History(), 0, 0.0, 0.0
        self.messages = self.bytes = 0
        self.lasting = None
        self.charged, found = ledger is not None, spec.calibration
        if ranks.size > 1:
            scale = None if found is None else content_hash(found.plan.scale)
            ranks.check_same(
                {**self.spec.identity(), "init": content_hash(self.start), "the noise": scale},
                "run the same script with the same settings on all ranks, on machines of one kind",
            )
        if ledger is not None:
            reserved, name = None if found is None else found.reserved, spec.algorithm.name
            self.lasting = LastingRun(
                ledger,
                dataset,
                held,
                name,
                self.identity,
                reserved,
                spec.facts.adjacency,
                None if spec.privacy is None else spec.privacy.delta,
            )
        if self.lasting is not None and found is not None:
            # Runs add up in a ledger only if they share no noise
            self.noise = self.noise.named(self.lasting.run)
        elif isinstance(spec.algorithm, StatisticRelease):
            # Nor may two questions, whose difference would have none
            self.noise = self.noise.named(self.question)
        witness = None if self.lasting is None or found is None else self.lasting.charge
        self.hosts = LocalHosts(spec, held, self.noise, self.start, witness)

    def drive(self, observers: Sequence[Observer]) -> None:
        """All rounds that are left."""

        def ends(done: int, asked: bool) -> bool:
            return self.hosts.converged

        if not self.hosts.converged:
            rounds, agree = self.spec.rounds, self.hosts.agree
            self.done = drive(self._step, self.done, rounds, [*observers, ends], agree)

    def _step(self, turn: int) -> None:
        begin = time.perf_counter()
        self.hosts.step(turn)
        self.done = turn
        self.seconds += time.perf_counter() - begin

    def cost(self) -> dict[str, Any]:
        messages, size = self.hosts.traffic()
        return {
            "seconds": self.seconds,
            "messages": self.messages + messages,
            "bytes": self.bytes + size,
        }

    def result(self, measured: Callable[[Array], dict[str, Any]] | None) -> RunResult:
        if self.lasting is not None:
            self.lasting.close()
        begin, p, finish = time.perf_counter(), self.problem, self.spec.method.finish_mixing
        closing = closing_rounds(finish)
        models, last = self.hosts.finished(self.hosts.outputs(), finish), self.hosts.last()
        self.seconds += time.perf_counter() - begin
        if closing and measured is not None:
            self.history.add({"round": self.done + closing, **measured(models), **self.cost()})
        shape = (-1, p.dim) if p.n_outputs == 1 else (-1, p.n_outputs, p.n_features)
        cost = self.cost()
        statement = self.spec.statement(self.hosts.charges(), self.noise.kind, start=self.start)
        released = self.hosts.released()
        return RunResult(
            models.reshape(shape),
            last.reshape(shape),
            self.history,
            statement,
            with_strength({**self.settings(), "rounds": self.done}, released),
            self.warnings,
            cost["seconds"],
            cost["messages"],
            cost["bytes"],
            released,
            None if statement is None else self.hosts.noise_std(self.spec.rounds),
            self.measuring,
        )

    def settings(self) -> dict[str, Any]:
        """Plain values that describe the run, for files and reports."""
        import tacenda

        p, plain = self.problem, self.spec.to_plain()
        own: dict[str, Any] = {
            "data_norm": p.data_norm,
            "classes": None if p.classes is None else [str(c) for c in p.classes],
        }
        # Where counts are public; else what was declared stands for them
        if self.spec.facts.adjacency == "replace-one":
            own["sizes"] = self.held.sizes.astype(np.int64)
        return {
            **plain,
            # one that was drawn afresh is nobody's business: who knows it can take the noise off
            "seed": self._given_seed,
            "charged": self.charged,
            "problem": {**plain["problem"], **own, "dtype": str(p.dtype)},
            "versions": {"tacenda": tacenda.__version__, "numpy": np.__version__},
        }

    @property
    def question(self) -> str:
        """All that a single released statistic depends on: what is asked, of which records, at
        which model, under which terms. Other than `identity` it is the same in every version."""
        assert isinstance(self.spec.algorithm, StatisticRelease)
        asked = self.spec.algorithm.statistic.digest().hex()
        terms = content_hash(self.spec.to_plain(), "question")
        return f"question-{asked}-{terms}-{content_hash(self.start)}-{self.held.digest()}"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """By its content, all that the releases depend on: what must be equal for a checkpoint, or
        a charge, to belong to this run."""
        p = self.problem
        own = {
            "records": (p.classes, str(p.dtype), p.data_norm),
            # The start too: the same noise on a run from elsewhere would be a second release, not
            # the same one again.
            "init": self.start,
            "placement": (self.held.offsets, self.held.divisors),
            "ledger": self.charged,
        }
        known = {
            **self.spec.identity(),
            **{name: content_hash(value, name) for name, value in own.items()},
        }
        data = self.held.digest()
        return {**known, "seed": self.noise.seed, "data": data, "program": program()}

    def saved(self) -> checkpoints.Saved:
        """Everything needed to go on from the last complete round."""
        arrays = self.hosts.save()
        rows = checkpoints.plain_charges(self.hosts.charges(), arrays, "charge")
        about = {
            "identity": self.identity,
            "round": self.done,
            "charges": rows,
            "history": self.history.rows,
            **self.cost(),
        }
        return checkpoints.Saved(arrays, about)

    def restore(self, saved: checkpoints.Saved) -> None:
        about = saved.about
        charges = checkpoints.charges_from(about["charges"], saved.arrays, "charge")
        planned = None if self.spec.calibration is None else self.spec.calibration.reserved
        checkpoints.check_charges(charges, planned, self.spec.rounds, about["round"])
        self.hosts.restore(
            {k: v for k, v in saved.arrays.items() if not k.startswith("charge.")}, charges
        )
        if self.lasting is not None:
            self.lasting.skip(len(charges))
        self.done, self.history = about["round"], History(about["history"])
        self.seconds = about["seconds"]
        self.messages = about["messages"]
        self.bytes = about["bytes"]


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
        python_warnings.warn(words, DeclarationWarning, stacklevel=4)
