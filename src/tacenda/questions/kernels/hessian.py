"""Compiled second-order parts of the local solver: Hessians, their inverse,
and products with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST_BODY, FAST_INNER, njit
from tacenda.losses.compiled import curvature_of, softmax_minus_label
from tacenda.questions.kernels.rows import add, dot, weight_at


def add_outer(rows: Any, weights: Any, first: int, last: int, out: Any) -> None:
    """Lower triangle of out += sum_j weights[j - first] x_j x_j^T over the records first ..
    last - 1; weights of at least 0."""
    raise TypeError("add_outer is only for compiled code.")


@njit(**FAST_INNER)
def products(left: Any, right: Any, count: int, out: Any) -> None:
    """out (2, 4) = the products of the rows of left (2, n) and right (4, n), up to `count`."""
    a, b, c, d, e, f = left[0], left[1], right[0], right[1], right[2], right[3]
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for j in range(count):
        s += a[j] * c[j]
        t += a[j] * d[j]
        u += a[j] * e[j]
        v += a[j] * f[j]
        w += b[j] * c[j]
        x += b[j] * d[j]
        y += b[j] * e[j]
        z += b[j] * f[j]
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s, t, u, v
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = w, x, y, z


@overload(add_outer, jit_options=FAST_BODY)
def _add_outer(rows: Any, weights: Any, first: int, last: int, out: Any) -> Any:
    def dense(rows: Any, weights: Any, first: int, last: int, out: Any) -> None:
        # Some records at a time, turned and times the root of their weight: then every entry is a
        # product of two long rows, and 2 x 4 of these go through them together.
        p, most = out.shape[0], max(32, min(256, (1 << 15) // out.shape[0]))
        turned, tile = np.zeros((p + 3, most + 8)), np.empty((2, 4))
        for begin in range(first, last, most):
            count = min(most, last - begin)
            for j in range(count):
                x, root = rows[begin + j], math.sqrt(weights[begin + j - first])
                for a in range(p):
                    turned[a, j] = root * x[a]
            for a in range(0, p, 2):
                for b in range(0, a + 2, 4):
                    products(turned[a : a + 2], turned[b : b + 4], count, tile)
                    for i in range(min(2, p - a)):
                        for k in range(min(4, a + i + 1 - b)):
                            out[a + i, b + k] += tile[i, k]

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
    lower, inverse = np.zeros((p, p)), np.zeros((p + 3, p))
    add_outer(rows, factor * curves[:, 0], first, last, lower)
    for a in range(p):
        lower[a, a] += ridge
    if not cholesky(lower) or not invert_lower(lower, inverse):
        return False
    lower[:] = 0.0  # from here on the inverse: L^-T L^-1, four rows of L^-1 at a time
    for k in range(0, p, 4):
        r, s, t, u = inverse[k], inverse[k + 1], inverse[k + 2], inverse[k + 3]
        for a in range(min(k + 4, p)):
            line = lower[a]
            for b in range(a + 1):
                line[b] += r[a] * r[b] + s[a] * s[b] + t[a] * t[b] + u[a] * u[b]
    for a in range(p):
        for b in range(a + 1):
            out[a, b] = out[b, a] = lower[a, b]
    return True


@njit(**FAST_INNER)
def cholesky(matrix: Any) -> bool:
    """Replace the lower triangle of `matrix` by its Cholesky factor;
    False if a pivot is not positive."""
    for k in range(matrix.shape[0]):
        line = matrix[k]
        part = 0.0
        for j in range(k):
            part += line[j] * line[j]
        pivot = line[k] - part
        if not pivot > 0.0:
            return False
        line[k] = math.sqrt(pivot)
        for i in range(k + 1, matrix.shape[0]):
            below, part = matrix[i], 0.0
            for j in range(k):
                part += below[j] * line[j]
            below[k] = (below[k] - part) / line[k]
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
