"""Small matters of wording that several parts share."""

from __future__ import annotations


def noun(number: float, one: str, many: str | None = None) -> str:
    """The noun that goes with a number which is written by itself: noun(1, "node") is "node",
    noun(2, "node") is "nodes"."""
    return one if number == 1 else many or one + "s"


def counted(number: int, one: str, many: str | None = None) -> str:
    """counted(1, "round") is "1 round", counted(2, "canary", "canaries") is "2 canaries"."""
    return f"{number} {noun(number, one, many)}"


def public_sums(groups: int) -> str:
    """What is public where sums are made in several groups; nothing of one sum of all."""
    if groups == 1:
        return ""
    return f"the sums of each of {groups} groups of members are public, not only that of all"


def against(coalition: int | None) -> str:
    """Whom a promise holds against: where neighbours share noise, so many curious members who pool
    what they know."""
    if coalition is None:
        return "everybody else together"
    if coalition == 0:
        return "an eavesdropper only"
    return (
        "any single curious member"
        if coalition == 1
        else f"any {coalition} curious members together"
    )
