"""Run folders for the tests of the report, made from real simulations on generated records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import tacenda as tc
from support import problem as small_problem

A = tc.algorithms
CHOICES: dict[str, tuple[Any, float | None]] = {
    "IPADMM": (A.IPADMM(penalty=0.1, proximal=0.5, inner_steps=2), 1.0),
    "CDPADMM": (A.CDPADMM(penalty=0.1, proximal=0.5), 2.0),
    "noise-free": (A.ADMM(), None),
}


def make_folder(
    path: Path,
    choices: dict[str, tuple[Any, float | None]] | None = None,
    *,
    seeds: tuple[int, ...] = (0, 1),
    n: int = 6,
    rounds: int = 6,
    table: list[dict[str, Any]] | None = None,
    dataset: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A complete run folder; settings go to `simulate`,
    except graph and privacy (a dict for tc.Privacy)."""
    chosen = CHOICES if choices is None else choices
    problem, privacy = small_problem(n), settings.pop("privacy", {})
    graph = settings.pop("graph", None) or tc.graph.ring(n)
    metrics = settings.pop("metrics", ("objective", "accuracy", "consensus"))
    (path / "results").mkdir(parents=True)
    entries, ledger, lines = [], {}, []
    for label, (algorithm, epsilon) in chosen.items():
        for seed in seeds:
            budget = None if epsilon is None else tc.Privacy(epsilon=epsilon, **privacy)
            result = tc.simulate(
                problem,
                graph,
                algorithm,
                rounds=rounds,
                privacy=budget,
                seed=seed,
                metrics=metrics,
                progress=False,
                **settings,
            )
            file, rows = f"results/{len(entries)}.safetensors", result.models.reshape(n, -1)
            result.save(path / file)
            each = [float(a) for a in problem.accuracy(rows)]
            entries.append(
                {
                    "label": label,
                    "algorithm": algorithm.name,
                    "seed": seed,
                    "file": file,
                    "node_accuracy": each,
                }
            )
            if result.privacy is not None:
                ledger[f"{label}-{seed}"] = result.privacy.to_plain()
            lines += [{"run": f"{label}-{seed}", **row} for row in result.history.rows]
    manifest = {
        "format": "tacenda-run-1",
        "created": "2026-01-02T03:04:05Z",
        "command": "tacenda compare",
        "versions": {"python": "3.11"},
        "dataset": dataset
        or {
            "name": "generated",
            "records": int(np.sum(problem.sizes)),
            "notes": ["made up for a test"],
        },
        "table": table
        or [{"label": "noise-free optimum (ceiling)", "accuracy": 0.9, "objective": 0.25}],
        "results": entries,
    }
    (path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    (path / "ledger.json").write_text(json.dumps(ledger), "utf-8")
    (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    (path / "config.toml").write_text('[data]\nname = "generated"\n', "utf-8")
    return path
