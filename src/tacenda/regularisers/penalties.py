"""The penalties of this package: none, l2, l1 and the elastic net."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tacenda import checks
from tacenda.regularisers.base import Weighted


@dataclass(frozen=True)
class NoRegulariser(Weighted):
    """R(w) = 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.regularisers.NoRegulariser().value([3.0, 4.0]))
    0.0
    """

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class Divided(Weighted):
    """Acts on the model of the rows before they are divided by `row_scale`."""

    row_scale: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        checks.positive("row_scale", self.row_scale)


@dataclass(frozen=True)
class L2(Divided):
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
        """1 / row_scale^2."""
        return 1.0 / self.row_scale**2


@dataclass(frozen=True)
class L1(Divided):
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
class ElasticNet(Divided):
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
        """(1 - l1_ratio) / row_scale^2."""
        return (1.0 - float(self.l1_ratio)) / self.row_scale**2
