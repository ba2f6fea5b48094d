"""What a finished run writes down: rows of the table, the manifest and notes."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from tacenda.runs import references, table
from tacenda.runs.private_run import PrivateRun
from tacenda.runs.sections import RunConfig
from tacenda.runs.simulations import Simulated
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.run_folder import RunFolder

REPORTED = ("tacenda", "numpy", "scipy", "numba", "networkx", "scikit-learn", "dp-accounting")


def rows_of(config: RunConfig, private: PrivateRun, done: list[Simulated]) -> list[dict[str, Any]]:
    """The table: what a run is compared with, and every algorithm between. All ranks work on it,
    and the root's is whole."""
    adjacency, shards, test = config.privacy.adjacency, private.shards, private.test_records

    def measure(shards: LocalShards, test: HeldOutRecords | None, models: Any) -> dict[str, Any]:
        return table.evaluate(shards, test, models, adjacency, private.label_units)

    rows = []
    for label in dict.fromkeys(one.label for one in done):
        mine = [one for one in done if one.label == label]
        rows.append(table.row(label, [one.result for one in mine], [one.measured for one in mine]))
    if not config.run.references:
        return rows
    best = references.ceiling(shards, private.graph, test, measure)
    for row in rows:
        if row.get("objective") is not None and best.get("objective") is not None:
            row["suboptimality"] = row["objective"] - best["objective"]
    server = alone = None
    if references.affordable(shards, config):
        server = references.trusted_server(shards, test, config, measure)
        alone = references.one_node(shards, test, config, measure)
    names = private.dataset.feature_names
    intercept = len(names) - 1 if names and names[-1] == "intercept" else None
    floor = references.floor(shards, test, intercept, measure, adjacency)
    return [row for row in (best, server, *rows, alone, floor) if row is not None]


def entry_of(folder: RunFolder, one: Simulated) -> dict[str, Any]:
    """What the manifest says of one run."""
    return {
        "label": one.label,
        "algorithm": one.result.settings["algorithm"]["name"],
        "seed": one.seed,
        "file": folder.result_path(one.run).relative_to(folder.path).as_posix(),
        **one.measured,
    }


def about_of(private: PrivateRun, config: RunConfig) -> dict[str, Any]:
    """Public facts of the data, and what was read from it."""
    data = private.dataset
    # Under add-remove how many records there are is private
    counted = config.privacy.adjacency == "replace-one"
    names, test = private.node_labels, private.test_records
    return {
        "name": data.name,
        "source": config.data.name or Path(str(config.data.file)).name,
        "records": private.records if counted else None,
        "test_records": 0 if test is None else test.count,
        "features": data.n_features,
        "feature_names": list(data.feature_names) if data.n_features <= 1000 else None,
        "classes": None if data.classes is None else list(data.classes),
        "positive": data.classes[1] if data.classes and len(data.classes) == 2 else None,
        "norm": data.norm,
        "row_scale": data.row_scale,
        "nodes": private.shards.n,
        "node_labels": None if names is None else [str(label) for label in names],
        "schema_hash": data.schema_hash,
        "notes": list(data.notes),
    }


def small_nodes(private: PrivateRun, adjacency: str) -> list[str]:
    """A node averages its own records: one with few of them needs noise that drowns the others'."""
    if adjacency != "replace-one" or private.problem.public_sizes is not None:
        return []
    sizes = sorted(int(size) // private.problem.rows_each for size in private.shards.sizes)
    least, middle = sizes[0], sizes[len(sizes) // 2]
    if least * 10 >= middle:
        return []
    return [
        f"the smallest node holds {least} of {sum(sizes)} records, "
        f"where the median node holds {middle}: every node counts equally, so its noise affects "
        f"the whole model; joining small nodes to others helps"
    ]


def versions() -> dict[str, str]:
    """What computed the result."""
    found = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name in REPORTED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found
