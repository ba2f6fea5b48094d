"""Networks by name, for configuration files and the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tacenda.checks import one_of
from tacenda.errors import InputError
from tacenda.graph import generators
from tacenda.graph.topology import Topology

# The name in a file -> the generator that it calls.
KINDS: dict[str, Callable[..., Any]] = {
    "ring": generators.ring,
    "path": generators.path,
    "star": generators.star,
    "complete": generators.complete,
    "grid": generators.grid,
    "torus": generators.torus,
    "hypercube": generators.hypercube,
    "exponential": generators.exponential,
    "random_regular": generators.random_regular,
    "erdos_renyi": generators.erdos_renyi,
    "small_world": generators.small_world,
}


def by_name(kind: str, /, **parameters: Any) -> Topology:
    """Make a network by the name of its kind.

    Parameters
    ----------
    kind : str
        A name of `tacenda.graph.KINDS`, with hyphen or underscore.
    **parameters : object
        The parameters of that generator, by name.

    Raises
    ------
    InputError
        If the kind is unknown or its parameters do not fit.

    Examples
    --------
    >>> import tacenda as tc
    >>> len(tc.graph.by_name("random-regular", n=10, degree=4, seed=3).edges)
    20
    """
    return _call(_known(kind), (), parameters)


def parse(text: str) -> Topology:
    """Make a network from one string, as on the command line.

    Parameters
    ----------
    text : str
        `kind:value,value,name=value`, such as `random-regular:100,6,seed=3` or `ring:20`.

    Raises
    ------
    InputError
        If the kind is unknown or its parameters do not fit.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.parse("grid:2,3").n
    6
    """
    kind, _, rest = text.strip().partition(":")
    values: list[float] = []
    named: dict[str, float] = {}
    for part in (p.strip() for p in rest.split(",") if p.strip()):
        key, equals, value = part.partition("=")
        if equals:
            named[key.strip()] = _number(text, value)
        elif named:
            raise InputError(
                f"graph {text!r} has an unnamed value after a named one; put {part!r} first."
            )
        else:
            values.append(_number(text, part))
    return _call(_known(kind), tuple(values), named)


def _known(kind: Any) -> str:
    return one_of("graph kind", str(kind).strip().lower().replace("-", "_"), KINDS)


def _call(kind: str, values: tuple[float, ...], named: dict[str, Any]) -> Any:
    make = KINDS[kind]
    signature = inspect.signature(make)
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        wanted = ", ".join(signature.parameters)
        raise InputError(f"graph {kind!r} takes the parameters ({wanted}): {error}.") from None
    return make(*values, **named)


def _number(text: str, part: str) -> float:
    try:
        return int(part) if part.strip().lstrip("+-").isdigit() else float(part)
    except ValueError:
        raise InputError(
            f"graph {text!r} needs numbers after the colon, not {part.strip()!r}; try 'ring:20'."
        ) from None
