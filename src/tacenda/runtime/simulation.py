"""A simulation under way: hosts of this process, what they have done, and what they leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from tacenda._types import Array
from tacenda.algorithms.newton import HazardNewton
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.content import content_hash
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.runtime import checkpoint as checkpoints
from tacenda.runtime.history import History
from tacenda.runtime.lasting_run import LastingRun
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.loop import Observer, drive
from tacenda.runtime.result import RunResult, with_strength
from tacenda.runtime.spec import RunSpec
from tacenda.sources import program


@dataclass(frozen=True)
class Told:
    """What a result repeats: the warnings of the run, and the seed that the user gave."""

    warnings: list[str]
    seed: int | None


class Simulation:
    """One simulation: its spec on hosts of this process, and what has happened so far.

    `open` makes the hosts; `start` (n, d) is where the models begin.
    """

    hosts: LocalHosts

    def __init__(
        self, spec: RunSpec, shards: LocalShards, noise: SimulatedNoise, start: Array, told: Told
    ) -> None:
        self.spec, self.shards, self.noise, self.start = spec, shards, noise, start
        self._told, self.problem = told, shards.given
        self.history, self.done, self.seconds, self.measuring = History(), 0, 0.0, 0.0
        self.messages = self.bytes = 0
        self.lasting: LastingRun | None = None
        self.charged = False

    def open(self, ledger: str | Path | None, dataset: str | None) -> None:
        """Reserve the run in its lasting ledger, if it has one, and make its hosts."""
        spec, shards, found = self.spec, self.shards, self.spec.calibration
        self.charged, ranks = ledger is not None, shards.ranks
        if ranks.size > 1:
            scale = None if found is None else content_hash(found.plan.scale)
            ranks.check_same(
                {**spec.identity(), "init": content_hash(self.start), "the noise": scale},
                "run the same script with the same settings on all ranks, on machines of one kind",
            )
        if ledger is not None:
            self.lasting = LastingRun(ledger, dataset, shards, spec, self.identity)
        if self.lasting is not None and found is not None:
            # Runs add up in a ledger only if they share no noise
            self.noise = self.noise.named(self.lasting.run)
        elif isinstance(spec.algorithm, StatisticRelease | HazardNewton):
            # Nor may two questions, whose difference would have none
            self.noise = self.noise.named(self.question)
        witness = None if self.lasting is None or found is None else self.lasting.charge
        self.hosts = LocalHosts(spec, shards, self.noise, self.start, witness)

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
        begin, p, closing = time.perf_counter(), self.problem, self.spec.method.closing_rounds
        models, last = self.hosts.finished(self.hosts.outputs()), self.hosts.last()
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
            [*self._told.warnings, *self.hosts.warnings()],
            cost["seconds"],
            cost["messages"],
            cost["bytes"],
            released,
            None if statement is None else self.hosts.noise_std(self.spec.rounds),
            self.measuring,
        )

    def settings(self) -> dict[str, Any]:
        """Plain values that describe the run, for files and reports."""
        p, plain = self.problem, self.spec.to_plain()
        own: dict[str, Any] = {
            "data_norm": p.data_norm,
            "classes": None if p.classes is None else [str(c) for c in p.classes],
        }
        # Where counts are public; else what was declared stands for them
        if self.spec.facts.adjacency == "replace-one":
            own["sizes"] = self.shards.sizes.astype(np.int64)
        return {
            **plain,
            # One that was drawn afresh stays secret: whoever knows it can take the noise off
            "seed": self._told.seed,
            "charged": self.charged,
            "problem": {**plain["problem"], **own, "dtype": str(p.dtype)},
            "versions": {"tacenda": tacenda.__version__, "numpy": np.__version__},
        }

    @property
    def question(self) -> str:
        """All that a single released statistic depends on: what is asked, of which records, at
        which model, under which terms. Other than `identity` it is the same in every version."""
        assert isinstance(self.spec.algorithm, StatisticRelease | HazardNewton)
        asked = self.spec.algorithm.statistic.digest().hex()
        terms = content_hash(self.spec.to_plain(), "question")
        return f"question-{asked}-{terms}-{content_hash(self.start)}-{self.shards.digest()}"

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
            "placement": (self.shards.offsets, self.shards.divisors),
            "ledger": self.charged,
        }
        known = {
            **self.spec.identity(),
            **{name: content_hash(value, name) for name, value in own.items()},
        }
        data = self.shards.digest()
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
