"""`Facts`: all that is public about a problem. Noise is planned from these alone,
before any data is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.adjacency import records_changed
from tacenda.privacy.secrets.bounded import fixed, fixed_sensitivity
from tacenda.privacy.secrets.mechanisms import ObjectiveTerms
from tacenda.problem.constants import Constants

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Facts:
    """Sizes m_i (n,), the model's length, and the constants G, c1, sc under one neighbouring
    relation.

    noise_sizes (n,) are the sizes that the noise must protect: the node's own, or the network's
    smallest for all.
    """

    sizes: Array
    dim: int
    constants: Constants
    adjacency: str = "replace-one"
    tolerance: float = 1e-8
    noise_sizes: Array | None = None
    _known: dict[Any, Array] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, problem: Problem, adjacency: str = "replace-one", tolerance: float = 1e-8) -> Facts:
        """The public facts of a Problem; under add-remove its divisors must have been declared."""
        declared = problem.public_sizes
        if adjacency == "add-remove" and declared is None:
            raise InputError(
                "public_sizes must be declared under adjacency 'add-remove', "
                "where a node's record count is itself private: "
                "pass Problem(..., public_sizes=[...]) with one public constant per node, "
                "or use 'replace-one'."
            )
        sizes = np.asarray(problem.sizes if declared is None else declared, float)
        return cls(sizes, problem.dim, problem.constants, adjacency, tolerance)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.sizes)

    def rows(self, nodes: Array) -> Facts:
        """The facts of some of the nodes."""
        return replace(self, sizes=self.sizes[nodes], noise_sizes=self._protected[nodes])

    def for_the_smallest(self) -> Facts:
        """The same, with every node's noise made for the network's smallest size."""
        return replace(self, noise_sizes=np.full(self.n, self.sizes.min()))

    @property
    def _protected(self) -> Array:
        return self.sizes if self.noise_sizes is None else self.noise_sizes

    def gradient_sensitivity(self, batch_size: float | None = None) -> Array:
        """(n,) how far a node's gradient moves when one record changes:
        2Gc/m, or 2Gc/b on a sample (replace-one)."""
        found = self._known.get(("gradient", batch_size))
        if found is None:
            k = self.constants
            divisor = self._protected if batch_size is None else np.full(self.n, float(batch_size))
            found = fixed_sensitivity(
                records_changed(self.adjacency) * k.gradient_bound * k.loss_scale / divisor
            )
            self._known["gradient", batch_size] = found
        return found

    def sampling_rate(self, batch_size: float) -> Array:
        """(n,) the chance of each of a node's records to enter a sample of that mean size; above 1
        where it has fewer."""
        found = self._known.get(("rate", batch_size))
        if found is None:
            found = self._known["rate", batch_size] = fixed(batch_size / self.sizes)
        return found

    ROUNDING_SHARE: ClassVar[float] = (
        2.0**-10
    )  # of the tolerance: what rounding may add to a gradient norm

    def argmin_is_near(self, quadratic: Array, linear: Array, centre: Array) -> Array:
        """(n,) whether rounding errors in the gradient of an argmin stay below ROUNDING_SHARE *
        tolerance.

        Each of its terms is of size |linear| + 2q|centre| or less, plus Gc, and is computed to a
        few units of 2^-53; a score moves by sqrt(d) such units of |w|, which the curvature turns
        into gradient. Without a bound G, or without strong convexity, there is no noise and nothing
        to promise: True.
        """
        k, kappa = self.constants, self.argmin_convexity(quadratic)
        if not np.isfinite(k.lipschitz_argmin) or not np.all(kappa > 0):
            return np.full(self.n, True)
        with np.errstate(over="ignore", invalid="ignore"):
            two_q = kappa - k.strong_convexity
            size = (
                np.linalg.norm(linear, axis=1)
                + two_q * np.linalg.norm(centre, axis=1)
                + k.lipschitz_argmin * k.loss_scale
            )
            # Where the size is NaN: no
            return np.asarray(
                8 * self._roundings(kappa) * size <= self.tolerance * self.ROUNDING_SHARE * 2.0**53
            )

    def answer_radius(self, quadratic: Array) -> Array:
        """(n,) up to where an argmin with noise inside it may lie: there rounding adds at most
        tol/8 to its gradient norm."""
        kappa = self.argmin_convexity(quadratic)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = self.tolerance * 2.0**50 / (kappa * self._roundings(kappa) * np.sqrt(self.dim))
        return np.asarray(
            np.where(kappa > 0, np.minimum(self.constants.radius, reach), self.constants.radius)
        )

    def _roundings(self, kappa: Array) -> Array:
        """(n,) how many times the error of w itself comes back in the gradient, in units of kappa:
        once, and by the scores."""
        k = self.constants
        return np.asarray(
            1 + k.loss_scale * k.loss.curvature * k.data_norm**2 * np.sqrt(self.dim) / kappa
        )

    def argmin_slope(self) -> Array:
        """(n,) the same for the gradient of the objective itself,
        which no clipping bounds: 2Gc/m."""
        k = self.constants
        return records_changed(self.adjacency) * k.lipschitz_argmin * k.loss_scale / self._protected

    def argmin_convexity(self, quadratic: Array) -> Array:
        """(n,) kappa = sc + 2 * quadratic."""
        return self.constants.strong_convexity + 2 * np.broadcast_to(
            np.asarray(quadratic, float).reshape(-1), (self.n,)
        )

    def argmin_sensitivity(
        self, quadratic: Array, linear: Array | float = 0.0, centre: Array | float = 0.0
    ) -> Array:
        """(n,) (2Gc/m + sens(linear) + 2q sens(centre) + 2 tol) / kappa."""
        kappa = self.argmin_convexity(quadratic)
        two_q = kappa - self.constants.strong_convexity
        return (self.argmin_slope() + linear + two_q * centre + 2 * self.tolerance) / kappa

    def check_tolerance(self) -> None:
        """Refuse a tolerance that no solver could keep in floating point; asked before any argmin,
        of public numbers only."""
        least = self.constants.lipschitz_argmin * self.constants.loss_scale * 2.0**-44
        if math.isfinite(least) and self.tolerance < least:
            raise InputError(
                f"solver_tolerance must be at least {least:.1e} for records of this size, "
                "or rounding errors alone exceed it, "
                f"not {self.tolerance:g}; the usual 1e-8 costs almost nothing."
            )

    def objective_terms(self, quadratic: Array) -> ObjectiveTerms:
        """The public terms of an argmin for objective perturbation."""
        k = self.constants
        rank = k.n_outputs - 1 if k.loss.kind == "multiclass" else 1
        steepness = k.curvature_trace * k.loss_scale / (rank * self._protected)
        return ObjectiveTerms(
            slope=self.argmin_slope(),
            convexity=self.argmin_convexity(quadratic),
            log_curvature=lambda kappa: k.log_curvature(self._protected, kappa),
            least_convexity=lambda logarithm: steepness / np.expm1(logarithm / rank),
            tolerance=self.tolerance,
        )
