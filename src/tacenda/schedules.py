"""Named schedules: a hyperparameter that changes with the round, and that a file can hold.

A schedule is called with the round t = 1, 2, ... and answers a number above 0. A plain number is
the constant schedule. `PerNode` holds a number or schedule for each node, and answers a column of
numbers; a list in a file means the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError


@runtime_checkable
class Schedule(Protocol):
    """Anything with a name that returns a number for each round t = 1, 2, ...

    Attributes
    ----------
    name : str
        The name in files.

    Examples
    --------
    >>> import tacenda as tc
    >>> isinstance(tc.schedules.Power(1.0, 0.5), tc.schedules.Schedule)
    True
    """

    name: ClassVar[str]

    def __call__(self, t: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value at every round.

    Parameters
    ----------
    value : float
        0 or above.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.Constant(0.5)(10)
    0.5
    """

    name: ClassVar[str] = "constant"
    value: float

    def __post_init__(self) -> None:
        checks.positive("Constant.value", self.value, zero=True)

    def __call__(self, t: int) -> float:
        return self.value


@dataclass(frozen=True)
class Geometric:
    """start * ratio**t.

    Zhang et al. (2018) write eta(k) = 1.01**k, which is Geometric(1.0, 1.01).

    Parameters
    ----------
    start : float
        Above 0.
    ratio : float
        Above 0; above 1 the value grows with the round.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.Geometric(1.0, 0.5)(2)
    0.25
    """

    name: ClassVar[str] = "geometric"
    start: float
    ratio: float

    def __post_init__(self) -> None:
        checks.positive("geometric: start", self.start)
        checks.positive("geometric: ratio", self.ratio)

    def __call__(self, t: int) -> float:
        return self.start * self.ratio**t


@dataclass(frozen=True)
class Power:
    """start * t**exponent: Power(1, 0.5) grows like the square root of the round.

    Parameters
    ----------
    start : float
        Above 0.
    exponent : float
        Above 0 the value grows with the round.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.Power(1.0, 0.5)(9)
    3.0
    """

    name: ClassVar[str] = "power"
    start: float
    exponent: float

    def __post_init__(self) -> None:
        checks.positive("power: start", self.start)

    def __call__(self, t: int) -> float:
        return self.start * float(t) ** self.exponent


@dataclass(frozen=True)
class SquareRoot:
    """offset + sqrt(slope * t).

    The proximal weight gamma(t) = 20 + sqrt(mu t) of the experiments of Liu et al. (2022).

    Parameters
    ----------
    offset : float
        0 or above.
    slope : float
        Above 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.SquareRoot(20.0, 1.0)(9)
    23.0
    """

    name: ClassVar[str] = "square-root"
    offset: float
    slope: float

    def __post_init__(self) -> None:
        checks.positive("square-root: offset", self.offset, zero=True)
        checks.positive("square-root: slope", self.slope)

    def __call__(self, t: int) -> float:
        return self.offset + math.sqrt(self.slope * t)


@dataclass(frozen=True)
class Listed:
    """The given values, one for each round; the last one stays.

    Parameters
    ----------
    values : tuple of float
        At least one number, each 0 or above.

    Examples
    --------
    >>> import tacenda as tc
    >>> schedule = tc.schedules.Listed((3.0, 2.0))
    >>> schedule(1), schedule(2), schedule(3)
    (3.0, 2.0, 2.0)
    """

    name: ClassVar[str] = "listed"
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(v) for v in self.values))
        if not self.values:
            raise InputError("listed: values must hold at least one number, and holds none.")
        for v in self.values:
            checks.positive("listed: values", v, zero=True)

    def __call__(self, t: int) -> float:
        return self.values[min(t, len(self.values)) - 1]


