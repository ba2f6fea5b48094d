"""Why a node waits: the chain of waits from the neighbour whose rows are missing to the member at
its end, the root cause.

Every member tells its neighbours, in each sign of life, for whom it waits and why, as far as it
knows. So the news goes along the edges, and a member beyond the neighbours is named, too. It is
their word: the sentence says whose. A chain that leads back to this node is a circle and is left
out; chains are bounded in number and length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tacenda_node.watch.status import duration

AWAY, FROZEN, SILENT, PAUSED, COMPUTING, CIRCLE = STATES = (
    "away",
    "frozen",
    "silent",
    "paused",
    "computing",
    "waiting for this node",
)
FAULTS = (AWAY, FROZEN, SILENT)
WAITING_SECONDS = 2.0  # after which a node that waits says so, and why
SENT = STATES[:-1]  # in signs of life
UNSIGNED = "not signed"  # whose signature of the contract is missing: nobody begins before
MOST_CAUSES = 4  # in one sign of life
MOST_CHAIN = 64  # names in one chain
# Of a member, in its sign of life for all (`frames.Life`), and neighbours for whom it waits there
LIFE_STATES = ("starting", "running", "waiting", "paused", "finished", "stopped")
MOST_WANTED = 16


@dataclass(frozen=True)
class Cause:
    """One reason to wait. chain: from the neighbour that is waited for to the member at the root,
    each waiting for the next; state: of that member (`STATES`), for so many seconds."""

    chain: tuple[str, ...]
    state: str
    seconds: float

    @property
    def member(self) -> str:
        """Who is at the root."""
        return self.chain[-1]

    @property
    def words(self) -> str:
        """The member and its state, with the name of who says so."""
        how = {
            AWAY: f"away for {duration(self.seconds)}",
            FROZEN: f"frozen: connected, but no sign of life for {duration(self.seconds)}",
            SILENT: f"no answer for {duration(self.seconds)}",
            PAUSED: "paused by its policy",
        }.get(self.state, self.state)
        says = f", says {self.chain[-2]}" if len(self.chain) > 1 else ""
        return f"{self.member} ({how}{says})"


def root_causes(found: Iterable[Cause]) -> list[Cause]:
    """The few that explain the wait: members with a fault, if there are any; each member once, by
    its shortest chain, the longest wait first."""
    all_found = [cause for cause in found if len(cause.chain) <= MOST_CHAIN]
    faults = [cause for cause in all_found if cause.state in FAULTS]
    best: dict[str, Cause] = {}
    for cause in sorted(faults or all_found, key=lambda c: (len(c.chain), -c.seconds, c.chain)):
        best.setdefault(cause.member, cause)
    return sorted(best.values(), key=lambda c: (-c.seconds, c.member))[:MOST_CAUSES]
