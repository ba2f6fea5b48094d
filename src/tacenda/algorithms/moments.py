"""Least squares by its moments: our own; one released second moment makes every later step exact.

For the squared loss the Hessian is the second moment of the records and does not change with the
model. Released once, it is public from then on: it tells each step its direction and length, and
after the last one the whole objective, up to a constant, so that ridge, lasso and elastic net of
*every* strength are post-processing (`path`).

    M = (1/n) sum_i (1/m_i) sum_j x x' + noise = V diag(e) V'          (released once)
    q = cleaned(e) + half the noise's edge                            (`curvature`)
    w -> (1/2)(w - centre)' Q (w - centre) + r R(w),  Q = V diag(q) V'  (`Quadratic`)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Floats, Ints
from tacenda.algorithms.base import Algorithm, Array, Needs, Node
from tacenda.algorithms.published import Verdict
from tacenda.algorithms.spectrum import descend
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.problem.constants import SENSIBLE
from tacenda.problem.facts import Facts
from tacenda.problem.moments import packed_length, unpacked
from tacenda.problem.regularisers import Regulariser

NOISES = ("masked", "independent")
MOST_FEATURES = 1000  # a message then holds half a million numbers
SHORT = 0.5  # expected norm of a whitened row: gradients are clipped at as much of their clip_norm
RIDGE = 0.5  # added to the curvature, in units of the noise's edge
LEAST = 1e-12  # of the largest eigenvalue, where the noise asks for less
TOLERANCE = 1e-10  # duality gap of the coordinate descent, relative
MOST_SWEEPS = 100_000


# ---- from a released moment to a quadratic form, and to models: pure functions
def cleaned(eigenvalues: Floats, std: float) -> Floats:
    """(d,) what each eigenvector of a noisy symmetric matrix sees of the true one, v'Av.

    The noise has standard deviation std on the diagonal and std/sqrt(2) beside it. Eigenvalues
    repel each other as the noise spreads them, and for large d

        v_k'A v_k  ~  e_k - 2 s (1/d) sum_j (e_k - e_j)/((e_k - e_j)^2 + eta^2),   s = d std^2/2

    (eta, a smoothing of the size of the entries' noise); never below 0.
    """
    d = len(eigenvalues)
    apart = eigenvalues[:, None] - eigenvalues[None, :]
    repelled = (apart / np.maximum(apart**2 + 2 * std**2, np.finfo(float).tiny)).sum(axis=1)
    return np.asarray(np.maximum(eigenvalues - std**2 * repelled, 0.0)) if d else eigenvalues


def ridge_of(d: int, std: float) -> float:
    """Half the edge sqrt(2 d) std of the noise of a symmetric matrix."""
    return RIDGE * math.sqrt(2.0 * d) * std


def curvature(eigenvalues: Floats, std: float) -> Floats:
    """(d,) q: the cleaned eigenvalues plus half the edge sqrt(2 d) std of the noise.

    So no direction that the noise may have made counts as flat, and none as steeper than it is by
    more than the noise can hide.
    """
    d = len(eigenvalues)
    least = LEAST * float(np.max(eigenvalues, initial=0.0))
    ridge = max(ridge_of(d, std), least, float(np.finfo(float).tiny) ** 0.5)
    return cleaned(eigenvalues, std) + ridge


@dataclass(frozen=True, eq=False)
class Quadratic:
    """(1/2)(w - centre)' V diag(q) V' (w - centre): vectors (d, d) V, values (d,) q, centre (d,);
    spread (d,): the variance that noise has given the centre along each of the vectors, and noise
    (1,): the standard deviation on the moment's diagonal, if known.

    All of it is released, or follows from what is.
    """

    vectors: Floats
    values: Floats
    centre: Floats
    spread: Floats | None = None
    noise: Floats | None = None

    def times(self, row: Floats, factors: Floats) -> Floats:
        """(d,) V diag(factors) V' row; sums in one fixed order, whoever computes them."""
        along = (self.vectors * row[:, None]).sum(axis=0)
        return np.asarray((self.vectors * (factors * along)).sum(axis=1))

    def columns(self, std: float, loss_scale: float) -> Floats:
        """(d,) the lengths p = size/sqrt(q) of the columns of a map P = V diag(p) that whitens rows
        to an expected norm of SHORT; std is that of the form.

        In coordinates v with w = P v the loss bends by at most size^2, in nearly all directions
        alike, and so a step there is as long as it may be wherever it leads.
        """
        ridge = ridge_of(len(self.values), std)
        seen = math.fsum(np.maximum(1.0 - ridge / self.values, 0.0))  # of the rows' moment over q
        size = SHORT * math.sqrt(loss_scale / max(seen, LEAST))
        return np.asarray(size / np.sqrt(self.values))

    def solve(self, regulariser: Regulariser, strength: float) -> Floats:
        """(d,) argmin of the form plus strength * R(w); zeros of an l1 part are zeros."""
        return self.path(regulariser, [strength])[0]

    def path(self, regulariser: Regulariser, strengths: Sequence[float]) -> Floats:
        """(k, d) the minimisers for each strength, in the order of the strengths."""
        found = np.empty((len(strengths), len(self.centre)))
        l1, l2 = float(regulariser.l1), float(regulariser.l2)
        for k, strength in enumerate(strengths):
            r = checks.positive("strength", strength, zero=True)
            if r * l1 == 0:
                found[k] = self.times(self.centre, self.values / (self.values + r * l2))
            else:
                found[k] = self._by_coordinates(r * l1, r * l2)
        return found

    def forecast_risk(self, model: Floats, l2: float) -> float:
        """Stein's unbiased estimate of E (w - w*)' H (w - w*), H the form without its ridge and w*
        the centre without its noise, for a minimiser w = `model` with an l1 part and (l2/2)|w|^2.
        It may be negative.

        With y = centre, y ~ N(w*, S): |w - y|_H^2 - tr(H S) + 2 tr(H J S), and on the support A of
        w the minimiser has the Jacobian J_A = (Q_AA + l2)^-1 Q_A.
        """
        if self.spread is None or self.noise is None:
            raise InputError("forecast_risk needs spread and noise; pass a released form.")
        seen = np.maximum(self.values - ridge_of(len(self.values), float(self.noise[0])), 0.0)
        away = (self.vectors * (model - self.centre)[:, None]).sum(axis=0)
        found = float(np.sum(seen * (away**2 - self.spread)))
        support = np.flatnonzero(model)
        if len(support):
            rows = self.vectors[support]
            inner = (rows * self.values) @ rows.T
            inner[np.diag_indices_from(inner)] += l2
            jacobian = np.linalg.solve(inner, rows * self.values)  # of w_A, along the vectors
            found += 2.0 * float(np.sum(jacobian * (rows * seen * self.spread)))
        return found

    def on_support(self, support: Ints, l1: float, l2: float) -> Floats:
        """(d,) the minimiser with l1 |w|_1 + (l2/2)|w|^2 whose other weights are 0."""
        found = np.zeros(len(self.centre))
        if len(support):
            found[support] = self._by_coordinates(l1, l2, support)
        return found

    def _by_coordinates(self, l1: float, l2: float, support: Ints | None = None) -> Floats:
        """The same with l1 |w|_1 + (l2/2)|w|^2, by scikit-learn's coordinate descent on the Gram
        matrix; over the weights of the support alone, if given."""
        from sklearn.linear_model import enet_path

        d = len(self.centre)
        root = np.sqrt(d * self.values)[:, None] * self.vectors.T  # its Gram matrix is d Q
        target = np.sqrt(d * self.values) * (self.vectors * self.centre[:, None]).sum(axis=0)
        root = root if support is None else root[:, support]
        _, found, _ = enet_path(
            np.asfortranarray(root),
            target,
            l1_ratio=l1 / (l1 + l2),
            alphas=[l1 + l2],
            tol=TOLERANCE,
            precompute=True,
            max_iter=MOST_SWEEPS,
        )
        return np.asarray(found[:, 0])


def of_moment(moment: Floats, std: float, label_scale: float = 0.0) -> Quadratic:
    """The form of a released second moment of x, with centre 0; or of (x, label_scale y), with the
    centre where least squares is solved: V diag(1/q) V' (mean of x y)."""
    from tacenda.problem.kernels.eigen import eigen  # here: it loads the compiler

    width = len(moment) - (label_scale > 0)
    e, vectors = eigen(np.ascontiguousarray(moment[:width, :width]))
    form = Quadratic(vectors, curvature(e, std), np.zeros(width))
    if label_scale == 0:
        return form
    return replace(form, centre=form.times(moment[:width, width] / label_scale, 1 / form.values))


def of_released(released: Mapping[str, Floats]) -> Quadratic:
    """The form that a run of `MomentRegression` left in `RunResult.released`."""
    return Quadratic(**{f.name: released[f.name] for f in fields(Quadratic)})


# ---- the algorithm
@dataclass(frozen=True)
class MomentState:
    """x (b, d): where the steps have come to; centre (b, d): their average, or the newest, and
    count (b, 1) how many are in it; model (b, d): the centre's regularised minimiser.

    agreed (b, 1): 1.0 once x is the same row at every node. vectors (d, d), values (d,) and noise
    (1,), the std of its diagonal: the released curvature, held once for all nodes. spread (d,): the
    variance that noise gives the centre along the vectors. moment: the packed row that was released
    in place of all steps, of (x, label_scale y).
    """

    x: Array
    centre: Array
    count: Array
    model: Array
    agreed: Array
    vectors: Array | None = field(default=None, metadata={"common": True})
    values: Array | None = field(default=None, metadata={"common": True})
    spread: Array | None = field(default=None, metadata={"common": True})
    noise: Array | None = field(default=None, metadata={"common": True})
    moment: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class MomentRegression(Algorithm):
    """Newton steps for least squares, all with the one second moment that round 1 releases.

        round 1         Q = V diag(q) V' of the released second moment of x, for `share` of the
                        budget
        rounds 2 .. T   g <- (1/n) sum_i (P' grad loss_i(x) + noise_i),  P P' = size^2 Q^-1
                        x <- x - P g / size^2
        every round     centre: the average of the last `tail` share of the steps
                        model = argmin (1/2)(w - centre)' Q (w - centre) + r R(w)

    With one round (T = 1) the second moment of (x, s y) is released, s = label_scale and y cut to
    label_bound, for the whole budget: x'y then takes the place of all steps. It sends least and is
    as good where there are very many records; else clipped gradients of residuals, which are small,
    need less noise than labels, which are large.

    Gradients are asked of whitened rows P'x, whose expected norm is 0.5, and clipped at 0.5 *
    clip_norm / data_norm, so that a residual of clip_norm / data_norm pulls no harder. The rows are
    dense; where a node's would not fit, the run is refused beforehand.
    The regulariser enters at the end only, so that the path of all strengths is post-processing.
    Guarantee, masked: a sum of discrete Gaussians over the members that a coalition of at most
    `Privacy.coalition` leaves connected. Independent: exact Gaussian composition.

    Parameters
    ----------
    share : float, default=0.2
        Share of the budget (mu^2) for the second moment, above 0 and below 1.
    noise : {"masked", "independent"}, default="masked"
        "masked" hides all but the network's sum; as in `TreeGD`.
    tail : float, default=0.75
        Share of the steps that is averaged, above 0 and at most 1.
    label_scale : float, default=0.7
        s of the one-round form.
    label_bound : float, default=1.0
        To which labels are cut in the one-round form.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.MomentRegression().needs.squared_loss
    True
    """

    name: ClassVar[str] = "moments"
    title: ClassVar[str] = "MomentRegression (least squares by its second moment)"
    source: ClassVar[str] = "ours"
    default_output: ClassVar[str] = "last"
    default_rounds: ClassVar[int] = 9
    needs: ClassVar[Needs] = Needs(squared_loss=True)
    verdict: ClassVar[Verdict | None] = Verdict(
        "ours",
        "sound",
        "New here: one released second moment, then Newton steps on noisy clipped gradients.",
        "One release of the moment with its own share of the budget, one of each step's gradient; "
        "all of them Gaussian, composed exactly.",
    )

    share: float = 0.2
    noise: str = "masked"
    tail: float = 0.75
    label_scale: float = 0.7
    label_bound: float = 1.0

    def __post_init__(self) -> None:
        checks.between("MomentRegression.share", self.share, 0.0, 1.0)
        checks.one_of("MomentRegression.noise", self.noise, NOISES)
        checks.positive("MomentRegression.label_scale", self.label_scale)
        checks.positive("MomentRegression.label_bound", self.label_bound)
        if not 0 < checks.positive("MomentRegression.tail", self.tail) <= 1:
            raise InputError(
                f"MomentRegression.tail must be above 0 and at most 1, not {self.tail!r}."
            )

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        # The moment of a single round is bounded by itself, and needs no clipping.
        super().check(facts, topology, rounds, private and rounds > 1)
        if facts.dim > MOST_FEATURES:
            raise UnsupportedError(
                f"{self.title} releases {facts.dim} x {facts.dim} numbers; it serves up to "
                f"{MOST_FEATURES} features. Use GossipGD or DPDDA, or reduce the features first."
            )

    def init(self, node: Node, w: Array) -> MomentState:
        none = np.zeros_like(w[:, :1])
        return MomentState(w, w, none, w, none)

    def step(self, s: MomentState, node: Node) -> MomentState:
        if s.vectors is None or s.values is None or s.noise is None:
            return self._first(s, node)
        form = Quadratic(s.vectors, s.values, np.zeros(len(s.values)))
        x = s.x if s.agreed.all() else node.average(s.x)
        x = x - self._newton(x, form, float(s.noise[0]), node)
        steps = max(node.rounds - 1, 1)
        kept = node.turn > node.rounds - max(1, round(self.tail * steps))
        count = s.count + 1 if kept else s.count
        centre = s.centre + (x - s.centre) / count if kept else x
        spread = self._spread(form, float(s.noise[0]), node, kept)
        s = replace(
            s, x=x, centre=centre, count=count, agreed=np.ones_like(s.agreed), spread=spread
        )
        return replace(s, model=self._models(s, node))

    def _newton(self, x: Array, form: Quadratic, std: float, node: Node) -> Array:
        """(b, d) Q^-1 g, asked of whitened records: v = P^-1 x, and P grad_v = P P' grad = size^2
        Q^-1 grad. Rows are not cut there: gradients are clipped."""
        k = node.facts.constants
        p, vectors = form.columns(std, k.loss_scale), form.vectors
        clip = None if k.clip_norm is None else k.clip_norm / k.data_norm * SHORT
        longest = min(max(k.data_norm * float(p.max()) * (1 + 1e-9), SENSIBLE[0]), SENSIBLE[1])
        there = node.mapped(vectors * p, longest, clip)
        v = each_row(x, lambda row: (vectors * row[:, None]).sum(axis=0) / p)
        unit = there.facts.worst_gradient_sensitivity
        unit = unit if math.isfinite(unit) else 1.0  # no clipping: a run without privacy
        g = unit * there.release_mean(there.gradient(v, regularised=False) / unit, noise=self._kind)
        back = 1 / (p * form.values)  # p/size^2
        return each_row(g, lambda row: (vectors * (row * back)).sum(axis=1))

    def _spread(self, form: Quadratic, std: float, node: Node, kept: bool) -> Array:
        """(d,) the variance that noise gives the centre along the vectors: what each step adds,
        and what the later ones and the average leave of it."""
        k = node.facts.constants
        if k.clip_norm is None or std == 0:
            return np.zeros(len(form.values))
        p, steps = form.columns(std, k.loss_scale), node.rounds - 1
        clip = k.clip_norm / k.data_norm * SHORT
        # The moment's noise tells the gradient's: one multiplier, sensitivities 2 G c/m and B^2/m
        moment = node.facts.worst_moment_sensitivity() * k.loss_scale
        gradient = node.facts.sum_change * clip * k.loss_scale / node.facts.smallest
        weight = self.share / (1 - self.share) * steps
        each = std / moment * math.sqrt(weight) * gradient / (p * form.values)
        bent = np.maximum(1.0 - ridge_of(len(form.values), std) / form.values, 0.0)
        done = node.turn - 1
        tail = min(1.0, max(1, round(self.tail * steps)) / done) if kept else 1.0 / done
        left = descend(bent, np.zeros_like(bent), 1.0, done, tail)[1]
        return np.asarray(left * each**2)

    def _first(self, s: MomentState, node: Node) -> MomentState:
        """Release the moment: of (x, s y) where it is all that will be released."""
        scale = self.label_scale if node.rounds == 1 else 0.0
        row, std = self._moment(node, scale, s.x.dtype)
        width = s.x.shape[1] + (scale > 0)
        full = np.zeros(packed_length(width))
        full[: len(row)] = row  # a rehearsal's answers have length one
        c = node.facts.constants.loss_scale
        form = of_moment(c * unpacked(full), c * std, scale)
        noise = np.array([c * std])
        s = replace(s, vectors=form.vectors, values=form.values, noise=noise)
        if scale == 0:
            return s
        s = replace(s, moment=c * full)
        centre = np.broadcast_to(form.centre, s.x.shape).astype(s.x.dtype)
        spread = (c * std / scale / form.values) ** 2 / 2
        s = replace(s, x=centre, centre=centre, agreed=np.ones_like(s.agreed), spread=spread)
        return replace(s, model=self._models(s, node))

    def _moment(self, node: Node, scale: float, dtype: Any) -> tuple[Floats, float]:
        """The network's mean second moment with noise, one row, and the std of its entries."""
        steps = node.rounds - 1
        weight = self.share / (1 - self.share) * steps if steps else 1.0
        value = node.second_moment(scale, self.label_bound)
        unit = node.facts.worst_moment_sensitivity(scale, self.label_bound)
        if self.masks:
            mean = unit * node.release_mean(value / unit, noise="masked", weight=weight)
            std = node.noise_multiplier * (unit / math.sqrt(weight * node.n_nodes))
            return np.asarray(mean[0], float), float(std[0, 0])
        released = unit * node.release(value / unit, weight=weight)
        std = node.noise_multiplier * (value.sensitivity[:, None] / math.sqrt(weight))
        both = node.average(np.hstack([released, std**2]).astype(dtype, copy=False))
        row = np.asarray(both[0], float)
        return row[:-1], math.sqrt(max(float(row[-1]), 0.0) / node.n_nodes)

    @staticmethod
    def _models(s: MomentState, node: Node) -> Array:
        """(b, d) the regularised minimisers around the centres."""
        assert s.vectors is not None and s.values is not None
        k, vectors, values = node.facts.constants, s.vectors, s.values
        return each_row(
            s.centre, lambda row: Quadratic(vectors, values, row).solve(k.regulariser, k.strength)
        )

    @property
    def _kind(self) -> str:
        return "masked" if self.masks else "gaussian"

    @property
    def only_means(self) -> bool:
        return not self.masks

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        moment = facts.moment_bound(self.label_scale, self.label_bound)
        share = (records + math.sqrt(2) * noise) / facts.smallest
        return max(super().largest_mean(facts, records, noise), moment * max(1.0, share))

    @property
    def masks(self) -> bool:
        return self.noise == "masked"

    @property
    def agrees(self) -> bool:
        return True

    def iterate(self, s: MomentState) -> Array:
        return s.model

    def released(self, s: MomentState) -> dict[str, Array]:
        """vectors, values, centre, spread and noise of a `Quadratic`; of one round also the packed
        moment of (x, label_scale y) that they were made of."""
        if s.vectors is None or s.values is None or s.spread is None or s.noise is None:
            return {}
        centre = np.asarray(s.centre[0], float)
        found = {"vectors": s.vectors, "values": s.values, "centre": centre}
        found = {**found, "spread": s.spread, "noise": s.noise}
        return found if s.moment is None else {**found, "moment": s.moment}

    def noise_std(self, s: MomentState, facts: Facts, rounds: int) -> Array | None:
        """To first order in the noise. With B = (Q + r l2)^-1 on what an l1 part has not set to
        zero, and dQ the noise of the moment, whose dQ u has the covariance (std^2/2)(|u|^2 I + uu')

        one round     dw = B (db - dQ w), db of variance std^2/(2 label_scale^2)
        more rounds   dw = B Q dcentre + B dQ (centre - w); each step adds Q^-1 times the noise of
                      its gradient to the error, of which 1 - h/q is kept along an eigenvector of
                      curvature h, and the tail is averaged

        Where records' gradients are clipped they bend less, which is not counted.
        """
        if s.vectors is None or s.values is None or s.noise is None or s.spread is None:
            return None
        k, v, q, std = facts.constants, s.vectors, s.values, float(s.noise[0])
        centre, w = np.asarray(s.centre[0], float), np.asarray(s.model[0], float)
        l1, l2 = k.strength * float(k.regulariser.l1), k.strength * float(k.regulariser.l2)
        kept = w != 0 if l1 > 0 else np.ones(len(w), bool)
        bent = (v * q) @ v.T
        back = np.zeros((len(w), len(w)))
        back[np.ix_(kept, kept)] = np.linalg.inv(bent[np.ix_(kept, kept)] + l2 * np.eye(kept.sum()))
        u = w if rounds == 1 else centre - w
        plain = u @ u + (1.0 / self.label_scale**2 if rounds == 1 else 0.0)
        spread = 0.5 * std**2 * (plain * np.eye(len(w)) + np.outer(u, u))
        if rounds > 1:
            through = bent @ v
            spread = spread + (through * s.spread) @ through.T
        return np.asarray(np.sqrt(np.maximum(((back @ spread) * back).sum(axis=1), 0.0)))

    def restart(self, s: MomentState, node: Node) -> MomentState:
        """The curvature stays: it was released, and nothing of it belongs to the neighbours."""
        return replace(s, agreed=np.zeros_like(s.agreed))


def each_row(rows: Array, work: Any) -> Array:
    """(b, d) work(row) of every row in double precision; equal rows are worked on once."""
    found = np.empty_like(rows)
    for i in range(len(rows)):
        same = i > 0 and np.array_equal(rows[i], rows[i - 1])
        found[i] = found[i - 1] if same else work(np.asarray(rows[i], float))
    return found
