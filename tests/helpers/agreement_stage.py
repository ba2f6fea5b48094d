"""The agreements of a few members in one process, with all their keys in the test's hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node_stage import signed_contract, small_contract
from tacenda_node.identity.certificates import Identity
from tacenda_node.membership.agreement import Agreement
from tacenda_node.membership.votes import Vote, statement
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState


class _Quiet:
    def warning(self, *_: Any, **__: Any) -> None:
        """The log of this test."""


class Five:
    """A ring m0..m4 (or fewer) whose keys are all in the test's hands: it can speak for
    everybody."""

    def __init__(self, folder: Path, members: int = 5, **terms: Any) -> None:
        absence = {"policy": "continue", "limit_seconds": 1.0, **terms.pop("absence", {})}
        contract = small_contract(members, rounds=50, absence=absence, **terms)
        signed, self.people = signed_contract(contract, folder / "keys")
        self.plan: RunPlan = make_plan(signed)
        self._states: list[NodeState] = []

    def agreement(self, name: str, folder: Path, post: list[Any]) -> Agreement:
        state = NodeState(folder / name)
        self._states.append(state)
        return Agreement(
            self.plan,
            name,
            state,
            lambda frame: post.append((name, frame)),
            _Quiet(),
            self.people[name].sign_text,
        )

    def frame(
        self,
        view: int,
        absent: list[str],
        rounds: dict[str, int],
        stand: frames.Stand | None = None,
    ) -> frames.Membership:
        """Votes as these members would sign them."""
        votes = {
            name: self.signed_stop(self.people[name], view, absent, round, stand=stand)
            for name, round in rounds.items()
        }
        return frames.Membership(view, absent, votes)

    def signed_stop(
        self,
        who: Identity,
        view: int,
        absent: list[str],
        round: int,
        name: str = "",
        stand: frames.Stand | None = None,
    ) -> frames.SignedStop:
        held = frames.Stand() if stand is None else stand
        vote = Vote(sorted(absent), round, "", held)
        text = statement(self.plan.contract.run_id(), view, name or who.name, vote)
        return frames.SignedStop(round, who.sign_text(text), held)

    def close(self) -> None:
        """End all nodes of a test, as a kill would: what is not durable is gone."""
        for state in self._states:
            state.close()
        self._states.clear()


def decided(agreement: Agreement) -> tuple[int, frozenset[str], int] | None:
    """(view, absent, next round) of what the members have decided."""
    found = agreement.decided()
    return None if found is None else found[:3]
