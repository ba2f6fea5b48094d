"""How far a noisy descent comes: a small model of the excess risk, from public quantities alone.

Private dual averaging with constant weights and T rounds is, for the network's average model, a
gradient descent of total step tau = T/offset whose whole noise depends on tau and not on T. Along
an eigenvector of the risk's Hessian with eigenvalue h

    left undone     exp(-2 (h + r) t) of the squared distance to the optimum, t = ln(1 + r tau)/r
    noise           V = tau s0^2 (exp(-r t) - exp(-2 (h + r) t)) / (2h + r)

with r the strong convexity and s0 the noise of the average: s0^2 = sum_i (s_i/mu)^2/n^2, s_i =
2Gc/m_i (replace-one). A long tau learns more and is noisier. What the Hessian is nobody may look
up, so a shape is assumed: eigenvalues that fall like 1/sqrt(k), with the trace that rows of norm
data_norm have at typical scores, and scores of typical size whose variance falls likewise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.algorithms.spectrum import COUNT_SIGNAL
from tacenda.problem.constants import Constants
from tacenda.problem.losses import Loss, NegativeBinomial, Poisson

# of eigenvalues and signal: between independent features (0) and strongly correlated ones (1)
DECAY = 0.5
MANY = 4096  # directions beyond these are lumped together


@dataclass(frozen=True)
class TypicalData:
    """What is assumed of the data: `curvature` of the loss at typical scores, `signal` the rms size
    of the scores to learn."""

    curvature: float
    signal: float


# A score of these is in a unit of its own, not in that of the residual at which a slope bites: the
# logarithm of a rate, or a quantile whose kink is smoothed a little
OWN_UNIT = ("poisson", "negative-binomial", "smoothed-quantile")


# By loss: logistic at scores around 1.5 has p (1 - p) about 0.15, and several classes have sum p (1
# - p) about 0.5; a hinge bends once, over scores of about 2; the targets of a regression are
# measured in units of the residual at which slope or clipping bites; a quantile's slope rises by 1
# over residuals of about 2. Counts: `losses.Poisson.typical_curvature`.
TYPICAL = {
    "logistic": TypicalData(0.15, 1.5),
    "multinomial": TypicalData(0.5, 1.5),
    "multiclass-hinge": TypicalData(0.5, 1.5),
    "hinge": TypicalData(0.3, 1.0),
    "smoothed-hinge": TypicalData(0.3, 1.0),
    "squared": TypicalData(1.0, 0.5),
    "huber": TypicalData(1.0, 0.5),
    "absolute-deviation": TypicalData(0.5, 0.5),
    "quantile": TypicalData(0.5, 0.5),
    "smoothed-quantile": TypicalData(0.5, 0.5),
}


def typical(loss: Loss) -> TypicalData:
    """What is assumed of the data under a loss; for a loss of somebody's own the mean curvature at
    scores, or residuals, of the typical size.

    By Stein's lemma E[loss''(s z)] = E[z loss'(s z)]/s for a standard normal z, kinks included.
    """
    known = TYPICAL.get(loss.name)
    if known is not None:
        return known
    if isinstance(loss, Poisson | NegativeBinomial):
        return TypicalData(loss.typical_curvature, COUNT_SIGNAL**0.5)
    signal = 0.5 if loss.kind == "regression" else 1.5
    spread = signal * (_unit(loss) if loss.kind == "regression" else 1.0)
    z, step = np.linspace(-8.0, 8.0, 4001, retstep=True)
    slopes = loss.derivative(spread * z, np.full(len(z), 1.0 if loss.kind == "binary" else 0.0))
    mean = float(np.sum(z * slopes * np.exp(-0.5 * z * z)) * step / math.sqrt(2 * math.pi))
    return TypicalData(mean / spread, signal)


def _unit(loss: Loss) -> float:
    """The residual at which the slope of a loss reaches its bound; 1 where it has kinks, or no
    bound."""
    unit = 1.0 if loss.name in OWN_UNIT else loss.slope / loss.curvature
    return unit if 0.0 < unit < math.inf else 1.0


@dataclass(frozen=True, eq=False)
class Landscape:
    """An assumed quadratic risk: eigenvalues (k,), how many directions each stands for, and the
    squared signal in each."""

    eigenvalues: Floats
    copies: Floats
    signal: Floats
    convexity: float

    @classmethod
    def assumed(cls, constants: Constants, dim: int) -> Landscape:
        """The landscape for a model of length dim, from the loss, data_norm and c."""
        shape = typical(constants.loss)
        k = np.arange(1, min(dim, MANY) + 1, dtype=float)
        copies = np.ones(len(k))
        copies[-1] += dim - len(k)
        fall = k**-DECAY
        trace = constants.loss_scale * shape.curvature * constants.data_norm**2
        eigenvalues = trace * fall / (copies @ fall)
        scale = signal_scale(constants)
        energy = constants.loss_scale * shape.curvature * (shape.signal * scale) ** 2
        return cls(
            eigenvalues,
            copies,
            energy * fall / (copies @ fall) / eigenvalues,
            constants.strong_convexity,
        )

    def excess(self, tau: float, noise: float, shrinking: bool = True) -> tuple[float, float]:
        """(left undone, noise): the two parts of the expected excess risk after a total step tau
        with s0 = noise.

        shrinking: dual averaging, whose steps 1/(r t + offset) shrink with r; else plain descent
        with equal steps, where t = tau and V = tau s0^2 (1 - exp(-2 (h + r) tau)) / (2 (h + r)).
        """
        h, r = self.eigenvalues, self.convexity
        if shrinking and r * tau > 1e-9:
            t = math.log1p(r * tau) / r
            kept = np.exp(-2 * (h + r) * t)
            spread = tau * noise**2 * (math.exp(-r * t) - kept) / (2 * h + r)
        else:
            kept = np.exp(-2 * (h + r) * tau)
            spread = tau * noise**2 * (1.0 - kept) / (2 * (h + r))
        target = self.signal * (h / (h + r)) ** 2
        weight = 0.5 * self.copies * (h + r)
        return float(weight @ (target * kept)), float(weight @ spread)

    def best_step(self, noise: float, shrinking: bool = True) -> float:
        """The total step tau with the least expected excess risk."""
        from scipy.optimize import minimize_scalar

        def risk(x: float) -> float:
            return sum(self.excess(math.exp(x), noise, shrinking))

        slowest, fastest = float(self.eigenvalues.min()), float(self.eigenvalues.max())
        grid = np.linspace(math.log(1e-3 / fastest), math.log(1e3 / slowest), 80)
        k = int(np.argmin([risk(x) for x in grid]))
        ends = (grid[max(0, k - 1)], grid[min(len(grid) - 1, k + 1)])
        found: Any = minimize_scalar(risk, bounds=ends, method="bounded")
        return math.exp(float(found.x))


def signal_scale(constants: Constants) -> float:
    """The unit of scores: 1 for classification; for regression the size of residual at which slope
    or clipping bites."""
    if constants.loss.kind != "regression":
        return 1.0
    if math.isfinite(constants.loss.slope) and math.isfinite(constants.loss.curvature):
        return _unit(constants.loss)
    return 1.0 if constants.clip_norm is None else constants.clip_norm / constants.data_norm
