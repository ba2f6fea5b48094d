"""From what a user calls shards to one clean table: checks of shapes, numbers and row norms, and as
few copies as possible.

Messages name the node and the column, never a value: an error may travel further than the data may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError

Rows = Any  # an array (N, p), or the CSR triple (data, indices, indptr)

_CHUNK_ELEMENTS = 1 << 18
# How far rounding may lift a row of norm data_norm above it.
NORM_SLACK = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}


@dataclass(frozen=True, eq=False)
class ByNode:
    """Records of all nodes in one table, node after node: X (N, p), y (N,) and the number of each
    node's records, sizes (n,) or one for all. What `Problem.from_arrays` makes of its arguments."""

    X: Any
    y: Any
    sizes: Any


@dataclass(frozen=True)
class JoinedShards:
    """All records in node order: `rows`, the raw labels in pieces, one after the other (of one node
    each, or a single piece), `offsets` (n+1,), and the users' node labels, if any.
    """

    rows: Rows
    labels: list[Array]
    offsets: Ints
    n_features: int
    node_labels: tuple[Any, ...] | None
    whole: bool = False  # what belongs to the records comes in one piece, not in one per node

    @property
    def n_nodes(self) -> int:
        return len(self.offsets) - 1

    def node_name(self, position: int) -> str:
        """How messages call a node."""
        return _name(self.node_labels, position)

    def name_at(self, record: int) -> str:
        """How messages call the node of a record."""
        return self.node_name(int(np.searchsorted(self.offsets, record, side="right")) - 1)

    def pieces(self) -> Iterator[tuple[int, Array]]:
        """(the first record, labels) of each piece."""
        first = 0
        for y in self.labels:
            yield first, y
            first += len(y)

    def by_node(self, what: str, given: Any) -> list[Any]:
        """Something that comes with the records, as one entry per node, in order."""
        n = self.n_nodes
        if self.whole:
            values = np.asarray(given)
            if values.shape != (int(self.offsets[-1]),):
                raise InputError(
                    f"{what} must be one array with an entry for each of the "
                    f"{int(self.offsets[-1])} records, as X and y are, not of shape {values.shape}."
                )
            return np.split(values, self.offsets[1:-1])
        if isinstance(given, Mapping) != (self.node_labels is not None):
            raise InputError(
                f"{what} must come as the shards do: one array per node in a list, or in a dict by "
                f"node label, not as {type(given).__name__}."
            )
        if self.node_labels is not None:
            if set(given) != set(self.node_labels):
                raise InputError(
                    f"{what} must have the same node labels as the shards; give one array per node."
                )
            return [given[label] for label in self.node_labels]
        if len(given) != n:
            raise InputError(f"{what} must hold one array per node ({n}), not {len(given)}.")
        return list(given)


def read_shards(shards: Any) -> JoinedShards:
    """Check the shards' structure and join them;
    consecutive views of one array are joined without a copy."""
    if isinstance(shards, ByNode):
        return _read_by_node(shards)
    node_labels, pairs = _pairs(shards)
    tables, labels = [], []
    for position, pair in enumerate(pairs):
        name = _name(node_labels, position)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(
                "shards must hold one pair (X, y) per node, "
                f"and {name} holds {type(pair).__name__}; pass (X, y)."
            )
        x, y = _features(name, pair[0]), _labels(name, pair[1])
        if x.shape[0] != len(y):
            raise InputError(
                f"{name} has {x.shape[0]} rows in X and {len(y)} labels in y; "
                "give one label per row."
            )
        if len(y) == 0:
            raise InputError(
                f"{name} has no records; leave the node out of the graph, or give it data."
            )
        tables.append(x)
        labels.append(y)
    _check_alike(tables, node_labels)
    offsets = np.concatenate([[0], np.cumsum([len(y) for y in labels])]).astype(np.int64)
    dtype = np.result_type(*{x.dtype for x in tables})
    return JoinedShards(_joined(tables, dtype), labels, offsets, tables[0].shape[1], node_labels)


