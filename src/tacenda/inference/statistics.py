"""What records are asked for inference: their gradients and curvature at a public model.

One record's vector, of norm at most 1, with l' and l'' the loss's derivatives in the score x'w:

    sqrt(a) l'' xx' / (C B^2)      packed; C: bound of l'', B: of |x|
    sqrt(b) l' x / (S B)           S: bound of l', to which it is cut
    sqrt(c) l'^2 xx' / (S B)^2     packed (robust), or l'^2 / S^2 alone
    sqrt(e) [l' was cut]           only where the loss has no bound of its own

The shares a + b + c + e = 1 divide the budget (mu^2): noise on a block has 1/sqrt(share) of the
size that it would have alone.

How far two records' vectors are apart. With t the cosine between their x, |uu' - vv'|^2 of two
matrices of length at most 1 is convex in the lengths, so at most max(1, 2 - 2t^2), and |u - v|^2 of
two rows at most 2 + 2|t|: opposite gradients need parallel rows, whose matrices are alike. So

    |u - v|^2 <= max over t of (a + c) max(1, 2 - 2t^2) + 2 b (1 + t), plus e

which is 2.1 instead of 4 (c counts once where the spread is l'^2 alone).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks, losses
from tacenda._types import Array, Floats
from tacenda.errors import UnsupportedError
from tacenda.questions.moments import packed, packed_length, unpacked
from tacenda.questions.statistics import (
    ALONE,
    PAIRS,
    ROUGHNESS,
    ROW,
    Factored,
    Records,
    Statistic,
    register,
)

CURVATURE, GRADIENT, VARIANCE, CUT = 0.45, 0.35, 0.19, 0.01
FULL, SCALAR, NONE = "full", "scalar", "none"

# What hidden directions are assumed to move a score by at most
HIDDEN_SCORE = 50.0  # in log odds or logarithms of rates
HIDDEN_LABELS = 10.0  # in bounds of the label, where a score is in its unit: five whole ranges


@register
@dataclass(frozen=True)
class GradientMoments(Statistic):
    """Gradient, curvature and spread of the records' loss at a public model.

    Parameters
    ----------
    n_features : int
        d, the length of a record.
    loss : str
        Name of a smooth loss of one score.
    options : tuple of pairs, default=()
        The loss's own settings, as (name, value).
    data_norm : float, default=1.0
        B, the declared bound of |x|.
    slope : float, default=1.0
        S, to which the loss's derivative in the score is cut.
    curvature : bool, default=True
        Whether the curvature is asked.
    spread : {"full", "scalar", "none"}, default="full"
        Whether the second moment of the gradients is asked, or the mean square of l' alone.
    bend : float or None, default=None
        C, to which its second derivative is cut; None: its own bound, and nothing is cut where
        `slope` is the loss's own.

    Examples
    --------
    >>> from tacenda.inference import GradientMoments
    >>> GradientMoments(3, "logistic").length
    15
    """

    name: ClassVar[str] = "gradient moments"

    n_features: int
    loss: str
    options: tuple[tuple[str, Any], ...] = ()
    data_norm: float = 1.0
    slope: float = 1.0
    curvature: bool = True
    spread: str = FULL
    bend: float | None = None

    def __post_init__(self) -> None:
        checks.whole("GradientMoments.n_features", self.n_features, least=1)
        checks.positive("GradientMoments.data_norm", self.data_norm)
        checks.positive("GradientMoments.slope", self.slope)
        checks.one_of("GradientMoments.spread", self.spread, (FULL, SCALAR, NONE))
        if self.bend is not None:
            checks.positive("GradientMoments.bend", self.bend)
        loss = self._loss
        if loss.kind == "multiclass" or not loss.smooth or not math.isfinite(loss.curvature):
            raise UnsupportedError(
                f"GradientMoments.loss must be a smooth loss of one score whose curvature is "
                f"bounded, not {self.loss!r}; use logistic, squared or huber."
            )

    @property
    def quadratic(self) -> bool:
        """Whether the loss has the same curvature everywhere."""
        return bool(self._loss.quadratic)

    @property
    def hidden_score(self) -> float:
        """What directions that noise hides are assumed to move a score by at most."""
        in_label_units = self._loss.predicts in ("value", "quantile")
        return HIDDEN_LABELS * max(self.slope, 1.0) if in_label_units else HIDDEN_SCORE

    @property
    def _loss(self) -> Any:
        return losses.by_name(self.loss, **dict(self.options))

    @property
    def most_bend(self) -> float:
        """To what the loss's second derivative is cut."""
        own = float(self._loss.curvature)
        return own if self.bend is None else min(self.bend, own)

    @property
    def cuts(self) -> bool:
        """Whether derivatives may be cut."""
        return self.bend is not None or bool(self._loss.slope > self.slope * (1 + 1e-12))

    @property
    def shares(self) -> dict[str, float]:
        """The share of the budget that each block has, by its name, in the order of the vector."""
        asked = {
            "curvature": CURVATURE if self.curvature else 0.0,
            "gradient": GRADIENT,
            "spread": 0.0 if self.spread == NONE else VARIANCE,
            "cut": CUT if self.cuts else 0.0,
        }
        total = math.fsum(asked.values())
        return {name: share / total for name, share in asked.items() if share > 0}

    @property
    def units(self) -> dict[str, float]:
        """By how much each block of a released sum is multiplied to be a sum of the real ones."""
        pull = self.slope * self.data_norm
        real = {
            "curvature": self.most_bend * self.data_norm**2,
            "gradient": pull,
            "spread": self.slope**2 if self.spread == SCALAR else pull**2,
            "cut": 1.0,
        }
        return {name: real[name] / math.sqrt(share) for name, share in self.shares.items()}

    @property
    def lengths(self) -> dict[str, int]:
        """How many numbers each block has."""
        d = self.n_features
        square = packed_length(d)
        own = {
            "curvature": square,
            "gradient": d,
            "spread": 1 if self.spread == SCALAR else square,
            "cut": 1,
        }
        return {name: own[name] for name in self.shares}

    @property
    def length(self) -> int:
        return sum(self.lengths.values())

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return False

    @property
    def replaced(self) -> float:
        shares = self.shares
        squares = shares.get("curvature", 0.0) + (
            shares.get("spread", 0.0) if self.spread == FULL else 0.0
        )
        gradient = shares["gradient"]
        # Where the first form is largest; from t = sqrt(1/2) on the second is, at t = 1
        t = min(gradient / (2.0 * squares), math.sqrt(0.5)) if squares else math.sqrt(0.5)
        apart = max(
            squares * (2.0 - 2.0 * t * t) + 2.0 * gradient * (1.0 + t), squares + 4.0 * gradient
        )
        alone = 1.0 - squares - gradient
        return min(math.sqrt(apart + alone) * (1.0 + ROUGHNESS), self.loosely_replaced)

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        loss = self._loss
        if (n_features, n_outputs, kind) != (self.n_features, 1, loss.kind):
            raise UnsupportedError(
                f"Intervals of coefficients are for problems with one score, {self.n_features} "
                f"features and labels of the kind {loss.kind!r}, not for {n_outputs} scores, "
                f"{n_features} features and the kind {kind!r}; use a loss of one score, or one "
                "class against the rest."
            )

    def vectors(self, records: Records, model: Floats) -> Array:
        x, kinds, factors, units = self.factored(records, model)
        pairs = packed(x[:, :, None] * x[:, None, :]) if PAIRS in kinds else None
        with_features = {PAIRS: pairs, ROW: x, ALONE: 1.0}
        return np.hstack(
            [
                factor[:, None] * with_features[kind] / unit
                for kind, factor, unit in zip(kinds.tolist(), factors, units, strict=True)
            ]
        )

    def factored(self, records: Records, model: Floats) -> Factored:
        loss = self._loss
        s = records.scores(model)[:, 0]
        slopes = np.asarray(loss.derivative(s, records.labels))
        cut = np.clip(slopes, -self.slope, self.slope)
        spread = ALONE if self.spread == SCALAR else PAIRS
        kinds = {"curvature": PAIRS, "gradient": ROW, "spread": spread, "cut": ALONE}
        factors = {
            "gradient": cut,
            "spread": cut**2,
            "cut": (np.abs(slopes) > self.slope).astype(float),
        }
        if "curvature" in self.shares:
            bent = np.clip(np.asarray(loss.second(s, records.labels)), 0.0, self.most_bend)
            # Where l' is cut it does not bend
            bent = np.where(np.abs(slopes) > self.slope, 0.0, bent) if self.cuts else bent
            factors["curvature"] = bent
        names = list(self.shares)
        return Factored(
            self._within(records.dense),
            np.array([kinds[name] for name in names], np.int64),
            np.array([factors[name] for name in names], float),
            np.array([self.units[name] for name in names]),
        )

    def _within(self, rows: Floats) -> Floats:
        """Rows no longer than `data_norm`, as `replaced` has it; a Problem's own are already."""
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not (lengths > self.data_norm * (1.0 + 1e-9)).any():
            return rows
        return np.asarray(rows / np.maximum(1.0, lengths / self.data_norm)[:, None])

    def means(self, total: Floats, count: float) -> dict[str, Floats]:
        """Take a released sum apart.

        total: shape (length,), or (n, length) for several nodes. count: by how many records it is
        divided. Result: the mean of each block in its own units; symmetric matrices unpacked.
        """
        found, at = {}, 0
        for name, length in self.lengths.items():
            part = np.asarray(total, float)[..., at : at + length] * (self.units[name] / count)
            square = name == "curvature" or (name == "spread" and self.spread == FULL)
            found[name] = unpacked(part) if square else part
            at += length
        return found
