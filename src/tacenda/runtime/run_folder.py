"""`RunFolder`: one folder per run, in the format "tacenda-run-1".

config.toml                            the resolved configuration
manifest.json                          format, command, versions, dataset, table, results
results/<label>-<seed>.safetensors     each a RunResult (tacenda.load)
metrics.jsonl                          one JSON object per recorded round
ledger.json                            {run: what it guarantees, with every charge}
results/<label>-<seed>.intervals.json  intervals of its coefficients, where they were asked for
schema.toml                            the public schema of the data, where there is one
checkpoints/<label>-<seed>.ckpt        only while a run is unfinished
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_json, write_text
from tacenda.formats.text import json_lines
from tacenda.runtime.result import RunResult, load

FORMAT = "tacenda-run-1"
DEFAULT_PARENT = "runs"


class RunFolder:
    """Paths and contents of one run folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, config: str, *, resume: bool) -> RunFolder:
        """A new folder with its configuration; an old one only with `resume`,
        and only for the same configuration."""
        folder = cls(path)
        used = folder.check_free(resume=resume)
        if used and folder.config_path.is_file():
            folder._check_same(config)
        elif used:
            raise StateError(
                f"{folder.path} holds no config.toml, so it is not a run folder that could be "
                "resumed."
            )
        folder.make()
        write_text(folder.config_path, config)
        return folder

    def check_free(self, *, resume: bool = False) -> bool:
        """Refuse a place that a run cannot be written to, and return whether it is in use."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"the run folder {self.path} is a file; choose another place with --folder."
            )
        used = self.path.is_dir() and any(self.path.iterdir())
        if used and not resume:
            raise InputError(
                f"the run folder {self.path} is not empty; go on with --resume, "
                "or choose another place with --folder."
            )
        return used

    def make(self) -> RunFolder:
        """The folder and its parts on the disk, with the folders above it."""
        for path in (self.path / "results", self.path / "checkpoints"):
            path.mkdir(parents=True, exist_ok=True)
        return self

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A folder that holds a finished run."""
        folder = cls(path)
        if not folder.path.is_dir():
            raise InputError(
                f"there is no run folder at {str(path)!r}; "
                "`tacenda fit` and `tacenda compare` write one."
            )
        if not folder.manifest_path.is_file():
            hint = (
                "it is unfinished: go on with --resume"
                if folder.config_path.is_file()
                else "it is not a run folder"
            )
            raise StateError(f"{folder.path} has no manifest.json; {hint}.")
        return folder

    def has_progress(self) -> bool:
        """Whether a finished result or a checkpoint lies here."""
        return any(self.path.glob("results/*.safetensors")) or any(
            self.path.glob("checkpoints/*.ckpt")
        )

    def discard_if_empty(self) -> None:
        """Take back a folder in which no run was finished or checkpointed:
        a refused run leaves nothing behind."""
        if self.has_progress():
            return
        for path in (self.config_path, self.schema_path):
            path.unlink(missing_ok=True)
        for path in (self.path / "checkpoints", self.path / "results", self.path):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def _check_same(self, config: str) -> None:
        import tomllib

        before, now = tomllib.loads(self.config_path.read_text("utf-8")), tomllib.loads(config)
        for section in sorted({*before, *now}):
            old, new = before.get(section, {}), now.get(section, {})
            if old != new:
                keys = (
                    [k for k in {**old, **new} if old.get(k) != new.get(k)]
                    if isinstance(old, dict)
                    else []
                )
                if section == "run" and set(keys) <= {"folder", "jobs", "engine"}:
                    continue
                place = f"{section}.{keys[0]}" if keys else section
                raise StateError(
                    f"{self.path} belongs to another run: its {place} differs. "
                    "Use the same settings, or another --folder."
                )

    @property
    def config_path(self) -> Path:
        return self.path / "config.toml"

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def ledger_path(self) -> Path:
        return self.path / "ledger.json"

    @property
    def schema_path(self) -> Path:
        return self.path / "schema.toml"

    def result_path(self, run: str) -> Path:
        return self.path / "results" / f"{run}.safetensors"

    def intervals_path(self, run: str) -> Path:
        return self.path / "results" / f"{run}.intervals.json"

    def checkpoint_path(self, run: str) -> Path:
        return self.path / "checkpoints" / f"{run}.ckpt"

    def manifest(self) -> dict[str, Any]:
        """The manifest, checked for its format."""
        values = _json(self.manifest_path)
        if values.get("format") != FORMAT:
            raise StateError(
                f"{self.manifest_path} has format {values.get('format')!r}, "
                f"but this program reads {FORMAT!r}."
            )
        return values

    def ledger(self) -> dict[str, Any]:
        """{run: what it guarantees}; empty where there is no such file."""
        return _json(self.ledger_path) if self.ledger_path.is_file() else {}

    def result(self, entry: dict[str, Any]) -> RunResult:
        """The result that an entry of the manifest names; it may only lie in this folder."""
        file = str(entry.get("file", f"results/{run_name(entry)}.safetensors"))
        for candidate in (self.path / file, self.path / "results" / file):
            if not candidate.resolve().is_relative_to(self.path.resolve()):
                raise StateError(
                    f"{self.manifest_path} points outside its folder ({file!r}); that is refused."
                )
            if candidate.is_file():
                return load(candidate)
        return load(self.path / file)

    def save(self, run: str, result: RunResult) -> Path:
        """Write one result, then drop its checkpoint: the run is done."""
        target = result.save(self.result_path(run))
        self.checkpoint_path(run).unlink(missing_ok=True)
        return target

    def finish(self, results: dict[str, RunResult], manifest: dict[str, Any]) -> None:
        """Metrics, ledger and, last of all, the manifest,
        whose presence says that the run is complete."""
        rows = [
            {"run": run, **row} for run, result in results.items() for row in result.history.rows
        ]
        write_text(self.path / "metrics.jsonl", json_lines(rows))
        spent = {run: r.privacy.to_plain() for run, r in results.items() if r.privacy is not None}
        write_json(self.ledger_path, spent)
        write_json(self.manifest_path, {"format": FORMAT, "created": _now(), **manifest})
        checkpoints = self.path / "checkpoints"
        if checkpoints.is_dir() and not any(checkpoints.iterdir()):
            checkpoints.rmdir()


def run_name(entry: dict[str, Any]) -> str:
    """What an entry of the manifest is called: its label, and its seed where it has one."""
    label, seed = entry.get("label", entry.get("algorithm", "run")), entry.get("seed")
    return str(label) if seed is None else f"{label}-{seed}"


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as damaged:
        raise StateError(f"{path} is not readable JSON: {damaged}.") from None
    if not isinstance(values, dict):
        raise StateError(f"{path} must hold a JSON object, not a {type(values).__name__}.")
    return values


def default_path(name: str) -> Path:
    """runs/<name>-<date>-<time>, or with a number behind it where that exists."""
    stem = Path(DEFAULT_PARENT) / f"{name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    path, number = stem, 2
    while path.exists():
        path, number = stem.with_name(f"{stem.name}-{number}"), number + 1
    return path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
