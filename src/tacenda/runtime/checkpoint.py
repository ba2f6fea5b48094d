"""Checkpoints between rounds: one safetensors file, replaced atomically, from which a run goes on
bit for bit.

It holds the state of all nodes in the graph's order (so a run may be resumed on another placement),
the running average, where the local solver's factorisations were taken, the charges made so far,
and the history. Noise needs nothing: streams are named by (seed, node, round, call). A digest over
all of it shows a file that was damaged or changed, and the charges must be as many as the plan has
up to the round, so that a resumed run never reports less than it has spent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError, StateError
from tacenda.formats.files import checked_output, write_bytes
from tacenda.privacy.accounting.events import KINDS
from tacenda.privacy.secrets.ledger import Charge, Charges

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
        raise InputError(
            f"checkpoint must be a file, not the folder {target}; "
            f"give a name such as {target / 'run.ckpt'}."
        )
    if target.exists() and not resume:
        raise InputError(
            f"checkpoint {target} exists; pass resume=True to continue from it, "
            "or remove it to start again."
        )
    return checked_output(target)


def write(path: Path, saved: Saved) -> None:
    """For its owner's eyes only: it holds the seed,
    and whoever knows that can take the noise off."""
    from safetensors.numpy import save

    about = json.dumps({"format": FORMAT, **saved.about})
    arrays = {k: np.ascontiguousarray(v) for k, v in saved.arrays.items()}
    data = save(arrays, metadata={"tacenda": about, "digest": _digest(about, arrays)})
    write_bytes(path, data, private=True)


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
        raise StateError(
            f"The checkpoint {path} cannot be read: {damaged}. Remove it to start again."
        ) from None
    if about.get("format") != FORMAT:
        raise StateError(f"{path} is not a checkpoint of this version of the program.")
    if words.get("digest") != _digest(words["tacenda"], arrays):
        raise StateError(
            f"The checkpoint {path} is damaged: its content is not what was written. "
            "Remove it to start again."
        )
    return Saved(arrays, about)


def _digest(about: str, arrays: dict[str, Array]) -> str:
    whole = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        whole.update(f"\0{name}\0{arrays[name].dtype.str}\0{arrays[name].shape}\0".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data)
    return whole.hexdigest()


def check_charges(charges: Charges, reserved: Charges | None, rounds: int, done: int) -> None:
    """A checkpoint of round `done` holds all releases that were planned up to it, where every round
    has as many."""
    if reserved is None or not rounds or len(reserved) % rounds:
        return
    planned = done * len(reserved) // rounds
    if len(charges) != planned:
        raise StateError(
            f"The checkpoint is of round {done} and holds {len(charges)} releases, "
            f"where {planned} were planned: charges were lost or changed. "
            "Remove it to start again; what the run has spent stays spent."
        )


def read(path: Path, identity: dict[str, Any]) -> Saved:
    """Read a checkpoint that belongs to this very run; a difference is named. A setting that only
    the file or only the run has is a difference too."""
    saved = _read(path)
    there, here = saved.about["identity"], json.loads(json.dumps(identity))
    for name in [*here, *(name for name in there if name not in here)]:
        if name not in here or name not in there or there[name] != here[name]:
            raise StateError(
                f"The checkpoint {path} belongs to another run: its {name} differs. "
                "Use the same settings, or remove it."
            )
    return saved


def plain_charges(charges: Charges, arrays: dict[str, Array], name: str) -> list[dict[str, Any]]:
    """Charges as plain values; their parameters go into `arrays`."""
    rows = []
    shared = charges.nodes
    if shared is not None:
        arrays[f"{name}.nodes"] = shared
    for k, (charge, count) in enumerate(charges):
        values = charge.parameters if shared is None else charge.entries
        for key, numbers in values.items():
            arrays[f"{name}.{k}.{key}"] = np.asarray(numbers, float)
        rows.append({"kind": charge.kind.kind, "count": count, "keys": list(values)})
    return rows


def charges_from(rows: list[dict[str, Any]], arrays: dict[str, Array], name: str) -> Charges:
    """The inverse of `plain_charges`."""
    nodes = arrays.get(f"{name}.nodes")
    return Charges(
        (
            Charge(
                KINDS[row["kind"]], {key: arrays[f"{name}.{k}.{key}"] for key in row["keys"]}, nodes
            ),
            row["count"],
        )
        for k, row in enumerate(rows)
    )
