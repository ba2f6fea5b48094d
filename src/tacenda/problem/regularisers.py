"""Regularisers R(w), acting on each row of a (b, d) array (or on one vector of length d).

Each of them is l1 |w|_1 + (l2/2) |w|^2 with its own pair of weights (l1, l2), which is all that the
kernels need to know. Rows that are divided by a public number s need a model w that is s times as
long; `divided` then gives R(w/s), so that `strength` means what it meant before the division: l1 is
divided by s, and l2 by s^2. The one exception comes with mapped records only: there l2 is a row of
weights, one for each coordinate (`WeightedL2`). A user's own (`CustomRegulariser`) has no such
weights, and serves those who take it by gradient or prox.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from tacenda import checks, plugins
from tacenda._types import Array
from tacenda.errors import InputError, UnsupportedError
from tacenda.problem.custom_regulariser import CustomRegulariser, DividedRegulariser
from tacenda.problem.generalised_lasso import GeneralisedLasso

ORTHOGONAL = 1e-8  # of two columns' lengths: a product up to here counts as rounding

__all__ = [
    "L1",
    "L2",
    "CustomRegulariser",
    "ElasticNet",
    "GeneralisedLasso",
    "NoRegulariser",
    "Regulariser",
    "Unmapped",
    "WeightedL2",
    "by_name",
    "divided",
    "mapped",
    "names",
    "register",
]


class Regulariser(Protocol):
    """What the rest of the package asks of a regulariser R(w) = l1 |w|_1 + (l2/2) |w|^2.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    l1 : float
        Weight of |w|_1.
    l2 : float or ndarray of float
        Weight of |w|^2/2; one per coordinate for a `WeightedL2`.
    weighted : bool
        Whether `l2` has one weight per coordinate.
    smooth : bool
        Whether R has a Lipschitz gradient.
    strong_convexity : float
        The largest s for which R - (s/2)|w|^2 is convex.
    smoothness : float
        A Lipschitz constant of R's gradient; infinite where it has none.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.by_name("l2").strong_convexity
    1.0
    """

    @property
    def name(self) -> str: ...
    @property
    def l1(self) -> float: ...
    @property
    def l2(self) -> Any: ...  # a number, or the weights (d,) of a WeightedL2
    @property
    def weighted(self) -> bool: ...
    @property
    def smooth(self) -> bool: ...
    @property
    def strong_convexity(self) -> float: ...
    @property
    def smoothness(self) -> float: ...

    def value(self, w: Array) -> Array:
        """R of each row.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).

        Returns
        -------
        ndarray
            Shape (b,), or a scalar array.
        """

    def gradient(self, w: Array) -> Array:
        """l1 sign(w) + l2 w; at w = 0 the subgradient 0.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).

        Returns
        -------
        ndarray
            Of the same shape.
        """

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v step R(v) + |v - w|^2/2.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).
        step : float or ndarray
            Above 0; a number or (b, 1).

        Returns
        -------
        ndarray
            Of the shape of `w`.
        """


