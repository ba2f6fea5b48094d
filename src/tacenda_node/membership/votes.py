"""Signed votes on who takes part, so that nobody can tell two neighbours two different things.

A member that has stopped signs, with the Ed25519 key of the contract,

    (run, member, view, sorted absent members, the round in which it stopped, the places and
     digests of the totals that it holds, the view in which it stands)

and signs one such statement per view, ever: the vote is durable before it is sent, and after kill
-9 the same one is sent again. Votes are passed on as they are. A decision needs the votes of all
members whom it counts as present (`agreement`). Two different votes of one member for one view
prove a lie (or a state that was lost, restored from an old copy or runs twice): both are kept in
the state, written to a file for the operator, shown to the neighbours, and this node stops.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from tacenda.errors import PrivacyError
from tacenda.formats.files import write_json
from tacenda.formats.text import canonical_json
from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState

CONFLICT = "conflicting votes"


class ConflictingVotes(PrivacyError):
    """A member has signed two different decisions for one view."""


class Vote(Struct, frozen=True):
    """absent: in the order of the alphabet. round: where the member stopped. signature: base64."""

    absent: list[str]
    round: int
    signature: str
    stand: frames.Stand = frames.Stand()

    def says(self, other: Vote) -> bool:
        """Whether both state the same; signatures of one statement may differ."""
        same = (self.absent, self.round) == (other.absent, other.round)
        return same and stand_text(self.stand) == stand_text(other.stand)


def stand_text(stand: frames.Stand) -> dict[str, Any]:
    """What a vote says of what its member holds."""
    totals = {"map": stand.map, "last": stand.last}
    held = {
        name: "none" if total is None else [*total.key, total.digest.hex()]
        for name, total in totals.items()
    }
    return {**held, "stands_in": stand.view}


def statement(run: str, view: int, name: str, vote: Vote) -> bytes:
    """What member `name` signs;
    the first line keeps it apart from the other texts that this key signs."""
    values = {"absent": vote.absent, "view": view, "member": name, "round": vote.round, "run": run}
    values |= stand_text(vote.stand)
    return b"tacenda membership v4\n" + canonical_json(values).encode()


class Votes:
    """All votes that this member has cast or heard, one per view and member, kept in its state."""

    def __init__(
        self, contract: Contract, name: str, state: NodeState, sign: Callable[[bytes], str]
    ) -> None:
        self._contract, self._me, self._state, self._sign = contract, name, state, sign
        self._run = contract.run_id()
        self._known: dict[tuple[int, str], Vote | None] = {}
        # Whether a total was signed by the root of its view's tree; None where that is not known
        self.backed: Callable[[frames.Claim], bool | None] = lambda claim: None
        # Whether a member's vote for (view, absent) counts, as far as this member can tell by now
        self.counts: Callable[[int, frozenset[str], str, frames.SignedStop], bool] = lambda *_: True
        self.proof: list[frames.Membership] = []
        self.conflict: ConflictingVotes | None = None
        noted = state.noted(CONFLICT)
        if noted is not None:
            self._accuse(noted["view"], noted["member"], convert(noted["votes"], list[Vote]))

    def cast(self, view: int, absent: frozenset[str], round: int, stand: frames.Stand) -> None:
        """Sign this member's vote; what it has signed for the view before stands."""
        if self.find(view, self._me) is None:
            vote = Vote(sorted(absent), round, "", stand)
            self._keep(
                view,
                {self._me: replace(vote, signature=self._sign(self._text(view, self._me, vote)))},
            )

    def take(self, view: int, absent: frozenset[str], votes: dict[str, frames.SignedStop]) -> bool:
        """Keep what a neighbour passes on, all of it or nothing; whether some was new. BadFrame
        where a signature does not hold.

        This member's own vote may be among them, from a state that was lost: it is then its vote
        again, and no other is cast.
        """
        fresh: dict[str, Vote] = {}
        caught: tuple[str, list[Vote]] | None = None
        for name, stop in votes.items():
            vote = Vote(sorted(absent), stop.round, stop.signature, stop.stand)
            known = self.find(view, name)
            if known is not None and known.says(vote):
                continue
            if not self._holds(view, name, vote):
                raise frames.BadFrame(f"a vote with a signature that is not {name}'s.")
            if stop.stand.view >= view:
                raise frames.BadFrame(f"a vote of {name} for a view before the one it stands in.")
            totals = [total for total in (stop.stand.map, stop.stand.last) if total is not None]
            backed = [self.backed(total) for total in totals]
            if False in backed:
                raise frames.BadFrame(f"a vote of {name} with a total that no root has signed.")
            if None in backed or not self.counts(view, absent, name, stop):
                continue  # of a view that was not shown yet: it comes again
            if known is None:
                fresh[name] = vote
            else:
                caught = (name, [known, vote])
        if fresh:
            self._keep(view, fresh)
        if caught is not None and self.conflict is None:
            self._accuse(view, *caught)
        return bool(fresh)

    def of(self, view: int, absent: frozenset[str]) -> dict[str, frames.SignedStop]:
        """The votes for exactly this set in this view, by member."""
        found = {name: self.find(view, name) for name in self._contract.names}
        wanted = sorted(absent)
        return {
            name: frames.SignedStop(vote.round, vote.signature, vote.stand)
            for name, vote in found.items()
            if vote is not None and vote.absent == wanted
        }

    def sets(self, view: int) -> set[frozenset[str]]:
        """All sets of absent members that somebody is known to have signed for this view."""
        found = [self.find(view, name) for name in self._contract.names]
        return {frozenset(vote.absent) for vote in found if vote is not None}

    def against(self, view: int, absent: frozenset[str]) -> bool:
        """Whether somebody who would remain has signed another set, so that this one cannot be
        decided in this view any more."""
        remain = set(self._contract.names) - absent
        found = [self.find(view, name) for name in remain]
        return any(vote is not None and vote.absent != sorted(absent) for vote in found)

    def decided(self, view: int) -> list[frozenset[str]]:
        """The sets of absent members that all others have signed for this view."""
        return [
            absent
            for absent in self.sets(view)
            if self.of(view, absent).keys() == set(self._contract.names) - absent
        ]

    def find(self, view: int, name: str) -> Vote | None:
        """The one vote of this member in this view, if it is known here."""
        key = (view, name)
        if key not in self._known:
            row = self._state.noted(f"vote {view} {name}")
            vote = None if row is None else convert(row, Vote)
            if vote is not None and not self._holds(view, name, vote):
                # The contract was signed anew with another key: the own statement stays the same,
                # others are asked for again.
                again = name == self._me
                vote = (
                    replace(vote, signature=self._sign(self._text(view, name, vote)))
                    if again
                    else None
                )
            self._known[key] = vote
        return self._known[key]

    def _text(self, view: int, name: str, vote: Vote) -> bytes:
        return statement(self._run, view, name, vote)

    def _holds(self, view: int, name: str, vote: Vote) -> bool:
        key = self._contract.member(name).signing_key
        return text_signed(key, self._text(view, name, vote), vote.signature)

    def _keep(self, view: int, votes: dict[str, Vote]) -> None:
        self._state.note_all(
            {f"vote {view} {name}": to_builtins(vote) for name, vote in votes.items()}
        )
        self._known |= {(view, name): vote for name, vote in votes.items()}

    # ---- two votes of one member
    def _accuse(self, view: int, name: str, votes: list[Vote]) -> None:
        """From here on the node does not continue, also after a restart; the sentence, the proof
        and the file say why."""
        path = self._state.folder / f"evidence-{name}-view-{view}.json"
        self.conflict = ConflictingVotes(self._sentence(view, name, votes, path))
        self.proof = [
            frames.Membership(
                view, v.absent, {name: frames.SignedStop(v.round, v.signature, v.stand)}
            )
            for v in votes
        ]
        self._state.note(
            CONFLICT, {"view": view, "member": name, "votes": [to_builtins(vote) for vote in votes]}
        )
        signed = [
            {"text": self._text(view, name, v).decode(), "signature": v.signature} for v in votes
        ]
        key = self._contract.member(name).signing_key
        write_json(
            path, {"what": str(self.conflict), "member": name, "signing_key": key, "signed": signed}
        )

    def _sentence(self, view: int, name: str, votes: list[Vote], path: Path) -> str:
        first, second = (
            f"({', '.join(vote.absent) or 'nobody'} absent, stopped in round {vote.round})"
            for vote in votes
        )
        if name == self._me:
            who = f"This member's own key ({name})"
            why = "its state was lost, is an old copy, or runs twice. Leave the run"
        else:
            who = name
            why = (
                "it is faulty or dishonest, or its state was lost or copied. Show them to the "
                f"others and continue without {name}, under a new contract"
            )
        return (
            f"{who} has signed two different decisions about who takes part from view {view} on: "
            f"{first} and {second}. The node stops, so that it does not rely on noise that others "
            f"do not draw. "
            f"Both signatures are in {path}: {why}."
        )
