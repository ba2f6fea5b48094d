"""Spread the records of one data set over nodes.

Every partitioner returns `Shards`, a list of (X_i, y_i) in node order whose X_i are views of one
array: the given one where the records already lie in node order, else one permuted copy. A CSR
matrix is cut into CSR views.

Which record goes where follows from the number of records, the seed, and what the partitioner says
that it looks at: labels, ids, a column. So X may be a `LazyRows`: nothing of it is read here,
and `Shards.of_nodes` then reads the records of some nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tacenda._types import Array, Floats, Ints
from tacenda.checks import between, one_of, positive, whole
from tacenda.data.features import is_sparse
from tacenda.data.lazy_rows import LazyRows, joined
from tacenda.data.partition_view import describe, plot
from tacenda.errors import InputError
from tacenda.privacy.noise.persons import PUBLIC_KEY, person_names, persons_over
from tacenda.words import counted

__all__ = [
    "Shards",
    "broken_promise",
    "by_column",
    "by_feature_shift",
    "by_label_skew",
    "by_person",
    "by_sizes",
    "describe",
    "even",
    "plot",
]


# What each way of spreading records looks at, beside who owns them:
# how many there are, or what they hold.
_READS = {
    "even": "the number of records",
    "sizes": "the number of records",
    "label-skew": "the labels of all records",
    "feature-shift": "the features of all records",
    "column": "",
    "person": "",
    "held-out": "the number of records",  # positions that `hold_out` has drawn
}


def broken_promise(kind: str | None, adjacency: str, n: int) -> str | None:
    """Why the guarantee of the nodes is not one for a record of the *table* that was divided.

    A node's guarantee is about records that stay where they are. Where one record more, or other
    contents of one, move further records from node to node, it holds for the records as they are on
    the nodes, and not for the table.

    Parameters
    ----------
    kind : str or None
        That of `Shards`; None for shards that came as such.
    adjacency : str
        The neighbouring relation.
    n : int
        Number of nodes.

    Returns
    -------
    str or None
        One sentence; None where the guarantee holds for the table too.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.partition.broken_promise("even", "replace-one", 10) is None
    True
    """
    reads = "" if kind is None else _READS[kind]
    if not reads or (reads == "the number of records" and adjacency == "replace-one"):
        return None
    if kind == "held-out":
        return (
            "which positions are held out was drawn from the number of records, so one more "
            "record would move others from side to side (hold_out(..., adjacency='add-remove') "
            "tosses a "
            "coin for each)"
        )
    if n == 1:
        return None
    what = "one record more" if reads == "the number of records" else "other contents of one record"
    article = "an" if kind == "even" else "a"
    return f"{article} {kind} split reads {reads}, so {what} would move others from node to node"


class Shards(list[tuple[Any, Array]]):
    """A list of (X_i, y_i), one per node.

    Parameters
    ----------
    parts : iterable of (X_i, y_i)
        The records of each node.
    labels : iterable of object or None, default=None
        Names of the nodes in the same order, 0 .. n - 1 unless declared.
    kind : str or None, default=None
        How they were made (see `broken_promise`).
    persons : sequence of ndarray or None, default=None
        Ids of the persons behind each node's records, which `tacenda.Problem` reads.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 5, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4)
    >>> len(shards), shards.labels, shards[0][0].shape
    (4, (0, 1, 2, 3), (25, 5))
    """

    def __init__(
        self,
        parts: Iterable[tuple[Any, Array]],
        labels: Iterable[Any] | None = None,
        kind: str | None = None,
        persons: Sequence[Array] | None = None,
    ) -> None:
        super().__init__(parts)
        self.kind = kind
        self.persons = None if persons is None else list(persons)
        self.labels: tuple[Any, ...] = tuple(range(len(self))) if labels is None else tuple(labels)

    def as_dict(self) -> dict[Any, tuple[Any, Array]]:
        """The same by node label, the other form that `tacenda.Problem` takes.

        Result: {label: (X_i, y_i)}.
        """
        return dict(zip(self.labels, self, strict=True))

    def of_nodes(self, nodes: ArrayLike) -> Shards:
        """Take the records of some nodes alone, in arrays of their own.

        Lazy rows are read here, in one go through their source, and no others are kept. So each
        rank of a simulation over MPI comes by its records: `shards.of_nodes(mpi.nodes(graph))`.

        Parameters
        ----------
        nodes : array_like of int
            Positions of the nodes, in the order that the new shards have them in.

        Returns
        -------
        Shards
            One part for each of them, with its label and its persons.

        Raises
        ------
        InputError
            If a position is not one, or a record cannot be read.

        Examples
        --------
        >>> import tacenda as tc
        >>> data = tc.data.make_classification(100, 5, seed=0, lazy=True)
        >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
        >>> [x.shape for x, _ in shards.of_nodes([2, 0])]
        [(25, 5), (25, 5)]
        """
        at = np.asarray(nodes)
        if at.ndim != 1 or at.dtype.kind not in "iu" or not len(at):
            raise InputError(f"nodes must be positions of nodes, one at least, not {nodes!r}.")
        if at.min() < 0 or at.max() >= len(self):
            raise InputError(f"nodes must be positions from 0 to {len(self) - 1}.")
        chosen = [self[k] for k in at.tolist()]
        sizes = np.array([len(y) for _, y in chosen], np.int64)
        X = _together([x for x, _ in chosen])
        found = _cut(self.kind, X, np.concatenate([y for _, y in chosen]), sizes, None)
        found.labels = tuple(self.labels[k] for k in at.tolist())
        if self.persons is not None:
            found.persons = [self.persons[k] for k in at.tolist()]
        return found

    def __repr__(self) -> str:
        sizes = [len(y) for _, y in self]
        return (
            f"Shards({counted(len(self), 'node')}, {min(sizes)} to {counted(max(sizes), 'record')})"
            if sizes
            else "Shards(0 nodes)"
        )


def even(X: Any, y: ArrayLike, n: int, seed: int | None = None) -> Shards:
    """Divide records over n nodes whose sizes differ by at most one.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    n : int
        Number of nodes.
    seed : int or None, default=None
        Shuffles the records first; None keeps the given order.

    Raises
    ------
    InputError
        If there are fewer records than nodes.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(10, 2, seed=0)
    >>> [len(y) for _, y in tc.data.partition.even(data.X, data.y, 3)]
    [4, 3, 3]
    """
    X, labels = _checked(X, y, whole("n", n, least=1))
    return _cut("even", X, labels, _even_sizes(len(labels), n), _shuffled(len(labels), seed))


def by_person(X: Any, y: ArrayLike, persons: ArrayLike, n: int, key: bytes | None = None) -> Shards:
    """Divide records over n nodes, all records of a person to one of them.

    Which one is drawn by a keyed hash of the id and nothing else, so that one person more or less
    moves no other; sizes differ as chance has it.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    persons : array_like
        Ids, texts or whole numbers, shape (records,).
    n : int
        Number of nodes.
    key : bytes or None, default=None
        Of the draw; None takes a public one.

    Returns
    -------
    Shards
        One part for each node, with its persons.

    Raises
    ------
    InputError
        If a record has no id, or a node would be left without records.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 2, seed=0)
    >>> parts = tc.data.partition.by_person(data.X, data.y, [k // 2 for k in range(100)], 3)
    >>> len(parts), bool(set(parts.persons[0]) & set(parts.persons[1]))
    (3, False)
    """
    X, labels = _checked(X, y, whole("n", n, least=1))
    ids = _ids(persons, len(labels))
    node = persons_over(ids, n, PUBLIC_KEY if key is None else key)
    sizes = np.bincount(node, minlength=n)
    if not sizes.all():
        raise InputError(
            f"n must be lower for this number of persons, not {n}: by chance a node is left "
            "without records; use fewer nodes or another key."
        )
    order = np.argsort(node, kind="stable")
    shards = _cut("person", X, labels, sizes, order)
    shards.persons = np.split(ids[order], np.cumsum(sizes)[:-1])
    return shards


def by_column(X: Any, y: ArrayLike, labels: ArrayLike, persons: ArrayLike | None = None) -> Shards:
    """Divide records by a column: one node per distinct value.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    labels : array_like
        Shape (records,).
    persons : array_like or None, default=None
        Ids of the persons behind the records, which go with them, shape (records,).

    Returns
    -------
    Shards
        One part for each value, in sorted order; `Shards.labels` keeps the values.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(4, 2, seed=0)
    >>> tc.data.partition.by_column(data.X, data.y, ["b", "a", "b", "b"]).labels
    ('a', 'b')
    """
    X, y = _checked(X, y, 1)
    column = np.asarray(labels)
    if column.shape != y.shape:
        raise InputError(
            f"labels must hold one node per record ({len(y)}), not shape {column.shape}."
        )
    if column.dtype == object:
        column = column.astype(str)
    names, member, sizes = np.unique(column, return_inverse=True, return_counts=True)
    in_order = bool(np.all(np.diff(member) >= 0))
    order = None if in_order else np.argsort(member, kind="stable")
    shards = _cut("column", X, y, sizes, order)
    shards.labels = tuple(names.tolist())
    if persons is not None:
        ids = _ids(persons, len(y))
        ids = ids if order is None else ids[order]
        shards.persons = np.split(ids, np.cumsum(sizes)[:-1])
    return shards


def by_sizes(
    X: Any,
    y: ArrayLike,
    sizes: Sequence[int] | Literal["power", "lognormal"],
    n: int | None = None,
    spread: float = 1.0,
    seed: int | None = None,
) -> Shards:
    """Divide records over nodes of declared sizes, or of sizes that follow a law.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    sizes : sequence of int or {"power", "lognormal"}
        The sizes; "power": the k-th is proportional to k^-spread; "lognormal": exp of a normal
        with standard deviation `spread`. No node is empty.
    n : int or None, default=None
        Number of nodes, for a law.
    spread : float, default=1.0
        Of the law.
    seed : int or None, default=None
        Shuffles the records first, and draws the sizes of "lognormal" (by 0 if None).

    Raises
    ------
    InputError
        If the sizes do not add up to the number of records.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(10, 2, seed=0)
    >>> [len(y) for _, y in tc.data.partition.by_sizes(data.X, data.y, [7, 3])]
    [7, 3]
    """
    if isinstance(sizes, str):
        one_of("sizes", sizes, ("power", "lognormal"))
        if n is None:
            raise InputError(
                f"n must be given with sizes={sizes!r}: how many nodes the records are spread over."
            )
        X, labels = _checked(X, y, whole("n", n, least=1))
        weights = _size_weights(sizes, int(n), positive("spread", spread, zero=True), seed)
        return _cut(
            "sizes", X, labels, _apportion(weights, len(labels)), _shuffled(len(labels), seed)
        )
    X, labels = _checked(X, y, len(sizes))
    counts = np.array(
        [whole(f"sizes[{k}]", size, least=1) for k, size in enumerate(sizes)], np.int64
    )
    if counts.sum() != len(labels):
        raise InputError(
            f"sizes must sum to the number of records {len(labels)}, not {counts.sum()}."
        )
    return _cut("sizes", X, labels, counts, _shuffled(len(labels), seed))


def by_label_skew(X: Any, y: ArrayLike, n: int, concentration: float, seed: int = 0) -> Shards:
    """Divide records so that nodes have different shares of the classes.

    Each class is divided over the nodes by its own Dirichlet(concentration) draw. A node left empty
    takes one record from the largest.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    n : int
        Number of nodes.
    concentration : float
        Small values give nodes that know one class only, large ones even shares.
    seed : int, default=0
        The same seed gives the same parts.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 2, seed=0)
    >>> len(tc.data.partition.by_label_skew(data.X, data.y, 5, concentration=0.3))
    5
    """
    X, labels = _checked(X, y, whole("n", n, least=1))
    concentration = positive("concentration", concentration)
    classes, codes = np.unique(labels, return_inverse=True)
    if labels.dtype.kind == "f" and not np.all(classes == np.round(classes)):
        raise InputError(
            "y must hold classes for by_label_skew, not real numbers; use by_feature_shift instead."
        )
    rng = np.random.default_rng(whole("seed", seed))
    node = np.empty(len(labels), np.int64)
    for k in range(len(classes)):
        members = rng.permutation(np.flatnonzero(codes == k))
        # Tiny concentrations underflow to all zeros;
        # the limit of the law is then one node for the whole class.
        shares = rng.dirichlet(np.full(n, concentration))
        shares = (
            shares
            if np.isfinite(shares).all() and shares.sum() > 0.5
            else np.eye(n)[rng.integers(n)]
        )
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        node[members] = np.searchsorted(cuts, np.arange(len(members)), side="right")
    _fill_empty(node, n, rng)
    return _cut(
        "label-skew", X, labels, np.bincount(node, minlength=n), np.argsort(node, kind="stable")
    )


def by_feature_shift(
    X: Any, y: ArrayLike, n: int, feature: int | None = None, strength: float = 1.0, seed: int = 0
) -> Shards:
    """Divide records evenly over nodes whose inputs differ.

    Records are ordered by rank * strength + uniform * (1 - strength) and cut.

    Parameters
    ----------
    X : ndarray, scipy sparse or LazyRows
        Shape (records, features).
    y : array_like
        Shape (records,).
    n : int
        Number of nodes.
    feature : int or None, default=None
        The column whose rank counts; None takes a random direction.
    strength : float, default=1.0
        1 cuts the sorted records, 0 a random order.
    seed : int, default=0
        The same seed gives the same parts.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 2, seed=0)
    >>> parts = tc.data.partition.by_feature_shift(data.X, data.y, 2, feature=0)
    >>> bool(parts[0][0][:, 0].max() <= parts[1][0][:, 0].min())
    True
    """
    X, labels = _checked(X, y, whole("n", n, least=1))
    strength = between("strength", strength, 0.0, 1.0, open_ends=False)
    rng = np.random.default_rng(whole("seed", seed))
    if feature is None:
        if isinstance(X, LazyRows):
            raise InputError(
                "feature must be given for rows that are not read yet: a random direction needs "
                "all features of all records at once; X.read() reads them."
            )
        score = np.asarray(X @ rng.standard_normal(X.shape[1])).ravel()
    else:
        if whole("feature", feature) >= X.shape[1]:
            raise InputError(
                f"feature must be below the number of features {X.shape[1]}, not {feature}."
            )
        score = _column(X, feature)
    rank = np.empty(len(labels))
    rank[np.argsort(score, kind="stable")] = (np.arange(len(labels)) + 0.5) / len(labels)
    key = strength * rank + (1.0 - strength) * rng.random(len(labels))
    return _cut(
        "feature-shift", X, labels, _even_sizes(len(labels), n), np.argsort(key, kind="stable")
    )


def _column(X: Any, feature: int) -> Array:
    if isinstance(X, LazyRows):
        return X.column(feature)
    return np.asarray(X[:, [feature]].toarray().ravel() if is_sparse(X) else X[:, feature])


def _together(parts: list[Any]) -> Any:
    """Rows of several nodes in one array of their own."""
    if isinstance(parts[0], LazyRows):
        return joined(parts).read()
    if not is_sparse(parts[0]):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def _checked(X: Any, y: ArrayLike, n: int) -> tuple[Any, Array]:
    if not isinstance(X, LazyRows):
        X = X.tocsr() if is_sparse(X) else np.asarray(X)
    y = np.asarray(y)
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != len(y):
        raise InputError(
            f"X must be (records, features) and y (records,), not {X.shape} and {y.shape}."
        )
    if n > len(y):
        raise InputError(
            f"n must be at most the number of records {len(y)}, not {n}: every node needs a record."
        )
    return X, y


def _ids(persons: ArrayLike, count: int) -> Array:
    """(records,) the ids as texts, one per record."""
    ids = person_names(persons)
    if len(ids) != count:
        raise InputError(f"persons must hold one id per record ({count}), not {len(ids)}.")
    return ids


def _even_sizes(records: int, n: int) -> Ints:
    sizes = np.full(n, records // n, np.int64)
    sizes[: records % n] += 1
    return sizes


def _shuffled(records: int, seed: int | None) -> Ints | None:
    return None if seed is None else np.random.default_rng(whole("seed", seed)).permutation(records)


def _size_weights(law: str, n: int, spread: float, seed: int | None) -> Floats:
    if law == "power":
        weights: Floats = np.arange(1, n + 1, dtype=np.float64) ** -spread
        return weights
    return np.exp(spread * np.random.default_rng(0 if seed is None else seed).standard_normal(n))


def _apportion(weights: Floats, records: int) -> Ints:
    """Whole sizes of at least 1 that sum to `records`,
    by largest remainder over the records beyond one each."""
    exact = weights / weights.sum() * (records - len(weights))
    sizes = np.floor(exact).astype(np.int64)
    rest = records - len(weights) - int(sizes.sum())
    sizes[np.argsort(-(exact - sizes), kind="stable")[:rest]] += 1
    whole_sizes: Ints = sizes + 1
    return whole_sizes


def _fill_empty(node: Ints, n: int, rng: np.random.Generator) -> None:
    sizes = np.bincount(node, minlength=n)
    for empty in np.flatnonzero(sizes == 0):
        donor = int(np.argmax(sizes))
        node[rng.choice(np.flatnonzero(node == donor))] = empty
        sizes[donor] -= 1
        sizes[empty] = 1


def _cut(kind: str | None, X: Any, y: Array, sizes: Ints, order: Ints | None) -> Shards:
    """Views of consecutive rows, after one reordering copy where `order` is given."""
    if order is not None:
        X, y = X[order], y[order]
    ends = np.cumsum(sizes)
    parts = ((_rows(X, int(a), int(b)), y[a:b]) for a, b in zip(ends - sizes, ends, strict=True))
    return Shards(parts, kind=kind)


def _rows(X: Any, a: int, b: int) -> Any:
    """Rows a..b-1 of X without a copy:
    slicing CSR, and its constructor given small views, would copy."""
    if not is_sparse(X):
        return X[a:b]
    start, end = X.indptr[a], X.indptr[b]
    part = type(X)((b - a, X.shape[1]), dtype=X.dtype)
    part.data = X.data[start:end]
    part.indices = X.indices[start:end]
    part.indptr = X.indptr[a : b + 1] - start
    return part
