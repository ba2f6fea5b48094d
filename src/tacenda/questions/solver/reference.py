"""The centralised optimum of (1/n) sum_i f_i: the yardstick of simulations and tests. Reads private
data without noise.

loss        regulariser      method                                   stops when
smooth      none, l2         Newton (factorised, or by CG if large)   gradient norm <= tolerance
smooth      l1, elastic net  accelerated proximal steps,              |w - prox(w - gradient)|
                             then Newton on the support               <= tolerance
smooth      one's own        accelerated proximal steps               the same residual
not smooth  l2, elastic net  dual coordinate ascent                   duality gap <= tolerance
not smooth  none, l1         linear program (HiGHS)                   its own optimality test
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tacenda._types import Flags, Floats
from tacenda.errors import TacendaError
from tacenda.questions.solver.pooled import Pooled

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem


_FACTORISE_UP_TO = 1500
_MAX_NEWTON = 200
_PROXIMAL_STEPS = 60


def solve(problem: Problem, tolerance: float) -> Floats:
    """The optimum, (d,); raises if the tolerance is not reached."""
    pooled = Pooled.of(problem)
    if not problem.loss.smooth:
        from tacenda.questions.solver import nonsmooth as solver_nonsmooth

        return solver_nonsmooth.solve(problem, pooled, tolerance)
    if pooled.own is None and problem.regulariser.smooth:
        w, norm = newton(
            pooled,
            np.zeros(problem.dim),
            np.zeros(problem.dim),
            np.full(problem.dim, True),
            tolerance,
        )
    else:
        w, norm = _composite(pooled, np.zeros(problem.dim), tolerance)
    if not norm <= tolerance:
        raise TacendaError(
            f"The reference solver stopped at optimality residual {norm:.1e} above "
            f"tolerance={tolerance:g}; use a larger tolerance, "
            "or more l2 regularisation if the minimum may not exist."
        )
    return w


def newton(
    pooled: Pooled, w: Floats, shift: Floats, free: Flags, tolerance: float
) -> tuple[Floats, float]:
    """Minimise F(w) + (l2/2)|w|^2 + shift.w over the free coordinates; returns (w, gradient norm
    there).

    A step is accepted if it halves the gradient norm or if the slope along it is not yet positive.
    """

    def gradient(point: Floats) -> Floats:
        return np.asarray((pooled.gradient(point) + pooled.l2 * point + shift)[free])

    g = gradient(w)
    norm = float(np.linalg.norm(g))
    for _ in range(_MAX_NEWTON):
        if norm <= tolerance:
            break
        p = np.zeros(len(w))
        p[free] = _direction(pooled, w, g, free, max(min(0.1, norm**0.5) * norm, 0.1 * tolerance))
        w, g, moved = _line_search(gradient, w, p, p[free], g, norm)
        norm = float(np.linalg.norm(g))
        if not moved:
            break
    return w, norm


def _line_search(
    gradient: Callable[[Floats], Floats],
    w: Floats,
    p: Floats,
    p_free: Floats,
    g: Floats,
    norm: float,
) -> tuple[Floats, Floats, bool]:
    fall, t, best = -float(g @ p_free), 1.0, (w, g, False)
    for _ in range(60):
        trial = gradient(w + t * p)
        rise = float(trial @ p_free)
        if np.linalg.norm(trial) <= 0.5 * norm or rise <= 0.0:
            best = (w + t * p, trial, True)
            if rise > -0.9 * fall:
                return best
            # the slope has hardly changed: a straight stretch, to be left in longer strides
            t *= 4.0
        elif best[2]:
            return best
        else:
            t *= min(max(fall / (fall + rise), 0.1), 0.9)
    return best


def _direction(pooled: Pooled, w: Floats, g: Floats, free: Flags, goal: float) -> Floats:
    """-(Hessian on the free coordinates)^-1 g, factorised if that is affordable and possible, else
    by CG.

    The Hessian is lifted by a hundredth of the gradient norm: where the loss is flat a step stays
    finite, and near the optimum the lift vanishes faster than it could slow the convergence.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    ridge = pooled.l2 + 0.01 * float(np.linalg.norm(g))
    if pooled.n_outputs == 1 and pooled.dim <= _FACTORISE_UP_TO:
        matrix = pooled.hessian(w)[np.ix_(free, free)]
        matrix[np.diag_indices_from(matrix)] += ridge
        try:
            return -np.asarray(cho_solve(cho_factor(matrix, lower=True), g))
        except LinAlgError:
            pass  # singular: no l2 and dependent columns; CG stays in the range of the Hessian
    product, wide = pooled.hessian_product(w), np.zeros(pooled.dim)

    def apply(v: Floats) -> Floats:
        wide[free] = v
        return np.asarray(product(wide)[free] + ridge * v)

    return _conjugate_gradient(apply, g, goal)


def _conjugate_gradient(apply: Callable[[Floats], Floats], g: Floats, goal: float) -> Floats:
    p, residual, search = np.zeros_like(g), -g, -g
    square = float(g @ g)
    for _ in range(min(10 * len(g), 2000)):
        image = apply(search)
        curved = float(search @ image)
        if curved <= 1e-300:
            return p if p.any() else search
        p = p + square / curved * search
        residual = residual - square / curved * image
        new = float(residual @ residual)
        if new**0.5 <= goal:
            break
        search, square = residual + new / square * search, new
    return p


def _composite(pooled: Pooled, w: Floats, tolerance: float) -> tuple[Floats, float]:
    """Proximal steps find the support and its signs; Newton on that support finds the digits."""
    best, norm = w, pooled.residual(w)
    bound = 1e-12
    for _ in range(_MAX_NEWTON):
        if norm <= tolerance:
            break
        w, bound = _accelerated(pooled, best, bound)
        polished = w if pooled.own is not None else _polish(pooled, w, tolerance)
        best = min((w, polished), key=pooled.residual)
        norm = pooled.residual(best)
    return best, norm


def _polish(pooled: Pooled, w: Floats, tolerance: float) -> Floats:
    """Newton on the support of w with its signs held; w itself if a sign would change."""
    free, signs = w != 0, np.sign(w)
    if not free.any():
        return w
    better, _ = newton(pooled, w.copy(), pooled.l1 * signs, free, 0.1 * tolerance)
    return better if (np.sign(better) == signs).all() else w


def _accelerated(pooled: Pooled, w: Floats, bound: float) -> tuple[Floats, float]:
    """Some accelerated proximal gradient steps
    with backtracking (`bound` estimates the smoothness) and restarts."""
    point, t, value = w, 1.0, pooled.composite_value(w)
    for _ in range(_PROXIMAL_STEPS):
        g, base = pooled.gradient(point), pooled.value(point)
        while True:
            new = pooled.prox(point - g / bound, 1.0 / bound)
            move = new - point
            allowed = base + float(g @ move) + 0.5 * bound * float(move @ move)
            if pooled.value(new) <= allowed + 1e-14 * abs(base) or bound > 1e15:
                break
            bound *= 2.0
        new_value = pooled.composite_value(new)
        if new_value > value and point is not w:
            point, t = w, 1.0  # restart: momentum has overshot
            continue
        t_new = 0.5 * (1.0 + (1.0 + 4.0 * t * t) ** 0.5)
        point, w, t, value = new + (t - 1.0) / t_new * (new - w), new, t_new, new_value
    return w, bound
