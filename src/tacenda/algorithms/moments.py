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
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Verdict
from tacenda.algorithms.quadratic import SHORT, Quadratic, of_moment, ridge_of
from tacenda.algorithms.spectrum import descend, rounded
from tacenda.algorithms.traits import Traits
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.constants import SENSIBLE
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import packed_length, unpacked

NOISES = ("masked", "independent")
MOST_FEATURES = 1000  # a message then holds half a million numbers
LOOSER = tuple(1.5**j for j in range(7))  # clips that are tried, over the least one
CUT = 0.00003  # excess risk of a clip c: CUT loss_scale (1 - c/the loosest)^3


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
    clip_norm / data_norm, so that a residual of clip_norm / data_norm pulls no harder. Where the
    released moment tells that noise is low, the clip is up to eleven times as large (`LOOSER`). The
    rows are dense; where a node's would not fit, the run is refused in advance.
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
        x = node.average(s.x, known=bool(s.agreed.all()))
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
        clip = self._clip(form, std, node)
        longest = min(max(k.data_norm * float(p.max()) * (1 + 1e-9), SENSIBLE[0]), SENSIBLE[1])
        there = node.mapped(RecordMap(vectors * p, longest, clip))
        v = each_row(x, lambda row: (vectors * row[:, None]).sum(axis=0) / p)
        unit = there.facts.worst_gradient_sensitivity
        unit = unit if math.isfinite(unit) else 1.0  # no clipping: a run without privacy
        g = unit * there.release_mean(there.gradient(v, regularised=False) / unit, noise=self._kind)
        back = 1 / (p * form.values)  # p/size^2
        return each_row(g, lambda row: (vectors * (row * back)).sum(axis=1))

    def _clip(self, form: Quadratic, std: float, node: Node) -> float | None:
        """To what gradients of mapped rows are clipped: the least of `LOOSER` forecasts, that of
        the noise after the last round and that of what is cut."""
        k = node.facts.constants
        if k.clip_norm is None:
            return None
        least = k.clip_norm / k.data_norm * SHORT
        if std == 0:
            return least
        steps = node.rounds - 1
        spread = self._spread_of(form, std, node, least, steps, max(1, round(self.tail * steps)))
        noisy = 0.5 * math.fsum(form.values * spread)
        risks = [
            rounded(noisy * c * c + CUT * k.loss_scale * (1.0 - c / LOOSER[-1]) ** 3)
            for c in LOOSER
        ]
        return least * LOOSER[risks.index(min(risks))]

    def _spread(self, form: Quadratic, std: float, node: Node, kept: bool) -> Array:
        """(d,) the variance that noise gives the centre along the vectors: what each step adds,
        and what the later ones and the average leave of it."""
        clip, done = self._clip(form, std, node), node.turn - 1
        if clip is None or std == 0:
            return np.zeros(len(form.values))
        averaged = max(1, round(self.tail * (node.rounds - 1))) if kept else 1
        return self._spread_of(form, std, node, clip, done, averaged)

    def _spread_of(
        self, form: Quadratic, std: float, node: Node, clip: float, done: int, averaged: int
    ) -> Array:
        """(d,) that of the average of `averaged` of `done` steps whose gradients are clipped."""
        k, steps = node.facts.constants, node.rounds - 1
        p = form.columns(std, k.loss_scale)
        # The moment's noise tells the gradient's: one multiplier, sensitivities 2 G c/m and B^2/m
        moment = node.facts.worst_moment_sensitivity() * k.loss_scale
        gradient = node.facts.sum_change * clip * k.loss_scale / node.facts.smallest
        weight = self.share / (1 - self.share) * steps
        each = std / moment * math.sqrt(weight) * gradient / (p * form.values)
        bent = np.maximum(1.0 - ridge_of(len(form.values), std) / form.values, 0.0)
        tail = min(1.0, averaged / done)
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
        if self.noise == "masked":
            mean = unit * node.release_mean(value / unit, noise="masked", weight=weight)
            return np.asarray(mean[0], float), node.mean_std(unit, mean.shape[1], weight)
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
        return "masked" if self.noise == "masked" else "gaussian"

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        moment = facts.moment_bound(self.label_scale, self.label_bound)
        share = (records + math.sqrt(2) * noise) / facts.smallest
        return max(super().largest_mean(facts, records, noise), moment * max(1.0, share))

    @property
    def traits(self) -> Traits:
        masks = self.noise == "masked"
        return replace(
            super().traits,
            masks=masks,
            joins_groups=masks,
            exact_means_only=not masks,
            reaches_consensus=True,
        )

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
                      its gradient to the error; 1 - h/q of it is kept along an eigenvector of
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
