"""Amendments: signed changes of a contract while its run goes on.

An amendment is a whole contract text with the next number and the hash of the text that it follows;
it lies beside the contract as `contract.amendment-1.toml`, with its signatures. Two things may
change, because the run stays the same run (`Contract.run_id`):

    identities    a member's certificate, TLS key, address, authority
    left          members who leave for good: the others agree on a new view without them, as on
                  one that stays away (`agreement`), whatever the absence policy says

All members who have not left sign; the signatures travel as those of the contract do. A node looks
for the next amendment while it runs and when it starts, and goes by it from the moment at which it
holds all signatures. The text is durable in the state before that. Who joins, joins the next run:
noise, weights and maps of the records are fixed for all members before round 1.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tacenda.errors import InputError
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import IDENTITY_FIELDS, Contract, Member, differing_fields
from tacenda_node.protocol.contract_signatures import ContractSignatures, SignatureBook
from tacenda_node.state.database import NodeState

NOTE = "amendments"
LOOK_SECONDS = 1.0  # between two looks for the next amendment
_CHANGEABLE = ("address", "fingerprint", "listens")


def amendment_path(contract: str | Path, number: int) -> Path:
    """Where amendment `number` of the contract in this file lies."""
    path = Path(contract)
    return path.with_name(f"{path.stem}.amendment-{number}{path.suffix}")


def check_amendment(old: Contract, new: Contract) -> None:
    """Refuse a text that is not the next amendment of `old`."""
    number = (old.amendment or 0) + 1
    if new.amendment != number or new.follows != old.hash():
        raise InputError(
            f"contract field follows: amendment {new.amendment} follows the text with hash "
            f"{str(new.follows)[:16]}, and the contract in force is amendment {number - 1} with "
            f"hash {old.hash()[:16]}; make amendment {number} from that one."
        )
    if new.run_id() != old.run_id():
        plain = [_without_identities(text) for text in (old, new)]
        fields = differing_fields(*(text.field_hashes() for text in plain))
        raise InputError(
            f"contract field {fields[0]}: an amendment may change certificates, addresses and who "
            "has left, nothing else; for other terms sign a contract for a new run."
        )
    for member in new.members:
        if member.signing_key != old.member(member.name).signing_key:
            raise InputError(
                f"contract field members.{member.name}.signing_key: signatures of this run are "
                "checked with the key it began with; keep `signing.key`, or begin a new run."
            )
    if 2 * len(new.signatories) <= len(old.signatories):
        raise InputError(
            f"contract field left: {len(new.signatories)} of {len(old.signatories)} members would "
            "remain, and more than half of them must, because only those who stay sign; end the "
            "run, and begin a new one with fewer members."
        )
    if not set(old.left or ()) <= set(new.left or ()):
        raise InputError(
            "contract field left: a member that has left a run cannot return to it; let it join "
            "the next run (`tacenda contract amend --add`)."
        )


def _without_identities(contract: Contract) -> Contract:
    """The text as far as it defines the run."""
    same = {name: getattr(contract.members[0], name) for name in _CHANGEABLE}
    changes: dict[str, Any] = {"amendment": None, "follows": None, "left": None, "authorities": []}
    members = [member.model_copy(update=same) for member in contract.members]
    return contract.model_copy(update={**changes, "members": members})


class Amendments:
    """The contract in force with one member, and the next one, as far as it is signed.

    former: the texts before the one in force, the oldest first.
    """

    def __init__(self, path: Path, contract: Contract, name: str, state: NodeState, log: Any):
        self._path, self._me, self._state, self._log = path, name, state, log
        self.former: list[Contract] = []
        self.current = contract
        for values in state.noted(NOTE) or []:
            text = Contract.build(values)
            # A contract that was itself replaced by a newer text needs no older amendments
            if text.follows == self.current.hash():
                self.former.append(self.current)
                self.current = text
        self.book = SignatureBook(self._signatures(self.current, self._file(0)), log)
        self.book.past = {text.hash() for text in self.former}
        self._looked, self._kept = -LOOK_SECONDS, ""
        self._told = ""
        self.look()

    @property
    def left(self) -> frozenset[str]:
        """Who has left the run for good."""
        return frozenset(self.current.left or ())

    @property
    def texts(self) -> list[Contract]:
        """The text in force, and the next one, if it is here."""
        return [text.contract for text in self.book.texts]

    def look(self) -> str:
        """Look for the next amendment and its signatures, now and then; the hash of a text whose
        signatures are new here, or ""."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return ""
        self._looked = time.monotonic()
        path = self._file(1)
        if not path.exists():
            return ""
        try:
            return self._take(path)
        except InputError as wrong:
            self._tell(f"{path}: {wrong}")
            return ""

    def _take(self, path: Path) -> str:
        pending = self.book.pending
        text = contract_files.read(path)
        if pending is None or pending.hash != text.hash():
            check_amendment(self.current, text)
            given = contract_files.signatures(path)
            if self._me in text.signatories and self._me not in given:
                self._tell(
                    f"{path} lacks the signature of {self._me}, whose node this is; read it, then "
                    f"run `tacenda contract sign --contract {path}`"
                )
                return ""
            pending = self._signatures(text, path)
            pending.add(given)
            self.book.pending = pending
            self._log.info("amendment found", number=text.amendment, contract=pending.hash)
            return pending.hash
        return pending.hash if pending.add(contract_files.signatures(path)) else ""

    def adopted(self) -> bool:
        """Whether the next amendment has all signatures: it is then in force, here and from now
        on."""
        pending = self.book.pending
        if pending is None:
            return False
        if not pending.complete:
            self._tell(f"amendment {pending.contract.amendment}: {pending.sentence()}")
            return False
        self.former.append(self.current)
        kept = [text.to_plain() for text in [*self.former[1:], pending.contract]]
        self._state.note(NOTE, kept)
        self.book.past.add(self.current.hash())
        self.current = pending.contract
        self.book.current, self.book.pending = pending, None
        self._log.info(
            "amendment in force",
            number=self.current.amendment,
            left=", ".join(sorted(self.left)) or "nobody",
        )
        return True

    def keep_signed(self) -> None:
        """The text in force with all its signatures, in the state folder, for who asks later."""
        if self._kept != self.book.current.hash:
            self._kept = self.book.current.hash
            signatures = self.book.current.frame().signatures
            contract_files.write_signed(self.current, signatures, self._state.folder)

    def _file(self, ahead: int) -> Path:
        number = (self.current.amendment or 0) + ahead
        return amendment_path(self._path, number) if number else self._path

    def _signatures(self, text: Contract, path: Path) -> ContractSignatures:
        there = path.exists() and contract_files.read(path).hash() == text.hash()
        return ContractSignatures(
            text, contract_files.signatures(path) if there else {}, self._state
        )

    def _tell(self, words: str) -> None:
        if words != self._told:
            self._told = words
            self._log.warning("amendment waits", message=words)


