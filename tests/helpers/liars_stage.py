"""Members with a program of their own, which sign and send what honest ones do not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from chaos_members import command
from node_stage import live, signed_by
from tacenda.graph.tree import spanning_tree
from tacenda_node.peer.run_plan import topology_of


def inner_member(contract: Any, absent: frozenset[str] = frozenset()) -> tuple[str, str, str]:
    """(root, a member between it and others, a child of that member), in the
    tree of those who are not absent."""
    topology = topology_of(contract, absent)
    tree, names = spanning_tree(topology), [str(label) for label in topology.labels]
    child = next(k for k in range(tree.n) if tree.level[k] == 2)
    return names[tree.root], names[tree.parent[child]], names[child]


def live_as_false_relay(
    options: dict[str, Any], output: str, child: str, turn: int, shows: str, view: int = 0
) -> None:
    """A member that hands a child another total of one round of a view, well signed by itself.

    shows: "root", it passes on the root's true signature; "nothing", none.
    """
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            super().post([(key, peer, self._false(key, peer, raw)) for key, peer, raw in messages])

        def _false(self, key: Any, peer: str, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            if peer != child or key[:2] != (view, turn) or frame.total is None:
                return raw
            rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1) + 1
            other = frames.rows_frame(*key, rows.astype(f"<{frame.dtype}"))
            mine = signed_by(self.handshake.identity, self.handshake.contract, other)
            total = frame.total if shows == "root" else None
            return frames.encode(frames.replaced(other, signature=mine, total=total))

    session.Endpoint = Lying  # type: ignore[misc]
    live(options, output)


def live_as_false_root(
    options: dict[str, Any], output: str, heirs: list[str], place: tuple[int, int]
) -> None:
    """The root, which hands some children another total of one place (round, call), well signed."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            super().post([(key, peer, self._false(key, peer, raw)) for key, peer, raw in messages])

        def _false(self, key: Any, peer: str, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            if peer not in heirs or key != (0, *place):
                return raw
            rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1)
            other = frames.rows_frame(*key, rows + rows.dtype.type(1))
            mine = signed_by(self.handshake.identity, self.handshake.contract, other)
            return frames.encode(frames.replaced(other, signature=mine))

    session.Endpoint = Lying  # type: ignore[misc]
    live(options, output)


def live_with_a_far_round(options: dict[str, Any], output: str, round: int, view: int = 0) -> None:
    """A member that asks for a vote in round 3 of a view, and says that it stopped in `round`."""
    from tacenda_node.membership.agreement import Agreement
    from tacenda_node.peer.watchdog import Watchdog

    honest, look = Agreement.freeze, Watchdog.__call__

    def freeze(self: Agreement, stopped: int) -> None:
        honest(self, round if self.view == view else stopped)

    def ask(self: Watchdog, missing: list[str]) -> None:
        if self._endpoint.handshake.done == 3 and self.agreement.view == view:
            self.agreement.propose(self.agreement.absent)
        look(self, missing)

    Agreement.freeze = freeze  # type: ignore[method-assign]
    Watchdog.__call__ = ask  # type: ignore[method-assign]
    live(options, output)


def with_false_counts(options: dict[str, Any], output: str, lie: str) -> None:
    """A member whose counts in the evaluation are what no honest one releases."""
    from tacenda.privacy.secrets.door import Door
    from tacenda_node.peer import evaluation_run

    masked, open_release = Door.release_masked, Door.release
    begin = evaluation_run.EvaluationRun.run

    def false_masked(self: Door, *arguments: Any) -> Any:
        rows, unit = masked(self, *arguments)
        random = np.random.default_rng(1).integers(0, 2**64, rows.shape, np.uint64)
        return (rows + np.uint64(2**40) if lie == "a shift" else random), unit

    def false_open(self: Door, *arguments: Any) -> Any:
        return open_release(self, *arguments) + 1e5

    def run(self: Any, *arguments: Any) -> Any:
        Door.release_masked, Door.release = false_masked, false_open  # type: ignore[method-assign]
        return begin(self, *arguments)

    evaluation_run.EvaluationRun.run = run  # type: ignore[method-assign]
    command(options, output)


