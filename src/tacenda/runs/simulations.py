"""The simulations of a run folder, one (algorithm, seed) each: resumable one by one, and side by
side in processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tacenda.engines import Call, Engine, run_calls
from tacenda.errors import InputError, StateError
from tacenda.graph.topology import Topology
from tacenda.runs import read
from tacenda.runs.choice import Choice
from tacenda.runs.choice import choices as choices_of
from tacenda.runs.objects import privacy_of
from tacenda.runs.private_run import PrivateRun, private_run
from tacenda.runs.sections import RunConfig
from tacenda.runs.table import evaluate
from tacenda.runs.timing import MEASURING, PLANNING, READING, ROUNDS, WRITING, Timing
from tacenda.runtime.progress import Progress
from tacenda.runtime.ranks import ALONE, Ranks
from tacenda.runtime.result import RunResult, load
from tacenda.runtime.run_folder import RunFolder
from tacenda.runtime.simulate import simulate
from tacenda.words import counted

# multiplications in all runs below which starting further processes costs more than it saves
PARALLEL_WORK = 4e10
HISTORY_ROWS, FEWEST_ROWS = 50, 5
HISTORY_WORK = 2e8  # numbers read for all measures along the way, about a second


@dataclass(frozen=True, eq=False)
class Simulated:
    """One finished run: its name in files, its result, and how good its models are."""

    run: str
    label: str
    seed: int
    result: RunResult
    measured: dict[str, Any]


def chosen(config: RunConfig, private: PrivateRun) -> list[Choice]:
    """The run's algorithms, chosen from the public facts of the problem itself."""
    facts = private.shards.facts(config.privacy.adjacency, config.run.solver_tolerance)
    return choices_of(config, facts, Topology.of(private.graph), privacy_of(config.privacy))


def simulate_all(
    config: RunConfig,
    private: PrivateRun,
    choices: list[Choice],
    folder: RunFolder,
    timing: Timing,
    *,
    progress: str | bool,
    ranks: Ranks = ALONE,
) -> list[Simulated]:
    """All runs of the configuration, in order; those whose results already lie in the folder are
    not repeated. Several ranks share every run, and only rank 0 has the measures."""
    tasks = [(k, seed) for k in range(len(choices)) for seed in config.run.seeds]
    engine = Engine.parse(config.run.engine)
    if ranks.size > 1 and not engine.is_local:
        raise InputError(
            f"run.engine must be left out under mpiexec, where the {ranks.size} ranks share each "
            f"run, not {config.run.engine!r}."
        )
    jobs = _jobs(config, private, choices, len(tasks)) if ranks.size == 1 else 1
    if jobs == 1 and engine.is_local:
        each = [(choices[k], seed) for k, seed in tasks]
        return [_finished(config, private, c, s, folder, timing, progress) for c, s in each]
    with timing.part(ROUNDS):
        return _elsewhere(config, choices, folder, tasks, engine, jobs, progress)


def _elsewhere(
    config: RunConfig,
    choices: list[Choice],
    folder: RunFolder,
    tasks: list[tuple[int, int]],
    engine: Engine,
    jobs: int,
    progress: str | bool,
) -> list[Simulated]:
    """In other processes, of this machine or of a cluster."""
    plain, path = config.to_plain(), str(folder.path.resolve())
    runs = [(f"{choices[k].label}-{seed}", choices[k].label, seed) for k, seed in tasks]
    calls = [
        Call(run[0], _simulate_elsewhere, (plain, path, choices[k], seed))
        for run, (k, seed) in zip(runs, tasks, strict=True)
    ]
    measured: dict[int, dict[str, Any]] = {}
    with Progress(progress, f"{counted(len(calls), 'run')} on {engine}", len(calls)) as show:

        def take(position: int, found: dict[str, Any]) -> None:
            measured[position] = found
            show(len(measured))

        run_calls(engine, calls, jobs, take, folder=path, beat=lambda: show(len(measured)))
    return [
        Simulated(*run, load(folder.result_path(run[0])), measured[position])
        for position, run in enumerate(runs)
    ]


def _simulate_elsewhere(
    plain: dict[str, Any], path: str, choice: Choice, seed: int
) -> dict[str, Any]:
    """In a worker process: the result goes to the folder, only its measures come back."""
    import json

    config, private = _loaded(json.dumps(plain))
    return _finished(config, private, choice, seed, RunFolder(path), Timing(), False).measured


@lru_cache(maxsize=1)
def _loaded(text: str) -> tuple[RunConfig, PrivateRun]:
    """A worker reads the records once, however many runs it makes."""
    import json

    config = read.build(json.loads(text))
    return config, private_run(config)


