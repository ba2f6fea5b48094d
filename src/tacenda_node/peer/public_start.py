"""What a run takes over from the one before it: the model, and the second moment by which records
are whitened. All of it was released there, so it costs nothing.

The contract holds the digest (`continues.start`). A member that took part in the run before finds
the numbers in its result; a new member, or one whose result is gone, gets the file
`start-DIGEST.safetensors`, which `consortium propose next` writes beside its contract. Nothing in
it is secret among the members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.taken import FOR_NEXT, Taken
from tacenda.errors import InputError, TacendaError
from tacenda.formats.files import write_bytes
from tacenda.runtime.result import RunResult, load
from tacenda_node.identity.contract import Contract


@dataclass(frozen=True, eq=False)
class PublicStart:
    """model (dim,); for_next: as a whitened run leaves it (`Taken.of`); else empty."""

    model: Array
    for_next: Array

    @classmethod
    def of(cls, result: RunResult) -> PublicStart:
        """Of a finished run."""
        moment = result.released.get(FOR_NEXT, np.zeros(0))
        return cls(np.asarray(result.models[0], float).reshape(-1), np.asarray(moment, float))

    @property
    def digest(self) -> str:
        """The same at every member."""
        words = f"start of {len(self.model)} and {len(self.for_next)} numbers\n"
        numbers = np.concatenate([self.model, self.for_next]).astype("<f8")
        return hashlib.sha256(words.encode() + numbers.tobytes()).hexdigest()

    def taken_by(self, contract: Contract) -> Taken | None:
        """What whitening takes over in a contract that continues the run."""
        if contract.continues is None or not len(self.for_next):
            return None
        return Taken.of({FOR_NEXT: self.for_next}, contract.continues.drift)

    def write(self, folder: Path) -> Path:
        """Into a file that is named by the digest."""
        from safetensors.numpy import save

        arrays = {"model": self.model, "for_next": self.for_next}
        return write_bytes(file_of(folder, self.digest), save(arrays))

    @classmethod
    def read(cls, path: Path) -> PublicStart:
        """What `write` wrote."""
        from safetensors import SafetensorError
        from safetensors.numpy import load as arrays_of

        try:
            arrays = arrays_of(path.read_bytes())
            return cls(arrays["model"].astype(float), arrays["for_next"].astype(float))
        except (OSError, SafetensorError, KeyError) as wrong:
            raise InputError(f"{path} cannot be read ({wrong}); ask for it again.") from None


def file_of(folder: Path, digest: str) -> Path:
    """Where a start lies beside the contract."""
    return folder / f"start-{digest[:16]}.safetensors"


def results_of(state: Path) -> list[Path]:
    """The results of a member's runs: of its state folder, and of those beside it that the queue
    made."""
    folders = sorted(state.parent.glob(f"{state.name}*"))
    return [file for one in folders for file in sorted(one.glob("results/*.safetensors"))]


def own_start(results: Iterable[Path], contract: Contract) -> PublicStart | None:
    """What a member's result of this contract's run leaves; None where it has none."""
    for path in results:
        try:
            result = load(path)
        except TacendaError:
            continue
        if result.settings.get("contract") == contract.hash():
            return PublicStart.of(result)
    return None


def find_start(contract: Contract, place: Path, state: Path) -> PublicStart | None:
    """The start of a contract that continues a run. place: of the contract; state: this run's state
    folder."""
    if contract.continues is None:
        return None
    wanted = contract.continues.start
    file = file_of(place.parent, wanted)
    if file.is_file():
        found = PublicStart.read(file)
        if found.digest == wanted:
            return found
        raise InputError(f"{file} is not the start that the contract names; ask for it again.")
    run = contract.continues.run[:12]
    stem = state.name.rpartition("-")[0] if "-" in state.name else state.name
    for path in results_of(state.with_name(stem)):
        try:
            found = PublicStart.of(load(path))
        except TacendaError:
            continue
        if found.digest == wanted:
            return found
    raise InputError(
        f"The contract continues the run {run}, and its model is not here. Ask a member that took "
        f"part in it for the file {file.name}, and put it beside {place}."
    )