def amended(contract: Contract, cards: list[dict[str, Any]], leaving: list[str]) -> Contract:
    """The next amendment of a contract: new cards of members, and members who leave."""
    plain = contract.to_plain()
    for card in cards:
        name = contract.member(str(card.get("name"))).name
        authority = card["authority"]
        if authority not in plain["authorities"]:
            plain["authorities"].append(authority)
        member = next(values for values in plain["members"] if values["name"] == name)
        member |= {key: card[key] for key in IDENTITY_FIELDS if key in card}
    left = [*(contract.left or []), *(contract.member(name).name for name in leaving)]
    plain |= {"amendment": (contract.amendment or 0) + 1, "follows": contract.hash()}
    if left:
        plain["left"] = left
    made = Contract.build(plain)
    check_amendment(contract, made)
    return made


def next_run(
    contract: Contract,
    title: str,
    cards: list[dict[str, Any]],
    joined_to: list[str],
    sizes: dict[str, int] | None = None,
    continues: dict[str, Any] | None = None,
) -> Contract:
    """A contract for the next run: the same terms and members, without those who have left and with
    new ones, whose neighbours are `joined_to` (by default the first and the last member). sizes:
    new numbers of records; continues: that part of it."""
    plain = contract.to_plain()
    plain.pop("continues", None)
    if continues is not None:
        plain["continues"] = continues
    gone = set(plain.pop("left", []))
    for name in ("amendment", "follows"):
        plain.pop(name, None)
    plain["members"] = [m for m in plain["members"] if m["name"] not in gone]
    plain["edges"] = [edge for edge in plain["edges"] if not gone & set(edge)]
    stay = [m["name"] for m in plain["members"]]
    ends = [contract.member(name).name for name in joined_to] or [stay[0], stay[-1]]
    for card in cards:
        values = {key: card[key] for key in Member.model_fields if key in card}
        authority = card["authority"]
        if authority not in plain["authorities"]:
            plain["authorities"].append(authority)
        plain["members"].append(values)
        plain["edges"] += [[end, values["name"]] for end in dict.fromkeys(ends)]
    for name, size in (sizes or {}).items():
        found = [m for m in plain["members"] if m["name"] == name]
        if not found:
            raise InputError(f"--size {name}={size}: {name!r} is not a member of the next run.")
        found[0]["size"] = size
    if title == contract.title:
        raise InputError(
            "--title must differ from that of the run before, because every run has its own; "
            f"for example {contract.title + ' 2'!r}."
        )
    return Contract.build({**plain, "title": title})
