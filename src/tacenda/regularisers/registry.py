"""Regularisers by name, and for rows that were divided by a public number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacenda import checks, plugins
from tacenda.errors import InputError
from tacenda.regularisers.base import Regulariser
from tacenda.regularisers.custom import CustomRegulariser, DividedRegulariser
from tacenda.regularisers.on_mapped import Unmapped, WeightedL2
from tacenda.regularisers.penalties import L1, L2, Divided, ElasticNet, NoRegulariser

_BY_NAME: dict[str, type[Any]] = {kind.name: kind for kind in (NoRegulariser, L2, L1, ElasticNet)}


GROUP = "tacenda.regularisers"
_REGISTERED: dict[str, CustomRegulariser] = {}


def names() -> tuple[str, ...]:
    """Names of the regularisers of this package.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.names()
    ('none', 'l2', 'l1', 'elastic-net')
    """
    return tuple(_BY_NAME)


def register(regulariser: CustomRegulariser) -> CustomRegulariser:
    """Make a regulariser of your own known by its name in this process.

    A package that is installed names it in the entry-point group `tacenda.regularisers` instead.

    Parameters
    ----------
    regulariser : CustomRegulariser
        The regulariser.

    Raises
    ------
    InputError
        If it is no `CustomRegulariser`, or another regulariser has the name.

    Examples
    --------
    >>> import tacenda as tc
    >>> callable(tc.regularisers.register)
    True
    """
    if not isinstance(regulariser, CustomRegulariser):
        raise InputError(f"register takes a CustomRegulariser, not {regulariser!r}.")
    name = regulariser.name
    taken = name in _BY_NAME or name in (WeightedL2.name, Unmapped.name)
    if taken or _REGISTERED.get(name, regulariser) is not regulariser:
        raise InputError(
            f"CustomRegulariser.name: {name!r} is the name of another regulariser already; "
            "give yours another name."
        )
    _REGISTERED[name] = regulariser
    return regulariser


def code_hash(regulariser: Regulariser) -> str | None:
    """SHA-256 of the source of the packages that a regulariser of somebody's own comes from; None
    for one of this package."""
    if not isinstance(regulariser, CustomRegulariser):
        return None
    return plugins.source_hash(regulariser.modules, f"The regulariser {regulariser.name!r}")


def by_name(regulariser: str | Regulariser | None) -> Regulariser:
    """Regulariser of that name, with its default parameter.

    Parameters
    ----------
    regulariser : str, Regulariser or None
        A name (hyphen or underscore), those of installed plugins included; None means "none"; an
        object is returned as it is.

    Raises
    ------
    InputError
        If there is no such regulariser.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.by_name("elastic-net")
    ElasticNet(row_scale=1.0, l1_ratio=0.5)
    """
    if isinstance(regulariser, (CustomRegulariser, *_BY_NAME.values())):
        return regulariser  # type: ignore[return-value]
    if isinstance(regulariser, type):
        word = regulariser.__name__
        raise InputError(
            f"regulariser must be a name or an object, not the class {word}: write {word}()."
        )
    name = "none" if regulariser is None else regulariser
    name = name.lower().replace("_", "-") if isinstance(name, str) else name
    if name in _BY_NAME:
        return _BY_NAME[name]()
    if name not in _REGISTERED:
        offered = plugins.offered(GROUP, "a regulariser")
        checks.one_of("regulariser", name, [*_BY_NAME, *_REGISTERED, *offered])
        plugins.load(offered[str(name)], register)
    return _REGISTERED[str(name)]


def divided(regulariser: Regulariser, row_scale: float) -> Regulariser:
    """R(w/s), for a model w of rows that were divided by s.

    Scores stay what they are, and so does the meaning of `strength`.

    Parameters
    ----------
    regulariser : Regulariser
        R, for the rows before the division.
    row_scale : float
        s > 0, a public number.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.divided(tc.regularisers.L2(), 2.0).l2
    0.25
    """
    s = checks.positive("row_scale", row_scale)
    if s == 1.0 or not isinstance(regulariser, CustomRegulariser | Divided):
        return regulariser  # none, or one of mapped records
    if isinstance(regulariser, CustomRegulariser):
        return DividedRegulariser(regulariser, s)
    return replace(regulariser, row_scale=regulariser.row_scale * s)
