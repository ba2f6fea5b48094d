"""`RunResult`: the models, the course, and what was really guaranteed. One file holds it all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import StateError
from tacenda.formats.files import write_bytes
from tacenda.privacy.statement import Statement
from tacenda.runtime.history import History
from tacenda.words import counted

FORMAT = "tacenda-result-1"
RELEASED = "released."  # before the names of what is no model


@dataclass(frozen=True, eq=False)
class RunResult:
    """models (n, d), or (n, K, p) for K classes: each node's output. last: each node's newest
    iterate.

    privacy is None for a run without noise. settings are plain values: algorithm, problem, graph,
    rounds, seed, versions. released: what the algorithm leaves beside the models, the same at every
    node (`Algorithm.released`): post-processing of it costs nothing. seconds: of the rounds;
    measuring: seconds for the metrics along the way, not kept in files.
    """

    models: Array
    last: Array
    history: History
    privacy: Statement | None
    settings: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0
    released: dict[str, Array] = field(default_factory=dict)
    measuring: float = 0.0

    @property
    def model(self) -> Array:
        """(d,) or (K, p): the average of the nodes' models."""
        return np.asarray(self.models.mean(axis=0, dtype=float))

    @property
    def rounds(self) -> int:
        return int(self.settings["rounds"])

    def __repr__(self) -> str:
        name = self.settings["algorithm"]["name"]
        privacy = "no privacy" if self.privacy is None else repr(self.privacy)
        return (
            f"RunResult({name}, {counted(len(self.models), 'node')}, "
            f"{counted(self.rounds, 'round')}, {privacy})"
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to one file (safetensors with JSON in its header); no pickle."""
        from safetensors.numpy import save

        about = {
            "format": FORMAT,
            "settings": self.settings,
            "history": self.history.rows,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "warnings": self.warnings,
            "seconds": self.seconds,
            "messages": self.messages,
            "bytes": self.bytes,
        }
        tensors = {
            "models": np.ascontiguousarray(self.models),
            "last": np.ascontiguousarray(self.last),
            **{f"{RELEASED}{k}": np.ascontiguousarray(v) for k, v in self.released.items()},
        }
        return write_bytes(path, save(tensors, metadata={"tacenda": json.dumps(about)}))

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report of this run to `path` (extra `report`)."""
        from tacenda.report import build

        return build(self, path)


def load(path: str | Path) -> RunResult:
    """Read what `RunResult.save` wrote."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise StateError(f"There is no result at {path}; result.save(path) writes one.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("tacenda", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as damaged:
        raise StateError(f"{path} is not a readable result file: {damaged}.") from None
    if about.get("format") != FORMAT:
        raise StateError(
            f"{path} is not a result of this program (format {about.get('format')!r}, "
            f"not {FORMAT!r})."
        )
    privacy = None if about["privacy"] is None else Statement.from_plain(about["privacy"])
    return RunResult(
        tensors["models"],
        tensors["last"],
        History(about["history"]),
        privacy,
        about["settings"],
        about["warnings"],
        about["seconds"],
        about["messages"],
        about["bytes"],
        {
            name.removeprefix(RELEASED): values
            for name, values in tensors.items()
            if name.startswith(RELEASED)
        },
    )
