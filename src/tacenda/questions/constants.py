"""The public constants of a problem, with the letters of the specification: G, c1, sc."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from tacenda import checks, regularisers
from tacenda._types import Floats
from tacenda.errors import InputError
from tacenda.losses import Loss
from tacenda.regularisers import Regulariser
from tacenda.terms.problem import DECLARED, Declared, DeclaredOptions, checked
from tacenda.terms.setting import AUTO

LARGEST_RADIUS = 1e15
# `strength="auto"`: until a release tells more, and where none does; a public number
PUBLIC_STRENGTH = 1e-5
# Of what is declared: inside, no float can overflow on its way to a bounded gradient
SENSIBLE = (1e-9, 1e9)


@dataclass(frozen=True)
class Constants(Declared):
    """Bounds which follow from public declarations alone, never from the data.

    f_i(w) = (c/m_i) sum_j loss(w; x_ij, y_ij) + r R(w), with |x_ij| <= data_norm, c = `loss_scale`,
    r = `strength`. radius: no coordinate of a point at which records are asked, or of a message, is
    larger in absolute value. auto_strength: r was left open. It is `PUBLIC_STRENGTH` in everything
    that is decided before a release; a method that releases the records' spectrum chooses its own
    afterwards, for mapped records, whose strong convexity counts as 0.
    """

    loss: Loss
    regulariser: Regulariser
    strength: float
    n_outputs: int = 1
    auto_strength: bool = False

    def __post_init__(self) -> None:
        """Declarations within sense: the proofs that no float breaks a bound (docs/decisions/0011)
        rest on these."""
        for name in ("data_norm", "loss_scale", "clip_norm"):
            if getattr(self, name) is not None:
                checks.between(name, getattr(self, name), *SENSIBLE, open_ends=False)
        if self.loss.parameter != 0.0:
            checks.between(
                f"the parameter of {type(self.loss).__name__}",
                self.loss.parameter,
                *SENSIBLE,
                open_ends=False,
            )
        checks.between("strength", self.strength, 0.0, SENSIBLE[1], open_ends=False)
        checks.between("radius", self.radius, SENSIBLE[0], LARGEST_RADIUS, open_ends=False)

    @classmethod
    def declared(
        cls, *, classes: int = 0, prefix: str = "", **given: Unpack[DeclaredOptions]
    ) -> Constants:
        """From names or objects and plain numbers, each of them checked; `prefix` stands before a
        name in errors.

        classes: how many classes the labels have; a multiclass loss needs it, and the others do not
        look at it.
        """
        values = checked(given, prefix)
        which, strength = values["loss"], values["strength"]
        multiclass = which.kind == "multiclass"
        if multiclass and classes < 2:
            raise InputError(
                f"{prefix}classes must be declared for the loss {which.name!r}, "
                f"at least two of them (n_outputs where they are only counted), not {classes}; "
                "list the labels from public knowledge, or use a loss for two classes."
            )
        auto = strength == AUTO
        own = regularisers.divided(values["regulariser"], values["row_scale"])
        found = {"regulariser": own, "strength": PUBLIC_STRENGTH if auto else strength}
        n_outputs = classes if multiclass else 1
        return cls(**{**values, **found}, n_outputs=n_outputs, auto_strength=auto)

    @property
    def lipschitz_argmin(self) -> float:
        """G of the loss itself, slope * data_norm: what an argmin query needs, since clipping does
        not bound it."""
        return self.loss.slope * self.data_norm

    @property
    def gradient_bound(self) -> float:
        """G: no record's (clipped) loss gradient has a larger norm;
        infinite if nothing bounds it."""
        unclipped = self.lipschitz_argmin
        return unclipped if self.clip_norm is None else min(unclipped, self.clip_norm)

    @property
    def curvature_trace(self) -> float:
        """c1: bound of the trace of one record's Hessian, curvature * data_norm^2; for K classes 2
        curvature (1 - 1/K) data_norm^2.
        """
        if self.loss.kind == "multiclass":
            return 2.0 * self.loss.curvature * (1.0 - 1.0 / self.n_outputs) * self.data_norm**2
        return self.loss.curvature * self.data_norm**2

    @property
    def stated_strength(self) -> float | str:
        """As `declared` reads it: "auto" where it was left open."""
        return AUTO if self.auto_strength else self.strength

    def stated(self) -> dict[str, Any]:
        """What `declared` and `Problem` take to give the same constants: the rows are divided by
        `row_scale` already."""
        found = {s.name: getattr(self, s.name) for s in DECLARED}
        return {**found, "strength": self.stated_strength, "row_scale": 1.0}

    @property
    def strong_convexity(self) -> float:
        """sc: the strong convexity of r R."""
        return self.strength * self.regulariser.strong_convexity

    @property
    def smoothness(self) -> float:
        """A Lipschitz constant of f_i's gradient, c * curvature * data_norm^2 + r l2; infinite if
        f_i is not smooth."""
        if not (self.loss.smooth and self.regulariser.smooth):
            return math.inf
        own = self.loss_scale * self.loss.curvature * self.data_norm**2
        return own + self.strength * self.regulariser.smoothness

    @property
    def loss_smoothness(self) -> float:
        """The same of the loss part alone, c * curvature * data_norm^2; infinite for a loss with
        kinks."""
        return self.loss_scale * self.loss.curvature * self.data_norm**2

    def log_curvature(self, size: float | Floats, kappa: float | Floats) -> Floats:
        """ln(1 + c1 c/(m kappa)); for K classes (K-1) ln(1 + c1 c/((K-1) m kappa)). `size` is m.

        The first form bounds a Hessian of rank one; the second one of rank K-1 and the same trace,
        whose determinant is largest when its eigenvalues are equal. Infinite for a loss without a
        curvature bound.
        """
        rank = self.n_outputs - 1 if self.loss.kind == "multiclass" else 1
        with np.errstate(divide="ignore"):
            share = np.divide(
                self.curvature_trace * self.loss_scale / rank, np.multiply(size, kappa)
            )
        return np.asarray(rank * np.log1p(share))