class _Weighted:
    """The formulas shared by all of them: R(w) = l1 |w|_1 + (l2/2) |w|^2."""

    row_scale: float = 1.0  # s of R(w/s)
    weighted: ClassVar[bool] = False  # whether l2 is a row of weights

    @property
    def l1(self) -> float:
        """Weight of |w|_1."""
        return 0.0

    @property
    def l2(self) -> Any:
        """Weight of |w|^2/2."""
        return 0.0

    @property
    def strong_convexity(self) -> float:
        """The largest s for which R - (s/2)|w|^2 is convex."""
        return float(self.l2)

    @property
    def smooth(self) -> bool:
        """Whether R has a Lipschitz gradient."""
        return self.l1 == 0.0

    @property
    def smoothness(self) -> float:
        """A Lipschitz constant of R's gradient; infinite where it has none."""
        return float(np.max(self.l2)) if self.smooth else math.inf

    def value(self, w: Array) -> Array:
        """R of each row.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).

        Returns
        -------
        ndarray
            Shape (b,), or a scalar array.
        """
        w = np.asarray(w)
        return np.asarray(self.l1 * np.abs(w).sum(axis=-1) + 0.5 * self.l2 * (w * w).sum(axis=-1))

    def gradient(self, w: Array) -> Array:
        """l1 sign(w) + l2 w; at w = 0 the subgradient 0.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).

        Returns
        -------
        ndarray
            Of the same shape.
        """
        w = np.asarray(w)
        result = self.l2 * w
        return result + self.l1 * np.sign(w) if self.l1 else result

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v step R(v) + |v - w|^2/2, that is soft(w, step l1)/(1 + step l2).

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).
        step : float or ndarray
            Above 0; a number or (b, 1).

        Returns
        -------
        ndarray
            Of the shape of `w`.
        """
        w = np.asarray(w)
        shrunk = np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) if self.l1 else w
        return np.asarray(shrunk / (1.0 + step * self.l2))


@dataclass(frozen=True)
class NoRegulariser(_Weighted):
    """R(w) = 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.regularisers.NoRegulariser().value([3.0, 4.0]))
    0.0
    """

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class _Divided(_Weighted):
    """Acts on the model of the rows before they are divided by `row_scale`."""

    row_scale: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        checks.positive("row_scale", self.row_scale)


@dataclass(frozen=True)
class L2(_Divided):
    """R(w) = |w|^2 / 2; 1-strongly convex and smooth.

    Parameters
    ----------
    row_scale : float, default=1.0
        s of R(w/s): the public number by which the rows are divided.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.regularisers.L2().value([3.0, 4.0]))
    12.5
    """

    name: ClassVar[str] = "l2"

    @property
    def l2(self) -> float:
        """1 / `row_scale`^2."""
        return 1.0 / self.row_scale**2


@dataclass(frozen=True)
class L1(_Divided):
    """R(w) = |w|_1; neither smooth nor strongly convex.

    Parameters
    ----------
    row_scale : float, default=1.0
        s of R(w/s): the public number by which the rows are divided.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.L1().prox([3.0, -0.5], 1.0)
    array([ 2., -0.])
    """

    name: ClassVar[str] = "l1"

    @property
    def l1(self) -> float:
        """1 / `row_scale`."""
        return 1.0 / self.row_scale


@dataclass(frozen=True)
class ElasticNet(_Divided):
    """R(w) = l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2; (1 - l1_ratio)-strongly convex.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the l1 part, from 0 (l2 alone) to 1 (l1 alone).
    row_scale : float, default=1.0
        s of R(w/s): the public number by which the rows are divided.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.regularisers.ElasticNet(l1_ratio=0.5).value([3.0, 4.0]))
    9.75
    """

    l1_ratio: float = 0.5
    name: ClassVar[str] = "elastic-net"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between("l1_ratio", self.l1_ratio, 0.0, 1.0, open_ends=False)

    @property
    def l1(self) -> float:
        """`l1_ratio` / `row_scale`."""
        return float(self.l1_ratio) / self.row_scale

    @property
    def l2(self) -> float:
        """(1 - `l1_ratio`) / `row_scale`^2."""
        return (1.0 - float(self.l1_ratio)) / self.row_scale**2


@dataclass(frozen=True, eq=False)
class WeightedL2(_Weighted):
    """R(w) = (1/2) sum_a weights_a w_a^2: |matrix v|^2/2 in the coordinates of mapped records.

    Its strong convexity is declared as 0, a valid lower bound: the weights are released numbers,
    and the noise is planned before they are known.

    Parameters
    ----------
    weights : ndarray
        One weight per coordinate, shape (d,).

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> float(tc.regularisers.WeightedL2(np.array([1.0, 4.0])).value([2.0, 1.0]))
    4.0
    """

    weights: Array
    name: ClassVar[str] = "weighted-l2"
    weighted: ClassVar[bool] = True

    @property
    def l2(self) -> Array:
        """`weights`."""
        return self.weights

    @property
    def strong_convexity(self) -> float:
        """0, a valid lower bound."""
        return 0.0

    def value(self, w: Array) -> Array:
        """R of each row.

        Parameters
        ----------
        w : ndarray
            Shape (b, d), or (d,).

        Returns
        -------
        ndarray
            Shape (b,), or a scalar array.
        """
        w = np.asarray(w)
        return np.asarray(0.5 * (self.weights * (w * w)).sum(axis=-1))


_BY_NAME: dict[str, type[Any]] = {kind.name: kind for kind in (NoRegulariser, L2, L1, ElasticNet)}


GROUP = "tacenda.regularisers"
_REGISTERED: dict[str, CustomRegulariser] = {}


def names() -> tuple[str, ...]:
    """Names of the regularisers of this package.

    Returns
    -------
    tuple of str
        One name for each regulariser.

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

    Returns
    -------
    CustomRegulariser
        The same regulariser.

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

    Returns
    -------
    Regulariser
        The regulariser.

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
        return _BY_NAME[name]()  # type: ignore[no-any-return]
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

    Returns
    -------
    Regulariser
        The regulariser for the divided rows.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.divided(tc.regularisers.L2(), 2.0).l2
    0.25
    """
    s = checks.positive("row_scale", row_scale)
    if s == 1.0 or not isinstance(regulariser, CustomRegulariser | _Divided):
        return regulariser  # none, or one of mapped records
    if isinstance(regulariser, CustomRegulariser):
        return DividedRegulariser(regulariser, s)
    return replace(regulariser, row_scale=regulariser.row_scale * s)


@dataclass(frozen=True)
class Unmapped:
    """What an l1 part becomes on mapped records: every use of it is refused.

    It acts on the coordinates of the original records, so that mapped ones can be asked for the
    gradient of the loss alone.

    Parameters
    ----------
    original : str
        Name of the regulariser before the map.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.regularisers.mapped(tc.regularisers.L1(), 0.1, np.ones(3))
    Unmapped(original='l1')
    """

    original: str
    name: ClassVar[str] = "unmapped"
    weighted: ClassVar[bool] = True
    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = math.inf

    @property
    def l1(self) -> float:
        """Refused."""
        raise self._refusal()

    @property
    def l2(self) -> Any:
        """Refused."""
        raise self._refusal()

    @property
    def smooth(self) -> bool:
        """Refused."""
        raise self._refusal()

    def value(self, w: Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Parameters
        ----------
        w : ndarray
            A model.

        Returns
        -------
        ndarray
            Nothing is ever returned.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise self._refusal()

    def gradient(self, w: Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Parameters
        ----------
        w : ndarray
            A model.

        Returns
        -------
        ndarray
            Nothing is ever returned.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise self._refusal()

    def prox(self, w: Array, step: float | Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Parameters
        ----------
        w : ndarray
            A model.
        step : float or ndarray
            A step.

        Returns
        -------
        ndarray
            Nothing is ever returned.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise self._refusal()

    def _refusal(self) -> UnsupportedError:
        return UnsupportedError(
            f"The regulariser {self.original!r} acts on the coordinates of the original "
            "records and cannot be mapped; use 'l2' or 'none' with mapped records, or run without "
            "the map."
        )


def mapped(
    regulariser: Regulariser, strength: float, matrix: Array, n_outputs: int = 1
) -> Regulariser:
    """R(matrix v) as a function of v: the regulariser of records mapped by the transposed matrix.

    "none" stays "none"; l2 becomes sum_a |column a|^2 v_a^2/2; what has an l1 part becomes
    `Unmapped`.

    Parameters
    ----------
    regulariser : Regulariser
        R, on the original coordinates.
    strength : float
        The weight r; at 0 there is no regulariser.
    matrix : ndarray
        Orthogonal columns, shape (p, k), or the diagonal (p,) of such a matrix.
    n_outputs : int, default=1
        Each of several outputs has the same weights.

    Returns
    -------
    Regulariser
        The regulariser on the mapped coordinates.

    Raises
    ------
    UnsupportedError
        If l2 meets columns that are not orthogonal, or the records are mapped already.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.regularisers.mapped(tc.regularisers.L2(), 0.1, np.array([1.0, 2.0])).weights
    array([1., 4.])
    """
    own = isinstance(regulariser, CustomRegulariser)
    if strength > 0 and own:
        return Unmapped(regulariser.name)
    if isinstance(regulariser, Unmapped) or (not own and regulariser.l1 != 0.0 and strength > 0):
        return Unmapped(regulariser.name)
    if strength == 0 or (regulariser.l1 == 0.0 and not np.any(regulariser.l2)):
        return NoRegulariser()
    if regulariser.weighted:
        raise UnsupportedError(
            "Records that are mapped already cannot be mapped again; map the original ones by the "
            "product of both matrices."
        )
    if matrix.ndim == 1:
        with np.errstate(over="ignore", invalid="ignore"):
            return WeightedL2(np.tile(float(regulariser.l2) * matrix**2, n_outputs))
    with np.errstate(over="ignore", invalid="ignore"):
        products = matrix.T @ matrix
        squares = np.diagonal(products)
        lengths = np.sqrt(squares)
        beside = np.abs(products - np.diag(squares))
        crossed = not np.all(beside <= ORTHOGONAL * np.outer(lengths, lengths))
    if crossed:
        raise UnsupportedError(
            f"The regulariser {regulariser.name!r} needs a map with orthogonal columns, in whose "
            "coordinates it is a weight for each; take them from an eigendecomposition, or use "
            "regulariser 'none'."
        )
    return WeightedL2(np.tile(float(regulariser.l2) * squares, n_outputs))
