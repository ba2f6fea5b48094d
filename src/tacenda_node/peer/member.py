"""What both runs of a member share: the training and the closing evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacenda.data.schema import Schema
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import Amendments
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.watchdog import Signals
from tacenda_node.proposals.box import Box


@dataclass(frozen=True)
class Member:
    """A member at work under one contract, as it was signed."""

    options: NodeSettings
    contract: Contract
    identity: Identity
    schema: Schema
    policy: PolicyFile | None
    amendments: Amendments
    log: Any
    stop: Signals
    box: Box

    @property
    def name(self) -> str:
        return self.identity.name

    def ended(self) -> str:
        """Why the members have stopped the run for good; "" where they have not."""
        found = self.box.stopped(self.contract.run_id())
        if found is None:
            return ""
        return (
            f"The run was stopped for good: {', '.join(sorted(found.signatures))} have accepted "
            f"the proposal {found.proposal.words()}. What was released stays charged; the rest of "
            "the reservation is free again."
        )
