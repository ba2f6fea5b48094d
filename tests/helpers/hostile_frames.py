"""One member that may send any bytes, and the doors of its neighbour behind which they end: hello,
welcome, a running stream.

Inputs are bytes. They choose a frame of a real conversation, change its fields (signed anew with
the liar's own key, so that the lie goes deep) or its bytes, and put it through a door. Whatever
comes out is an answer, `BadFrame` or `Refused`; memory stays bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kept_keys import marked
from node_stage import anywhere, handshake_of, signed_by, signed_contract, small_contract
from tacenda_node.identity.contract_files import signed_text
from tacenda_node.identity.edge_keys import CALLER, LISTENER, EdgeKeys
from tacenda_node.membership.agreement import Agreement
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.protocol import frames
from tacenda_node.protocol.contract_signatures import ContractSignatures, SignatureBook
from tacenda_node.protocol.handshake import Refused, challenge_text
from tacenda_node.protocol.signed_rows import (
    MOST_CALLS_KEPT,
    MOST_CLAIMS,
    MOST_NEWS,
    WINDOW,
    digest,
    state_text,
)
from tacenda_node.wire.link import Link
from tacenda_node.wire.mailbox import MOST_WAITING, Mailbox

DIM = 4
NONCE = bytes(32)
NUMBERS = (0, 1, 2, 3, 7, 2**31, 2**40, 2**40 + 1, 2**63, -1)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    5e-324,
    1e9,
    1.0000001e9,
    1e300,
    1.79e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)
TEXTS = ("", "m0", "m1", "m2", "m9", "\x1b[2J", "x" * 64, "\0")


class _Quiet:
    def info(self, *_: Any, **__: Any) -> None:
        """The log of a fuzzed node."""

    warning = info


class Doors:
    """m1, with a history of one round, and m0's key in the hands of the fuzzer. Edges share noise,
    members may be left out."""

    def __init__(self, folder: Path) -> None:
        terms = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}
        contract, self.people = signed_contract(
            small_contract(
                4,
                rounds=50,
                algorithm={"name": "gossipgd", "correlation": 3.0},
                privacy=terms,
                absence={"policy": "continue", "limit_seconds": 1.0},
            ),
            folder / "keys",
        )
        self.contract = contract
        self.states = {name: marked(folder / name) for name in ("m0", "m1")}
        own = frames.rows_frame(0, 1, 0, np.ones((1, DIM)))
        self.states["m1"].commit([], [((0, 1, 0), "m0", frames.encode(own))], None)
        self.handshakes = {
            name: handshake_of(
                contract,
                self.people[name],
                state,
                state_id=name,
                edges=EdgeKeys(contract, name, state),
            )
            for name, state in self.states.items()
        }
        self.me, self.liar = self.handshakes["m1"], self.handshakes["m0"]
        self.box = Mailbox(contract.neighbours("m1"), anywhere(DIM), contract.problem.radius)
        self.told: list[Any] = []
        self.agreement = Agreement(
            make_plan(contract),
            "m1",
            self.states["m1"],
            self.told.append,
            _Quiet(),
            self.people["m1"].sign_text,
        )
        limit = frames.frame_limit(8 * DIM)
        self.link = Link(
            "m0",
            self.box,
            self.me.witness,
            limit,
            _Quiet(),
            self.agreement.hear,
            lambda view: [],
            book=SignatureBook(ContractSignatures(contract, {}, self.states["m1"]), _Quiet()),
        )
        self.liar.check_welcome(self.me.welcome(self.liar.hello("m1", NONCE), "m0"), "m1", NONCE)
        self.seeds = self._seeds(self.me.witness.signed(own))

    def _seeds(self, own: frames.Rows) -> list[frames.Frame]:
        assert self.liar.edges is not None
        mine = frames.Claim("m1", 0, 1, 0, digest(own), str(own.signature))
        hello = self.liar.hello("m1", NONCE)
        welcome = self.liar.welcome(self.me.hello("m0", NONCE), "m1")
        row = frames.rows_frame(0, 1, 0, np.full((1, DIM), 0.5))
        row = frames.replaced(row, signature=signed_by(self.people["m0"], self.contract, row))
        claim = frames.Claim("m0", 0, 1, 0, digest(row), str(row.signature))
        vote = frames.Membership(
            1, ["m3"], {"m0": frames.SignedStop(1, self.people["m0"].sign_text(b"?"))}
        )
        return [
            hello,
            frames.replaced(hello, shown=frames.Shown(mine, self.me._introduction("m0"))),
            welcome,
            frames.Refusal("state", frames.Shown(mine)),
            frames.Confirm(self.liar.edges.check("m1")),
            row,
            frames.replaced(row, heard=[claim, mine]),
            frames.Progress(3, 0, True, [claim]),
            frames.Progress(3, waits=[frames.Wait(["m0", "m2"], "away", 7)], leaving=True),
            frames.Proof(claim, mine),
            vote,
            frames.Signatures(
                self.contract.hash(),
                {"m0": self.people["m0"].sign_text(signed_text(self.contract))},
                {"m3": "it has signed another text"},
            ),
        ]

    def frame_of(self, data: bytes) -> bytes:
        """The bytes that the liar sends: a changed frame, or the input itself."""
        if len(data) < 2 or data[0] % 4 == 0:
            return data[1:]
        plain = msgspec.msgpack.decode(frames.encode(self.seeds[data[1] % len(self.seeds)]))
        for at in range(2, len(data) - 2, 3):
            names = sorted(plain)
            plain[names[data[at] % len(names)]] = self._value(
                plain[names[data[at] % len(names)]], data[at + 1], data[at + 2]
            )
        if data[0] % 4 != 1:
            self._sign(plain)
        try:
            raw = bytearray(msgspec.msgpack.encode(plain))
        except OverflowError:
            return b""
        if data[0] % 4 == 3 and raw:
            raw[data[-1] * 37 % len(raw)] ^= data[-2] or 1
        return bytes(raw)

    def _value(self, old: Any, kind: int, which: int) -> Any:
        if isinstance(old, list) and old and kind % 3:
            return [
                self._value(value, kind // 3, which) if k == which % len(old) else value
                for k, value in enumerate(old)
            ]
        if isinstance(old, bytes) and len(old) == 8 * DIM and kind % 2:
            return np.full(DIM, FLOATS[which % len(FLOATS)]).tobytes()
        if isinstance(old, bytes) and old and kind % 3:
            return bytes([old[0] ^ which, *old[1:]])
        choices = [
            NUMBERS[which % len(NUMBERS)],
            TEXTS[which % len(TEXTS)],
            bytes(which),
            None,
            [],
            {},
            which % 2 == 0,
            [which] * 3,
        ]
        return choices[(0 if isinstance(old, int) and kind % 2 else kind) % len(choices)]

    def _sign(self, plain: dict[str, Any]) -> None:
        """The liar's own signature under what it says of itself."""
        try:
            if plain.get("t") == "rows":
                row = msgspec.convert({**plain, "heard": []}, frames.Rows)
                plain["signature"] = signed_by(self.people["m0"], self.contract, row)
            elif plain.get("t") in ("hello", "welcome"):
                words = msgspec.convert(plain["me"], frames.Introduction)
                text = state_text(self.contract.run_id(), "m0", "m1", words)
                plain["me"] = [
                    words.state_id,
                    words.view,
                    words.half,
                    self.people["m0"].sign_text(text),
                ]
        except (msgspec.ValidationError, KeyError, TypeError):
            return

    def feed(self, data: bytes) -> int:
        """All doors; how many let the frame pass. Anything but an answer, BadFrame or Refused gets
        out of here."""
        raw, passed = self.frame_of(data), 0
        for door in (self._hello, self._welcome, self._confirm, self._stream, self._half):
            try:
                door(raw)
                passed += 1
            except (frames.BadFrame, Refused):
                continue
        self._check()
        return passed

    def _hello(self, raw: bytes) -> None:
        self.me.welcome(self.me.read(raw, self.link.frame_limit, "m0"), "m0")

    def _welcome(self, raw: bytes) -> None:
        frame = frames.decode(raw, self.link.frame_limit)
        # With a good proof of its key: the rest of the frame is the question
        if isinstance(frame, frames.Welcome):
            challenge = challenge_text(
                NONCE,
                self.contract.hash(),
                "m1",
                "m0",
                self.me.edges.half("m0"),
                frame.half,
                frame.check,
            )
            frame = frames.replaced(frame, proof=self.people["m0"].prove(challenge))
        self.me.check_welcome(frame, "m0", NONCE)

    def _confirm(self, raw: bytes) -> None:
        self.me.confirmed(frames.decode(raw, self.link.frame_limit), "m0")

    def _stream(self, raw: bytes) -> None:
        self.link.take(frames.decode(raw, self.link.frame_limit))

    def _half(self, raw: bytes) -> None:
        assert self.me.edges is not None
        self.me.edges._derive("m2", raw)
        self.me.edges._derive("m2", raw.ljust(CALLER, raw[:1] or b"?")[:CALLER])
        self.me.edges._derive("m2", raw.ljust(LISTENER, b"?")[:LISTENER])

    def _check(self) -> None:
        witness = self.me.witness
        assert witness.lost is None, witness.lost
        assert not set(witness.caught) - {"m0"}, witness.caught
        most = MOST_CLAIMS + (2 * WINDOW + 1) * MOST_CALLS_KEPT
        assert all(len(claims) <= most for claims in witness._known.values())
        assert len(witness._news) <= MOST_NEWS + 1
        assert len(self.link._extra) <= 32
        assert all(len(shelf.rows) <= MOST_WAITING for shelf in self.box._shelves.values())
        assert self.me.edges is None or len(self.me.edges.mark("m0")) == 32
        witness.caught.clear()
        witness.proofs.clear()
        self.told.clear()
        self.agreement._heard.clear()

    def close(self) -> None:
        for state in self.states.values():
            state.close()
