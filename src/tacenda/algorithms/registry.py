"""All algorithms by name: those of this package, over which the tests in tests/algorithms walk, and
plugins.

A plugin is one class in somebody's own file. `register` makes it known by its name in this process;
a package that is installed names it in the entry-point group `tacenda.algorithms`, and it is found
by name everywhere: in files, on the command line, in audits and on real nodes, where all members
must have the same code (`code_hash`).
"""

from __future__ import annotations

import dataclasses
import re
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from tacenda import checks, plugins, schedules
from tacenda.algorithms.admm import ADMM
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dpadmm import DPADMM
from tacenda.algorithms.dual_averaging import DDA, DPDDA
from tacenda.algorithms.gossip import GossipGD
from tacenda.algorithms.linearised import CDPADMM, DDPADMM, IPADMM
from tacenda.algorithms.madmm import MADMM
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.newton import HazardNewton
from tacenda.algorithms.optimum import Optimum
from tacenda.algorithms.perturbation import DVP, PVP
from tacenda.algorithms.recycled import RADMM
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.algorithms.tabled import Tabled
from tacenda.algorithms.treegd import TreeGD
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import NAME, Whitening
from tacenda.errors import InputError

GROUP = "tacenda.algorithms"
ALGORITHMS: dict[str, type[Algorithm]] = {}
NOT_HYPERPARAMETERS = ("name", "code")  # the other keys of an algorithm's table in a file
Kind = TypeVar("Kind", bound=Algorithm)


def register(kind: type[Kind]) -> type[Kind]:
    """Make an algorithm known by its name; a decorator, above `@dataclass(frozen=True)`.

    Parameters
    ----------
    kind : type
        The class of the algorithm.

    Raises
    ------
    InputError
        If the name is taken.

    Examples
    --------
    >>> import tacenda as tc
    >>> callable(tc.algorithms.register)
    True
    """
    derived = isinstance(kind, type) and issubclass(kind, Algorithm)
    if not derived or "__dataclass_fields__" not in vars(kind):
        raise InputError(
            "register takes a class derived from Algorithm and decorated with "
            f"@dataclass(frozen=True), not {kind!r}."
        )
    name, known = getattr(kind, "name", None), ALGORITHMS.get(getattr(kind, "name", ""))
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InputError(
            f"{kind.__name__}.name must be a word of lower-case letters, digits and underscores, "
            f"not {name!r}."
        )
    if known is not None and _place(known) != _place(kind):
        raise InputError(
            f"{kind.__name__}.name: {name!r} is the name of {_place(known)} already; "
            "give the algorithm another name."
        )
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name in NOT_HYPERPARAMETERS:
            raise InputError(
                f"{kind.__name__}.{field.name}: {field.name!r} cannot be a hyperparameter, "
                "since it has a meaning of its own in files; give it another name."
            )
    ALGORITHMS[name] = kind
    return kind


for _kind in (ADMM, MADMM, DVP, PVP, RADMM, DPADMM, IPADMM, DDPADMM, CDPADMM, DDA, DPDDA, GossipGD):
    register(_kind)
register(TreeGD)
register(MomentRegression)
register(Optimum)


def by_name(name: str, **hyperparameters: Any) -> Algorithm:
    """Make an algorithm by its name.

    Parameters
    ----------
    name : str
        Such as "ipadmm"; `tacenda algorithms` lists all.
    **hyperparameters : object
        Plain values or schedules.

    Raises
    ------
    InputError
        If the name or a hyperparameter is unknown.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.by_name("ipadmm", inner_steps=5).inner_steps
    5
    """
    key = name.lower().replace("-", "")
    if key == Whitened.name:
        return _whitened(hyperparameters)
    if key == Tabled.name:
        return Tabled(from_plain(hyperparameters.pop("algorithm")), **hyperparameters)
    for asks in (StatisticRelease, HazardNewton):  # they fit no loss, so they are not listed
        if key == asks.name.replace("-", ""):
            return _of_statistic(asks, hyperparameters)
    if key not in ALGORITHMS:
        offered = _offered()
        _load(offered[checks.one_of("algorithm", key, [*ALGORITHMS, *offered])])
    kind = ALGORITHMS[key]
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for given in hyperparameters:
        if given not in known:
            checks.one_of(f"hyperparameter of {kind.__name__}", given, known)
    return kind(**{k: schedules.from_plain(v) for k, v in hyperparameters.items()})


