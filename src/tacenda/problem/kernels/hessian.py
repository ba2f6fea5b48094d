"""Compiled second-order parts of the local solver: Hessians, their inverse,
and products with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST_BODY, FAST_INNER, njit
from tacenda.problem.kernels.rows import add, curvature_of, dot, softmax_minus_label, weight_at


def add_outer(rows: Any, weights: Any, first: int, last: int, out: Any) -> None:
    """Lower triangle of out += sum_j weights[j - first] x_j x_j^T over the records first ..
    last - 1."""
    raise TypeError("add_outer is only for compiled code.")


@overload(add_outer, jit_options=FAST_BODY)
def _add_outer(rows: Any, weights: Any, first: int, last: int, out: Any) -> Any:
    def dense(rows: Any, weights: Any, first: int, last: int, out: Any) -> None:
        p, j = out.shape[0], first
        while j < last:  # four records at a time: the matrix is read and written a quarter as often
            stop = min(last - 1, j + 3)
            x0 = rows[j]
            x1 = rows[min(j + 1, stop)]
            x2 = rows[min(j + 2, stop)]
            x3 = rows[min(j + 3, stop)]
            c0 = weights[j - first]
            c1 = weights[j + 1 - first] if j + 1 < last else 0.0
            c2 = weights[j + 2 - first] if j + 2 < last else 0.0
            c3 = weights[j + 3 - first] if j + 3 < last else 0.0
            for a in range(p):
                f0, f1, f2, f3, line = c0 * x0[a], c1 * x1[a], c2 * x2[a], c3 * x3[a], out[a]
                for b in range(a + 1):
                    line[b] += f0 * x0[b] + f1 * x1[b] + f2 * x2[b] + f3 * x3[b]
            j += 4

    def sparse(rows: Any, weights: Any, first: int, last: int, out: Any) -> None:
        data, indices, indptr = rows
        for j in range(first, last):
            for s in range(indptr[j], indptr[j + 1]):
                f, line = weights[j - first] * data[s], out[indices[s]]
                # Indices rise within a record, so this is the lower triangle
                for t in range(indptr[j], s + 1):
                    line[indices[t]] += f * data[t]

    return sparse if isinstance(rows, types.BaseTuple) else dense


@njit(**FAST_INNER)
def curvatures(
    rows: Any,
    labels: Any,
    first: int,
    last: int,
    w: Any,
    classes: Any,
    code: int,
    numbers: Any,
    out: Any,
) -> None:
    """out[j]: loss'' of each record at w, (m, 1), where classes is None; else the softmax of its
    scores, (m, K)."""
    p = w.shape[0] // out.shape[1]
    for j in range(first, last):
        line = out[j - first]
        if classes is None:
            line[0] = curvature_of(code, numbers, dot(rows, j, w, 0, p), labels[j])
        else:
            for k in range(classes):
                line[k] = dot(rows, j, w, k * p, p)
            softmax_minus_label(line, int(labels[j]), numbers[0], 0.0)


@njit(**FAST_INNER)
def hessian_product(
    rows: Any,
    weights: Any,
    first: int,
    last: int,
    curves: Any,
    v: Any,
    factor: float,
    ridge: Any,
    out: Any,
) -> None:
    """out = factor * sum_j weight_j H_j v + ridge v, with H_j from `curvatures`; of K scores:
    u = q (t - q.t), t = V x. ridge: a number, or one for each coordinate."""
    classes = curves.shape[1]
    p = v.shape[0] // classes
    out[:] = 0.0
    t = np.empty(classes)
    for j in range(first, last):
        q, weight = curves[j - first], weight_at(weights, j)
        if classes == 1:
            add(rows, j, weight * q[0] * dot(rows, j, v, 0, p), out, 0, p)
        else:
            mean = 0.0
            for k in range(classes):
                t[k] = dot(rows, j, v, k * p, p)
                mean += q[k] * t[k]
            for k in range(classes):
                add(rows, j, weight * q[k] * (t[k] - mean), out, k * p, p)
    for a in range(v.shape[0]):
        out[a] = factor * out[a] + weight_at(ridge, a) * v[a]


@njit(**FAST_INNER)
def inverse_hessian(
    rows: Any,
    labels: Any,
    weights: Any,
    first: int,
    last: int,
    w: Any,
    code: int,
    numbers: Any,
    factor: float,
    ridge: float,
    out: Any,
) -> bool:
    """out (p, p) float32 = (factor sum_j weight_j loss''_j x_j x_j^T + ridge I)^-1;
    False if that is not positive definite."""
    p = w.shape[0]
    curves = np.empty((last - first, 1))
    curvatures(rows, labels, first, last, w, None, code, numbers, curves)
    for j in range(first, last):
        curves[j - first, 0] *= weight_at(weights, j)
    lower, inverse = np.zeros((p, p)), np.zeros((p, p))
    add_outer(rows, factor * curves[:, 0], first, last, lower)
    for a in range(p):
        lower[a, a] += ridge
    if not cholesky(lower) or not invert_lower(lower, inverse):
        return False
    lower[:] = 0.0  # from here on the inverse: L^-T L^-1, one row of L^-1 after the other
    for k in range(p):
        row = inverse[k]
        for a in range(k + 1):
            f, line = row[a], lower[a]
            for b in range(a + 1):
                line[b] += f * row[b]
    for a in range(p):
        for b in range(a + 1):
            out[a, b] = out[b, a] = lower[a, b]
    return True


@njit(**FAST_INNER)
def cholesky(matrix: Any) -> bool:
    """Replace the lower triangle of `matrix` by its Cholesky factor;
    False if a pivot is not positive."""
    for i in range(matrix.shape[0]):
        line = matrix[i]
        for j in range(i + 1):
            other, total = matrix[j], line[j]
            part = 0.0
            for k in range(j):
                part += line[k] * other[k]
            total -= part
            if j < i:
                line[j] = total / other[j]
            elif total > 0.0:
                line[j] = math.sqrt(total)
            else:
                return False
    return True


@njit(**FAST_INNER)
def invert_lower(lower: Any, out: Any) -> bool:
    """out = lower^-1 for a lower triangular matrix; out starts at zero."""
    for i in range(lower.shape[0]):
        line = out[i]
        for k in range(i):
            f, done = lower[i, k], out[k]
            for b in range(k + 1):
                line[b] -= f * done[b]
        scale = 1.0 / lower[i, i]
        if not math.isfinite(scale):
            return False
        for b in range(i):
            line[b] *= scale
        line[i] = scale
    return True
