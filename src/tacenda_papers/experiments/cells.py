"""Carry out one cell: from plain values to tidy rows."""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import Method, Privacy, Problem, RunResult, algorithms, simulate
from tacenda.accounting import judge
from tacenda.algorithms import Algorithm
from tacenda.data import load, partition
from tacenda.errors import ConvergenceWarning
from tacenda.formats.files import write_text
from tacenda.graph import parse
from tacenda.regularisers import GeneralisedLasso
from tacenda.terms.setting import given
from tacenda_papers.experiments import tuning
from tacenda_papers.experiments.half_steps import RecycledHalfSteps
from tacenda_papers.experiments.rows import Row
from tacenda_papers.experiments.spec import Cell

PARTITION_SEED = 0
NEEDS_OPTIMUM = ("suboptimality", "distance")
TEST = "test_accuracy"
# Zhang et al.'s (2018) average loss: f_i at the node's own model over its own data, without the
# factor c
LOCAL_LOSS = "local_loss"


def carry_out(cell: Cell, promises: Path | None = None) -> list[Row]:
    """Run the cell and return its rows; its epsilon is composed from the run's own ledger, or
    read from the folder `promises`, where a run with the same ledger left it."""
    result, setting = run(cell)
    claimed, true, delta = _promise(result, promises)
    promise = {
        "claimed_epsilon": claimed,
        "true_epsilon": true,
        "exact": None if result.privacy is None else result.privacy.exact,
        "delta": delta,
        "seconds": result.seconds,
        "megabytes": result.bytes / 1e6,
        **setting,
    }
    scale = float(cell.problem.get("loss_scale", 1.0))
    rows: list[Row] = []
    for entry in result.history:
        values = {**entry, LOCAL_LOSS: entry.get("local_objective", np.nan) / scale}
        rows += [
            {"round": entry["round"], "metric": m, "value": values[m], **promise}
            for m in cell.metrics
        ]
    return rows


def run(cell: Cell) -> tuple[RunResult, dict[str, str]]:
    """The cell's simulation, and {"setting": words} where the settings were chosen by trials."""
    problem, test = problem_of(cell)
    graph, privacy = parse(cell.graph), _privacy(cell.privacy)
    told, own = {}, {"rounds": cell.rounds, **cell.settings}
    algorithm = cell.algorithm
    if algorithm["name"] == "tuned":
        chosen = tuned(cell, problem)
        told, own, algorithm = {"setting": _words(chosen)}, own | chosen, chosen["algorithm"]
    method = Method(_algorithm(algorithm), **given(Method, own))
    wanted = ["local_objective" if m == LOCAL_LOSS else m for m in cell.metrics]
    reference = _optimum(_problem_key(cell)) if any(m in NEEDS_OPTIMUM for m in wanted) else None
    with warnings.catch_warnings():
        # The papers' own settings are run as they are; where a sufficient condition fails, the
        # experiment's page says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = simulate(
            problem,
            graph,
            method,
            privacy=privacy,
            seed=cell.seed,
            metrics=wanted,
            record_every=cell.every or method.rounds,
            reference=reference,
            test=test if TEST in wanted else None,
            progress=False,
            solver_tolerance=cell.solver_tolerance,
        )
    return result, told


