"""The neighbouring relation: which two data sets must be hard to tell apart.

`replace-one`   one record of one node is replaced by another; the node's size is public. The
                default, and that of all five papers.
`add-remove`    one record is added or removed; the divisor m in f_i is then a declared public
                constant, not the count.

Where a person is the unit, with at most k records, "one record" reads "all records of one person".
Two persons may have different numbers of records, so that a node's count would tell of the exchange
of one for another: private runs of persons with several records are add-remove, where counts are
private and divisors declared (`check_persons`). Only where every person has exactly k records does
replace-one hold for persons too.
"""

from __future__ import annotations

import math

from tacenda import checks
from tacenda.errors import InputError
from tacenda.terms.privacy import RELATIONS
from tacenda.words import counted


def check(adjacency: str) -> str:
    """The relation itself, if it is known."""
    return checks.one_of("adjacency", adjacency, RELATIONS)


def records_changed(adjacency: str, records_per_person: int = 1) -> float:
    """How many records' contributions differ between neighbours: 2k (k out, k in) or k, for persons
    with at most k records. The one place of that factor."""
    return (2.0 if check(adjacency) == "replace-one" else 1.0) * records_per_person


def nonnegative_change(adjacency: str, records_per_person: int = 1) -> float:
    """How far a sum of vectors moves between neighbours, over the largest norm B of one of them, if
    any two of the vectors have an inner product >= 0: sqrt(2) k or k.

    u of the k old ones together and v of the k new ones have norms of at most kB and u.v >= 0, so
    |u - v|^2 <= |u|^2 + |v|^2 <= 2 (kB)^2; k copies of two records at right angles attain it.
    """
    return math.sqrt(records_changed(adjacency)) * records_per_person


def check_persons(
    adjacency: str, records_per_person: int, members_per_person: int, exactly: bool = False
) -> None:
    """Refuse a relation that does not go with persons who have several records; exactly: all of
    them have as many."""
    several = (records_per_person > 1 and not exactly) or members_per_person > 1
    if adjacency != "add-remove" and several:
        raise InputError(
            f"adjacency must be 'add-remove' for persons with up to {records_per_person} records "
            f"at up to {counted(members_per_person, 'node')}, not {adjacency!r}: persons have "
            "different numbers of records, so that how many a node has is private; declare a "
            "public size instead (public_sizes; in a shell --set problem.public_size=1000)."
        )


def counts_are_public(adjacency: str, records_per_person: int = 1, exactly: bool = False) -> bool:
    """Whether a node's number of records is the same for all neighbours, so that it may be told;
    exactly: every person has just so many records."""
    return check(adjacency) == "replace-one" and (records_per_person == 1 or exactly)
