"""The proposals of a member's folder: what came, who has accepted it, and what follows.

`proposals/NUMBER.json` holds a proposal and the signatures that are known. Accepted here, its
contract lies beside the folder's own, signed, and is in the queue, from which `tacenda node serve`
takes it; an amendment lies beside the contract that it amends, where the node finds it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, PrivacyError, StateError, TacendaError
from tacenda.formats.files import write_json
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import amendment_path, check_amendment
from tacenda_node.proposals.proposal import STOP, WITHOUT, Proposal, read_proposal
from tacenda_node.state.locks import lock

FOLDER = "proposals"
MOST = 64  # that are kept, and of one member:
MOST_OF_ONE = 8
NUMBER = re.compile("[0-9a-f]{12}")
OTHER_FILES = ("node.toml", "policy.toml", "schema.toml")


@dataclass(frozen=True)
class Kept:
    """A proposal with the answers that are known, and the contract that it follows."""

    proposal: Proposal
    signatures: dict[str, str]
    base: Contract
    file: Path  # of that contract

    @property
    def missing(self) -> list[str]:
        """Who has not accepted it yet."""
        return [k for k in self.proposal.signatories(self.base) if k not in self.signatures]

    @property
    def in_effect(self) -> bool:
        return self.proposal.enough(set(self.signatures), self.base)

    def question(self, me: str) -> str:
        """What this member is asked, in words; "" where nothing is open for it."""
        if me not in self.missing or self.in_effect or self.proposal.by == me:
            return ""
        number = self.proposal.number
        return f"{self.proposal.words()}. Read it and answer: tacenda consortium accept {number}"

    def to_plain(self) -> dict[str, Any]:
        """For programs."""
        text = self.proposal.text()
        return {
            "number": self.proposal.number,
            "kind": self.proposal.kind,
            "by": self.proposal.by,
            "at": self.proposal.at,
            "reason": self.proposal.reason,
            "title": None if text is None else text.title,
            "accepted": sorted(self.signatures),
            "missing": self.missing,
            "in_effect": self.in_effect,
        }


class Box:
    """`Box(home)`: the folder in which the member's contracts lie."""

    def __init__(self, home: str | Path) -> None:
        self.home = Path(home)
        self.folder = self.home / FOLDER
        self._mutex = threading.RLock()
        self._depth = 0
        self.refused: dict[str, str] = {}  # by number, why it was not kept
        self._looked: tuple[str, int, Kept | None] = ("", -1, None)

    def bases(self) -> list[tuple[Path, Contract]]:
        """Every contract in the folder with its latest amendment, by file."""
        found = []
        for path in sorted(self.home.glob("*.toml")):
            if path.name in OTHER_FILES or ".amendment-" in path.name:
                continue
            try:
                found.append((path, in_force(path)))
            except InputError:
                continue  # a schema, or another file of the member's own
        return found

    def all(self) -> list[Kept]:
        """All that can be read, the oldest first."""
        paths = [path for path in self.folder.glob("*.json") if NUMBER.fullmatch(path.stem)]
        found = [self._read(path) for path in paths]
        kept = [one for one in found if one is not None]
        return sorted(kept, key=lambda one: (one.proposal.at, one.proposal.number))

    def find(self, number: str) -> Kept:
        """The one whose number begins so."""
        found = [one for one in self.all() if number and one.proposal.number.startswith(number)]
        if len(found) != 1:
            known = ", ".join(one.proposal.number for one in self.all()) or "none"
            raise InputError(f"{number!r} is not the number of one proposal; there are {known}.")
        return found[0]

    def take(self, proposal: Proposal, signatures: dict[str, str]) -> Kept | None:
        """Keep a proposal and what of its answers holds; None where it is about a run that is not
        here."""
        with self._alone():
            path = self.folder / f"{proposal.number}.json"
            here = self._read(path)
            if here is None:
                place = next(((f, c) for f, c in self.bases() if c.run_id() == proposal.run), None)
                if place is None:
                    return None
                proposal.check(place[1])
                self._make_room(proposal)
                here = Kept(proposal, {}, place[1], place[0])
            known = dict(here.signatures)
            text, asked = proposal.answer_text(), set(proposal.signatories(here.base))
            for name, signature in signatures.items():
                new = name in asked and name not in known
                if new and text_signed(proposal.key_of(name, here.base), text, signature):
                    known[name] = signature
            found = Kept(proposal, known, here.base, here.file)
            if known != here.signatures or not path.exists():
                self._write(found)
                self._spread(found)
            return found

    def accept(self, number: str, identity: Identity) -> Kept:
        """Sign what was proposed, and do here what follows from it."""
        with self._alone():
            one = self.find(number)
            name, target = identity.name, self.place_of(one)
            if name not in one.proposal.signatories(one.base):
                raise InputError(f"{name} is not asked: the proposal is to the other members.")
            text = one.proposal.text()
            if target is None or text is None:
                mine = identity.sign_text(one.proposal.answer_text())
            else:
                if not target.exists():
                    contract_files.write(text, target)
                elif contract_files.read(target).hash() != text.hash():
                    raise StateError(
                        f"{target} is another amendment than the proposed one; find out with the "
                        "others which one is meant, and move the other one away."
                    )
                contract_files.sign(target, identity)
                mine = contract_files.signatures(target)[name]
            found = self.take(one.proposal, {name: mine})
            assert found is not None
            self._spread(found)
            return found

    def signed(self, text: Contract, signatures: dict[str, str]) -> None:
        """Keep what a node has gathered; so a new member, which has no box yet, counts, too."""
        for one in self.all():
            proposed = one.proposal.text()
            if proposed is not None and proposed.hash() == text.hash():
                self.take(one.proposal, signatures)

    def place_of(self, one: Kept) -> Path | None:
        """Where the proposed contract lies once it is accepted here."""
        text = one.proposal.text()
        if text is None:
            return None
        if one.proposal.kind == WITHOUT:
            assert text.amendment is not None
            return amendment_path(one.file, text.amendment)
        return self.home / f"next-{one.proposal.number}.toml"

    def stopped(self, run: str) -> Kept | None:
        """The stop of a run that enough have accepted; cheap where nothing has changed."""
        changed = self.folder.stat().st_mtime_ns if self.folder.exists() else 0
        if self._looked[:2] != (run, changed):
            stops = [o for o in self.all() if o.proposal.kind == STOP and o.proposal.run == run]
            found = next((one for one in stops if one.in_effect), None)
            self._looked = (run, changed, found)
        return self._looked[2]

    def sheet(self) -> bytes:
        """All proposals, for another member."""
        return json.dumps(
            [{"proposal": o.proposal.to_plain(), "signatures": o.signatures} for o in self.all()]
        ).encode()

    def read_sheet(self, data: bytes) -> list[Kept]:
        """Keep what another member holds; InputError for what is no such list."""
        try:
            sheet = [
                (
                    Proposal.from_plain(each["proposal"]),
                    {str(name): str(text) for name, text in each["signatures"].items()},
                )
                for each in json.loads(data)
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
            raise InputError(f"a list of proposals that cannot be read ({wrong})") from None
        found = []
        for proposal, signatures in sheet[:MOST]:
            try:
                kept = self.take(proposal, signatures)
            except (InputError, PrivacyError) as wrong:  # also one that was overtaken meanwhile
                if len(self.refused) >= MOST:
                    self.refused.clear()
                self.refused[proposal.number] = str(wrong)
                continue
            if kept is not None:
                found.append(kept)
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread, and no other process, changes the folder meanwhile: the unit that
        serves, a node and a command may do so at once."""
        with self._mutex:
            handle = -1
            if self._depth == 0:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
                lock(handle, wait=True)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if handle >= 0:
                    os.close(handle)

    def _spread(self, one: Kept) -> None:
        """The signatures that are known, beside the contract, once it was accepted here."""
        target = self.place_of(one)
        if target is None or not target.exists():
            return
        held = contract_files.signatures(target)
        if not set(one.signatures) <= set(held):
            contract_files.write_signatures(target, {**one.signatures, **held})

    def _read(self, path: Path) -> Kept | None:
        if not path.exists():
            return None
        try:
            values = json.loads(path.read_text("utf-8"))
            proposal, signatures = read_proposal(path)
            base = Contract.build(values["base"])
            return Kept(proposal, signatures, base, self.home / str(values["file"]))
        except (TacendaError, ValueError, KeyError):
            return None

    def _write(self, one: Kept) -> None:
        values = {
            "proposal": one.proposal.to_plain(),
            "signatures": one.signatures,
            "base": one.base.to_plain(),
            "file": one.file.name,
        }
        write_json(self.folder / f"{one.proposal.number}.json", values, private=True)

    def _make_room(self, proposal: Proposal) -> None:
        """A member that proposes more and more pushes out its own."""
        kept = [o for o in self.all() if not (o.proposal.kind == STOP and o.in_effect)]
        own = [one for one in kept if one.proposal.by == proposal.by]
        gone = own[:1] if len(own) >= MOST_OF_ONE else []
        if not gone and len(kept) >= MOST:
            gone = [one for one in kept if one.in_effect][:1] or kept[:1]
        for one in gone:
            (self.folder / f"{one.proposal.number}.json").unlink(missing_ok=True)


def in_force(path: Path) -> Contract:
    """A contract with its latest amendment beside it that all have signed."""
    found = contract_files.read(path)
    while True:
        later = amendment_path(path, (found.amendment or 0) + 1)
        if not later.exists() or contract_files.missing_signatures(later):
            return found
        text = contract_files.read(later)
        check_amendment(found, text)
        found = text


def numbered(title: str, taken: Iterable[str]) -> str:
    """The title of a next run: that of the one before with the next number that is free."""
    head, _, tail = title.rpartition(" ")
    number = int(tail) if head and tail.isdecimal() and len(tail) < 6 else 1
    stem = head if number > 1 or (head and tail == "1") else title
    known = set(taken)
    while f"{stem} {number + 1}" in known:
        number += 1
    return f"{stem} {number + 1}"
