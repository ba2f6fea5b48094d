"""`LazyRows`: features that are still where they come from, a file or a generator, and are read
for some of the records only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacenda._types import Array, Ints
from tacenda.errors import InputError, StateError


class RowSource(Protocol):
    """Where rows come from, as often as they are asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """(records, features)."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def sparse(self) -> bool:
        """Whether rows are CSR."""
        ...

    def blocks(self, positions: Ints) -> Iterator[Any]:
        """The rows at these rising positions, some at a time and in order; a row's bits do not
        depend on which others are asked for."""
        ...


class LazyRows:
    """Features of records which are not in memory.

    It stands where the array X would: `tacenda.data.partition` divides it, X[positions] and X[a:b]
    are lazy as well. Nothing is read before `Shards.of_nodes`, or `read`, asks for rows; then the
    source is gone through once, and no other rows are kept.

    Parameters
    ----------
    source : RowSource
        Gives the rows when they are asked for.
    positions : ndarray of int or None, default=None
        Which of its records, in this order; None: all.

    Attributes
    ----------
    shape : tuple of int
        (records, features).
    dtype : numpy.dtype
        Of the features.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(1000, 5, seed=0, lazy=True)
    >>> data.X[10:13].read().shape
    (3, 5)
    """

    ndim = 2

    def __init__(self, source: RowSource, positions: Ints | None = None) -> None:
        self._source, self._chosen = source, positions  # None: all, in order

    @property
    def _at(self) -> Ints:
        return np.arange(self._source.shape[0]) if self._chosen is None else self._chosen

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._source.dtype

    def __len__(self) -> int:
        return self._source.shape[0] if self._chosen is None else len(self._chosen)

    def __getitem__(self, records: slice | Array) -> LazyRows:
        """Some of the rows, in the given order; nothing is read."""
        if not isinstance(records, slice):
            records = np.asarray(records)
            if records.ndim != 1 or records.dtype.kind not in "biu":
                raise InputError(
                    "rows that are not read yet are chosen by a slice or by an array of positions, "
                    "as in X[10:20]; X.read() gives them as an array."
                )
        return LazyRows(self._source, self._at[records])

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise InputError(
            "these features are not read yet: take the records of some nodes with "
            "shards.of_nodes(nodes), or X.read() for all rows at once."
        )

    def __repr__(self) -> str:
        form = "CSR" if self._source.sparse else "dense"
        return f"LazyRows({self.shape[0]} x {self.shape[1]} {form} {self.dtype})"

    def read(self) -> Any:
        """Read the rows."""
        at = self._at
        order = None if bool(np.all(at[1:] > at[:-1])) else np.argsort(at, kind="stable")
        blocks = self._source.blocks(at if order is None else at[order])
        if self._source.sparse:
            return self._joined(blocks, order)
        found, done = np.empty(self.shape, self.dtype), 0
        for block in blocks:
            own = slice(done, done + len(block))
            found[own if order is None else order[own]] = block
            done += len(block)
        self._check(done)
        return found

    def _joined(self, blocks: Iterator[Any], order: Ints | None) -> Any:
        from scipy.sparse import csr_matrix, vstack

        parts = list(blocks)
        self._check(sum(part.shape[0] for part in parts))
        if not parts:
            return csr_matrix(self.shape, dtype=self.dtype)
        whole = parts[0] if len(parts) == 1 else vstack(parts, format="csr")
        del parts
        if order is None:
            return whole
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return whole[place]

    def mapped(self, change: Callable[[Any], Any], features: int) -> LazyRows:
        """Rows that are changed as they are read.

        change: takes some rows and gives as many; each depends on its own row alone.
        features: how many features the new rows have. Result: the new rows, of the same records.
        """
        return LazyRows(_Mapped(self._source, change, features), self._chosen)

    def column(self, feature: int) -> Array:
        """Read one feature of every record."""
        at = self._at
        order = np.argsort(at, kind="stable")
        found, done = np.empty(len(self), self.dtype), 0
        for block in self._source.blocks(at[order]):
            own = block[:, [feature]]
            own = own.toarray() if self._source.sparse else own
            found[order[done : done + len(own)]] = own[:, 0]
            done += len(own)
        self._check(done)
        return found

    def _check(self, found: int) -> None:
        if found != len(self):
            raise StateError(
                f"The data had {len(self)} of these records when it was first read and has {found} "
                "now; leave it as it is while it is used."
            )


@dataclass(frozen=True, eq=False)
class _Mapped:
    """`LazyRows.mapped`."""

    source: RowSource
    change: Callable[[Any], Any]
    features: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape[0], self.features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def sparse(self) -> bool:
        return self.source.sparse

    def blocks(self, positions: Ints) -> Iterator[Any]:
        return map(self.change, self.source.blocks(positions))


@dataclass(frozen=True, eq=False)
class Generated:
    """Dense rows that are made piece by piece: `pieces` begins anew with every call, and gives all
    rows in order, always cut in the same places."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    pieces: Callable[[], Iterator[Array]]
    sparse: bool = False

    def blocks(self, positions: Ints) -> Iterator[Array]:
        done = 0
        for piece in self.pieces():
            first, last = np.searchsorted(positions, (done, done + len(piece)))
            if last > first:
                yield piece[positions[first:last] - done]
            if last == len(positions):
                return
            done += len(piece)


def joined(parts: Sequence[LazyRows]) -> LazyRows:
    """Rows of one source, one part after the other."""
    sources = {id(part._source) for part in parts}
    if len(sources) != 1:
        raise InputError("rows that are not read yet must come from one data set to be joined.")
    return LazyRows(parts[0]._source, np.concatenate([part._at for part in parts]))
