"""A proposal of one member to all, and what the others answer.

    next       the contract of the next run, with the same members or fewer
    with       the same, with new members
    without    an amendment of the run under way: members leave for good
    stop       the run under way ends at all members

It is signed by who proposes. To accept is to sign: the contract itself, as members always do, or
the proposal where there is none. `next`, `with` and `without` need every member who signs that
text, as any contract; `stop` takes effect when more than half of the members have accepted it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, PrivacyError
from tacenda.formats.text import canonical_json
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.contract_files import signed_text
from tacenda_node.membership.amendments import check_amendment

FORMAT = "tacenda-proposal-1"
NEXT, WITH, WITHOUT, STOP = KINDS = ("next", "with", "without", "stop")
MOST_WORDS, MOST_BYTES = 500, 1 << 19


@dataclass(frozen=True)
class Proposal:
    """kind: see above. run: of the run that it follows or changes. contract: the proposed text,
    plain; None for a stop. reason: in words."""

    kind: str
    by: str
    at: str
    run: str
    reason: str
    contract: dict[str, Any] | None
    signature: str = ""

    @classmethod
    def made(
        cls, kind: str, identity: Identity, base: Contract, reason: str, text: Contract | None
    ) -> Proposal:
        """Signed by this member."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        plain = None if text is None else text.to_plain()
        bare = cls(kind, identity.name, at, base.run_id(), reason, plain)
        made = replace(bare, signature=identity.sign_text(bare.signed_text()))
        made.check(base)
        return made

    @classmethod
    def from_plain(cls, values: Any) -> Proposal:
        """What `to_plain` gave; InputError if it is nothing of the kind."""
        try:
            if values["format"] != FORMAT or values["kind"] not in KINDS:
                raise KeyError("format")
            contract = values["contract"]
            kind, by, at, run, reason, signature = (
                str(values[name]) for name in ("kind", "by", "at", "run", "reason", "signature")
            )
            plain = None if contract is None else dict(contract)
            found = cls(kind, by, at, run, reason, plain, signature)
        except (KeyError, TypeError, ValueError) as wrong:
            raise InputError(f"This is no proposal in the format {FORMAT!r} ({wrong}).") from None
        whole = f"{found.by}{found.at}{found.reason}"
        if len(whole) > MOST_WORDS + 100 or not whole.isprintable():
            raise InputError("The proposal's words are too long, or not printable.")
        if len(json.dumps(values)) > MOST_BYTES:
            raise InputError(f"The proposal is larger than {MOST_BYTES} bytes.")
        return found

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"format": FORMAT, **self.__dict__}

    @property
    def number(self) -> str:
        """Its name: the beginning of its hash."""
        return hashlib.sha256(self.signed_text()).hexdigest()[:12]

    def signed_text(self) -> bytes:
        """What who proposes signs."""
        values = {k: v for k, v in self.to_plain().items() if k != "signature"}
        return b"tacenda proposal v1\n" + canonical_json(values).encode()

    def text(self) -> Contract | None:
        """The proposed contract."""
        return None if self.contract is None else Contract.build(self.contract)

    def answer_text(self) -> bytes:
        """What a member signs who accepts."""
        text = self.text()
        return b"tacenda accepts v1\n" + self.signed_text() if text is None else signed_text(text)

    def check(self, base: Contract) -> None:
        """Refuse what no member of `base`, the contract in force, can propose."""
        if self.by not in base.signatories:
            raise PrivacyError(f"{self.by} is no member of the run and cannot propose anything.")
        key = base.member(self.by).signing_key
        if self.run != base.run_id() or not text_signed(key, self.signed_text(), self.signature):
            raise PrivacyError(f"The proposal is not signed by {self.by} for this run.")
        text = self.text()
        if (text is None) != (self.kind == STOP):
            raise InputError(f"A proposal of kind {self.kind!r} with or without a contract.")
        if text is None:
            return
        if self.kind == WITHOUT:
            check_amendment(base, text)
            if not set(text.left or ()) - set(base.left or ()):
                raise InputError("The amendment leaves out no member; give the member's name.")
            return
        if text.run_id() == base.run_id() or text.amendment is not None:
            raise InputError("The contract is not one of a next run: give it another title.")
        if text.continues is not None and text.continues.run != self.run:
            raise InputError(
                "contract field continues.run is not the run before, which the members know; "
                "propose the next run of that one."
            )
        strangers = sorted(set(text.names) - set(base.names))
        if bool(strangers) != (self.kind == WITH):
            raise InputError(
                f"A proposal of kind {self.kind!r} whose new members are "
                f"{', '.join(strangers) or 'none'}: new members come by `propose with CARD`."
            )
        for name in sorted(set(text.names) & set(base.names)):
            if text.member(name).signing_key != base.member(name).signing_key:
                raise PrivacyError(
                    f"contract field members.{name}.signing_key is not the one of the run before; "
                    "a member that changes its key joins by an invitation."
                )

    def signatories(self, base: Contract) -> list[str]:
        """Whose answers count."""
        text = self.text()
        return list(base.signatories if text is None else text.signatories)

    def key_of(self, name: str, base: Contract) -> str:
        """The key with which a member answers."""
        text = self.text()
        return (base if text is None else text).member(name).signing_key

    def enough(self, accepted: set[str], base: Contract) -> bool:
        """Whether it takes effect."""
        asked = set(self.signatories(base))
        return 2 * len(accepted & asked) > len(asked) if self.kind == STOP else asked <= accepted

    def words(self) -> str:
        """In a line."""
        text = self.text()
        what = {
            NEXT: f"the next run, {'' if text is None else repr(text.title)}",
            WITH: f"the next run with new members, {'' if text is None else repr(text.title)}",
            WITHOUT: f"to go on without {', '.join([] if text is None else text.left or [])}",
            STOP: "to stop the run for good",
        }[self.kind]
        said = f" ({self.reason})" if self.reason else ""
        return f"{self.number}: {self.by} proposes {what}{said}"


def read_proposal(path: Path) -> tuple[Proposal, dict[str, str]]:
    """A proposal and its answers from a file."""
    try:
        values = json.loads(path.read_text("utf-8"))
        return Proposal.from_plain(values["proposal"]), dict(values["signatures"])
    except FileNotFoundError:
        raise InputError(f"There is no proposal at {path}; check its name and folder.") from None
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise InputError(f"{path} is no proposal ({wrong}); ask for it again.") from None
