"""Eigenvectors of a small symmetric matrix by Jacobi's rotations, to the same bits everywhere.

Members compute the same public map from the same released matrix. LAPACK's answer depends on the
machine and on its number of threads; these loops use +, *, / and sqrt in one fixed order only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._jit import EXACT, njit
from tacenda._types import Array

SWEEPS = 60  # far above what a symmetric matrix needs; each one at least squares what is left


def eigen(matrix: Array) -> tuple[Array, Array]:
    """(values (d,), descending, vectors (d, d) as columns) of the symmetric matrix (d, d).

    Each vector's first entry of the largest absolute value is positive.
    """
    a = np.array((matrix + matrix.T) / 2, np.float64, order="C")
    vectors = np.eye(len(a))
    _rotate(a, vectors, SWEEPS)
    values = np.diag(a).copy()
    order = np.argsort(-values, kind="stable")
    vectors = vectors[order]
    leading = vectors[np.arange(len(a)), np.abs(vectors).argmax(axis=1)]
    return values[order], np.ascontiguousarray((vectors * np.sign(leading)[:, None]).T)


@njit(**EXACT)
def _rotate(a: Any, vectors: Any, sweeps: int) -> None:
    """Cyclic rotations until nothing is left off the diagonal of a; rows of `vectors` follow."""
    d = a.shape[0]
    for _ in range(sweeps):
        turned = False
        for p in range(d - 1):
            for q in range(p + 1, d):
                off = a[p, q]
                size = abs(a[p, p]) + abs(a[q, q])
                if off == 0.0 or size + abs(off) * 0.125 == size:
                    continue
                turned = True
                theta = (a[q, q] - a[p, p]) / (2.0 * off)
                t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                t = -t if theta < 0.0 else t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                app, aqq = a[p, p] - t * off, a[q, q] + t * off
                row, other = a[p], a[q]
                for k in range(d):
                    x, y = row[k], other[k]
                    row[k] = c * x - s * y
                    other[k] = s * x + c * y
                a[p, p], a[q, q], a[p, q], a[q, p] = app, aqq, 0.0, 0.0
                for k in range(d):
                    a[k, p], a[k, q] = row[k], other[k]
                mine, its = vectors[p], vectors[q]
                for k in range(d):
                    x, y = mine[k], its[k]
                    mine[k] = c * x - s * y
                    its[k] = s * x + c * y
        if not turned:
            return
