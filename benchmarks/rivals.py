"""What we compare with: the same work in plain NumPy and SciPy, written the way one would."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize


def tables(problem: Any) -> tuple[Any, Any]:
    """X (n, m, p) and labels (n, m) of a problem with nodes of one size."""
    n, m = problem.n_nodes, int(problem.sizes[0])
    return problem.store.rows.reshape(n, m, -1), problem.store.labels.reshape(n, m)


def gradient_loop(x: Any, y: Any, rounds: int, r: float) -> Any:
    """Noise-free gradient descent of all nodes by batched matrix products; no network at all."""
    n, m, p = x.shape
    w = np.zeros((n, p))
    turned = x.transpose(0, 2, 1)
    for _ in range(rounds):
        s = np.matmul(x, w[:, :, None])[:, :, 0]
        slopes = -y / (1.0 + np.exp(y * s))
        w = w - 0.1 * (np.matmul(turned, slopes[:, :, None])[:, :, 0] / m + r * w)
    return w


def admm_by_lbfgs(
    x: Any, y: Any, topology: Any, rounds: int, r: float, eta: float, tolerance: float
) -> Any:
    """Exact decentralised ADMM whose local problems are solved one by one by L-BFGS,
    warm from the round before."""
    n, m, p = x.shape
    adjacency, degree = topology.adjacency(), topology.degrees[:, None].astype(float)
    w, dual = np.zeros((n, p)), np.zeros((n, p))
    options = {"gtol": tolerance / np.sqrt(p), "ftol": 0.0, "maxiter": 1000}
    for _ in range(rounds):
        centre = 0.5 * (w + (adjacency @ w) / degree)
        new = np.empty_like(w)
        for i in range(n):
            q = eta * degree[i, 0]

            def objective(
                v: Any, i: int = i, q: float = q, c: Any = centre[i], lam: Any = dual[i]
            ) -> tuple[float, Any]:
                s = y[i] * (x[i] @ v)
                gap = v - c
                value = np.logaddexp(0, -s).mean() + r / 2 * v @ v + 2 * lam @ v + q * gap @ gap
                slope = -y[i] / (1.0 + np.exp(s))
                return float(value), x[i].T @ slope / m + r * v + 2 * lam + 2 * q * gap

            new[i] = minimize(objective, w[i], jac=True, method="L-BFGS-B", options=options).x
        w = new
        dual += eta / 2 * (degree * w - adjacency @ w)
    return w