STEPS = {"large": 2**50}  # that are added to a total


def live_with_a_false_total(
    options: dict[str, Any], output: str, lie: str, turn: int, heir: str
) -> None:
    """The root of a masked run, which gives its total of one round to one neighbour only, asks for
    an agreement, and shows in its vote, and hands over, a total that it has made up.

    lie: "later", one of the next round, so that nobody asks for the true one; "large", the same
    with a sum that cannot be; "other", another one of the same round; "long", one with more values
    than a row has.
    """
    from tacenda_node.membership.agreement import Agreement
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.signed_rows import Witness
    from tacenda_node.wire.exchange import Exchange

    send, freeze = Exchange._send, Agreement.freeze
    made: list[Any] = []

    def post(self: Exchange, key: Any, row: Any, peers: list[str]) -> None:
        handshake = self._endpoint.handshake
        if key[:2] != (0, turn) or self._root.get(key) != handshake.identity.name:
            send(self, key, row, peers)
            return
        Exchange._tell_digests = lambda *_: None  # type: ignore[assignment, method-assign]
        send(self, key, row, [heir])
        time.sleep(0.5)  # for the heir, which goes on to the next round
        place = (0, turn + 1, key[2]) if lie in ("later", "large") else key
        rows = np.hstack([row, row]) if lie == "long" else row + row.dtype.type(STEPS.get(lie, 1))
        false = frames.rows_frame(*place, rows)
        mine = signed_by(handshake.identity, handshake.contract, false)
        claim = self._witness.claim_of(frames.replaced(false, signature=mine))
        made.append(frames.Total(claim, false.dtype, false.shape, false.data))
        agreement = self._check.agreement  # type: ignore[attr-defined]
        agreement.propose(agreement.absent)

    def held(self: Exchange) -> Any:
        return None, (made[0].claim if made else None)

    def stop(self: Agreement, stopped: int) -> None:
        freeze(self, min(stopped, turn + 1) if self.view == 0 else stopped)
        for total in made:
            self._tell(total)

    Exchange._send, Exchange.holds = post, held  # type: ignore[method-assign]
    Witness.lose = lambda *_: None  # type: ignore[assignment, method-assign]
    Agreement.freeze = stop  # type: ignore[method-assign]
    live(options, output)


def live_as_root_that_runs_ahead(
    options: dict[str, Any], output: str, heir: str, turns: tuple[int, ...]
) -> None:
    """The root, which hands one child totals of its own of these rounds, and the others the true
    ones only when the child has used them all."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            totals = [m for m in messages if m[0][:2] == (0, turns[0]) and m[0][2] == 3]
            for key, peer, raw in totals:
                if peer != heir:
                    continue
                frame = frames.stored(raw, frames.Rows)
                rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1)
                for turn in turns:
                    other = frames.rows_frame(0, turn, key[2], rows + rows.dtype.type(turn))
                    mine = signed_by(self.handshake.identity, self.handshake.contract, other)
                    false = frames.replaced(other, signature=mine)
                    super().post([((0, turn, key[2]), peer, frames.encode(false))])
                    time.sleep(1.0)
            super().post([m for m in messages if m not in totals or m[1] != heir])

    session.Endpoint = Lying  # type: ignore[misc]
    live(options, output)


def live_with_a_moment(options: dict[str, Any], output: str, variance: float) -> None:
    """A member that says of its second moment's noise that it has this variance."""
    from tacenda_node.wire.exchange import Exchange

    honest = Exchange._send

    def send(self: Exchange, key: Any, row: Any, peers: list[str]) -> None:
        if key[1:] == (1, 1):
            row = np.array(row)
            row[0, -1] = variance
        honest(self, key, row, peers)

    Exchange._send = send  # type: ignore[method-assign]
    live(options, output)
