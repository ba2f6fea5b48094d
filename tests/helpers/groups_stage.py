"""Members of a run in groups with a program of their own."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from node_stage import live, signed_by
from tacenda.graph.tree import spanning_tree
from tacenda_node.peer.run_plan import topology_of


def lying_root(contract: Any) -> str:
    """The member that hands down the sums of all groups."""
    topology = topology_of(contract)
    return str(topology.labels[spanning_tree(topology).root])


def live_with_a_lie(options: dict[str, Any], output: str, size: float) -> None:
    """A member whose every masked row is shifted along one direction, by `size` times the largest
    honest value: well masked and signed, and within the range of a sum."""
    from tacenda.privacy.secrets.door import Door

    honest = Door.release_masked

    def lie(self: Any, value: Any, turn: int, call: int, weight: float) -> Any:
        whole, unit = honest(self, value, turn, call, weight)
        along = np.random.default_rng(whole.shape[1]).normal(size=whole.shape[1])
        far = size * self.plan.reach[turn - 1, 1] * along / np.linalg.norm(along)
        return whole + np.rint(far / unit).astype(np.int64).view(np.uint64), unit

    Door.release_masked = lie  # type: ignore[method-assign]
    live(options, output)


def live_with_a_false_concatenation(
    options: dict[str, Any], output: str, turn: int, heirs: list[str] | None = None
) -> None:
    """The root of the tree, which hands down other sums of the groups in one round than the groups'
    roots have signed, the same to all; or to these only, and nothing to the others."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            said = [m for m in messages if heirs is None or m[0] != place() or m[1] in heirs]
            super().post([(key, peer, self._false(key, raw)) for key, peer, raw in said])

        def _false(self, key: Any, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            if key != place():
                return raw
            rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1)
            other = frames.rows_frame(*key, rows + rows.dtype.type(1))
            mine = signed_by(self.handshake.identity, self.handshake.contract, other)
            return frames.encode(frames.replaced(other, signature=mine))

    @cache
    def place() -> tuple[int, int, int]:
        from tacenda_node.identity import contract_files
        from tacenda_node.peer.run_plan import make_plan

        spec = make_plan(contract_files.read(options["contract"])).spec
        return 0, turn, max(c for round, c in session.places_of(spec).totals if round == turn)

    session.Endpoint = Lying  # type: ignore[misc]
    live(options, output)


def live_with_two_group_sums(
    options: dict[str, Any], output: str, turn: int, heirs: list[str]
) -> None:
    """The root of a group, which hands some neighbours another sum of its group in one round, both
    well signed."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            super().post([(key, peer, self._false(key, peer, raw)) for key, peer, raw in messages])

        def _false(self, key: Any, peer: str, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            witness = self.handshake.witness
            mine = witness._root_of(key) == self.handshake.identity.name
            if peer not in heirs or key[:2] != (0, turn) or not mine:
                return raw
            rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1)
            other = frames.rows_frame(*key, rows + rows.dtype.type(1))
            signature = signed_by(self.handshake.identity, self.handshake.contract, other)
            return frames.encode(frames.replaced(other, signature=signature))

    session.Endpoint = Lying  # type: ignore[misc]
    live(options, output)


def live_with_sums_of_its_own(
    options: dict[str, Any], output: str, place: tuple[int, int], more: int
) -> None:
    """The root of the tree, which hands down nothing in one place (round, call), asks for an
    agreement, and shows in its vote sums of all groups that it has made up, each larger by `more`.
    It ends once the others leave it out.
    """
    from tacenda_node.membership.agreement import Agreement
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.signed_rows import Witness
    from tacenda_node.wire.exchange import Exchange

    send, freeze, holds, hear = Exchange._send, Agreement.freeze, Exchange.holds, Agreement.hear
    made: list[Any] = []

    def post(self: Exchange, key: Any, row: Any, peers: list[str]) -> None:
        if key != (0, *place):
            send(self, key, row, peers)
            return
        handshake = self._endpoint.handshake
        false = frames.rows_frame(*key, row + row.dtype.type(more))
        mine = signed_by(handshake.identity, handshake.contract, false)
        claim = self._witness.claim_of(frames.replaced(false, signature=mine))
        made.append(frames.Total(claim, false.dtype, false.shape, false.data))
        self.keep_total(made[0])
        agreement = self._check.agreement  # type: ignore[attr-defined]
        agreement.propose(agreement.absent)
        self._check([])

    def held(self: Exchange) -> Any:
        map, last = holds(self)
        return (made[0].claim, made[0].claim) if made and place[0] == 1 else (map, last)

    def stop(self: Agreement, stopped: int) -> None:
        freeze(self, stopped)
        for total in made:
            self._tell(total)

    def listen(self: Agreement, peer: str, frame: frames.Membership) -> None:
        if self._me in frame.absent:
            os._exit(9)
        hear(self, peer, frame)

    Exchange._send, Exchange.holds = post, held  # type: ignore[method-assign]
    Witness.lose = lambda *_: None  # type: ignore[assignment, method-assign]
    Agreement.freeze, Agreement.hear = stop, listen  # type: ignore[method-assign]
    live(options, output)