def _timed(
    config: RunConfig,
    private: PrivateRun,
    choice: Choice,
    seed: int,
    folder: RunFolder,
    timing: Timing,
    progress: str | bool,
) -> RunResult:
    """One run, with where its time went."""
    begin = time.perf_counter()
    result = _simulate(config, private, choice, seed, folder, progress)
    whole = time.perf_counter() - begin
    rounds = min(result.seconds, whole)  # of one that was resumed, those of this time
    timing.add(ROUNDS, rounds)
    timing.add(MEASURING, result.measuring)
    timing.add(PLANNING, max(0.0, whole - rounds - result.measuring))  # the noise
    return result


def _finished(
    config: RunConfig,
    private: PrivateRun,
    choice: Choice,
    seed: int,
    folder: RunFolder,
    timing: Timing,
    progress: str | bool,
) -> Simulated:
    """One run by all ranks; rank 0 reads its result from the folder, or writes it there."""
    run, shards = f"{choice.label}-{seed}", private.shards
    finished, ranks = folder.result_path(run), shards.ranks
    there = ranks.by_root(finished.is_file, "looking into the run folder")
    if there:
        with timing.part(READING):
            result = ranks.by_root(lambda: load(finished), "reading the result")
    else:
        result = _timed(config, private, choice, seed, folder, timing, progress)
    if result.models.size != shards.n * private.problem.dim:
        raise StateError(
            f"{finished} holds models of another shape; remove it, and --resume makes it again."
        )
    if not there:
        with timing.part(WRITING):
            ranks.by_root(lambda: _kept(folder, run, result), "writing the result")
    with timing.part(MEASURING):
        measured = evaluate(
            shards,
            private.test_records,
            result.models,
            config.privacy.adjacency,
            private.label_units,
            drawn=private.dataset.classes or True,
        )
    return Simulated(run, choice.label, seed, result, measured)


def _kept(folder: RunFolder, run: str, result: RunResult) -> None:
    folder.save(run, result)


def _simulate(
    config: RunConfig,
    private: PrivateRun,
    choice: Choice,
    seed: int,
    folder: RunFolder,
    progress: str | bool,
) -> RunResult:
    settings = config.run
    every = (
        max(1, -(-choice.method.rounds // _history_rows(private)))
        if settings.record_every == "auto"
        else settings.record_every
    )
    checkpoint = (
        None
        if _keeps_a_secret(config, choice)
        else folder.checkpoint_path(f"{choice.label}-{seed}")
    )
    return simulate(
        private.problem,
        private.graph,
        choice.method,
        None,
        privacy_of(config.privacy),
        None if settings.fresh_noise else seed,
        blocks=settings.blocks,
        record_every=every,
        metrics=metrics_of(config, private),
        test=private.test,
        progress=progress,
        checkpoint=checkpoint,
        resume=True,
        solver_tolerance=settings.solver_tolerance,
        ledger=settings.ledger,
        dataset=settings.ledger_dataset,
        transport=private.shards.ranks,
    )


def _history_rows(private: PrivateRun) -> int:
    """How often a run is measured along the way: each time costs a pass over all records, as a
    round does, so of many records seldom; by the public sizes, since everybody sees the rows."""
    cells = float(private.shards.divisors.sum()) * private.problem.dim
    return int(min(HISTORY_ROWS, max(FEWEST_ROWS, HISTORY_WORK / cells)))


def _keeps_a_secret(config: RunConfig, choice: Choice) -> bool:
    """As published, PVP holds an unreleased value between rounds, which no file may hold."""
    published = config.privacy.private and config.privacy.mode == "as-published"
    return (
        choice.method.algorithm.published_form() if published else choice.method.algorithm
    ).traits.keeps_secret


def metrics_of(config: RunConfig, private: PrivateRun) -> tuple[str, ...]:
    """What is recorded along the way: as configured, or the objective,
    the consensus error and the accuracy."""
    if config.run.metrics != "auto":
        return tuple(config.run.metrics)
    names = ["objective", "consensus"]
    if private.problem.loss.classifies:
        names.append("accuracy")
    return tuple(names)


def _jobs(config: RunConfig, private: PrivateRun, choices: list[Choice], tasks: int) -> int:
    """How many processes: as asked, or all cores where the work is worth it."""
    if config.run.jobs != "auto":
        return max(1, min(config.run.jobs, tasks))
    cells = float(private.problem.sizes.sum()) * private.problem.dim
    steps = sum(c.method.rounds * c.method.algorithm.traits.steps_per_round for c in choices) * len(
        config.run.seeds
    )
    return min(os.cpu_count() or 1, tasks) if cells * steps > PARALLEL_WORK else 1
