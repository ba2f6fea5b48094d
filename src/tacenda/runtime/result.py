"""`RunResult`: the models, the course, and what was really guaranteed. One file holds it all."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

FORMAT = "tacenda-result-2"
NOISE_STD = "noise_std"
RELEASED = "released."  # before the names of what is no model
SETTINGS = "settings"  # before the names of arrays in the settings
TENSOR, RANGE = "$tensor", "$range"


@dataclass(frozen=True, eq=False)
class RunResult:
    """Models, history and privacy statement of one run.

    Attributes
    ----------
    models : ndarray
        Each node's output, shape (n, d), or (n, K, p) for K classes.
    last : ndarray
        Each node's newest iterate, of the same shape.
    history : History
        Recorded rounds. In a simulation its metrics read private data without noise.
    privacy : Statement or None
        What was really guaranteed; None for a run without noise.
    settings : dict
        Plain values: algorithm, problem, graph, rounds, seed, versions; sizes and edges as arrays.
    warnings : list of str
        What the run warned of.
    seconds : float
        Wall-clock time of the rounds.
    messages : int
        Messages sent by all nodes.
    bytes : int
        Bytes sent by all nodes.
    released : dict
        What the algorithm leaves beside the models, the same at every node
        (`Algorithm.released`). It is released already: post-processing of it costs no privacy.
    noise_std : ndarray or None
        The standard deviation (d,) that the privacy noise gives each weight of a model, where the
        algorithm knows it or forecasts it (`Algorithm.noise_std`).
    measuring : float
        Seconds for the metrics along the way; not kept in files.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> result = tc.simulate(problem, tc.graph.ring(4), "admm", 5)
    >>> result.models.shape, result.model.shape, result.rounds
    ((4, 3), (3,), 5)
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
    noise_std: Array | None = None
    measuring: float = 0.0

    @property
    def model(self) -> Array:
        """Average of the nodes' models, shape (d,) or (K, p)."""
        return np.asarray(self.models.mean(axis=0, dtype=float))

    @property
    def rounds(self) -> int:
        """Number of rounds of the run."""
        return int(self.settings["rounds"])

    @property
    def strength(self) -> float:
        """Of the regulariser: as declared, or as chosen after a release (`strength="auto"`)."""
        return float(self.settings["problem"]["strength"])

    def __repr__(self) -> str:
        name = self.settings["algorithm"]["name"]
        privacy = "no privacy" if self.privacy is None else repr(self.privacy)
        return (
            f"RunResult({name}, {counted(len(self.models), 'node')}, "
            f"{counted(self.rounds, 'round')}, {privacy})"
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to one file: safetensors with JSON in its header, no pickle."""
        from safetensors.numpy import save

        arrays: dict[str, Array] = {}
        about = {
            "format": FORMAT,
            "settings": _set_aside(self.settings, SETTINGS, arrays),
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
            **arrays,
            **{f"{RELEASED}{k}": np.ascontiguousarray(v) for k, v in self.released.items()},
        }
        if self.noise_std is not None:
            tensors[NOISE_STD] = np.ascontiguousarray(self.noise_std)
        return write_bytes(path, save(tensors, metadata={"tacenda": json.dumps(about)}))

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report of this run.

        Result: the file that was written.
        """
        from tacenda.report import build

        return build(self, path)


def load(path: str | Path) -> RunResult:
    """Read what `RunResult.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    StateError
        If there is no such file, or it is damaged or of another kind.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> result = tc.simulate(tc.Problem(shards, classes=(0, 1)), tc.graph.ring(4), "admm", 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = result.save(os.path.join(folder, "run.tacenda"))
    ...     tc.load(file).rounds
    5
    """
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
        _put_back(about["settings"], tensors),
        about["warnings"],
        about["seconds"],
        about["messages"],
        about["bytes"],
        {
            name.removeprefix(RELEASED): values
            for name, values in tensors.items()
            if name.startswith(RELEASED)
        },
        tensors.get(NOISE_STD),
    )


def _set_aside(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    """A plain value whose arrays were moved to `arrays`: a file holds a million edges as numbers,
    not as text."""
    if isinstance(value, dict):
        return {k: _set_aside(v, f"{path}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        arrays[path] = np.ascontiguousarray(value)
        return {TENSOR: path}
    return {RANGE: len(value)} if isinstance(value, range) else value


def _put_back(value: Any, tensors: dict[str, Array]) -> Any:
    """The inverse of `_set_aside`."""
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]]
    if RANGE in value:
        return range(value[RANGE])
    return {k: _put_back(v, tensors) for k, v in value.items()}


def with_strength(settings: dict[str, Any], released: Mapping[str, Array]) -> dict[str, Any]:
    """The settings of a run with the strength that was chosen after a release, if one was."""
    chosen = released.get("strength")
    if chosen is None:
        return settings
    return {**settings, "problem": {**settings["problem"], "strength": float(chosen[0])}}