def from_plain(values: dict[str, Any]) -> Algorithm:
    """Read back what `Algorithm.to_plain` wrote.

    Parameters
    ----------
    values : dict
        Name and hyperparameters; a `code` there must be that of the algorithm here.

    Raises
    ------
    InputError
        If the name or a hyperparameter is unknown.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.from_plain({"name": "dvp", "penalty": 0.3}).penalty
    0.3
    """
    if "name" not in values:
        raise InputError("an algorithm's table must have a 'name'.")
    found = by_name(
        values["name"], **{k: v for k, v in values.items() if k not in NOT_HYPERPARAMETERS}
    )
    stated = values.get("code")
    if stated is not None and stated != code_of(found):
        here = code_of(found) or "it is part of tacenda"
        raise InputError(
            f"algorithm.code: {found.name!r} has other code here ({here}) than is stated "
            f"({stated}); install the same version of the plugin as everybody else."
        )
    return found


def with_code(values: dict[str, Any]) -> dict[str, Any]:
    """An algorithm's table as a contract needs it: of a plugin also the hash of its code."""
    code = code_of(from_plain(values))
    return dict(values) if code is None else {**values, "code": code}


def prepared(algorithm: Algorithm, prepare: Any) -> Algorithm:
    """The algorithm together with what prepares its records.

    Parameters
    ----------
    algorithm : Algorithm
        What runs on the prepared records.
    prepare : None, str, dict or Whitening
        Nothing (None), a name, a table of settings or an object.

    Returns
    -------
    Algorithm
        The algorithm itself, or one that prepares first.

    Raises
    ------
    InputError
        If the preparation is unknown.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.prepared(tc.algorithms.TreeGD(), "whitening").name
    'whitened'
    """
    if prepare is None:
        return algorithm
    if isinstance(prepare, str):
        prepare = {"name": prepare}
    if isinstance(prepare, dict):
        prepare = Whitening.from_plain(prepare)
    if not isinstance(prepare, Whitening):
        raise InputError(f"prepare must be None, {NAME!r} or a tacenda.Whitening, not {prepare!r}.")
    if isinstance(algorithm, Whitened):
        raise InputError(
            "prepare: the algorithm whitens its records already; leave prepare out, "
            "or name the algorithm without it."
        )
    return Whitened(algorithm, prepare)


def all_algorithms() -> dict[str, type[Algorithm]]:
    """Every algorithm by name, those of installed plugins included.

    Examples
    --------
    >>> import tacenda as tc
    >>> "treegd" in tc.algorithms.all_algorithms()
    True
    """
    for name, entry in _offered().items():
        if name not in ALGORITHMS:
            _load(entry)
    return dict(ALGORITHMS)


def private_names() -> list[str]:
    """Class names of the algorithms that take a privacy budget.

    Examples
    --------
    >>> import tacenda as tc
    >>> "ADMM" in tc.algorithms.private_names()
    False
    """
    return [kind.__name__ for kind in ALGORITHMS.values() if kind.private]


def code_of(algorithm: Algorithm) -> str | None:
    """`code_hash` of an algorithm, or of the one that it wraps."""
    while isinstance(algorithm, (Tabled, Whitened)):
        algorithm = algorithm.algorithm
    return code_hash(type(algorithm))


def code_hash(kind: type[Algorithm]) -> str | None:
    """SHA-256 of a plugin's source files, the same wherever they lie; None for one of this package.

    All files of every package that the class is built from, so that a helper beside it counts as
    well.
    """
    return plugins.source_hash((base.__module__ for base in kind.__mro__), kind.__name__)


def _whitened(values: dict[str, Any]) -> Whitened:
    """From the table of a whitened algorithm: the whitening's settings, and `algorithm`."""
    wrapped = values.get("algorithm")
    if not isinstance(wrapped, dict):
        raise InputError(
            "algorithm 'whitened' must hold the table of the algorithm behind it, as in "
            "algorithm = {name = 'treegd'}; or name that one, and prepare = 'whitening'."
        )
    own = {name: value for name, value in values.items() if name != "algorithm"}
    return Whitened(from_plain(wrapped), Whitening.from_plain(own))


def _of_statistic(
    kind: type[StatisticRelease | HazardNewton], values: dict[str, Any]
) -> StatisticRelease | HazardNewton:
    """From the table of a statistic's release, or releases."""
    known = [f.name for f in dataclasses.fields(kind)]
    for given in values:
        checks.one_of(f"hyperparameter of {kind.__name__}", given, known)
    if "statistic" not in values:
        raise InputError(
            f"algorithm {kind.name!r} must hold the table of a statistic, as in "
            "statistic = {name = 'count'}."
        )
    return kind(**values)


def _place(kind: type[Algorithm]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _offered() -> dict[str, EntryPoint]:
    """What installed packages offer, by name."""
    return plugins.offered(GROUP, "an algorithm")


def _load(entry: EntryPoint) -> None:
    plugins.load(entry, register)
