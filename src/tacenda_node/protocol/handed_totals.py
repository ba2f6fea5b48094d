"""Totals that neighbours hand over to a member who lacks them.

    take(peer, frame)   BadFrame where the bytes are not those that the root has signed, or no row
    find(claim)         the total with the digest that the members' votes name, under their claim
    is_false(frame)     whether it proves that the root has joined other sums than the groups' roots
                        have signed

A total is used only if the members have agreed on it (`membership.agreement`), and one that joins
the sums of groups only with the signatures of the groups' own roots: or the root of the whole tree
could make up the sums of all groups for those who have none of them yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tacenda.runtime.places import Form
from tacenda_node.protocol.frames import BadFrame, Claim, Total, replaced, rows_of
from tacenda_node.protocol.signed_rows import digest

MOST_TOTALS = 4  # of one neighbour, that wait to be used: nobody can push out what others gave


class HandedTotals:
    """The latest few of each neighbour, by digest.

    is_roots: whether the root of a claim's view has signed it; None if the view is unknown. forms:
    length and type of a row in each place (round, call). radius: the contract's, as for rows that
    come down the tree: a root may sign any numbers. makers: the roots of the groups whose sums a
    total joins, in order; holds: whether a member has signed what it is said to have.
    """

    def __init__(
        self,
        is_roots: Callable[[Claim], bool | None],
        forms: Mapping[tuple[int, int], Form],
        radius: float,
        makers: Callable[[Claim], Sequence[str]] = lambda claim: (),
        holds: Callable[[Claim], bool] = lambda claim: False,
    ) -> None:
        self._is_roots, self._forms, self._radius = is_roots, forms, radius
        self._makers, self._holds = makers, holds
        self._totals: dict[str, dict[bytes, Total]] = {}

    def take(self, peer: str, frame: Total) -> bool:
        """Keep a total; True if it was new."""
        claim, given = frame.claim, self._totals.setdefault(peer, {})
        form = self._forms.get((claim.round, claim.call))
        if form is None or digest(frame) != claim.digest or self._is_roots(claim) is False:
            raise BadFrame("a total that no root has signed.")
        rows_of(frame, *form, self._radius)
        fresh = claim.digest not in given
        if len(given) >= MOST_TOTALS and fresh:
            given.pop(next(iter(given)))
        given[claim.digest] = frame
        return fresh

    def find(self, claim: Claim) -> Total | None:
        """The bytes are the giver's; whose they are and of which round, the votes say."""
        known = (given.get(claim.digest) for given in self._totals.values())
        found = (replaced(total, claim=claim) for total in known if total is not None)
        return next((total for total in found if all(self._sums(total) or [False])), None)

    def is_false(self, frame: Total) -> bool:
        """Whether the root has signed this row, and a group's own root another sum of its group."""
        claim = frame.claim
        form = self._forms.get((claim.round, claim.call))
        if not frame.parts or form is None or digest(frame) != claim.digest:
            return False
        rows_of(frame, *form, self._radius)
        return self._is_roots(claim) is True and False in self._sums(frame)

    def _sums(self, total: Total) -> list[bool]:
        """Whether a row is one sum or, for each group, whether its part is what the group's root
        has signed; nothing where the signatures are not those."""
        makers, (view, round, call) = self._makers(total.claim), total.claim.key
        if not makers:
            return [] if total.parts else [True]
        found, size = [], len(total.data) // len(makers)
        places = [(view, round, call - len(makers) + g) for g in range(len(makers))]
        if [(one.member, one.key) for one in total.parts] != list(zip(makers, places, strict=True)):
            return []
        for g, part in enumerate(total.parts):
            shape = total.shape[0], total.shape[1] // len(makers)
            sums = replaced(total, shape=shape, data=total.data[g * size : (g + 1) * size])
            if not self._holds(part):
                return []
            found.append(part.digest == digest(sums))
        return found
