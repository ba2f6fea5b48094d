"""What a member signs, what others keep of it, and what two signatures prove.

With the Ed25519 key of the contract a member signs

    every row that leaves it:    (run, member, view, round, call, digest of the row), the same for
                                 all its neighbours
    its state, to a neighbour:   (run, member, neighbour, view, name of the state folder, X25519
                                 half of the edge's key)

Neighbours keep both, and show them at the next meeting. So nobody's word stops a node: only its own
signature on a row, or on a state folder, that it does not remember, which proves that its state was
lost, is an old copy or runs twice. And a member that tells two neighbours two different things has
signed both. The digests travel with the rows to everybody; whoever holds two different ones for one
call keeps and writes down the evidence, shows it to its neighbours, and cuts that member off for
good.

A row that goes down a tree is the root's: who passes it on shows the root's signature, and who
passes on another one is caught with both. After the last round, where all members hold one model,
each signs its digest in the same way, as the row of one round more (`sign_model`).
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.formats.files import write_json
from tacenda.formats.text import canonical_json
from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol import frames
from tacenda_node.state.database import Key, NodeState

WINDOW = 8  # rounds before and after the present one in which signed digests are compared
MOST_CLAIMS = 1024  # signed digests of one member that are kept of a later view
MOST_CALLS_KEPT = 64  # of one round, where nobody says which calls the algorithm has
MOST_NEWS = 4096  # and that wait to be passed on
READY = hashlib.sha256(b"ready").digest()  # signed as the row of round 0: all may begin
MODEL = "model"  # note: the digest of this member's model, as signed in each view

LOST = (
    "the state was lost, is an old copy or runs twice. Going on would spend twice; "
    "restore the newest state, or leave the run (where the contract says 'continue': "
    "start again with an empty folder once the others go on). "
    "Its spending stays as reserved in the ledger."
)
LOST_KEY = (
    "the state was lost or is an old copy, and with it the noise shared with neighbours, "
    "which is agreed once in a run. Restore the newest state, or leave the run. "
    "Its spending stays as reserved in the ledger."
)


def digest(frame: frames.Rows | frames.Total) -> bytes:
    """SHA-256 of a row with its type and shape."""
    head = f"{frame.dtype} {frame.shape[0]} {frame.shape[1]}\n".encode()
    return hashlib.sha256(head + frame.data).digest()


def row_text(run: str, claim: frames.Claim) -> bytes:
    """What the sender of a row signs;
    the first line keeps it apart from the other texts that this key signs."""
    values = {
        "call": claim.call,
        "digest": claim.digest.hex(),
        "view": claim.view,
        "member": claim.member,
        "round": claim.round,
        "run": run,
    }
    return b"tacenda row v1\n" + canonical_json(values).encode()


def state_text(run: str, member: str, peer: str, introduction: frames.Introduction) -> bytes:
    """What `member` signs for `peer` about its state folder."""
    values = {
        "state_id": introduction.state_id,
        "view": introduction.view,
        "half": introduction.half.hex(),
        "member": member,
        "peer": peer,
        "run": run,
    }
    return b"tacenda state v1\n" + canonical_json(values).encode()


class Witness:
    """What this member has signed and what it holds of others' signatures. Used by the network's
    and the algorithm's thread."""

    def __init__(
        self,
        contract: Contract,
        name: str,
        state: NodeState,
        sign: Callable[[bytes], str],
        log: Any = None,
        calls: frozenset[int] = frozenset(range(MOST_CALLS_KEPT)),
        from_root: frozenset[tuple[int, int]] = frozenset(),
        root_of: Callable[[Key], str | None] = lambda key: None,
    ) -> None:
        """calls: those of a round in which the algorithm sends rows; from_root: the places (round,
        call) of rows that others only pass on (`runtime.places`); root_of: who has made the row in
        such a place of a view, if that is known.

        Only their digests are kept: a member that signs many others cannot fill the memory in which
        its lies would show.
        """
        self._contract, self.names = contract, frozenset(contract.names)
        self._me = name
        self._state = state
        self._sign = sign
        self._log = log
        self._calls, self._total = calls, contract.total_rounds
        self._from_root, self._root_of = from_root, root_of
        self.roots: set[str] = set()  # who has been one in any tree of this run
        self._false_sums: dict[str, list[frames.Claim]] = {}  # of whom, and the groups' own
        self._passed_on: dict[str, frames.Proof] = {}  # by whom another total was passed on
        self._run = contract.run_id()
        self._mutex = threading.RLock()
        self._known: dict[str, dict[Key, frames.Claim]] = {member: {} for member in contract.names}
        self._latest: dict[str, frames.Claim] = {}
        # What waits to be passed on, and the neighbours that have shown it: they know it already
        self._news: dict[frames.Claim, set[str]] = {}
        self._passing_on: dict[frames.Claim, set[str]] = {}  # the latest of `news`
        self._at = (0, 1)
        self.caught: dict[str, str] = {}
        self.proofs: list[frames.Proof] = []
        self._unfit: dict[str, frames.Total] = {}  # rows that no honest member signs
        self.lost: StateError | None = None
        self.on_caught: Callable[[str], None] = lambda member: None
        done = state.done()
        self.done: tuple[int, int] = done or (0, 0)
        self.latest = max(
            [(*self.done, frames.MOST_CALLS if done else 0), *(key for key, _, _ in state.unsent())]
        )
        for _, peer, raw in state.received():
            frame = frames.stored(raw, frames.Rows)
            claim = self._claim(peer, frame)
            # Not after the contract was signed anew with another key
            if claim is not None and self.holds(claim):
                self._latest[peer] = claim
                self._known[peer][claim.key] = claim
        for member in contract.names:
            noted = state.noted(f"caught {member}")
            if noted is not None:
                self.caught[member] = str(noted["sentence"])
                known = [
                    frames.stored(bytes.fromhex(text), frames.Proof) for text in noted["proofs"]
                ]
                self.proofs.extend(known)
                if noted.get("row"):
                    row = frames.stored(bytes.fromhex(noted["row"]), frames.Total)
                    self._unfit[member] = row
                    if row.parts:
                        self._false_sums[member] = row.parts
                for proof in known:
                    if proof.second.member != member:
                        self._passed_on[member] = proof

    # ---- rows
    def signed(self, frame: frames.Rows) -> frames.Rows:
        """This member's row, ready to leave: with its signature,
        and with what was heard of others."""
        claim = frames.Claim(self._me, frame.view, frame.round, frame.call, digest(frame), "")
        claim = frames.replaced(claim, signature=self._sign(row_text(self._run, claim)))
        with self._mutex:
            self._known[self._me][claim.key] = claim
            heard = self.news()
        return frames.replaced(frame, signature=claim.signature, heard=heard)

    def claim_of(self, frame: frames.Rows) -> frames.Claim:
        """What this member has signed with a row that leaves."""
        claim = self._claim(self._me, frame)
        assert claim is not None
        return claim

    def row(self, peer: str, frame: frames.Rows) -> None:
        """A neighbour's row: BadFrame unless it is signed, and the neighbour is caught if it has
        signed another one."""
        claim = self._claim(peer, frame)
        if claim is None or not self.holds(claim):
            raise frames.BadFrame("rows that it has not signed.")
        with self._mutex:
            self._compare(claim, peer, verified=True)
            if peer not in self._latest or self._latest[peer].key < claim.key:
                self._latest[peer] = claim
        self.hear(peer, frame.heard)
        if peer in self.caught:
            raise frames.BadFrame(self.caught[peer])

    def total(self, peer: str, frame: frames.Rows, root: str) -> frames.Claim | None:
        """The root's signature on a row that a neighbour hands down the tree; None if it is not the
        root's row, and then the neighbour is caught."""
        mine = self._claim(peer, frame)
        assert mine is not None
        if peer == root:
            return mine
        claim = frame.total
        with self._mutex:
            fits = claim is not None and (claim.member, claim.key) == (root, mine.key)
            if claim is not None and fits and self.holds(claim):
                self._compare(claim, peer, verified=True)
                if claim.digest == mine.digest:
                    return claim
            known = self._known[root].get(mine.key)
            if known is not None and known.digest != mine.digest:
                self._convict_relay(mine, known)
        if peer not in self.caught:
            self.beyond(peer, frame, f"a total without the signature of {root}, which has made it,")
        return None

    def sign_model(self, view: int, model: bytes) -> frames.Claim:
        """Sign the digest of this member's model after the last round; durable before it is
        told."""
        claim = frames.Claim(self._me, view, self._total + 1, 0, model, "")
        claim = frames.replaced(claim, signature=self._sign(row_text(self._run, claim)))
        self._state.note(f"{MODEL} {view}", model.hex())
        with self._mutex:
            self._known[self._me][claim.key] = claim
        return claim

    def sign_ready(self) -> None:
        """Sign that this member has met its neighbours, and may begin."""
        claim = frames.Claim(self._me, 0, 0, 0, READY, "")
        claim = frames.replaced(claim, signature=self._sign(row_text(self._run, claim)))
        with self._mutex:
            self._known[self._me][claim.key] = claim

    def ready(self) -> dict[str, frames.Claim]:
        """The members who may begin, as far as that is known."""
        with self._mutex:
            return {m: c[0, 0, 0] for m, c in self._known.items() if (0, 0, 0) in c}

    def models(self, view: int) -> dict[str, frames.Claim]:
        """The signed digests of models that are known, by member."""
        key = (view, self._total + 1, 0)
        with self._mutex:
            return {m: claims[key] for m, claims in self._known.items() if key in claims}

    def differ(self, mine: frames.Claim, other: frames.Claim) -> None:
        """Another member has signed another model than this one, and the totals were the same: keep
        both signatures."""
        member = other.member
        path = self._state.folder / f"evidence-{member}-view-{other.view}-model.json"
        sentence = (
            f"{member} has signed another model after the last round than most members, from the "
            "same signed totals: its program is faulty or it is dishonest. "
            f"Both signatures are in {path}"
        )
        signed = [
            {"text": row_text(self._run, c).decode(), "signature": c.signature}
            for c in (mine, other)
        ]
        self._write(path, member, sentence, signed)
        if member not in self.caught:
            self._note(member, sentence)

    def hear(self, peer: str, claims: list[frames.Claim]) -> bool:
        """Signed digests that a neighbour passes on; whether one was new. BadFrame where a
        signature does not hold."""
        with self._mutex:
            before = sum(map(len, self._known.values()))
            for claim in claims:
                if claim.member not in self._known:
                    raise frames.BadFrame("signatures of somebody who is not in the contract.")
                if self._near(claim):
                    self._compare(claim, peer, verified=False)
            return sum(map(len, self._known.values())) > before

    def proof(self, frame: frames.Proof) -> bool:
        """A neighbour shows two signatures of one member; whether that was new.
        BadFrame if they prove nothing."""
        first, second = frame.first, frame.second
        if first.member != second.member:
            return self._proof_of_relay(first, second)
        alike = (first.member, first.key) == (
            second.member,
            second.key,
        ) and first.digest != second.digest
        if (
            not alike
            or first.member not in self._known
            or not (self.holds(first) and self.holds(second))
        ):
            raise frames.BadFrame("a proof that proves nothing.")
        with self._mutex:
            if first.member == self._me:
                self.lose(
                    second.signature,
                    row_text(self._run, second),
                    f"two messages for round {second.round}",
                    LOST,
                )
            elif first.member in self.caught:
                return False
            else:
                self._convict(first, second)
            return True

    def _proof_of_relay(self, first: frames.Claim, second: frames.Claim) -> bool:
        """A neighbour shows that `first` was passed on where the root had signed `second`."""
        if (
            first.key != second.key
            or first.digest == second.digest
            or first.key[1:] not in self._from_root
            or not {first.member, second.member} <= self._known.keys()
            or not (self.holds(first) and self.holds(second))
        ):
            raise frames.BadFrame("a proof that proves nothing.")
        with self._mutex:
            if self._root_of(first.key) != second.member or first.member in self.caught:
                return False
            self._compare(second, "", verified=True)
            if first.member == self._me or second.member in self.caught:
                return False
            self._convict_relay(first, second)
            return True

    def is_past(self, member: str, place: Key) -> bool:
        """Whether a member has signed anything after this place of a view."""
        with self._mutex:
            return any(k[0] == place[0] and k > place for k in self._known[member])

    def advance(self, view: int, round: int) -> None:
        """This member now works on a later round: what is too old to be compared is forgotten."""
        with self._mutex:
            self._at = (view, round)
            for member, claims in self._known.items():
                self._known[member] = {k: c for k, c in claims.items() if self._near(c)}

    def news(self) -> list[frames.Claim]:
        """What was heard since the last message, to be passed on."""
        with self._mutex:
            items = list(self._news.items())
            self._passing_on = dict(items[: frames.MOST_HEARD])
            self._news = dict(items[frames.MOST_HEARD :])
            return list(self._passing_on)

    def unknown_to(self, peer: str, claims: list[frames.Claim]) -> list[frames.Claim]:
        """Of the latest `news` those that this neighbour has not shown itself."""
        with self._mutex:
            return [c for c in claims if peer not in self._passing_on.get(c, ())]

    def recent(self) -> list[frames.Claim]:
        """The signed digests that are known of the last rounds,
        for a neighbour who has just connected."""
        with self._mutex:
            claims = sorted(
                (c for known in self._known.values() for c in known.values()),
                key=lambda claim: (claim.round == 0, claim.key),
            )
            return claims[-frames.MOST_HEARD :]

    def _near(self, claim: frames.Claim) -> bool:
        view, round = self._at
        return claim.view in (view, view + 1) and (
            claim.view > view or abs(claim.round - round) <= WINDOW
        )

    def _compare(self, claim: frames.Claim, peer: str, *, verified: bool) -> None:
        """peer: who has shown it here."""
        known = self._known[claim.member].get(claim.key)
        if known is not None and known.digest == claim.digest:
            if known in self._news:
                self._news[known].add(peer)
            return
        if not verified and not self.holds(claim):
            raise frames.BadFrame(f"a signature that is not {claim.member}'s.")
        if claim.member == self._me and self.latest == (0, 0, 0):
            # an empty state, perhaps in the place of a lost one: the handshake judges that, and
            # nothing leaves before
            return
        if claim.member == self._me and (known is not None or not self.remembers(claim)):
            self.lose(
                claim.signature,
                row_text(self._run, claim),
                f"round {claim.round}, call {claim.call}",
                LOST,
            )
        elif known is not None and claim.member not in self.caught:
            self._convict(known, claim)
        elif known is None and self._has_room(claim):
            self._keep(claim, peer)

    def _has_room(self, claim: frames.Claim) -> bool:
        """For every row that an honest member may send in this view,
        whatever else it has signed."""
        is_model = claim.key[1:] == (self._total + 1, 0)
        is_ready = (claim.key, claim.digest) == ((0, 0, 0), READY)
        is_row = claim.call in self._calls and 1 <= claim.round <= self._total
        if not self._near(claim) or not (is_row or is_model or is_ready):
            return False
        later = sum(1 for key in self._known[claim.member] if key[0] > self._at[0])
        return claim.view == self._at[0] or later < MOST_CLAIMS

    def _keep(self, claim: frames.Claim, peer: str) -> None:
        self._known[claim.member][claim.key] = claim
        if len(self._news) > MOST_NEWS:
            del self._news[next(iter(self._news))]
        # Never behind what follows from it: see `Exchange._keep_pace`
        if claim.key[1:] in self._from_root and claim.member == self._root_of(claim.key):
            self._news = {claim: {peer}, **self._news}
        else:
            self._news[claim] = {peer}

    def _claim(self, peer: str, frame: frames.Rows) -> frames.Claim | None:
        if frame.signature is None:
            return None
        return frames.Claim(
            peer, frame.view, frame.round, frame.call, digest(frame), frame.signature
        )

    def holds(self, claim: frames.Claim) -> bool:
        """Whether the member whom the claim names has signed it."""
        key = self._contract.member(claim.member).signing_key
        return text_signed(key, row_text(self._run, claim), claim.signature)

    # ---- states
    def introduce(self, peer: str, state_id: str, view: int, half: bytes) -> frames.Introduction:
        """This member's own, for `peer`."""
        introduction = frames.Introduction(state_id, view, half, "")
        return frames.replaced(
            introduction, signature=self._sign(state_text(self._run, self._me, peer, introduction))
        )

    def introduced(self, member: str, peer: str, introduction: frames.Introduction) -> bool:
        """Whether `member` has signed this introduction for `peer`."""
        return text_signed(
            self._contract.member(member).signing_key,
            state_text(self._run, member, peer, introduction),
            introduction.signature,
        )

    def known_state(self, peer: str) -> frames.Introduction | None:
        """What the neighbour has signed about its state, as far as it is kept here."""
        noted = self._state.noted(f"introduced {peer}")
        return (
            None
            if noted is None
            else frames.Introduction(noted[0], noted[1], bytes.fromhex(noted[2]), noted[3])
        )

    def keep_state(self, peer: str, introduction: frames.Introduction) -> None:
        """Durable at the first meeting, before any row is sent."""
        known = self.known_state(peer)
        if (
            known is None
            or (known.state_id, known.half) != (introduction.state_id, introduction.half)
            or not self.introduced(peer, self._me, known)
        ):
            values = [
                introduction.state_id,
                introduction.view,
                introduction.half.hex(),
                introduction.signature,
            ]
            self._state.note(f"introduced {peer}", values)

    def noted(self, name: str) -> Any:
        """A small value that is kept in the state."""
        return self._state.noted(name)

    def keep_note(self, name: str, value: Any) -> None:
        """Keep a small value in the state."""
        self._state.note(name, value)

    def latest_of(self, peer: str) -> frames.Claim | None:
        """The latest row of a neighbour that was received here."""
        return self._latest.get(peer)

    def shown(self, peer: str) -> frames.Shown:
        """What the neighbour itself has signed; after it was given another key in the contract the
        old signatures count for nothing."""
        known = self.known_state(peer)
        if known is not None and not self.introduced(peer, self._me, known):
            known = None
        return frames.Shown(self.latest_of(peer), known)

    def remembers(self, claim: frames.Claim) -> bool:
        """Whether a row with this member's own signature is in its state: of a round that is
        done, or in the outbox with these bytes."""
        if claim.round > self._total:
            return bool(self._state.noted(f"{MODEL} {claim.view}") == claim.digest.hex())
        if claim.key[:2] <= self.done:
            return True
        raw = self._state.sent(claim.key)
        return raw is not None and digest(frames.stored(raw, frames.Rows)) == claim.digest

    @property
    def began(self) -> int:
        """The view in which this state folder took up a run that it had no history of."""
        return int(self._state.noted("began", 0))

    # ---- what is proved
    def lose(self, signature: str, text: bytes, what: str, why: str) -> StateError:
        """This member's own signature on something that its state does not hold: it stops, and
        keeps what it was shown."""
        path = self._state.folder / f"evidence-{self._me}-own-state.json"
        sentence = (
            f"This member ({self._me}) has itself signed {what}, which its state does not hold: "
            f"{why} The signature is in {path}."
        )
        signed = [{"text": text.decode(), "signature": signature}]
        self._write(path, self._me, sentence, signed)
        with self._mutex:
            self.lost = self.lost or StateError(sentence)
        self.on_caught(self._me)
        return self.lost

    @property
    def evidence(self) -> list[frames.Proof | frames.Total]:
        """What convicts those who were caught, for all who have not heard of it."""
        with self._mutex:
            return [*self.proofs, *self._unfit.values()]

    def unfit(self, row: frames.Total, why: str) -> bool:
        """A member has signed a row that no honest one sends: it is cut off for good, and the
        others are shown the row; whether that was new. BadFrame if it has not signed it."""
        claim = row.claim
        signed = claim.member in self._known and digest(row) == claim.digest and self.holds(claim)
        if not signed:
            raise frames.BadFrame("a row without a valid signature.")
        with self._mutex:
            if claim.member == self._me:
                self.lose(claim.signature, row_text(self._run, claim), why.rstrip("."), LOST)
                return True
            if claim.member in self.caught:
                return False
            self._unfit[claim.member] = row
            self._convict_row(claim, row.data, why)
            return True

    def beyond(self, peer: str, frame: frames.Rows, why: str) -> None:
        """A neighbour has signed a row that no honest member sends to this one: it is cut off for
        good here, but to others the row proves nothing."""
        claim = self._claim(peer, frame)
        if claim is not None and self.holds(claim) and peer not in self.caught:
            self._convict_row(claim, frame.data, why)

    def _convict_row(self, claim: frames.Claim, data: bytes, why: str) -> None:
        member = claim.member
        path = self._state.folder / f"evidence-{member}-view-{claim.view}-round-{claim.round}.json"
        sentence = (
            f"{member} has signed {why.rstrip('.')} in round {claim.round}; it is cut off. "
            f"The signature is in {path}"
        )
        signed = [{"text": row_text(self._run, claim).decode(), "signature": claim.signature}]
        self._write(path, member, sentence, signed, data=base64.b64encode(data).decode())
        self._note(member, sentence)

    def false_sums(self, row: frames.Total) -> bool:
        """The root of the whole tree has signed other sums of the groups than their own roots: it
        is cut off for good, and the others are shown the row with all signatures; whether that was
        new. row: with signatures that hold."""
        root, groups = row.claim, row.parts
        member = root.member
        with self._mutex:
            for claim in (root, *groups):  # who has signed another one is to blame, not the root
                self._compare(claim, "", verified=True)
            if member == self._me or self.caught.keys() & {member, *(g.member for g in groups)}:
                return False
            self._convict_sums(row)
            return True

    def _convict_sums(self, row: frames.Total) -> None:
        root, groups = row.claim, row.parts
        member = root.member
        path = self._state.folder / f"evidence-{member}-view-{root.view}-round-{root.round}.json"
        sentence = (
            f"{member} has signed other sums of the groups in round {root.round} than the groups' "
            f"own roots have made and signed; it is cut off. The signatures are in {path}"
        )
        signed = [
            {"text": row_text(self._run, c).decode(), "signature": c.signature}
            for c in (root, *groups)
        ]
        self._write(path, member, sentence, signed)
        self._false_sums[member], self._unfit[member] = groups, row
        self._note(member, sentence)

    def _convict(self, first: frames.Claim, second: frames.Claim) -> None:
        member = first.member
        path = self._state.folder / f"evidence-{member}-view-{first.view}-round-{first.round}.json"
        sentence = (
            f"{member} has signed two different messages for round {first.round}, "
            f"call {first.call}: it is faulty or dishonest, or its state was lost or copied. "
            f"It is cut off. Both signatures are in {path}"
        )
        signed = [
            {"text": row_text(self._run, c).decode(), "signature": c.signature}
            for c in (first, second)
        ]
        self._write(path, member, sentence, signed)
        self.proofs.append(frames.Proof(first, second))
        self._acquit(first, second)
        self._note(member, sentence)

    def _convict_relay(self, passed_on: frames.Claim, signed: frames.Claim) -> None:
        member, root = passed_on.member, signed.member
        name = f"evidence-{member}-view-{signed.view}-round-{signed.round}.json"
        path = self._state.folder / name
        sentence = (
            f"{member} has passed on another total of round {signed.round} than {root} had made "
            f"and signed: it is faulty or dishonest. It is cut off. Both signatures are in {path}"
        )
        texts = [
            {"text": row_text(self._run, c).decode(), "signature": c.signature}
            for c in (passed_on, signed)
        ]
        root_key = self._contract.member(root).signing_key
        self._write(path, member, sentence, texts, root=root, root_signing_key=root_key)
        self._passed_on[member] = frames.Proof(passed_on, signed)
        self.proofs.append(self._passed_on[member])
        self._note(member, sentence)

    def _acquit(self, first: frames.Claim, second: frames.Claim) -> None:
        """The root has signed two totals: who passed on either of them is honest, and so is the
        root of the whole tree if it joined the other one of a group."""
        for member, groups in list(self._false_sums.items()):
            if (first.member, first.key) in {(claim.member, claim.key) for claim in groups}:
                del self._false_sums[member], self._unfit[member], self.caught[member]
                self._state.note(f"caught {member}", None)
        for member, proof in list(self._passed_on.items()):
            same = (proof.second.member, proof.first.key) == (first.member, first.key)
            if same and proof.first.digest in (first.digest, second.digest):
                del self._passed_on[member], self.caught[member]
                self.proofs.remove(proof)
                self._state.note(f"caught {member}", None)

    def _note(self, member: str, sentence: str) -> None:
        """From here on, also after a restart, this member has nothing more to do with the other."""
        mine = [frames.encode(proof).hex() for proof in self.proofs if proof.first.member == member]
        row = frames.encode(self._unfit[member]).hex() if member in self._unfit else ""
        kept = {"sentence": sentence, "proofs": mine, "row": row}
        self._state.note(f"caught {member}", kept)
        self.caught[member] = sentence
        if self._log is not None:
            self._log.warning("a member was caught", peer=member, message=sentence)
        self.on_caught(member)

    def _write(
        self, path: Path, member: str, sentence: str, signed: list[dict[str, str]], **more: str
    ) -> None:
        key = self._contract.member(member).signing_key
        write_json(
            path, {"what": sentence, "member": member, "signing_key": key, "signed": signed, **more}
        )
