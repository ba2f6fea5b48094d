"""The centralised optimum for the hinge, the absolute deviation and the quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import losses
from tacenda._jit import FAST, FAST_INNER, njit
from tacenda._types import Floats
from tacenda.errors import TacendaError, UnsupportedError
from tacenda.losses import Loss
from tacenda.questions.kernels.rows import add, dot
from tacenda.questions.solver.pooled import Pooled

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem


_EPOCHS = 20_000
_EPOCHS_PER_CHECK = 20


def solve(problem: Problem, pooled: Pooled, tolerance: float) -> Floats:
    """Dual coordinate ascent if r R is strongly convex, else a linear program."""
    if not problem.loss.has_two_lines:
        raise UnsupportedError(
            f"The reference optimum of a loss with kinks is known for {_known()}, not for "
            f"{problem.loss.name!r}; run without the metrics that need it, or give the loss a "
            "finite curvature."
        )
    if pooled.l2 > 0:
        return _ascend(problem, pooled, tolerance)
    return _linear_program(pooled)


def _known() -> str:
    """The names of the losses of two lines."""
    names = [repr(n) for n in losses.names() if losses.by_name(n).has_two_lines]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _ascend(problem: Problem, pooled: Pooled, tolerance: float) -> Floats:
    """Maximise sum_j a_j y_j beta_j - g*(v), v = sum_j a_j beta_j x_j, g = l1|.|_1 + (l2/2)|.|^2,
    until the gap is closed.

    All of them give this dual; only the box differs: y beta in [0, 1] for the hinge, beta in [-1,
    1] for |s - y|, in [q - 1, q] for the quantile of level q. The primal point is w = soft(v,
    l1)/l2. P(w) - D(beta) bounds how far w is from optimal, and is checked against max(1, P).
    """
    y = pooled.labels
    hinge = problem.loss.kind == "binary"
    falls, rises = steepest(problem.loss)
    low, high = (
        (np.minimum(y, 0.0), np.maximum(y, 0.0))
        if hinge
        else (np.full(len(y), -rises), np.full(len(y), falls))
    )
    beta, v, squares = np.zeros(len(y)), np.zeros(pooled.dim), problem.store.norms**2
    gap = np.inf
    for epoch in range(0, _EPOCHS, _EPOCHS_PER_CHECK):
        ascend(
            problem.store.kernel_rows,
            y,
            pooled.weights,
            squares,
            low,
            high,
            pooled.l1,
            pooled.l2,
            epoch,
            _EPOCHS_PER_CHECK,
            beta,
            v,
        )
        w = np.sign(v) * np.maximum(np.abs(v) - pooled.l1, 0.0) / pooled.l2
        primal = pooled.composite_value(w)
        dual = float(pooled.weights @ (y * beta)) - 0.5 * pooled.l2 * float(w @ w)
        gap = (primal - dual) / max(1.0, abs(primal))
        if gap <= tolerance:
            return w
    raise TacendaError(
        f"The reference solver stopped at a duality gap of {gap:.1e} above "
        f"tolerance={tolerance:g}; use a larger tolerance or a larger strength."
    )


def steepest(loss: Loss) -> tuple[float, float]:
    """How steeply a loss of the residual falls below 0 and rises above it."""
    below, above = loss.derivative(np.array([-1.0, 1.0]), np.zeros(2))
    return float(-below), float(above)


@njit(**FAST)
def ascend(
    rows: Any,
    y: Any,
    weights: Any,
    squares: Any,
    low: Any,
    high: Any,
    l1: float,
    l2: float,
    start: int,
    epochs: int,
    beta: Any,
    v: Any,
) -> None:
    """Passes of coordinate ascent over beta, each in another fixed order; v = sum_j weights_j
    beta_j x_j is kept up."""
    count, d = y.shape[0], v.shape[0]
    w = np.empty(d)
    for epoch in range(start, start + epochs):
        stride = stride_of(count, epoch)
        j = epoch % count
        for a in range(d):  # once per pass from scratch, so that rounding does not pile up in w
            w[a] = np.sign(v[a]) * max(abs(v[a]) - l1, 0.0) / l2
        for _ in range(count):
            j = (j + stride) % count
            if weights[j] * squares[j] > 0.0:
                goal = beta[j] + l2 * (y[j] - dot(rows, j, w, 0, d)) / (weights[j] * squares[j])
                step = min(max(goal, low[j]), high[j]) - beta[j]
                beta[j] += step
                if step != 0.0:
                    add(rows, j, weights[j] * step, v, 0, d)
                    if l1 == 0.0:
                        add(rows, j, weights[j] * step / l2, w, 0, d)
                    else:
                        for a in range(d):
                            w[a] = np.sign(v[a]) * max(abs(v[a]) - l1, 0.0) / l2
            else:
                beta[j] = high[j] if y[j] > 0.0 else low[j]


@njit(**FAST_INNER)
def stride_of(count: int, epoch: int) -> int:
    """A step coprime to `count`, another one for each epoch,
    so that a pass visits all records in a scattered order."""
    stride = 1 + (epoch * 7919 + int(count * 0.6180339887)) % count
    while True:
        a, b = stride, count
        while b:
            a, b = b, a % b
        if a == 1:
            return stride
        stride += 1


def _linear_program(pooled: Pooled) -> Floats:
    """Variables (w+, w-, slack);
    slack_j bounds the loss of record j from above and is minimised."""
    from scipy import sparse
    from scipy.optimize import linprog

    x = sparse.csr_array(pooled.rows, dtype=np.float64)
    y, d, identity = pooled.labels, pooled.dim, sparse.eye_array(len(pooled.labels), format="csr")
    if pooled.loss.kind == "binary":
        signed = x.multiply(y[:, None]).tocsr()
        table = sparse.hstack([-signed, signed, -identity], format="csr")
        bound = -np.ones(len(y))
    else:
        falls, rises = steepest(pooled.loss)
        above = sparse.hstack([rises * x, -rises * x, -identity])
        below = sparse.hstack([-falls * x, falls * x, -identity])
        table = sparse.vstack([above, below], format="csr")
        bound = np.concatenate([rises * y, -falls * y])
    cost = np.concatenate([np.full(2 * d, pooled.l1), pooled.weights])
    answer = linprog(cost, A_ub=table, b_ub=bound, bounds=(0, None), method="highs")
    if answer.status != 0:
        raise TacendaError(f"The linear program of the reference solution failed: {answer.message}")
    return np.asarray(answer.x[:d] - answer.x[d : 2 * d])
