"""What a node tells about itself: a closed list of fields, all of them public to this member.

The page, `tacenda node status`, the metrics and the health answers show these and nothing else. No
field holds anything of the records, of a key, or of another member beyond what it has shown on the
edge to this one, or signed for all (`members`).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import convert

FORMAT = "tacenda-status-1"
STATES = ("starting", "running", "waiting", "finishing", "finished", "stopped")
# Names that a log entry may show on the page besides its time, level and event
LOG_FIELDS = (
    "peer",
    "reason",
    "message",
    "round",
    "of",
    "waiting_for",
    "address",
    "port",
    "to_send",
    "strikes",
    "so_far",
    "repeated",
    "view",
    "absent",
)


@dataclass(frozen=True)
class PeerStatus:
    """One neighbour, as seen from here.

    state: connected, away, frozen, finished, cut off or left out. lag_rounds: how many rounds it
    is behind, as far as its messages prove. away_seconds: since it was lost or fell silent, 0 if it
    is there. Its certificate is the one it has shown; times are in seconds since 1970, and None
    where nothing is known. heard: whether it was connected at any time since this node started.
    """

    name: str
    state: str
    reason: str
    lag_rounds: int
    away_seconds: float
    silent_seconds: float
    sent_bytes: int
    received_bytes: int
    sent_again: int
    cut_off: int
    certificate_expires: float | None
    certificate_days: float | None
    heard: bool = True

    @property
    def since(self) -> str:
        """For how long it has been away or silent, in words."""
        long = duration(self.away_seconds)
        return f" for {long}" if self.heard else f", not heard since this node started {long} ago"


@dataclass(frozen=True)
class CauseStatus:
    """Why the node waits (`causes.Cause`): the member at the root, its state for so many seconds,
    the chain of waits that leads to it, and all that in words."""

    member: str
    state: str
    seconds: float
    chain: list[str]
    words: str


@dataclass(frozen=True)
class MemberStatus:
    """A member of the contract, as its own signed signs of life tell (`protocol.lives`).

    state: its own word; away, frozen or silent where somebody who waits for it says so; "no news"
    if none came for a minute, "not heard of", "not signed" where its signature of the contract is
    missing, or left out. waits_for: its neighbours whose rows are
    missing there. heard_seconds: since its latest sign came here; None: none came.
    clock_seconds: how far its clock is ahead, 0 below five minutes. epsilon_left: of its budget,
    where its owner allows that.
    """

    name: str
    neighbour: bool
    state: str
    round: int
    rounds_behind: int
    waits_for: list[str]
    waits_seconds: float
    heard_seconds: float | None
    version: str
    clock_seconds: float
    disk_free_bytes: int | None
    epsilon_left: float | None


@dataclass(frozen=True)
class RootStatus:
    """A member for whom others wait while it waits for nobody: whom it holds up, through others
    too, and that in words."""

    member: str
    state: str
    holds_up: list[str]
    words: str


@dataclass(frozen=True)
class RunSpending:
    """What this run has spent on this member's records, composed from what was booked, and what it
    may spend. curve: pairs of delta and the epsilon that holds with it."""

    epsilon: float
    limit: float
    delta: float
    adjacency: str
    against: str
    curve: list[tuple[float, float]]


@dataclass(frozen=True)
class LastingSpending:
    """What all runs on these records together have spent or reserved, by the lasting ledger; budget
    is None where there is none."""

    account: str
    epsilon: float
    budget: float | None
    delta: float


@dataclass(frozen=True)
class EvaluationStatus:
    """The closing evaluation: what it may cost and has cost the held-out records, and what it
    found, from released values only.

    state: "after the training", "under way", "done" or "ended without a result". records: of this
    member, held out. measures: each with name, value, low, high and note; confidence: of their
    intervals.
    """

    state: str
    records: int
    account: str
    spent: float
    epsilon: float
    delta: float
    against: str
    confidence: float
    measures: list[dict[str, Any]]


@dataclass(frozen=True)
class NodeStatus:
    """Everything that a node tells about itself.

    alive: its threads run. ready: it listens and calls. in_order: nothing in `problems`. at and
    certificate_expires are in seconds since 1970. stopped: why it stopped; to_do: what to do now.
    """

    member: str
    title: str
    contract: str
    version: str
    at: float
    state: str
    summary: str
    alive: bool
    ready: bool
    in_order: bool
    problems: list[str]
    warnings: list[str]
    round: int
    rounds: int
    rounds_per_second: float
    seconds_left: float | None
    seconds_running: float
    seconds_since_round: float
    waiting_for: list[str]
    waiting_seconds: float
    absence_limit_seconds: float
    absence_policy: str
    wait_seconds_total: float
    write_seconds_total: float
    sent_bytes: int
    received_bytes: int
    refused_callers: int
    peers: list[PeerStatus]
    run: RunSpending | None
    lasting: LastingSpending | None
    certificate_expires: float
    certificate_days: float
    disk_free_bytes: int
    log: list[dict[str, Any]]
    stopped: str = ""
    to_do: str = ""
    evaluation: EvaluationStatus | None = None
    causes: list[CauseStatus] = field(default_factory=list)
    members: list[MemberStatus] = field(default_factory=list)
    roots: list[RootStatus] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> NodeStatus:
        """What `to_plain` gave; fields of other versions are left out."""
        return convert(values, cls)


def log_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the log with the fields that may be shown."""
    names: tuple[str, ...] = ("timestamp", "level", "event")
    shown = {name: entry[name] for name in names if name in entry}
    details = [f"{k.replace('_', ' ')} {entry[k]}" for k in LOG_FIELDS if entry.get(k, "") != ""]
    return {**shown, "details": ", ".join(details)}


def day(seconds: float) -> str:
    """A time in seconds since 1970 as a date and an hour in UTC."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """A length of time as people say it."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 2 * 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 2 * 86400 else f"{whole // 86400} days"


def about(seconds: float) -> str:
    """A length of time before or after, to the hour where it is longer than two."""
    whole = abs(seconds)
    return duration(whole if whole < 2 * 3600 else 3600 * round(whole / 3600))


def size(number: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError  # the loop ends at GB
