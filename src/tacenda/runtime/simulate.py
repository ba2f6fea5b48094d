"""`simulate`: a whole network of private nodes in this process."""

from __future__ import annotations

import dataclasses
import time
import warnings as python_warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda import checks
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.published import published_form
from tacenda.algorithms.registry import by_name, private_names
from tacenda.content import content_hash, program
from tacenda.data.partition import broken_promise
from tacenda.errors import DeclarationWarning, InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise import SimulatedNoise
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.facts import Facts
from tacenda.runtime import checkpoint as checkpoints
from tacenda.runtime.budget import calibrate
from tacenda.runtime.crew import Crew, rows_dtype
from tacenda.runtime.history import History
from tacenda.runtime.interrupt import BetweenRounds
from tacenda.runtime.lasting import LastingRun, data_digest
from tacenda.runtime.metrics import Snapshot, check_metrics, measure
from tacenda.runtime.network import placement
from tacenda.runtime.progress import Progress
from tacenda.runtime.result import RunResult

Array = NDArray[Any]
SAVE_SECONDS = 5.0


class ConvergenceWarning(UserWarning):
    """The settings do not meet a sufficient condition for convergence."""


def simulate(
    problem: Any,
    graph: Any,
    algorithm: Algorithm | str,
    rounds: int,
    privacy: Privacy | None = None,
    seed: int | None = None,
    *,
    init: Any = None,
    output: str | None = None,
    finish_mixing: int = 0,
    blocks: Any = 1,
    record_every: int = 1,
    metrics: Sequence[str] = ("objective", "consensus"),
    reference: Any = None,
    test: tuple[Any, Any] | None = None,
    callback: Callable[[int, Array], Any] | None = None,
    progress: str | bool = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    mixing: str = "metropolis",
    solver_tolerance: float = 1e-8,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> RunResult:
    """Run `algorithm` on `problem` over `graph` for a number of rounds; privacy=None runs without noise.

    init            a public starting model (d,) or one row per node; zeros by default
    output          "average" or "last"; by default the algorithm's own rule
    finish_mixing   closing rounds that only mix what was released: free of privacy, they bring all nodes near the average model
    blocks          into how many blocks (or which lists of positions) the nodes are placed; the result does not depend on it
    record_every    a history row every so many rounds, and after the last; 0 for none
    metrics         see `tacenda.runtime.metrics`; they read private data, as only a simulation may (coarsely under add-remove, where
                    exact ones tell how many records there are)
    reference       the optimum for "suboptimality" and "distance": a model, or "optimum" to have it solved for
    test            (X, y) for "test_loss" and "test_accuracy"
    callback        called as callback(round, models (n, d)) at every recorded round; a true answer stops the run
    checkpoint      a file that is kept up to date between rounds, also on Ctrl-C; resume=True goes on from it, bit for bit
    mixing          weights of dual averaging and of the closing rounds: "metropolis", "uniform" or "max-degree"
    solver_tolerance  gradient norm at which an exact local minimiser stops; its remaining gap is charged
    ledger          a lasting ledger's file: the run's releases are charged to the account of its records there, and a run that would
                    exceed that account's budget is refused before any noise is drawn; so is privacy=None where there is a budget.
                    The noise then depends on all settings besides the seed, since two runs with one noise would not compose
    dataset         the account's name. Given once, it is remembered with the records: later runs on them, in any order and split,
                    are booked there by themselves (see docs/decisions/0014-accounts.md for what is not recognised)
    """
    given = seed
    if seed is None and checkpoint is not None and resume:
        seed = checkpoints.seed_of(Path(checkpoint))  # the broken run's own, which it drew by itself
    run = _Run(
        problem, graph, algorithm, rounds, privacy, seed, init, output, finish_mixing, blocks, mixing, solver_tolerance,
        ledger, dataset,
    )  # fmt: skip
    run.given_seed = given
    names = check_metrics(metrics, problem, reference, test)
    every = checks.whole("record_every", record_every)
    optimum = run.reference(reference)
    lowest = float(problem.objective(optimum)) if optimum is not None and "suboptimality" in names else None
    bar = Progress(progress, run.algorithm.name, run.rounds)
    file = None if checkpoint is None else checkpoints.prepare(checkpoint, resume)
    if file is not None and file.exists():
        run.restore(checkpoints.read(file, run.identity()))

    def record() -> bool:
        models = run.models()
        snapshot = Snapshot(problem, run.topology, models, optimum, test, lowest)
        run.history.add({"round": run.done, **measure(names, snapshot, run.facts.adjacency), **run.cost()})
        return bool(callback(run.done, models)) if callback is not None else False

    saved = time.monotonic()
    with bar as show:
        with BetweenRounds() as interrupt:
            stop = False
            while run.done < run.rounds and not stop:
                run.advance()
                if every and (run.done % every == 0 or run.done == run.rounds):
                    stop = record()
                if file is not None and (interrupt.asked or time.monotonic() - saved > SAVE_SECONDS):
                    checkpoints.write(file, run.saved())
                    saved = time.monotonic()
                if interrupt.asked:
                    raise KeyboardInterrupt(f"stopped after round {run.done} of {run.rounds}")
                show(run.done)
    if file is not None:
        checkpoints.write(file, run.saved())
    return run.result(names if every else (), optimum, test, lowest)


class _Run:
    """One simulation: its checked settings, its crew of blocks, and what has happened so far."""

    def __init__(
        self,
        problem: Any,
        graph: Any,
        algorithm: Algorithm | str,
        rounds: int,
        privacy: Privacy | None,
        seed: int | None,
        init: Any,
        output: str | None,
        finish_mixing: int,
        blocks: Any,
        mixing: str,
        solver_tolerance: float,
        ledger: str | Path | None,
        dataset: str | None,
    ) -> None:
        self.problem, self.topology = problem, match(problem, graph)
        self.algorithm = by_name(algorithm) if isinstance(algorithm, str) else algorithm
        if not isinstance(self.algorithm, Algorithm):
            raise InputError(f"algorithm must be a name or an object of tacenda.algorithms, not {algorithm!r}.")
        self.rounds = checks.whole("rounds", rounds, least=1)
        self.finish_mixing = checks.whole("finish_mixing", finish_mixing)
        self.output = self.algorithm.default_output if output is None else output
        checks.one_of("output", self.output, ("average", "last"))
        self.privacy, self.mixing = check_privacy(privacy, self.algorithm), mixing
        if privacy is not None and privacy.mode == "as-published":
            self.algorithm = published_form(self.algorithm)
        relation = "replace-one" if privacy is None else privacy.adjacency
        self.facts = Facts.of(problem, relation, checks.positive("solver_tolerance", solver_tolerance))
        if privacy is not None and privacy.node_noise == "worst":
            self.facts = self.facts.for_the_smallest()
        self.algorithm.check(self.facts, self.topology, self.rounds, privacy is not None)
        self.warnings = self.algorithm.advice(self.facts, self.topology, self.rounds)
        for sentence in self.warnings:
            python_warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
        if privacy is not None and (why := broken_promise(problem.partition, relation, self.topology.n)) is not None:
            if relation == "add-remove":
                raise InputError(
                    f"problem must not be spread like this under adjacency 'add-remove': {why}, and the promise would not hold. Give each "
                    "node's own records as its shard (by_column, or a list), or use 'replace-one'."
                )
            words = f"{why}: the promise is for the records as they lie on the nodes, not for the table that was spread."
            python_warnings.warn(words, DeclarationWarning, stacklevel=3)
        if privacy is not None and (missing := problem.declaration_missing()) is not None:
            python_warnings.warn(missing, DeclarationWarning, stacklevel=3)
        self.given_seed: int | None = None
        self.noise = SimulatedNoise(None if seed is None else checks.whole("seed", seed))
        self.parts = placement(self.topology.n, blocks)
        self.start = start_rows(init, problem, self.topology.n)
        self.history, self.done, self.seconds = History(), 0, 0.0
        self.messages = self.bytes = 0
        self.calibration = None
        if privacy is not None:
            dtype = rows_dtype(self.algorithm, problem)
            self.calibration = calibrate(self.algorithm, self.facts, self.topology, self.rounds, privacy, dtype)
        self.lasting = None
        self.charged = ledger is not None
        if ledger is not None:
            reserved = None if self.calibration is None else self.calibration.reserved
            self.lasting = LastingRun(ledger, dataset, problem, self.algorithm.name, self.identity(), reserved, relation)
        if self.lasting is not None and self.calibration is not None:
            self.noise = self.noise.named(self.lasting.run)  # runs add up in a ledger only if they share no noise
        self.crew = Crew(
            problem, self.facts, self.topology, self.algorithm, self.parts, self.calibration, self.noise, self.rounds, mixing,
            self.start, averaging=self.output == "average",
            witness=None if self.lasting is None or self.calibration is None else self.lasting.charge,
        )  # fmt: skip

    def reference(self, given: Any) -> Array | None:
        """The optimum that some metrics compare with."""
        if isinstance(given, str):
            checks.one_of("reference", given, ("optimum",))
            return np.asarray(self.problem.solve())
        if given is None:
            return None
        model = np.asarray(given, float)
        if model.size != self.problem.dim:
            raise InputError(f"reference must be one model of length {self.problem.dim}, not of shape {model.shape}.")
        return model.reshape(self.problem.dim)

    def advance(self) -> None:
        """One round of all blocks."""
        begin = time.perf_counter()
        self.crew.step(self.done + 1)
        self.done += 1
        self.seconds += time.perf_counter() - begin

    def models(self) -> Array:
        """(n, d) what each node would answer now."""
        return self.crew.outputs()

    def cost(self) -> dict[str, Any]:
        messages, size = self.crew.traffic()
        return {"seconds": self.seconds, "messages": self.messages + messages, "bytes": self.bytes + size}

    def result(self, names: Sequence[str], optimum: Array | None, test: Any, lowest: float | None) -> RunResult:
        if self.lasting is not None:
            self.lasting.close()
        begin = time.perf_counter()
        models = self.crew.mixed(self.models(), self.finish_mixing)
        last = self.crew.last()
        self.seconds += time.perf_counter() - begin
        if self.finish_mixing and names:
            measured = measure(names, Snapshot(self.problem, self.topology, models, optimum, test, lowest), self.facts.adjacency)
            self.history.add({"round": self.done + self.finish_mixing, **measured, **self.cost()})
        shape = (-1, self.problem.dim) if self.problem.n_outputs == 1 else (-1, self.problem.n_outputs, self.problem.n_features)
        cost, settings = self.cost(), {**self.settings(), "rounds": self.done}
        return RunResult(
            models.reshape(shape), last.reshape(shape), self.history, self.statement(), settings, self.warnings,
            cost["seconds"], cost["messages"], cost["bytes"],
        )  # fmt: skip

    def statement(self) -> Statement | None:
        if self.privacy is None:
            return None
        charges = checkpoints.join_charges(self.parts, self.crew.charges(), self.topology.n)
        spread = self.privacy.spread if isinstance(self.privacy.spread, str) else "as given"
        target = self.privacy.to_plain()["epsilon"] if not self.privacy.noise else dict(self.privacy.noise)
        return Statement(
            charges, self.topology.n, self.privacy.delta, self.privacy.adjacency, self.privacy.mode, target, self.noise.kind,
            spread, self.calibration.claimed if self.calibration else None, self.calibration.why if self.calibration else None,
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """Plain values that describe the run, for files and reports."""
        import tacenda

        p = self.problem
        return {
            "algorithm": self.algorithm.to_plain(),
            "rounds": self.rounds,
            "output": self.output,
            "finish_mixing": self.finish_mixing,
            "seed": self.given_seed,  # one that was drawn afresh is nobody's business: who knows it can take the noise off
            "charged": self.charged,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "graph": {
                "name": self.topology.name,
                "n": self.topology.n,
                "labels": [str(x) for x in self.topology.labels],
                "edges": self.topology.edges.tolist(),
            },
            "mixing": self.mixing,
            "solver_tolerance": self.facts.tolerance,
            "problem": {
                "loss": p.loss.name,
                "regulariser": p.regulariser.name,
                "strength": p.strength,
                "loss_scale": p.loss_scale,
                "data_norm": p.data_norm,
                "clip_norm": p.clip_norm,
                "loss_options": dataclasses.asdict(p.loss),
                "regulariser_options": dataclasses.asdict(p.regulariser),
                # Under add-remove the counts are private: what was declared stands for them wherever a result may go.
                "sizes": [int(s) for s in (self.facts.sizes if self.facts.adjacency == "add-remove" else p.sizes)],
                "n_features": p.n_features,
                "n_outputs": p.n_outputs,
                "classes": None if p.classes is None else [str(c) for c in p.classes],
                "dtype": str(p.dtype),
            },
            "versions": {"tacenda": tacenda.__version__, "numpy": np.__version__},
        }

    def identity(self) -> dict[str, Any]:
        """By its content, all that the releases depend on: what must be equal for a checkpoint, or a charge, to belong to this run."""
        p, settings, graph = self.problem, self.settings(), self.topology
        parts = {
            "algorithm": self.algorithm,
            "privacy": self.privacy,
            "graph": (graph.n, [str(label) for label in graph.labels], graph.edges),
            "mixing": self.mixing,
            "problem": (settings["problem"], p.loss, p.regulariser),
            "output": self.output,
            "solver_tolerance": self.facts.tolerance,
            "rounds": self.rounds,
            # The start too: the same noise on a run from elsewhere would be a second release, not the same one again.
            "init": self.start,
            "placement": (p.store.offsets, p.divisors),
            "ledger": self.charged,
        }
        known = {name: content_hash(value, name) for name, value in parts.items()}
        return {**known, "seed": self.noise.seed, "data": data_digest(p), "program": program()}

    def saved(self) -> checkpoints.Saved:
        """Everything needed to go on from the last complete round."""
        arrays = self.crew.saved_arrays()
        charges = checkpoints.join_charges(self.parts, self.crew.charges(), self.topology.n)
        rows = checkpoints.plain_charges(charges, arrays, "charge")
        about = {"identity": self.identity(), "round": self.done, "charges": rows, "history": self.history.rows, **self.cost()}
        return checkpoints.Saved(arrays, about)

    def restore(self, saved: checkpoints.Saved) -> None:
        about = saved.about
        charges = checkpoints.charges_from(about["charges"], saved.arrays, "charge")
        self.crew.restore(saved.arrays, charges)
        if self.lasting is not None:
            self.lasting.skip(len(charges))
        self.done, self.history = about["round"], History(about["history"])
        self.seconds, self.messages, self.bytes = about["seconds"], about["messages"], about["bytes"]


def match(problem: Any, graph: Any) -> Topology:
    """The graph's topology, if it has one node for each shard; shards named by label are matched by name."""
    topology = Topology.of(graph)
    if topology.n != problem.n_nodes:
        raise InputError(f"graph must have one node per shard: {topology.n} nodes, but {problem.n_nodes} shards.")
    labels = problem.node_labels
    if labels is not None and tuple(labels) != topology.labels:
        raise InputError(
            "The shards' labels must be the graph's nodes, in the graph's order; build the dict as "
            "{node: shard for node in graph.nodes}."
        )
    return topology


def check_privacy(privacy: Any, algorithm: Algorithm) -> Privacy | None:
    """The budget, if the algorithm can keep one."""
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise InputError(f"privacy must be a tacenda.Privacy or None, not {privacy!r}.")
    if not algorithm.private:
        raise UnsupportedError(
            f"{algorithm.title} adds no noise, so it cannot keep a privacy budget; the private algorithms are "
            f"{', '.join(private_names())}. For a run without privacy pass privacy=None."
        )
    if algorithm.shared_noise is not None:
        privacy.pooled(algorithm.title)
    return privacy


def start_rows(init: Any, problem: Any, n: int) -> Array:
    """(n, d) the public starting point."""
    if init is None:
        return np.zeros((n, problem.dim))
    rows = np.asarray(init, float)
    if rows.size == problem.dim:
        rows = np.broadcast_to(rows.reshape(1, problem.dim), (n, problem.dim))
    elif rows.size == n * problem.dim:
        rows = rows.reshape(n, problem.dim)
    else:
        raise InputError(f"init must be one model of length {problem.dim} or one per node ({n}), not of shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise InputError("init must hold finite numbers only.")
    return np.array(rows)
