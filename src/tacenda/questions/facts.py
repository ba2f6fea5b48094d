"""`Facts`: all that is public about a problem. Noise is planned from these alone,
before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks, regularisers
from tacenda._types import Array
from tacenda.errors import InputError, UnsupportedError
from tacenda.losses.registry import rows_of
from tacenda.privacy.adjacency import (
    check_persons,
    counts_are_public,
    nonnegative_change,
    records_changed,
)
from tacenda.privacy.secrets.bounded import fixed, fixed_sensitivity
from tacenda.privacy.secrets.mechanisms import ObjectiveTerms
from tacenda.questions.constants import LARGEST_RADIUS, SENSIBLE, Constants
from tacenda.questions.statistics import ROUNDING, Statistic, checked, is_own

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class RecordMap:
    """A public map of all records: x' = matrix' x, cut to `norm`.

    Attributes
    ----------
    matrix : ndarray
        Shape (p, k), or (p,) for a diagonal one.
    norm : float
        The new public bound on every row.
    clip_norm : float or None
        The new bound to which gradients are clipped.
    smoothness : float or None
        A bound on the curvature of the mean loss there, if a release taught one.
    strength : float or None
        The strength of the regulariser there, if a release taught one; None for the declared one.
    longer : ndarray or None
        Of several classes by how much the step of each is longer (K,), if a release taught it.
    """

    matrix: Array
    norm: float
    clip_norm: float | None = None
    smoothness: float | None = None
    strength: float | None = None
    longer: Array | None = None

    def same_as(self, other: RecordMap) -> bool:
        """True if both map every record alike, with the same bounds; the smoothness, by which steps
        are taken, may differ."""
        return np.array_equal(self.matrix, other.matrix) and all(
            getattr(self, name) == getattr(other, name)
            for name in ("norm", "clip_norm", "strength")
        )


@dataclass(frozen=True, eq=False)
class Facts:
    """Sizes m_i (n,), the model's length, and the constants G, c1, sc under one neighbouring
    relation.

    noise_sizes (n,) are the sizes that the noise must protect: the node's own, or the network's
    smallest for all. smallest_size: the network's smallest, where these are not all of its nodes
    (`rows`). released_smoothness: a bound on the curvature of the mean loss that was learnt from
    what was released, in place of the one that follows from the declared constants. longer (K,): by
    how much a step may be longer for each of several classes, by what was released.
    smoothness_guessed: nothing tells how features go together, as the map was diagonal. true_sizes:
    each size is the node's number of records. records_per_person: k, where the unit is a person
    with at most k records of one node; 1 where it is a record. exactly: every
    person has exactly k records. members_per_person: on how many nodes a person may be.
    one_record: the "person" is a record, of which the loss makes k rows. one_beside: only one of
    these has a row beside it, from which tables are counted.
    """

    sizes: Array
    dim: int
    constants: Constants
    adjacency: str = "replace-one"
    tolerance: float = 1e-8
    noise_sizes: Array | None = None
    smallest_size: float | None = None
    released_smoothness: float | None = None
    longer: Array | None = None
    smoothness_guessed: bool = False
    true_sizes: bool = True
    records_per_person: int = 1
    members_per_person: int = 1
    exactly: bool = False
    one_record: bool = False
    one_beside: bool = False
    _known: dict[str, Array] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, problem: Problem, adjacency: str = "replace-one", tolerance: float = 1e-8) -> Facts:
        """The public facts of a Problem; under add-remove its divisors must have been declared."""
        declared, most = problem.public_sizes, problem.records_per_person
        if adjacency == "add-remove" and declared is None:
            raise InputError(
                "public_sizes must be declared under adjacency 'add-remove', "
                "where a node's record count is itself private: "
                "pass Problem(..., public_sizes=[...]) with one public constant per node, or in a "
                "shell --set problem.public_size=1000 for each node; replace-one needs none, but "
                "is not for persons with several records."
            )
        sizes = np.asarray(problem.sizes if declared is None else declared, float)
        true = counts_are_public(adjacency, most, problem.exactly) and bool(
            np.all(sizes == problem.sizes)
        )
        return cls(
            sizes,
            problem.dim,
            problem.constants,
            adjacency,
            tolerance,
            true_sizes=true,
            records_per_person=most,
            members_per_person=problem.members_per_person,
            exactly=problem.exactly,
            one_record=problem.one_record,
            one_beside=problem.loss.stacked and problem.store.beside is not None,
        )

    @classmethod
    def declared(
        cls,
        sizes: ArrayLike,
        dim: int,
        n: int,
        *,
        adjacency: str,
        tolerance: float = 1e-8,
        records_per_person: int = 1,
        members_per_person: int = 1,
        classes: int = 1,
        **problem: Any,
    ) -> Facts:
        """From plain numbers, each of them checked. sizes: for each of `n` nodes, or one for all;
        `problem` as in `Constants.declared`."""
        values = np.asarray(sizes, float)
        if values.shape not in ((), (n,)) or not np.isfinite(values).all() or np.any(values <= 0):
            raise InputError(
                f"sizes must hold one record count above 0 per node of the graph ({n}), "
                f"not shape {values.shape}."
            )
        most = checks.whole("records_per_person", records_per_person, least=1)
        members = checks.whole("members_per_person", members_per_person, least=1)
        check_persons(adjacency, most, members)
        outputs = checks.whole("n_outputs", classes, least=1)
        return cls(
            np.array(np.broadcast_to(values, (n,))),
            checks.whole("dim", dim, least=1),
            Constants.declared(classes=outputs, **problem),
            adjacency,
            checks.positive("solver_tolerance", tolerance),
            records_per_person=most,
            members_per_person=members,
        )

    def of_outcomes(self, cells: int) -> Facts:
        """The facts of the rows that a stacked loss makes of these records, whose outcome is one of
        so many cells; themselves for other losses."""
        loss = self.constants.loss
        each = rows_of(loss.name, cells)
        if each == 1:
            return self
        if self.records_per_person * self.members_per_person > 1:
            raise UnsupportedError(
                f"The loss {loss.name!r} makes {each} rows of each record, and its guarantee is "
                "for one record; leave records_per_person and members_per_person out."
            )
        return replace(
            self,
            sizes=self.sizes * each,
            dim=self.dim + each - 1,
            records_per_person=each,
            exactly=True,
            one_record=True,
        )

    @property
    def rows_each(self) -> int:
        """How many rows the loss makes of a record."""
        return self.records_per_person if self.one_record else 1

    @property
    def records(self) -> float:
        """Records of all nodes."""
        return float(self.sizes.sum()) / self.rows_each

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.sizes)

    @property
    def n_features(self) -> int:
        """p, the length of a record."""
        return self.dim // self.constants.n_outputs

    def rows(self, nodes: Array) -> Facts:
        """The facts of some of the nodes."""
        return replace(
            self,
            sizes=self.sizes[nodes],
            noise_sizes=self._protected[nodes],
            smallest_size=self.smallest,
        )

    def for_the_smallest(self) -> Facts:
        """The same, with every node's noise made for the network's smallest size."""
        return replace(self, noise_sizes=np.full(self.n, self.sizes.min()))

    @property
    def _protected(self) -> Array:
        return self.sizes if self.noise_sizes is None else self.noise_sizes

    @property
    def smallest(self) -> float:
        """The network's smallest protected size; `rows` keeps it."""
        own = float(self._protected.min())
        return own if self.smallest_size is None else min(own, self.smallest_size)

    @property
    def smoothness(self) -> float:
        """A bound on the curvature of the loss part of the objective: c * curvature * data_norm^2
        by what is declared, or what a release taught; public, and the same at all nodes."""
        found = self.released_smoothness
        return self.constants.loss_smoothness if found is None else found

    def mapped(self, by: RecordMap) -> Facts:
        """The facts of mapped records, for models v that mean w = matrix v.

        Sizes stay. The regulariser becomes R(matrix v). Its strong convexity is declared as 0, so
        that its strength may be one that a release taught. The radius grows by as much as the
        map's shortest column is shorter than 1: that far v must reach to say what w could say.
        """
        k, matrix = self.constants, by.matrix
        r = k.strength if by.strength is None else float(by.strength)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = matrix * matrix
            lengths = np.sqrt(squares if matrix.ndim == 1 else squares.sum(axis=0))
        shortest = float(lengths[lengths > 0].min(initial=1.0))
        constants = replace(
            k,
            data_norm=float(by.norm),
            clip_norm=None if by.clip_norm is None else float(by.clip_norm),
            regulariser=regularisers.mapped(k.regulariser, r, matrix, k.n_outputs),
            strength=r,
            radius=max(k.radius, min(k.radius / shortest, LARGEST_RADIUS)),
        )
        return replace(
            self,
            dim=matrix.shape[-1] * k.n_outputs,
            constants=constants,
            released_smoothness=by.smoothness,
            longer=by.longer,
            smoothness_guessed=by.smoothness is not None and matrix.ndim == 1,
        )

    @property
    def counts_are_public(self) -> bool:
        """Whether a node's number of records may be told."""
        return counts_are_public(self.adjacency, self.records_per_person, self.exactly)

    @property
    def sum_change(self) -> float:
        """How far a sum of vectors over the records moves when one unit changes, over the largest
        norm of one record's vector: 2k or k."""
        return records_changed(self.adjacency, self.records_per_person)

    @property
    def nonnegative_change(self) -> float:
        """The same where any two records' vectors have an inner product of at least 0: sqrt(2) k or
        k."""
        return nonnegative_change(self.adjacency, self.records_per_person)

    @property
    def worst_gradient_sensitivity(self) -> float:
        """2Gc/m of the network's smallest node: the unit of gradients whose noise is one for all
        nodes."""
        k = self.constants
        return float(self.sum_change * k.gradient_bound * k.loss_scale / self.smallest)

    def moment_sensitivity(self, label_scale: float = 0.0, label_bound: float = 1.0) -> Array:
        """(n,) how far a node's second moment moves when one record changes: sqrt(2) B^2/m
        (replace-one) or B^2/m (add-remove), B^2 = data_norm^2 + (label_scale label_bound)^2; k
        times that when a person changes.

        A record adds zz'/m, of Frobenius norm |z|^2/m <= B^2/m; and since (z'y)^2 >= 0, |zz' - yy'|
        is at most sqrt(|z|^4 + |y|^4). The diagonal alone moves by no more, and by as much for
        records along two axes: |(z_a^2)_a| <= |z|^2, and its entries are >= 0.
        """
        key = f"moment {label_scale!r} {label_bound!r}"
        found = self._known.get(key)
        if found is None:
            moved = self._moment_distance(label_scale, label_bound)
            found = self._known[key] = fixed_sensitivity(moved / self._protected)
        return found

    def worst_moment_sensitivity(self, label_scale: float = 0.0, label_bound: float = 1.0) -> float:
        """The same for the network's smallest node."""
        return self._moment_distance(label_scale, label_bound) / self.smallest

    def _moment_distance(self, label_scale: float, label_bound: float) -> float:
        largest = self.moment_bound(label_scale, label_bound)
        return self.nonnegative_change * largest

    def moment_bound(self, label_scale: float = 0.0, label_bound: float = 1.0) -> float:
        """B^2: the largest |z|^2 of a record z = (x, label_scale y); label_scale 0: of x alone. Of
        several classes y is 1 in the place of one, and 0 in those of the others."""
        scale = checks.between("label_scale", label_scale, 0.0, SENSIBLE[1], open_ends=False)
        bound = checks.between("label_bound", label_bound, *SENSIBLE, open_ends=False)
        if self.constants.n_outputs > 1:
            bound = 1.0
        return float(self.constants.data_norm**2 + (scale * bound) ** 2)

    def statistic_sensitivity(self, statistic: Statistic) -> Array:
        """(n,) how far a node's sum of a statistic's vectors moves when one record changes: its
        norm (add-remove); when replaced, sqrt(2) times that where no entry is below 0, else twice,
        or less where that is proved (`questions.statistics`); k times that for a person."""
        distance = self.statistic_distance(statistic)
        key = f"statistic {distance!r}"
        found = self._known.get(key)
        if found is None:
            moved = np.full(self.n, distance)
            found = self._known[key] = fixed_sensitivity(moved)
        return found

    def statistic_distance(self, statistic: Statistic) -> float:
        """The same for one node: all have the same, whatever their sizes."""
        found = self.loose_distance(statistic)
        if self.adjacency == "replace-one" and is_own(statistic):
            moved = self._rows_asked(statistic) * statistic.replaced
            found = min(found, moved * (1.0 + ROUNDING))
        return found

    def loose_distance(self, statistic: Statistic) -> float:
        """The same for any vectors of the statistic's norm, or for those with no entry below 0."""
        moved = nonnegative_change if statistic.non_negative else records_changed
        factor = moved(self.adjacency, self._rows_asked(statistic))
        return factor * float(checked(statistic).norm) * (1.0 + ROUNDING)

    def _rows_asked(self, statistic: Statistic) -> int:
        """How many of a person's rows a statistic counts."""
        once = self.one_record and self.one_beside and statistic.beside
        return 1 if once else self.records_per_person

    def gradient_sensitivity(self, batch_size: float | None = None) -> Array:
        """(n,) how far a node's gradient moves when one record changes: 2Gc/m, or 2Gc/b on a sample
        (replace-one); k times that when a person changes, of whom no sample is taken."""
        if batch_size is not None:
            self.check_sampled()
        found = self._known.get(f"gradient {batch_size}")
        if found is None:
            k = self.constants
            divisor = self._protected if batch_size is None else np.full(self.n, float(batch_size))
            found = fixed_sensitivity(self.sum_change * k.gradient_bound * k.loss_scale / divisor)
            self._known[f"gradient {batch_size}"] = found
        return found

    def check_sampled(self) -> None:
        """Refuse samples of records where a person may have several: these are drawn one by one,
        and no accountant here knows what that hides of all of them together."""
        if self.records_per_person > 1:
            raise UnsupportedError(
                "batch_size must be None for persons with up to "
                f"{self.records_per_person} records: records are sampled one by one, and what that "
                "hides of a person is not accounted for; use all records."
            )

    def sampling_rate(self, batch_size: float) -> Array:
        """(n,) the chance of each of a node's records to enter a sample of that mean size; above 1
        where it has fewer."""
        found = self._known.get(f"rate {batch_size}")
        if found is None:
            found = self._known[f"rate {batch_size}"] = fixed(batch_size / self.sizes)
        return found

    MOST_STEPS: ClassVar[float] = 1e6  # of the local solver: minutes for a thousand records
    # Of the tolerance: what rounding may add to a gradient norm
    ROUNDING_SHARE: ClassVar[float] = 2.0**-10

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
            steepest = kappa * self._roundings(kappa)
            if self.constants.regulariser.weighted:
                steepest = steepest + self.constants.strength * self.constants.regulariser.l2.max()
            reach = self.tolerance * 2.0**50 / (steepest * np.sqrt(self.dim))
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
        return self.sum_change * k.lipschitz_argmin * k.loss_scale / self._protected

    def argmin_convexity(self, quadratic: Array) -> Array:
        """(n,) kappa = sc + 2 * quadratic."""
        return self.constants.strong_convexity + 2 * np.broadcast_to(
            np.asarray(quadratic, float).reshape(-1), (self.n,)
        )

    def argmin_weights(self, quadratic: Array) -> Array:
        """(n, 1) the same as a column; where the regulariser has weights (n, d), that of each
        w_a^2/2."""
        kappa, k = self.argmin_convexity(quadratic)[:, None], self.constants
        return k.strength * k.regulariser.l2 + kappa if k.regulariser.weighted else kappa

    def argmin_sensitivity(
        self, quadratic: Array, linear: Array | float = 0.0, centre: Array | float = 0.0
    ) -> Array:
        """(n,) (2Gc/m + sens(linear) + 2q sens(centre) + 2 tol) / kappa."""
        kappa = self.argmin_convexity(quadratic)
        two_q = kappa - self.constants.strong_convexity
        return (self.argmin_slope() + linear + two_q * centre + 2 * self.tolerance) / kappa

    def solver_steps(self, quadratic: Array) -> int:
        """How many steps the local solver may need for an argmin of any of the nodes, whatever the
        records are; 0 where nothing is promised of it."""
        k, kappa = self.constants, float(self.argmin_convexity(quadratic).min())
        bound = k.lipschitz_argmin * k.loss_scale
        curved = k.loss_scale * k.loss.curvature * k.data_norm**2
        if not math.isfinite(bound + curved) or not kappa > 0:
            return 0
        return descent_steps(kappa + curved, kappa, bound, self.tolerance / 4)

    def check_solver(self, quadratic: Array) -> None:
        """Refuse a tolerance that no solver could keep in floating point, and an argmin for which
        it might take forever; asked before any argmin, of public numbers only."""
        least = self.constants.lipschitz_argmin * self.constants.loss_scale * 2.0**-44
        if math.isfinite(least) and self.tolerance < least:
            raise InputError(
                f"solver_tolerance must be at least {least:.1e} for records of this size, "
                "or rounding errors alone exceed it, "
                f"not {self.tolerance:g}; the usual 1e-8 costs almost nothing."
            )
        steps = self.solver_steps(quadratic)
        if steps > self.MOST_STEPS:
            raise InputError(
                f"A local minimiser of this problem may take {steps:.0e} steps, "
                f"and at most {self.MOST_STEPS:.0e} are allowed: it is curved too little by "
                f"strength {self.constants.strength:g} and penalty for records of norm "
                f"{self.constants.data_norm:g} and loss_scale {self.constants.loss_scale:g}. "
                "Use a larger strength or penalty, or a linearised algorithm (IPADMM, DPDDA)."
            )

    def objective_terms(
        self, quadratic: Array, centre: Array | float | None = None
    ) -> ObjectiveTerms:
        """The public terms of an argmin for objective perturbation.

        centre (n,): how far one record moves a centre that was not released. It then moves the
        gradient by 2q times that, in one more direction. The noise is drawn afterwards, so that its
        part along that direction has the law of any one (`privacy.accounting.renyi`).

        A person's records add a Hessian of rank k times that of one record and of k times its
        trace; its determinant is largest when its eigenvalues are equal, and so the logarithm is k
        times that of one record. In each record's own directions the noise is normal as before, and
        the sum of its parts is largest when they agree (`privacy.accounting.renyi`): `directions`
        stays.
        """
        k, most = self.constants, self.records_per_person
        rank = k.n_outputs - 1 if k.loss.kind == "multiclass" else 1
        kappa = self.argmin_convexity(quadratic)
        moved = 0.0 if centre is None else (kappa - k.strong_convexity) * centre
        steepness = k.curvature_trace * k.loss_scale / (rank * self._protected)
        return ObjectiveTerms(
            slope=self.argmin_slope() + moved,
            convexity=kappa,
            log_curvature=lambda kappa: most * k.log_curvature(self._protected, kappa),
            least_convexity=lambda logarithm: steepness / np.expm1(logarithm / (most * rank)),
            tolerance=self.tolerance,
            directions=rank,
        )


def descent_steps(smooth: float, kappa: float, bound: float, tolerance: float) -> int:
    """After how many steps accelerated descent from 0 on a kappa-strongly convex, `smooth`-smooth
    function has a gradient norm of at most `tolerance`, if at 0 it is at most `bound`
    (`problem.solver.around` has the proof)."""
    logarithm = math.log(2 * smooth / kappa) + 2 * math.log(bound / tolerance)
    return math.ceil(math.sqrt(smooth / kappa) * max(0.0, logarithm)) + 1
