"""`Bounded`: a secret with a known sensitivity. It can be shifted and scaled, and it leaves only
through the door.

A Bounded stands for b rows of length d that depend on private records. Its row k moves by at most
`sensitivity[k]` in the Euclidean norm when one record of that node changes. Allowed, because the
sensitivity stays known:

    bounded + array, bounded - array, array - bounded   array public, of the same shape (b, d)
    bounded * factor, bounded / factor, -bounded        factor public: a number or a column (b, 1)
    bounded + bounded, bounded - bounded                both from the same sample of records

Everything else raises `LeakError`: turning it into an array or a number, indexing, comparing,
iterating, copying, pickling, a factor that varies within a row. The values themselves do not hang
on the object (there is no `__dict__`, and no slot holds them); they lie in a vault of this module,
as factor * core + offset, and only `door` and `queries` open it.

This guards against every accident, not against hostile code in the same process: Python has no
walls inside a process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from tacenda._types import Array
from tacenda.errors import LeakError
from tacenda.privacy.secrets.question import digest


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """How the records behind a Bounded were chosen: `kind` all, poisson or one; `rate` (b,) the
    chance of each record."""

    kind: str
    rate: Array | None = None
    _spent: list[bool] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.rate is not None:
            # A smaller rate would claim amplification that did not happen
            self.rate.setflags(write=False)

    def spend(self) -> None:
        """A sample is drawn for one release: two releases of it are seen together,
        and are not two sampled ones."""
        if self.kind != "all" and self._spent:
            raise LeakError(
                "A value of a sample of the records was released before, "
                "and a second release of the same sample has no accountant "
                "here: ask for a new gradient, whose sample is a new one."
            )
        if self.kind != "all":
            self._spent.append(True)


ALL_RECORDS = Sample("all")


@dataclass(slots=True)
class _Secret:
    core: Array
    factor: Array | float  # a number, or (b,)
    offset: Array | None


_vault: dict[int, _Secret] = {}
_FEW = 256  # numbers that are compared fastest as bytes


class Bounded:
    """Secret rows (b, d) with one l2 sensitivity each;
    see the module's text for what is allowed."""

    __slots__ = ("_asked", "_sample", "_sensitivity", "_shape")
    _asked: bytes
    _sample: Sample
    _sensitivity: Array
    _shape: tuple[int, int]
    __array_ufunc__ = (
        None  # numpy then leaves every operator to this class, and refuses every ufunc
    )
    __hash__ = object.__hash__

    def __init__(self) -> None:
        raise LeakError(
            "A Bounded is made by a query of private data (gradient, argmin), never by hand."
        )

    @property
    def sensitivity(self) -> Array:
        """(b,) how far each row can move when one record changes: public."""
        return self._sensitivity.copy()

    @property
    def sample(self) -> Sample:
        """How the records were chosen: public, except which records they were."""
        return self._sample

    @property
    def shape(self) -> tuple[int, int]:
        """(b, d)."""
        return self._shape

    def __repr__(self) -> str:
        return (
            f"Bounded(shape={self._shape}, "
            f"sensitivity<={float(self._sensitivity.max(initial=0.0)):.3g}, values hidden)"
        )

    # ---- what is allowed
    def __add__(self, other: Any) -> Bounded:
        return self._plus(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Bounded:
        return self._plus(other, -1.0)

    def __rsub__(self, other: Any) -> Bounded:
        if not _is_public(other, self._shape):
            return (-self)._plus(other, 1.0)
        secret = _vault[id(self)]
        return _make(
            secret.core,
            -secret.factor,
            other if secret.offset is None else other - secret.offset,
            self._sensitivity,
            self._sample,
            self._asked,
        )

    def __neg__(self) -> Bounded:
        return self._times(-1.0)

    def __mul__(self, factor: Any) -> Bounded:
        return self._times(self._factor(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Bounded:
        column = self._factor(divisor)
        if not (column.all() if isinstance(column, np.ndarray) else column):
            raise LeakError("A Bounded cannot be divided by 0.")
        return self._times(1.0 / column)

    def _plus(self, other: Any, sign: float) -> Bounded:
        secret = _vault[id(self)]
        if isinstance(other, Bounded):
            return self._plus_bounded(other, sign)
        if not _is_public(other, self._shape):
            raise LeakError(
                f"Only a public float array of shape {self._shape} may be added to a Bounded, "
                f"not {_what(other)}."
            )
        shift = other if sign > 0 else -other
        offset = shift if secret.offset is None else secret.offset + shift
        return _make(
            secret.core, secret.factor, offset, self._sensitivity, self._sample, self._asked
        )

    def _plus_bounded(self, other: Bounded, sign: float) -> Bounded:
        if other._shape != self._shape:
            raise LeakError(
                f"Two Bounded values of shapes {self._shape} and {other._shape} cannot be added."
            )
        if other._sample is not self._sample:
            raise LeakError(
                "Two Bounded values computed from different samples of records cannot be added."
            )
        # The public offsets stay apart from the secrets:
        # a large one would round what noise has not yet covered.
        (core, factor, offset), (others, its, shift) = open_parts(self), open_parts(other)
        values = core * as_column(factor) + sign * (others * as_column(its))
        kind = np.result_type(core, others)
        if shift is not None:
            shift = sign * shift
            offset = shift if offset is None else offset + shift
        values = values.astype(kind, copy=False) if kind.kind == "f" else values
        asked = (
            digest("sum", *question_of(self), sign, *question_of(other))
            if self._asked and other._asked
            else b""
        )
        return _make(
            values, 1.0, offset, self._sensitivity + other._sensitivity, self._sample, asked
        )

    def _factor(self, factor: Any) -> Any:
        if isinstance(factor, (bool, np.bool_, Bounded)):
            raise LeakError(
                f"A Bounded is scaled by a public number or column (b, 1), not by {_what(factor)}."
            )
        if isinstance(factor, (int, float, np.integer, np.floating)):
            value: Any = float(factor)
            finite = math.isfinite(value)
        elif (
            isinstance(factor, np.ndarray)
            and factor.dtype.kind in "fiu"
            and factor.shape == (self._shape[0], 1)
        ):
            value = factor[:, 0].astype(float)  # a copy: nobody changes it later
            finite = bool(np.isfinite(value).all())
        else:
            raise LeakError(
                f"A Bounded is scaled by a public number or a column of shape ({self._shape[0]}, "
                f"1), so that a row keeps one factor, not by {_what(factor)}."
            )
        if not finite:
            raise LeakError("A Bounded is scaled by finite numbers only.")
        return value

    def _times(self, factor: Any) -> Bounded:
        secret, moved = _vault[id(self)], self._sensitivity
        offset = None if secret.offset is None else secret.offset * as_column(factor)
        size = np.abs(factor) if isinstance(factor, np.ndarray) else abs(factor)
        return _make(
            secret.core,
            secret.factor * factor,
            offset,
            moved if isinstance(size, float) and size == 1.0 else moved * size,
            self._sample,
            self._asked,
        )

    # ---- what is refused
    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise LeakError("A Bounded holds private values: release it with node.release first.")

    __array__ = __array_function__ = __buffer__ = _refuse
    __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = __reversed__ = _refuse
    __float__ = __int__ = __index__ = __complex__ = __bool__ = __round__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __rtruediv__ = _refuse
    __mod__ = __floordiv__ = __abs__ = _refuse
    __reduce__ = __reduce_ex__ = _refuse
    __getstate__ = __copy__ = __deepcopy__ = __setstate__ = _refuse

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise LeakError(f"A Bounded cannot be changed (tried to set {name!r}).")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __init_subclass__(cls) -> None:
        raise LeakError("Bounded cannot be subclassed.")

    def __del__(self) -> None:
        _vault.pop(id(self), None)


_set = object.__setattr__


def as_column(factor: Any) -> Any:
    """A factor as rows (b, d) are multiplied by it."""
    return factor[:, None] if isinstance(factor, np.ndarray) else factor


def _make(
    core: Array,
    factor: Any,
    offset: Array | None,
    sensitivity: Array,
    sample: Sample,
    asked: bytes = b"",
) -> Bounded:
    bounded = object.__new__(Bounded)
    sensitivity.setflags(write=False)
    _set(bounded, "_shape", core.shape)
    _set(bounded, "_sensitivity", sensitivity)
    _set(bounded, "_sample", sample)
    _set(bounded, "_asked", asked)
    _vault[id(bounded)] = _Secret(core, factor, offset)
    return bounded


_fixed: WeakValueDictionary[int, Array] = WeakValueDictionary()


def fixed(numbers: Array) -> Array:
    """A copy in float64 that nobody can write to, not even after `setflags`:
    it lies in a bytes object."""
    copy = np.ascontiguousarray(numbers, dtype=np.float64)
    return np.frombuffer(copy.tobytes(), np.float64).reshape(copy.shape)


def fixed_sensitivity(sensitivity: Array) -> Array:
    """Sensitivities (b,) as a fixed copy, checked here once,
    so that `seal` need not look again at every query."""
    if not np.all(sensitivity >= 0):  # NaN too
        raise LeakError("A sensitivity must be a number of at least 0.")
    found = fixed(sensitivity)
    _fixed[id(found)] = found
    return found


def seal(
    values: Array, sensitivity: Array, sample: Sample = ALL_RECORDS, asked: bytes = b""
) -> Bounded:
    """Wrap secret rows (b, d) with sensitivities (b,); `asked` is the question's digest
    (`question`). For queries only."""
    if values.ndim != 2 or sensitivity.shape != values.shape[:1]:
        raise LeakError(
            "A Bounded needs rows (b, d) and sensitivities (b,), "
            f"not {values.shape} and {sensitivity.shape}."
        )
    checked = (
        sensitivity
        if _fixed.get(id(sensitivity)) is sensitivity
        else fixed_sensitivity(sensitivity)
    )
    return _make(values, 1.0, None, checked, sample, asked)


def bound_of(bounded: Bounded) -> Array:
    """(b,) its sensitivity itself, read-only:
    the same array for every value that was sealed with it."""
    return bounded._sensitivity


def same_numbers(a: Array | None, b: Array | None) -> bool:
    """Whether two arrays, or nothing, hold the same; asked at every release, of few numbers
    mostly."""
    if a is b:
        return True
    if a is None or b is None or a.shape != b.shape:
        return False
    if a.size <= _FEW and a.dtype == b.dtype:
        return a.tobytes() == b.tobytes()
    return bool((a == b).all())


def question_of(bounded: Bounded) -> tuple[bytes, Any, Array | None]:
    """(digest of what its core was asked, factor, offset): all that the value depends on besides
    the records; public."""
    secret = _vault[id(bounded)]
    return bounded._asked, as_column(secret.factor), secret.offset


def open_parts(bounded: Bounded) -> tuple[Array, Any, Array | None]:
    """(core, factor, offset) with value = factor * core + offset, the factor a number or (b,), one
    for each row. For the door only."""
    secret = _vault[id(bounded)]
    return secret.core, secret.factor, secret.offset


def require_bounded(value: Any, asked: str) -> None:
    """Refuse what no query has bounded: nothing else may be released."""
    if not isinstance(value, Bounded):
        raise LeakError(
            f"{asked} takes a Bounded from a query, not a {type(value).__name__}: "
            "public values need none."
        )


def open_values(bounded: Bounded) -> Array:
    """The secret rows (b, d). For the door and for queries that take a Bounded argument only."""
    core, factor, offset = open_parts(bounded)
    values: Array = core * as_column(factor)
    if offset is not None:
        values = values + offset
    # A float32 secret stays one, as it does with noise, though its factors are float64; whole
    # numbers become real ones.
    return values.astype(core.dtype, copy=False) if core.dtype.kind == "f" else values


def _is_public(value: Any, shape: tuple[int, int]) -> bool:
    return type(value) is np.ndarray and value.dtype.kind == "f" and value.shape == shape


def _what(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    return f"a {type(value).__name__}"
