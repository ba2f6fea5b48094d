"""Members of a run in groups with a program of their own."""

from __future__ import annotations

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


def live_with_a_false_concatenation(options: dict[str, Any], output: str, turn: int) -> None:
    """The root of the tree, which hands down other sums of the groups in one round than the groups'
    roots have signed, the same to all."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            super().post([(key, peer, self._false(key, raw)) for key, peer, raw in messages])

        def _false(self, key: Any, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            last = max(call for round, call in session.places_of(plan()).totals if round == turn)
            if key != (0, turn, last):
                return raw
            rows = np.frombuffer(frame.data, f"<{frame.dtype}").reshape(1, -1)
            other = frames.rows_frame(*key, rows + rows.dtype.type(1))
            mine = signed_by(self.handshake.identity, self.handshake.contract, other)
            return frames.encode(frames.replaced(other, signature=mine))

    def plan() -> Any:
        from tacenda_node.identity import contract_files
        from tacenda_node.peer.run_plan import make_plan

        return make_plan(contract_files.read(options["contract"])).spec

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