def _read_by_node(given: ByNode) -> JoinedShards:
    x, y = _features("The table", given.X), _labels("The table", given.y)
    count = x.shape[0]
    if count != len(y):
        raise InputError(f"X has {count} rows and y {len(y)} labels; give one label per row.")
    sizes = np.asarray(given.sizes)
    if sizes.ndim > 1 or sizes.dtype.kind not in "iu" or sizes.size == 0 or sizes.min() < 1:
        raise InputError(
            "sizes must be whole numbers of at least 1, one for each node or one for all, "
            f"not {given.sizes!r}."
        )
    if sizes.ndim == 0:
        if count == 0 or count % int(sizes):
            raise InputError(
                f"sizes must divide the number of records ({count}), not {int(sizes)}; "
                "give one number for each node."
            )
        offsets = np.arange(0, count + 1, int(sizes), dtype=np.int64)
    else:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        if offsets[-1] != count:
            raise InputError(
                f"sizes must add up to the number of records ({count}), not to {offsets[-1]}."
            )
    rows = _joined([x], x.dtype)
    return JoinedShards(rows, [y], offsets, x.shape[1], None, whole=True)


def bound_rows(table: JoinedShards, data_norm: float, on_large_rows: str) -> Rows:
    """The rows, checked to be finite and of norm at most data_norm, or scaled down to it (in a
    copy, if any is)."""
    squares = square_norms(table.rows)
    if not np.isfinite(squares).all():
        _refuse_non_finite(table, int(np.flatnonzero(~np.isfinite(squares))[0]))
    norms = np.sqrt(squares)
    dtype = (table.rows[0] if isinstance(table.rows, tuple) else table.rows).dtype
    large = np.flatnonzero(norms > data_norm * (1.0 + NORM_SLACK[dtype]))
    if len(large) == 0:
        return table.rows
    if on_large_rows == "error":
        raise InputError(
            f"{table.name_at(large[0])} has a row of X whose norm is above "
            f"data_norm={data_norm:g}; scale the features by public bounds, "
            "declare a larger data_norm, or pass on_large_rows='scale'."
        )
    rows = _scaled(table.rows, large, data_norm / norms[large])
    if (np.sqrt(square_norms(rows)[large]) > data_norm * (1.0 + NORM_SLACK[dtype])).any():
        raise InputError(
            "A row of X is so large that rounding spoils its scaling; "
            "scale the features by public bounds first."
        )
    return rows


