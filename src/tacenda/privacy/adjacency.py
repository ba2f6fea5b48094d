"""The neighbouring relation: which two data sets must be hard to tell apart.

`replace-one`   one record of one node is replaced by another; the node's size is public. The
                default, and that of all five papers.
`add-remove`    one record is added or removed; the divisor m in f_i is then a declared public
                constant, not the count.
"""

from __future__ import annotations

from typing import Literal

from tacenda import checks

Adjacency = Literal["replace-one", "add-remove"]
RELATIONS: tuple[str, ...] = ("replace-one", "add-remove")


def check(adjacency: str) -> str:
    """The relation itself, if it is known."""
    return checks.one_of("adjacency", adjacency, RELATIONS)


def records_changed(adjacency: str) -> float:
    """How many records' contributions differ between neighbours: 2 (one out, one in) or 1. The one
    place of that factor."""
    return 2.0 if check(adjacency) == "replace-one" else 1.0
