"""Checkpoints between rounds: one safetensors file, replaced atomically, from which a run goes on bit for bit.

It holds the state of all nodes in the graph's order (so a run may be resumed on another placement), the running average,
where the local solver's factorisations were taken, the charges made so far, and the history. Noise needs nothing: streams are
named by (seed, node, round, call). A digest over all of it shows a file that was damaged or changed, and the charges must be as many
as the plan has up to the round, so that a resumed run never reports less than it has spent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import InputError, StateError
from tacenda.privacy.bounded import Bounded
from tacenda.privacy.events import KINDS
from tacenda.privacy.ledger import Charge, Charges

Array = NDArray[Any]
FORMAT = "tacenda-checkpoint-2"


@dataclass
class Saved:
    """What a checkpoint holds: arrays by name, and plain values."""

    arrays: dict[str, Array]
    about: dict[str, Any]


def prepare(path: str | Path, resume: bool) -> Path:
    """The file's path; an old checkpoint is never overwritten unasked."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"checkpoint must be a file, not the folder {target}; give a name such as {target / 'run.ckpt'}.")
    if target.exists() and not resume:
        raise InputError(f"checkpoint {target} exists; pass resume=True to go on from it, or remove it to start anew.")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def write(path: Path, saved: Saved) -> None:
    """Write beside the old file, flush to the disk, then take its place in one step.

    For its owner's eyes only: it holds the seed, and whoever knows that can take the noise off.
    """
    from safetensors.numpy import save

    about = json.dumps({"format": FORMAT, **saved.about})
    arrays = {k: np.ascontiguousarray(v) for k, v in saved.arrays.items()}
    data = save(arrays, metadata={"tacenda": about, "digest": _digest(about, arrays)})
    beside = path.with_name(path.name + ".part")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def seed_of(path: Path) -> int | None:
    """The seed of the run that wrote this checkpoint; None if there is none yet."""
    return int(_read(path).about["identity"]["seed"]) if path.is_file() else None


def _read(path: Path) -> Saved:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            words = file.metadata() or {}
            about = json.loads(words.get("tacenda", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as damaged:
        raise StateError(f"The checkpoint {path} cannot be read: {damaged}. Remove it to start anew.") from None
    if about.get("format") != FORMAT:
        raise StateError(f"{path} is not a checkpoint of this version of the program.")
    if words.get("digest") != _digest(words["tacenda"], arrays):
        raise StateError(f"The checkpoint {path} is damaged: its content is not what was written. Remove it to start anew.")
    return Saved(arrays, about)


def _digest(about: str, arrays: dict[str, Array]) -> str:
    whole = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        whole.update(f"\0{name}\0{arrays[name].dtype.str}\0{arrays[name].shape}\0".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data)
    return whole.hexdigest()


def check_charges(charges: Charges, reserved: Charges | None, rounds: int, done: int) -> None:
    """A checkpoint of round `done` holds all releases that were planned up to it, where every round has as many."""
    if reserved is None or not rounds or len(reserved) % rounds:
        return
    planned = done * len(reserved) // rounds
    if len(charges) != planned:
        raise StateError(
            f"The checkpoint is of round {done} and holds {len(charges)} releases, where {planned} were planned: charges were lost or "
            "changed. Remove it to start anew; what the run has spent stays spent."
        )


def read(path: Path, identity: dict[str, Any]) -> Saved:
    """Read a checkpoint that belongs to this very run; a difference is named."""
    saved = _read(path)
    for name, value in identity.items():
        if saved.about["identity"].get(name) != json.loads(json.dumps(value)):
            raise StateError(
                f"The checkpoint {path} belongs to another run: its {name} differs. Use the same settings, or remove it."
            )
    return saved


def state_arrays(states: list[Any], parts: list[Array], n: int) -> dict[str, Array]:
    """The fields of all blocks' states as arrays (n, d) in the graph's order."""
    arrays = {}
    for field in dataclasses.fields(states[0]):
        rows = [getattr(state, field.name) for state in states]
        if rows[0] is None:
            continue
        if isinstance(rows[0], Bounded):
            raise StateError("A run as published keeps an unreleased value in its state, and is therefore not checkpointed.")
        whole = np.empty((n, *rows[0].shape[1:]), rows[0].dtype)
        for part, values in zip(parts, rows, strict=True):
            whole[part] = values
        arrays[f"state.{field.name}"] = whole
    return arrays


def restore_state(template: Any, arrays: dict[str, Array], part: Array) -> Any:
    """The state of one block."""
    found = {
        field.name: np.ascontiguousarray(arrays[f"state.{field.name}"][part])
        for field in dataclasses.fields(template)
        if f"state.{field.name}" in arrays
    }
    return dataclasses.replace(template, **found)


def plain_charges(charges: Charges, arrays: dict[str, Array], name: str) -> list[dict[str, Any]]:
    """Charges as plain values; their parameters go into `arrays`."""
    rows = []
    for k, (charge, count) in enumerate(charges):
        for key, values in charge.parameters.items():
            arrays[f"{name}.{k}.{key}"] = np.asarray(values, float)
        rows.append({"kind": charge.kind.kind, "count": count, "keys": list(charge.parameters)})
    return rows


def charges_from(rows: list[dict[str, Any]], arrays: dict[str, Array], name: str) -> Charges:
    """The inverse of `plain_charges`."""
    return Charges(
        (Charge(KINDS[row["kind"]], {key: arrays[f"{name}.{k}.{key}"] for key in row["keys"]}), row["count"])
        for k, row in enumerate(rows)
    )


def join_charges(parts: list[Array], ledgers: list[Charges], n: int) -> Charges:
    """The charges of all blocks as charges of all n nodes; every block made the same releases in the same order."""
    if len(ledgers) == 1 and np.array_equal(parts[0], np.arange(n)):
        return ledgers[0]
    whole = Charges()
    steps = [_expanded(charges) for charges in ledgers]
    for together in zip(*steps, strict=True):
        first = together[0]
        values = {key: np.empty(n) for key in first.parameters}
        for part, charge in zip(parts, together, strict=True):
            for key, column in charge.parameters.items():
                values[key][part] = column
        whole.add(Charge(first.kind, values))
    return whole


def _expanded(charges: Charges) -> list[Charge]:
    return [charge for charge, count in charges for _ in range(count)]
