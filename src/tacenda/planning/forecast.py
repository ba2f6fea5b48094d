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
from tacenda.questions.constants import Constants

# of eigenvalues and signal: between independent features (0) and strongly correlated ones (1)
DECAY = 0.5
MANY = 4096  # directions beyond these are lumped together


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
        shape = constants.loss.typical
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
        return constants.loss.unit
    return 1.0 if constants.clip_norm is None else constants.clip_norm / constants.data_norm
