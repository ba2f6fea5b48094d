"""Checks of arguments. Each returns the checked value, or raises an `InputError` that names the
argument, the rule and the value found. Write your own algorithms and losses with them, and their
errors read like all others."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tacenda.errors import InputError

__all__ = ["between", "one_of", "positive", "whole"]


def positive(name: str, value: Any, *, zero: bool = False, infinite: bool = False) -> float:
    """Return `value` as a float, if it is a number above 0.

    Parameters
    ----------
    name : str
        What the error calls the argument.
    value : object
        What was given.
    zero : bool, default=False
        Whether 0 is allowed.
    infinite : bool, default=False
        Whether infinity is allowed.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from tacenda import checks
    >>> checks.positive("penalty", 2)
    2.0
    """
    rule = "a number of at least 0" if zero else "a number above 0"
    if isinstance(value, bool) or not _is_real(value):
        raise InputError(f"{name} must be {rule}, not {value!r} of type {type(value).__name__}.")
    number = float(value)
    if (
        math.isnan(number)
        or (math.isinf(number) and not infinite)
        or number < 0
        or (number == 0 and not zero)
    ):
        raise InputError(f"{name} must be {rule}, not {value!r}.")
    return number


def whole(name: str, value: Any, *, least: int = 0) -> int:
    """Return `value` as an int, if it is a whole number of at least `least`.

    Parameters
    ----------
    name : str
        What the error calls the argument.
    value : object
        What was given.
    least : int, default=0
        The smallest allowed value.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from tacenda import checks
    >>> checks.whole("rounds", 10.0, least=1)
    10
    """
    if (
        isinstance(value, bool)
        or not _is_real(value)
        or not math.isfinite(value)
        or float(value) != math.floor(float(value))
    ):
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value!r}.")
    return int(value)


def between(name: str, value: Any, low: float, high: float, *, open_ends: bool = True) -> float:
    """Return `value` as a float, if it lies between two numbers.

    Parameters
    ----------
    name : str
        What the error calls the argument.
    value : object
        What was given.
    low : float
        The lower end.
    high : float
        The upper end.
    open_ends : bool, default=True
        Whether the ends themselves are refused.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from tacenda import checks
    >>> checks.between("delta", 1e-5, 0.0, 1.0)
    1e-05
    """
    inside = _is_real(value) and (low < value < high if open_ends else low <= value <= high)
    if isinstance(value, bool) or not inside:
        kind = "strictly between" if open_ends else "between"
        raise InputError(f"{name} must be {kind} {low:g} and {high:g}, not {value!r}.")
    return float(value)


def with_options(name: str, part: Any, options: Mapping[str, Any]) -> Any:
    """A loss or regulariser with these settings in place of its usual ones; `name`: of the field
    that holds them."""
    # One of somebody's own (it has a digest) is what its maker declared
    fixed = hasattr(part, "digest") or not dataclasses.is_dataclass(part)
    known = [] if fixed else [f.name for f in dataclasses.fields(part)]
    for key in options:
        if not known:
            raise InputError(
                f"{name}: {part.name!r} takes no options, so {key!r} must be left out."
            )
        one_of(name, key, known)
    try:
        return dataclasses.replace(part, **options) if options else part
    except InputError as wrong:
        raise InputError(f"{name}: {wrong}") from None


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """Return `value`, if it is one of the known words.

    Parameters
    ----------
    name : str
        What the error calls the argument.
    value : object
        What was given.
    known : iterable of str
        The words to choose from.

    Raises
    ------
    InputError
        If it is none of them; the error suggests the nearest one.

    Examples
    --------
    >>> from tacenda import checks
    >>> checks.one_of("output", "last", ("average", "last"))
    'last'
    """
    words = list(known)
    if isinstance(value, str) and value in words:
        return value
    raise InputError(
        f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}."
        f"{nearest(value, words)}"
    )


def nearest(value: Any, known: Iterable[str]) -> str:
    """A question, after a space, with the known word nearest to `value`; or nothing."""
    near = difflib.get_close_matches(str(value).lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def _is_real(value: Any) -> bool:
    return (
        hasattr(value, "__float__")
        and not isinstance(value, str)
        and getattr(value, "ndim", 0) == 0
    )
