"""All members as one node knows them, from their signed signs of life: who waits for whom, and who
holds all up."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from tacenda_node.identity.contract import Contract
from tacenda_node.protocol.lives import LIFE_SECONDS, Heard
from tacenda_node.watch.causes import FAULTS, UNSIGNED
from tacenda_node.watch.status import MemberStatus, PeerStatus, RootStatus, duration

LATE = 6 * LIFE_SECONDS  # without news of a member: more than it takes through six others
CLOCK_SECONDS = 300.0
UNHEARD, NO_NEWS, LEFT_OUT = "not heard of", "no news", "left out"
OVER = ("finished", "stopped")


def members(
    contract: Contract,
    me: str,
    heard: Mapping[str, Heard],
    peers: Sequence[PeerStatus],
    absent: Collection[str],
) -> list[MemberStatus]:
    """Every member of the contract, in its order."""
    now, near = time.monotonic(), {peer.name: peer for peer in peers}
    fresh = {name: one for name, one in heard.items() if now - one.at <= LATE}
    latest = max(((one.life.view, one.life.round) for one in fresh.values()), default=(0, 0))
    said = _said(fresh, me, near)
    found = []
    for name in contract.names:
        one = heard.get(name)
        life = None if one is None else one.life
        known = name in fresh and life is not None and life.view == latest[0]
        found.append(
            MemberStatus(
                name=name,
                neighbour=name in near,
                state=LEFT_OUT if name in absent else _state(name, fresh, heard, said),
                round=0 if life is None else life.round,
                rounds_behind=latest[1] - life.round if known and life is not None else 0,
                waits_for=_waits(fresh.get(name)),
                waits_seconds=_longest(fresh.get(name)),
                heard_seconds=None if one is None else now - one.at,
                version="" if life is None else life.version,
                clock_seconds=0.0 if one is None else _clock(one),
                disk_free_bytes=None if life is None or not life.disk else life.disk,
                epsilon_left=None if life is None or life.left is None else life.left / 1000,
            )
        )
    return found


def roots(found: Sequence[MemberStatus]) -> list[RootStatus]:
    """The members for whom others wait and who wait for nobody themselves, those who hold up most
    first. With whom others wait in a circle none is at the root."""
    by_name = {one.name: one for one in found}
    behind: dict[str, set[str]] = {}
    for one in found:
        for root in _ends(one.name, by_name):
            behind.setdefault(root, set()).add(one.name)
    made = [
        RootStatus(name, by_name[name].state, sorted(waiting), _sentence(by_name[name], waiting))
        for name, waiting in behind.items()
    ]
    return sorted(made, key=lambda root: (-len(root.holds_up), root.member))


def _said(
    fresh: Mapping[str, Heard], me: str, near: Mapping[str, PeerStatus]
) -> dict[str, dict[str, str]]:
    """What members say of those for whom they wait, and this one of its neighbours: by member, then
    by who says so."""
    said: dict[str, dict[str, str]] = {}
    for name, one in fresh.items():
        for wait in one.life.waits:
            said.setdefault(wait.member, {})[name] = wait.state
    for name, peer in near.items():
        if peer.state in FAULTS:
            said.setdefault(name, {})[me] = peer.state
    return said


def _state(
    name: str,
    fresh: Mapping[str, Heard],
    heard: Mapping[str, Heard],
    said: Mapping[str, Mapping[str, str]],
) -> str:
    """A fault that others name counts for more than the member's own latest word, which was of
    before."""
    if name in heard and heard[name].life.state in OVER:
        return heard[name].life.state
    faults = sorted({state for state in said.get(name, {}).values() if state in FAULTS})
    if faults:
        return faults[0]
    if name not in heard:
        unsigned = UNSIGNED in said.get(name, {}).values()
        return UNSIGNED if unsigned else UNHEARD
    return heard[name].life.state if name in fresh else NO_NEWS


def _waits(one: Heard | None) -> list[str]:
    return [] if one is None else [wait.member for wait in one.life.waits]


def _longest(one: Heard | None) -> float:
    """By now, if nothing has changed since."""
    if one is None or not one.life.waits:
        return 0.0
    return max(wait.seconds for wait in one.life.waits) + time.monotonic() - one.at


def _clock(one: Heard) -> float:
    """By how much the member's clock is ahead of this one; 0 where the way explains it."""
    ahead = one.life.at - one.wall
    return ahead if abs(ahead) > CLOCK_SECONDS else 0.0


def _ends(name: str, by_name: Mapping[str, MemberStatus]) -> set[str]:
    """Where the waits of a member lead: to who waits for nobody, or cannot say so any more."""
    seen, ends, queue = {name}, set[str](), [name]
    while queue:
        for other in by_name[queue.pop()].waits_for:
            if other in seen or other not in by_name:
                continue
            seen.add(other)
            fault = by_name[other].state in (*FAULTS, NO_NEWS, UNHEARD, UNSIGNED)
            if fault or not by_name[other].waits_for:
                ends.add(other)
            else:
                queue.append(other)
    return ends


def _sentence(root: MemberStatus, waiting: Collection[str]) -> str:
    since = ""
    if root.state in (*FAULTS, NO_NEWS) and root.heard_seconds is not None:
        since = f", last heard {duration(root.heard_seconds)} ago"
    who = sorted(waiting)
    names = ", ".join(who) if len(who) <= 4 else f"{len(who)} members"
    return f"{root.name} ({root.state}{since}) holds up {names}"