@dataclass(frozen=True)
class PerNode:
    """A number or schedule for each node, in the order of the graph's nodes.

    Parameters
    ----------
    values : tuple of float or Schedule
        One for each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> own = tc.schedules.PerNode((0.5, tc.schedules.Geometric(1.0, 2.0)))
    >>> own(1).tolist(), own(2).tolist()
    ([[0.5], [2.0]], [[0.5], [4.0]])
    """

    name: ClassVar[str] = "per-node"
    values: tuple[float | Schedule, ...]

    def __post_init__(self) -> None:
        values = tuple(
            v
            if isinstance(v, SCHEDULES)
            else checks.positive(f"per-node: the value of node {i}", v, zero=True)
            for i, v in enumerate(self.values)
        )
        object.__setattr__(self, "values", values)
        if not values:
            raise InputError("per-node: values must hold one number for each node, and holds none.")

    def __call__(self, t: int) -> Array:
        """(n, 1) the value of each node at round t."""
        return np.array([[at(v, t)] for v in self.values], float)

    def at_nodes(self, positions: Array) -> PerNode:
        """Values of the nodes at these positions.

        positions: shape (b,); a position may occur more than once.
        """
        return PerNode(tuple(self.values[int(i)] for i in positions))

    def kinds(self) -> Array:
        """Which nodes have equal values.

        Result: shape (n,), the same number where the values are equal.
        """
        known: dict[Any, int] = {}
        return np.array([known.setdefault(v, len(known)) for v in self.values], np.int64)


SCHEDULES = (Constant, Geometric, Power, SquareRoot, Listed)  # of one number
constant, geometric, power, square_root = Constant, Geometric, Power, SquareRoot


def per_node(values: Any) -> PerNode:
    """A value for each node, from a sequence or an array.

    Parameters
    ----------
    values : sequence or ndarray
        A number or schedule for each node; or an array of shape (rounds, n), whose last row stays.

    Raises
    ------
    InputError
        If a value is neither a number of at least 0 nor a schedule; the message names the node.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.schedules.per_node([0.5, 0.7])
    PerNode(values=(0.5, 0.7))
    >>> tc.schedules.per_node(np.array([[1.0, 3.0], [2.0, 4.0]]))(2).tolist()
    [[2.0], [4.0]]
    """
    if isinstance(values, PerNode):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim not in (1, 2):
            raise InputError(
                f"per-node: an array must have the shape (n,) or (rounds, n), not {values.shape}."
            )
        if values.ndim == 2:
            for i, column in enumerate(values.T):
                for v in column:
                    checks.positive(f"per-node: the value of node {i}", v, zero=True)
            return PerNode(tuple(Listed(tuple(column)) for column in values.T))
    return PerNode(tuple(from_plain(v) for v in values))


def is_per_node(value: Any) -> bool:
    """Whether a value is one for each node, or can be made one by `per_node`.

    Parameters
    ----------
    value : object
        A hyperparameter.

    Returns
    -------
    bool
        True for `PerNode`, arrays with an axis, lists and tuples.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.is_per_node([0.5, 0.7]), tc.schedules.is_per_node(0.5)
    (True, False)
    """
    return isinstance(value, (PerNode, list, tuple)) or (
        isinstance(value, np.ndarray) and value.ndim > 0
    )


def listed(values: Sequence[float]) -> Listed:
    """A schedule that reads its values from a list.

    Parameters
    ----------
    values : sequence of float
        At least one number, each 0 or above.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.listed([3.0, 2.0])
    Listed(values=(3.0, 2.0))
    """
    return Listed(tuple(values))


KINDS: dict[str, type] = {kind.name: kind for kind in (*SCHEDULES, PerNode)}


def at(value: Any, t: int) -> Any:
    """Value of a number or schedule at round t.

    Parameters
    ----------
    value : float, Schedule or PerNode
        A number counts as constant.
    t : int
        The round, from 1.

    Returns
    -------
    float or ndarray
        The value; of `PerNode` a column (n, 1), a value for each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.at(0.5, 7)
    0.5
    """
    found = value(t) if callable(value) else value
    # A number of NumPy's would make float64 of float32 rows
    return float(found) if isinstance(found, np.generic) else found


