"""Small matters of wording that several parts share."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """counted(1, "round") is "1 round", counted(2, "canary", "canaries") is "2 canaries"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
