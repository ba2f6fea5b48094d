"""The local solver that cannot fail: argmin_u (c/m) sum_j loss(anchor + u; x_j, y_j) + (kappa/2)
|u|^2, seen from the anchor.

With kappa = r l2 + 2q and anchor = (2q centre - linear)/kappa this is the argmin of
`problem.queries`, whatever floats these are. What is large, the anchor, is public; what is private,
u, is small: |u| <= B/kappa, B = G c times records over m. So the gradient at u is computed to about
2^-53 B, at anchors of 1e9 as at 0, where the compiled solver would have nothing but rounding errors
left. It is slower than the compiled solver, and is asked only where that one does not reach the
tolerance, or where the anchor is so far away that it could not tell.

Newton's method comes first. Should it ever stop short of the tolerance, accelerated descent with
the public constants finishes: after N = sqrt(L/kappa) ln(2 L B^2/(kappa tolerance^2)) steps, L =
kappa + c * curvature * data_norm^2 times records over m, its gradient norm is at most the
tolerance, by

    F(u_N) - F(u*) <= exp(-N sqrt(kappa/L)) B^2/kappa,      |gradient F(u)|^2 <= 2 L (F(u) - F(u*)).

Declarations for which N may exceed a million are refused before any record is asked
(`Facts.check_solver`, by public numbers).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Floats
from tacenda.questions.facts import descent_steps
from tacenda.questions.solver.local import check_supported
from tacenda.questions.solver.pooled import Pooled
from tacenda.questions.solver.reference import newton

if TYPE_CHECKING:
    from tacenda.questions.store import Store


def can_solve(store: Store, convexity: Any) -> bool:
    """Whether a bound of the gradient and strong convexity guarantee an answer; so they do wherever
    noise is drawn for it."""
    return math.isfinite(store.loss.slope) and bool(np.all(np.asarray(convexity) > 0))


def argmin(store: Store, nodes: Any, anchors: Any, convexity: Any, tolerance: float) -> Floats:
    """u (b, d) for each row, to gradient norm <= tolerance; never raises for what the records or
    the anchors hold. convexity (b,), or (b, d): one for each coordinate."""
    check_supported(store)
    out = np.empty((len(nodes), store.dim))
    with np.errstate(all="ignore"):
        for k, node in enumerate(nodes):
            part = Pooled.around(store, int(node), anchors[k], convexity[k])
            start, free = np.zeros(store.dim), np.full(store.dim, True)
            u, norm = newton(part, start, start, free, tolerance)
            out[k] = u if norm <= tolerance else descend(part, store, int(node), tolerance)
    return out


def descend(part: Pooled, store: Store, node: int, tolerance: float) -> Floats:
    """Accelerated descent from 0, for the number of steps that its proof asks for."""
    share = store.loss_scale * float(store.sizes[node] / store.divisors[node])
    largest = float(store.norms[store.offsets[node] : store.offsets[node + 1]].max(initial=0.0))
    kappa = float(np.min(part.l2))
    smooth = float(np.max(part.l2)) + share * store.loss.curvature * largest**2
    bound = share * store.loss.slope * largest
    u = v = np.zeros(part.dim)
    if bound == 0.0:
        return u
    momentum = (math.sqrt(smooth) - math.sqrt(kappa)) / (math.sqrt(smooth) + math.sqrt(kappa))
    for _ in range(descent_steps(smooth, kappa, bound, tolerance)):
        g = part.gradient(v) + part.l2 * v
        if np.linalg.norm(g) <= tolerance:
            return v
        new = v - g / smooth
        u, v = new, new + momentum * (new - u)
    return u