def are_numbers(*values: Any) -> bool:
    """Tell whether all are plain numbers, the same at every node and in every round.

    Parameters
    ----------
    *values : object
        Numbers, schedules, or values for each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.are_numbers(0.5, 1), tc.schedules.are_numbers(tc.schedules.Constant(0.5))
    (True, False)
    """
    return all(isinstance(value, (int, float)) for value in values)


def check(name: str, value: Any, *, zero: bool = False, per_node: bool = False) -> None:
    """Refuse what is neither a number above 0 nor a schedule of this module.

    Parameters
    ----------
    name : str
        How the message calls it.
    value : object
        What is checked.
    zero : bool, default=False
        Whether 0 is allowed.
    per_node : bool, default=False
        Whether `PerNode` is allowed.

    Raises
    ------
    InputError
        If it is refused.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.check("step_size", 0.1)
    """
    if is_per_node(value):
        if not per_node:
            raise InputError(
                f"{name} must be one value for all nodes, a number or a named schedule, "
                f"not one for each node ({type(value).__name__})."
            )
        for i, own in enumerate(value.values):
            if not isinstance(own, SCHEDULES):
                checks.positive(f"{name} of node {i}", own, zero=zero)
        return
    if isinstance(value, SCHEDULES):
        return
    if callable(value):
        raise InputError(
            f"{name} must be a number or a named schedule (tacenda.schedules), not {value!r}: "
            "a file cannot hold it."
        )
    checks.positive(name, value, zero=zero)


def check_nodes(name: str, value: Any, n: int) -> None:
    """Refuse values for another number of nodes.

    Parameters
    ----------
    name : str
        How the message calls it.
    value : object
        `PerNode`, or a value for all nodes, which always fits.
    n : int
        Number of nodes of the graph.

    Raises
    ------
    InputError
        If it holds more or fewer than n values; the message names the node.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.check_nodes("penalty", tc.schedules.per_node([0.5, 0.7]), 2)
    """
    if isinstance(value, PerNode) and len(value.values) != n:
        held = len(value.values)
        told = f"node {held} has none" if held < n else f"there is no node {n} (the first is 0)"
        raise InputError(
            f"{name} must hold one value for each of the {n} nodes, not {held}: {told}."
        )


def to_plain(value: Any) -> Any:
    """A schedule as a plain dictionary; every other value as it is.

    Parameters
    ----------
    value : object
        A schedule or anything else.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.to_plain(tc.schedules.Power(1.0, 0.5))
    {'schedule': 'power', 'start': 1.0, 'exponent': 0.5}
    """
    if isinstance(value, PerNode):
        return {"schedule": value.name, "values": [to_plain(v) for v in value.values]}
    if isinstance(value, SCHEDULES):
        schedule: Any = value
        plain: dict[str, Any] = {"schedule": schedule.name, **asdict(schedule)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}
    return value


def from_plain(value: Any) -> Any:
    """A schedule from its plain dictionary; the inverse of `to_plain`.

    Parameters
    ----------
    value : dict or object
        What `to_plain` returned.

    Returns
    -------
    Schedule or object
        The schedule, or the value as it is.

    Raises
    ------
    InputError
        If the dictionary does not describe a schedule.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.schedules.from_plain({"schedule": "constant", "value": 2.0})
    Constant(value=2.0)
    """
    if isinstance(value, dict) and "schedule" in value:
        kind = KINDS[checks.one_of("schedule", value["schedule"], KINDS)]
        fields = {
            k: tuple(from_plain(one) for one in v) if isinstance(v, list) else v
            for k, v in value.items()
            if k != "schedule"
        }
        try:
            return kind(**fields)
        except TypeError as wrong:
            raise InputError(
                f"schedule {value['schedule']!r} does not take these fields: {wrong}."
            ) from None
    return value