def square_norms(rows: Rows) -> Floats:
    """|x_j|^2 of every record in float64, a chunk at a time."""
    if isinstance(rows, tuple):
        data, _, indptr = rows
        result = np.zeros(len(indptr) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            for a, b in _chunks(len(result), max(1, len(data) // max(1, len(result)))):
                squares = np.square(data[indptr[a] : indptr[b]], dtype=np.float64)
                filled = a + np.flatnonzero(np.diff(indptr[a : b + 1]))
                if len(filled):
                    result[filled] = np.add.reduceat(squares, indptr[filled] - indptr[a])
        return result
    result = np.empty(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        for a, b in _chunks(*rows.shape):
            part = rows[a:b].astype(np.float64, copy=False)
            # A row on its own would be added up in another order, if it is long
            part = part if b - a > 1 else np.repeat(part, 2, axis=0)
            result[a:b] = np.einsum("ij,ij->i", part, part)[: b - a]
    return result


def _pairs(shards: Any) -> tuple[tuple[Any, ...] | None, list[Any]]:
    if isinstance(shards, Mapping):
        labels, pairs = tuple(shards), list(shards.values())
    elif isinstance(shards, Sequence) and not isinstance(shards, (str, bytes)):
        labels, pairs = None, list(shards)
    else:
        raise InputError(
            "shards must be a list of pairs (X, y) in graph order or a dict by node label, "
            f"not {type(shards).__name__}."
        )
    if not pairs:
        raise InputError(
            "shards must hold at least one node, and is empty; pass one pair (X, y) per node."
        )
    return labels, pairs


def _name(node_labels: tuple[Any, ...] | None, position: int) -> str:
    return f"Node {position}" if node_labels is None else f"Node {node_labels[position]!r}"


def _features(name: str, x: Any) -> Any:
    """X as a 2-D float array or CSR matrix without duplicates; no copy where it is one already."""
    if hasattr(x, "tocsr"):
        x = x.tocsr()
        if not x.has_canonical_format:
            # Summing duplicates works in place, and the user's matrix is not ours to change
            x = x.copy()
            x.sum_duplicates()
    else:
        x = np.asarray(x)
    if x.ndim != 2:
        raise InputError(
            f"{name}: X must have two axes (records, features), not {x.ndim}; use X.reshape(-1, 1) "
            "for one feature."
        )
    if x.shape[1] == 0:
        raise InputError(f"{name}: X must have at least one feature, not 0.")
    if x.dtype in NORM_SLACK:
        return x if hasattr(x, "tocsr") else np.ascontiguousarray(x)
    if x.dtype.kind in "biu" or x.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a longer float becomes infinite, and is refused as such
            return x.astype(np.float32 if x.dtype == np.float16 else np.float64)
    try:
        if x.dtype.kind == "c":
            raise TypeError
        return x.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{name}: X must hold real numbers, not {x.dtype}; encode text and categories first."
        ) from None


def _labels(name: str, y: Any) -> Array:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(
            f"{name}: y must have one axis, one label per record, not shape {y.shape}."
        )
    return y


def _check_alike(tables: list[Any], node_labels: tuple[Any, ...] | None) -> None:
    sparse, width = hasattr(tables[0], "tocsr"), tables[0].shape[1]
    for position, x in enumerate(tables):
        name = _name(node_labels, position)
        if hasattr(x, "tocsr") != sparse:
            raise InputError(
                f"{name}: X must be {'sparse' if sparse else 'dense'} like the first node's; "
                "convert one of them."
            )
        if x.shape[1] != width:
            raise InputError(
                f"{name}: X has {x.shape[1]} features and the first node's has {width}; "
                "use the same columns."
            )


def _joined(tables: list[Any], dtype: np.dtype[Any]) -> Rows:
    if not hasattr(tables[0], "tocsr"):
        return join_arrays(tables, dtype)
    data = join_arrays([x.data for x in tables], dtype)
    indices = join_arrays([x.indices for x in tables], np.dtype(np.int32))
    counts = np.concatenate([np.diff(x.indptr) for x in tables])
    return data, indices, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def join_arrays(arrays: list[Array], dtype: np.dtype[Any]) -> Array:
    """The arrays one after the other: a view, if they already lie so inside one array,
    else one concatenation."""
    if len(arrays) == 1:
        return np.ascontiguousarray(arrays[0], dtype=dtype)
    first, filled = arrays[0], [a for a in arrays if a.size]
    bases = {id(_owner(a)) for a in filled}
    ends = [a.__array_interface__["data"][0] for a in filled]
    consecutive = all(p + a.nbytes == q for p, a, q in zip(ends, filled, ends[1:], strict=False))
    alike = all(a.dtype == dtype and a.flags.c_contiguous for a in filled)
    if filled and len(bases) == 1 and _owner(filled[0]) is not filled[0] and alike and consecutive:
        shape = (sum(len(a) for a in filled), *first.shape[1:])
        return np.lib.stride_tricks.as_strided(filled[0], shape=shape, writeable=False)
    return np.concatenate(arrays, dtype=dtype, casting="same_kind")


def _owner(array: Array) -> Any:
    """The array at the bottom of a chain of views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _chunks(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK_ELEMENTS // max(1, width))
    for a in range(0, n_rows, step):
        yield a, min(n_rows, a + step)


def _refuse_non_finite(table: JoinedShards, row: int) -> None:
    node = table.name_at(row)
    if isinstance(table.rows, tuple):
        data, indices, indptr = table.rows
        part = slice(indptr[row], indptr[row + 1])
        bad = indices[part][~np.isfinite(data[part])]
    else:
        bad = np.flatnonzero(~np.isfinite(table.rows[row]))
    if len(bad) == 0:
        raise InputError(
            f"{node}: a row of X is so large that its norm overflows; "
            "scale the features by public bounds."
        )
    raise InputError(
        f"{node}: column {int(bad[0])} of X holds NaN or infinity; "
        "fill in or drop such records first."
    )


def _scaled(rows: Rows, which: Ints, factors: Floats) -> Rows:
    if isinstance(rows, tuple):
        data, indices, indptr = rows
        data = data.copy()
        every = np.ones(len(indptr) - 1, dtype=data.dtype)
        every[which] = factors
        for a, b in _chunks(len(every), max(1, len(data) // len(every))):
            data[indptr[a] : indptr[b]] *= np.repeat(every[a:b], np.diff(indptr[a : b + 1]))
        return data, indices, indptr
    result = rows.copy()
    for a, b in _chunks(len(which), rows.shape[1]):
        result[which[a:b]] *= factors[a:b, None].astype(result.dtype)
    return result
