"""A statistic: one more question to the records. Each record gives a vector at a public model; the
answer is the sum of the vectors of a node's records.

    sum_j v_j vector(x_j, y_j; w)        v_j, from 0 to 1: the record's weight, if it has one

A statistic declares how long its vectors are, how large the l2 norm of one may be, and whether
entries are never below 0. The query takes nobody's word for it: `enforced` makes it true of every
row, whatever floats the records hold. One record then moves the sum by at most

    norm             when it comes or goes (add-remove)
    2 norm           when it is replaced
    sqrt(2) norm     when it is replaced and entries are never below 0: the inner product of two
                     such vectors is not below 0, so |u - v|^2 <= |u|^2 + |v|^2
    replaced         when it is replaced, where a statistic of this package proves that it is less

Sums, not means: nothing is divided by a node's size, so that the network's sum counts every record
once, whoever holds it.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.questions.constants import SENSIBLE

KINDS = ("binary", "multiclass", "regression")
PAIRS, ROW, ALONE = 0, 1, 2  # what a factor of a block is multiplied by: packed xx', x, or 1
BLOCK_NUMBERS = 1 << 20  # of the vectors that are held at once: 8 MB
MOST_NUMBERS = 1 << 22  # longest vector
# Sensitivities are larger by so much: what rounding of a norm or a sum in floats may add
ROUNDING = 1e-9
ROUGHNESS = 1e-3  # part of `Statistic.replaced` that may be rounding on a grid


@dataclass(frozen=True, eq=False)
class Records:
    """Some private records, as a statistic reads them; made by the store only.

    Parameters
    ----------
    rows : ndarray or csr_array
        The features, shape (M, p).
    labels : ndarray
        Shape (M,): -1.0 and 1.0 for two classes, class numbers for more, values for a regression.
    n_outputs : int
        Number of scores of a record.
    kind : str
        "binary", "multiclass" or "regression": that of the loss.
    _scores : callable
        From a model to scores.
    beside : ndarray or None, default=None
        Other rows of the same records, which tables are counted from beside a training.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.questions.statistics import Records
    >>> found = Records(np.eye(2), np.array([-1.0, 1.0]), 1, "binary", lambda w: w[:, None])
    >>> found.classes
    array([0, 1])
    """

    rows: Any
    labels: Floats
    n_outputs: int
    kind: str
    _scores: Callable[[Floats], Floats]
    beside: Floats | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def scores(self, model: Array) -> Floats:
        """Linear scores under a public model, shape (M, n_outputs), in double precision.

        model: shape (d,), d = n_outputs * p.
        """
        return self._scores(np.ascontiguousarray(model, np.float64).reshape(-1))

    @property
    def dense(self) -> Floats:
        """The features as an array (M, p) in double precision."""
        rows = self.rows if isinstance(self.rows, np.ndarray) else self.rows.toarray()
        return np.asarray(rows, np.float64)

    @property
    def classes(self) -> Ints:
        """Class numbers, shape (M,), from 0."""
        if self.kind == "binary":
            return np.asarray(self.labels > 0, np.int64)
        known = np.nan_to_num(self.labels, nan=0.0, posinf=0.0, neginf=0.0)
        return np.clip(known, 0, max(self.n_outputs - 1, 0)).astype(np.int64)


class Factored(NamedTuple):
    """Vectors of M records whose blocks are each a factor times features, over a unit.

    Parameters
    ----------
    rows : ndarray
        Shape (M, p), the features.
    kinds : ndarray of int
        Shape (b,), of each block in order: the packed xx' (0), x (1), or 1 alone (2).
    factors : ndarray
        Shape (b, M).
    units : ndarray
        Shape (b,).
    """

    rows: Floats
    kinds: Ints
    factors: Floats
    units: Floats


class Statistic(ABC):
    """What is asked of every record; a subclass is a frozen dataclass of plain public values.

    `register` makes a subclass known by its name, so that files and contracts can hold it.

    Attributes
    ----------
    name : str
        The name in files.
    kinds : tuple of str
        Of which losses' records it can be asked: "binary", "multiclass", "regression".

    Examples
    --------
    >>> from tacenda.questions.statistics import Statistic, statistic_from_plain
    >>> found = statistic_from_plain({"name": "count"})
    >>> isinstance(found, Statistic), found.length, found.norm
    (True, 1, 1.0)
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = KINDS
    beside: ClassVar[bool] = False  # whether it reads the rows beside the records', where there are

    @property
    @abstractmethod
    def length(self) -> int:
        """How many numbers a record's vector has."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """Largest l2 norm of a record's vector: longer ones are cut to it."""

    @property
    @abstractmethod
    def non_negative(self) -> bool:
        """Whether entries are never below 0: those that are become 0."""

    @property
    def replaced(self) -> float:
        """How far one record's vector may be from another's.

        A smaller number than this one is believed of this package's statistics only. It has to hold
        for vectors in floats that were made shorter, and to leave ROUGHNESS of itself to rounding
        on a grid.
        """
        return self.loosely_replaced

    @property
    def loosely_replaced(self) -> float:
        """The same for any vectors of that norm."""
        return (math.sqrt(2.0) if self.non_negative else 2.0) * float(self.norm)

    @abstractmethod
    def vectors(self, records: Records, model: Floats) -> Array:
        """Compute the records' vectors; one record's must not depend on the others.

        records: private records; all of a block, whose size means nothing. model: the public model
        of the run, shape (d,). Result: shape (len(records), length); a row that is not finite
        counts as zeros.
        """

    def factored(self, records: Records, model: Floats) -> Factored | None:
        """The same vectors by their factors, where they have such a form; None where not.

        model: shape (d,), the public model. Result: to be summed by compiled loops, to the same
        bits.
        """
        return None

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        """Refuse a problem that the statistic does not fit, from public numbers.

        n_features: length of a record. n_outputs: number of scores of a record. kind: "binary",
        "multiclass" or "regression".
        """
        if kind not in self.kinds:
            raise InputError(
                f"The statistic {self.name!r} is for {' or '.join(self.kinds)} problems, "
                f"and this one is {kind}."
            )

    def to_plain(self) -> dict[str, Any]:
        """Name and values for files.

        Result: what `statistic_from_plain` reads back.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"name": self.name, **{key: _plain(value) for key, value in values.items()}}

    def digest(self) -> bytes:
        """SHA-256 of class and values: what tells two statistics apart.

        Result: the same on every machine.
        """
        kind = type(self)
        text = json.dumps([kind.__module__, kind.__qualname__, self.to_plain()], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()


class FirstStatistic(Statistic):
    """A statistic that is released before another one, whose public values follow from it."""

    @abstractmethod
    def then(self, asked: Statistic, total: Floats, std: float, records: float) -> Statistic:
        """Return what to ask next, by a public rule: as long as `asked`, and moved no further.

        asked: what was to be asked. total: shape (length,), the released sum. std: standard
        deviation of its noise. records: how many there are, known in public.
        """


HOMES = ("counts", "hazards", "outcomes", "tables")  # modules that register more
STATISTICS: dict[str, type[Statistic]] = {}
Kind = TypeVar("Kind", bound=Statistic)


def register(kind: type[Kind]) -> type[Kind]:
    """Make a statistic known by its name; a decorator, above ``@dataclass(frozen=True)``.

    Parameters
    ----------
    kind : type
        The class.

    Raises
    ------
    InputError
        If the name belongs to another class.

    Examples
    --------
    >>> from tacenda.questions import statistics
    >>> statistics.register(statistics.Count) is statistics.Count
    True
    """
    known = STATISTICS.get(kind.name)
    if known is not None and _place(known) != _place(kind):
        raise InputError(
            f"{kind.__name__}.name: {kind.name!r} is the name of {_place(known)} already; "
            "give the statistic another name."
        )
    STATISTICS[kind.name] = kind
    return kind


def statistic_from_plain(values: Any) -> Statistic:
    """Read back what `Statistic.to_plain` wrote.

    Parameters
    ----------
    values : dict
        Name and values.

    Raises
    ------
    InputError
        If the name or a value is unknown.

    Examples
    --------
    >>> from tacenda.questions.statistics import statistic_from_plain
    >>> statistic_from_plain({"name": "count"}).to_plain()
    {'name': 'count'}
    """
    if not isinstance(values, dict) or "name" not in values:
        raise InputError(f"statistic must be a table with a 'name', not {values!r}.")
    if values["name"] not in STATISTICS:
        for home in HOMES:
            import_module(f"tacenda.questions.{home}")
    kind = STATISTICS[checks.one_of("statistic", values["name"], list(STATISTICS))]
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    given = {key: _tuples(value) for key, value in values.items() if key != "name"}
    for key in given:
        if key not in known:
            raise InputError(
                f"{key!r} is no value of the statistic {kind.name!r}; "
                f"it has {', '.join(known) or 'none'}."
            )
    return kind(**given)


@register
@dataclass(frozen=True)
class Count(Statistic):
    """How many records there are (each by its weight): for sizes that are private.

    Examples
    --------
    >>> from tacenda.questions.statistics import Count
    >>> Count().non_negative
    True
    """

    name: ClassVar[str] = "count"

    @property
    def length(self) -> int:
        return 1

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return True

    def vectors(self, records: Records, model: Floats) -> Array:
        return np.ones((len(records), 1))


def checked(statistic: Any) -> Statistic:
    """The statistic itself, if what it declares can be kept; asked before any record is read."""
    if not isinstance(statistic, Statistic):
        raise InputError(f"statistic must be a Statistic, not {statistic!r}.")
    what = type(statistic).__name__
    length = checks.whole(f"{what}.length", statistic.length, least=1)
    if length > MOST_NUMBERS:
        raise InputError(
            f"{what}.length must be at most {MOST_NUMBERS}, not {length}; use fewer bins, "
            "candidates or features."
        )
    checks.between(f"{what}.norm", statistic.norm, *SENSIBLE, open_ends=False)
    return statistic


def enforced(vectors: Any, count: int, statistic: Statistic) -> Floats:
    """(count, length) in float64, with every row as the statistic declares: finite, not below 0
    where it says so, and no longer than its norm."""
    length, norm = statistic.length, float(statistic.norm)
    rows = np.array(vectors, np.float64)
    if rows.shape != (count, length):
        raise InputError(
            f"{type(statistic).__name__}.vectors must have shape ({count}, {length}), one row for "
            f"each record, not {rows.shape}."
        )
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    if statistic.non_negative:
        np.maximum(rows, 0.0, out=rows)
    largest = np.abs(rows).max(axis=1, initial=0.0)
    # In units of the largest entry: squares neither overflow nor vanish
    unit = np.where(largest > 0, largest, 1.0)[:, None]
    scaled = rows / unit
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    with np.errstate(over="ignore"):
        long = ~(lengths * unit[:, 0] <= norm)
    if long.any():
        short = norm * (1.0 - max(1e-12, length * 2.0**-50))
        rows[long] = scaled[long] * (short / lengths[long])[:, None]
    return rows


def is_own(statistic: Statistic) -> bool:
    """Whether a statistic is this package's code alone."""
    return all(one.__module__.startswith("tacenda.") for one in type(statistic).__mro__[:-2])


def block_records(statistic: Statistic) -> int:
    """How many records are read at once; it depends on the statistic alone, so that sums do not
    depend on where a node is hosted. One at a time by code that is not this package's: its vectors
    cannot depend on other records of a block."""
    if not is_own(statistic):
        return 1
    return max(1, min(1 << 14, BLOCK_NUMBERS // statistic.length))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value


def _tuples(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(one) for one in value)
    return value


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
