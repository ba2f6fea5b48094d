"""Small matters of wording that several parts share."""

from __future__ import annotations


def noun(number: float, one: str, many: str | None = None) -> str:
    """The noun that goes with a number which is written by itself: noun(1, "node") is "node", noun(2, "node") is "nodes"."""
    return one if number == 1 else many or one + "s"


def counted(number: int, one: str, many: str | None = None) -> str:
    """counted(1, "round") is "1 round", counted(2, "canary", "canaries") is "2 canaries"."""
    return f"{number} {noun(number, one, many)}"
