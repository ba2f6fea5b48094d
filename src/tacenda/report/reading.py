"""What a report is made of: the manifest and every result of a run folder,
grouped by label over the seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.data.schema import Schema
from tacenda.errors import StateError
from tacenda.evaluation.coefficients import CoefficientTable
from tacenda.evaluation.of_runs import kept_intervals, run_coefficients
from tacenda.privacy.statement import Statement
from tacenda.report.account import Account
from tacenda.runtime.result import RunResult
from tacenda.runtime.run_folder import RunFolder, run_name


@dataclass(frozen=True, eq=False)
class Run:
    """One result of the folder: label and seed, the result itself,
    and what the manifest says about it."""

    label: str
    algorithm: str
    seed: Any
    result: RunResult
    entry: dict[str, Any]

    def per_node(self, name: str) -> Array | None:
        """(n,) a per-node diagnostic such as "node_accuracy",
        where the manifest has it for every node."""
        values = self.entry.get(name)
        n = len(self.result.models)
        return np.array(values, float) if isinstance(values, list) and len(values) == n else None


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one label: the same settings with different seeds."""

    label: str
    runs: list[Run]
    account: Account | None

    @property
    def algorithm(self) -> str:
        return self.runs[0].algorithm

    @property
    def settings(self) -> dict[str, Any]:
        return self.runs[0].result.settings

    @property
    def metrics(self) -> list[str]:
        """The names of what was measured, in the order of the history."""
        names = [c for run in self.runs for row in run.result.history.rows[:1] for c in row]
        return [
            c for c in dict.fromkeys(names) if c not in ("round", "seconds", "messages", "bytes")
        ]

    @property
    def measures(self) -> list[str]:
        """The names of all that is known of the final models:
        from the history, or from the manifest."""
        stated = [
            c for run in self.runs for c, v in run.entry.items() if c != "seed" and _is_number(v)
        ]
        return list(dict.fromkeys([*self.metrics, *stated]))

    def final(self, metric: str) -> Array:
        """The final value of a metric, one per seed that has it: the manifest's, else the last one
        of the history."""
        found = [
            {**(run.result.history.rows or [{}])[-1], **run.entry}.get(metric) for run in self.runs
        ]
        return np.array([value for value in found if _is_number(value)], float)


@dataclass(frozen=True, eq=False)
class Folder:
    """A whole run folder."""

    path: Path
    manifest: dict[str, Any]
    groups: list[Group]
    config: str
    title: str = ""

    @cached_property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]

    @property
    def name(self) -> str:
        return self.title or self.path.resolve().name

    @cached_property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(name for group in self.groups for name in group.metrics))

    @cached_property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(name for group in self.groups for name in group.measures))

    @cached_property
    def references(self) -> list[tuple[str, dict[str, float]]]:
        """(name, numbers) of the manifest's rows that are no run of this folder: the noise-free
        ceiling, the floor."""
        runs = {name.lower() for group in self.groups for name in (group.label, group.algorithm)}
        found = []
        for row in self.manifest.get("table") or []:
            name = (
                str(row.get("label") or row.get("algorithm") or "") if isinstance(row, dict) else ""
            )
            if name and name.lower() not in runs and not _is_number(row.get("epsilon")):
                found.append((name, {k: float(v) for k, v in row.items() if _is_number(v)}))
        return found

    @cached_property
    def schema(self) -> Schema | None:
        """The public schema of the data, where the folder has one."""
        path = RunFolder(self.path).schema_path
        return Schema.read(path) if self.manifest and path.is_file() else None

    @cached_property
    def feature_names(self) -> list[str]:
        """As the manifest has them, or by their position."""
        named = (self.manifest.get("dataset") or {}).get("feature_names")
        count = int(self.lead.settings["problem"]["n_features"])
        return named if named and len(named) == count else [f"x{k}" for k in range(count)]

    @cached_property
    def coefficients(self) -> CoefficientTable:
        """Of the lead run's average model."""
        classes = (self.manifest.get("dataset") or {}).get("classes")
        classes = classes or self.lead.settings["problem"].get("classes")
        run = self.lead.runs[0]
        kept = kept_intervals(RunFolder(self.path), run_name(run.entry)) if self.manifest else None
        return run_coefficients(run.result, self.feature_names, self.schema, classes, kept)

    @cached_property
    def private(self) -> list[Group]:
        return [group for group in self.groups if group.account is not None]

    @cached_property
    def weakest(self) -> Group | None:
        """The private group with the largest epsilon, to three digits;
        None where nobody is private."""
        return max(
            self.private,
            key=lambda g: float(f"{g.account.epsilon:.3g}") if g.account else 0.0,
            default=None,
        )

    @property
    def lead(self) -> Group:
        """The group that the network and the node table show:
        the first private one, else the first."""
        return (self.private or self.groups)[0]


def read(run_folder: str | Path) -> Folder:
    """The folder's content, or a StateError that says what is missing."""
    home = RunFolder.open(run_folder)
    manifest, ledger = home.manifest(), home.ledger()
    runs = [_run(entry, home.result(entry)) for entry in manifest.get("results", [])]
    if not runs:
        raise StateError(
            f"The run folder {home.path} lists no results, so there is nothing to report; "
            "run it to the end first."
        )
    labels = list(dict.fromkeys(run.label for run in runs))
    known: dict[str, Account] = {}
    groups = [
        _group(label, [run for run in runs if run.label == label], ledger, known)
        for label in labels
    ]
    config = home.config_path.read_text("utf-8") if home.config_path.is_file() else ""
    return Folder(home.path, manifest, groups, config)


def of_result(result: RunResult) -> Folder:
    """One result that lies in no folder, as the report sees a folder with this run alone."""
    name = str(result.settings["algorithm"]["name"])
    run = Run(name, name, None, result, {})
    return Folder(Path(), {}, [_group(name, [run], {}, {})], "", name)


def _run(entry: dict[str, Any], result: RunResult) -> Run:
    label, seed = str(entry.get("label", entry.get("algorithm", "run"))), entry.get("seed")
    return Run(
        label,
        str(entry.get("algorithm", result.settings["algorithm"]["name"])),
        seed,
        result,
        entry,
    )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
    )


def _group(label: str, runs: list[Run], ledger: dict[str, Any], known: dict[str, Account]) -> Group:
    """The group's privacy is that of its seed with the largest epsilon;
    equal ledgers are judged once."""
    accounts = []
    for run in runs:
        if run.result.privacy is not None:
            key = _same_ledger(run.result.privacy)
            if key not in known:
                known[key] = Account.of(run.result.privacy, ledger.get(run_name(run.entry), {}))
            accounts.append(known[key])
    return Group(label, runs, max(accounts, key=lambda a: a.epsilon) if accounts else None)


def _same_ledger(statement: Statement) -> str:
    charges = [
        [c.kind.kind, n, {k: v.tolist() for k, v in c.parameters.items()}]
        for c, n in statement.charges
    ]
    facts = [
        statement.delta,
        statement.adjacency,
        statement.mode,
        statement.noise,
        statement.claimed,
        statement.target,
    ]
    return json.dumps([facts, charges], default=str)