def _words(chosen: dict[str, Any]) -> str:
    """{"algorithm": {"name": "dvp", "penalty": 0.1}, "rounds": 15} as "penalty 0.1, 15 rounds"."""
    table = chosen["algorithm"]
    table = table.get("algorithm", table)  # behind a whitening
    plain = {k: v for k, v in table.items() if k not in ("name", "noise")}
    parts = [f"{k.replace('_', ' ')} {_short(v)}" for k, v in plain.items()]
    return ", ".join(
        [
            *parts,
            *([chosen["output"]] if chosen.get("output") else []),
            f"{chosen['rounds']} rounds",
        ]
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        settings = ", ".join(_short(v) for k, v in value.items() if k != "schedule")
        return f"{value['schedule']}({settings})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def problem_of(cell: Cell) -> tuple[Problem, Any]:
    """The cell's problem and test records; kept, because the cells of a figure share it."""
    return _problem(_problem_key(cell))


def _problem_key(cell: Cell) -> str:
    return json.dumps([cell.data, cell.nodes, cell.problem], sort_keys=True)


@lru_cache(maxsize=4)
def _dataset(text: str) -> Any:
    options = json.loads(text)
    dataset = load(options.pop("name"), **options)
    return dataset


@lru_cache(maxsize=3)
def _problem(text: str) -> tuple[Problem, Any]:
    data, nodes, settings = json.loads(text)
    options = dict(data)
    rows, held_out = options.pop("take", None), options.pop("held_out", 0)
    dataset = _dataset(json.dumps(options, sort_keys=True))
    x, y, test = dataset.X, dataset.y, dataset.test
    if held_out:
        x, y, test = x[:-held_out], y[:-held_out], (x[-held_out:], y[-held_out:])
    if rows is not None:
        x, y = x[:rows], y[:rows]
    shards = (
        partition.by_column(x, y, dataset.nodes)
        if dataset.nodes is not None
        else partition.even(x, y, nodes, _shuffle(dataset))
    )
    if settings.pop("lasso_strength", False):
        settings["strength"] = 0.001 * float(np.abs(x.T @ y).max()) / nodes
    if settings.pop("fused_lasso", False):
        settings["regulariser"] = GeneralisedLasso(np.diff(np.eye(x.shape[1]), axis=0))
    classes = None if dataset.classes is None else range(len(dataset.classes))
    return Problem(shards, classes=classes, **settings), test


def _shuffle(dataset: Any) -> int | None:
    """Generated rows come in random order already,
    and a large array would be copied by shuffling."""
    return None if dataset.name in ("classification", "epsilon-like") else PARTITION_SEED


@lru_cache(maxsize=8)
def _optimum(text: str) -> Any:
    return _problem(text)[0].solve(1e-6)


def tuned(cell: Cell, problem: Problem) -> dict[str, Any]:
    """Settings found on generated records of the same public shape; see `tuning`."""
    return tuning.best(
        cell.algorithm["of"],
        nodes=cell.nodes,
        records=int(problem.sizes.min()),
        features=problem.n_features,
        graph=cell.graph,
        problem=cell.problem,
        privacy=cell.privacy,
        rows=cell.algorithm.get("rows", "flat"),
    )


def _algorithm(plain: dict[str, Any]) -> Algorithm:
    if plain["name"] == RecycledHalfSteps.name:
        return RecycledHalfSteps(**{k: v for k, v in plain.items() if k != "name"})
    return algorithms.from_plain(plain)


def _privacy(plain: dict[str, Any] | None) -> Privacy | None:
    if plain is None:
        return None
    return Privacy.from_paper(**plain["paper"]) if "paper" in plain else Privacy(**plain)


def ledger_name(statement: Any) -> str:
    """A name of all that the epsilon is composed from: the charges of the run itself, delta,
    the neighbouring relation, and the accountant's own files."""
    found = hashlib.sha256(f"{statement.delta!r} {statement.adjacency} ".encode())
    for charge, count in statement.charges:
        found.update(f"{charge.kind.kind} {count} ".encode())
        for name, values in sorted(charge.parameters.items()):
            found.update(f"{name} {len(values)} ".encode() + np.asarray(values, float).tobytes())
    for file in sorted(Path(inspect.getfile(judge)).parent.glob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:32]


def _promise(
    result: RunResult, promises: Path | None
) -> tuple[float | None, float | None, float | None]:
    """(claimed, true, delta); the accounted epsilon of equal ledgers is composed once."""
    if result.privacy is None:
        return None, None, None
    claimed = result.privacy.claimed[0] if result.privacy.claimed else None
    if promises is None:
        return claimed, result.privacy.epsilon, result.privacy.delta
    path = promises / f"{ledger_name(result.privacy)}.txt"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, repr(float(result.privacy.epsilon)))
    return claimed, float(path.read_text(encoding="utf-8")), result.privacy.delta
