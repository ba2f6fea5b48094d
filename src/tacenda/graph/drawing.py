"""Random graphs with very many edges, drawn by arrays: (E, 2) positions, in no particular order,
connected or not. The same seed gives the same graph."""

from __future__ import annotations

import numpy as np

from tacenda._types import Ints
from tacenda.errors import InputError

REPAIRS = 1000  # rounds of swaps; of a graph that exists a few dozen are enough


def regular(n: int, degree: int, seed: int) -> Ints:
    """Every node has `degree` neighbours: ends are paired at random, and pairs that are loops or
    stand twice swap an end with other pairs until there are none."""
    if 2 * degree >= n:  # who is *not* joined is the smaller question
        absent = regular(n, n - 1 - degree, seed)
        missing = np.zeros((n, n), bool)
        missing[absent[:, 0], absent[:, 1]] = missing[absent[:, 1], absent[:, 0]] = True
        return np.column_stack(np.nonzero(np.triu(~missing, 1)))
    rng = np.random.default_rng(seed)
    ends = np.repeat(np.arange(n), degree)
    edges = np.ascontiguousarray(rng.permutation(ends).reshape(-1, 2))
    changed = None
    for _ in range(REPAIRS):
        bad = _unusable(n, edges, changed)
        if not len(bad):
            return edges
        others = rng.integers(0, len(edges), len(bad))
        # An edge swaps once in a round, with one that does not swap itself
        _, first = np.unique(others, return_index=True)
        keep = first[~np.isin(others[first], bad)]
        mine, theirs = bad[keep], others[keep]
        edges[mine, 1], edges[theirs, 1] = edges[theirs, 1], edges[mine, 1].copy()
        changed = np.concatenate([bad, theirs])
    raise InputError(
        f"degree must be well below n = {n}, not {degree}; complete({n}) joins every pair."
    )


def pairs(n: int, p: float, seed: int) -> Ints:
    """Each of the n (n - 1) / 2 pairs with probability p: the gaps between the chosen ones are
    geometric."""
    rng = np.random.default_rng(seed)
    total = n * (n - 1) // 2
    if p >= 1.0:
        chosen = np.arange(total)
    else:
        parts, at = [], -1
        while at < total:
            gaps = rng.geometric(p, int((total - at) * p * 1.01) + 1000)
            parts.append(at + np.cumsum(gaps))
            at = int(parts[-1][-1])
        chosen = np.concatenate(parts)
        chosen = chosen[chosen < total]
    # Pair k of row b, of the pairs (0, b) .. (b - 1, b), begins at b (b - 1) / 2
    b = ((1.0 + np.sqrt(1.0 + 8.0 * chosen)) / 2.0).astype(np.int64)
    b -= b * (b - 1) // 2 > chosen
    b += (b + 1) * b // 2 <= chosen
    return np.column_stack([chosen - b * (b - 1) // 2, b])


def rewired_ring(n: int, k: int, p: float, seed: int) -> Ints:
    """A ring with the k nearest neighbours, the far end of each edge moved to any other node with
    probability p; one that meets itself or an edge that is there moves again."""
    rng = np.random.default_rng(seed)
    near = np.tile(np.arange(n), k // 2)
    far = (near + np.repeat(np.arange(1, k // 2 + 1), n)) % n
    edges = np.column_stack([near, far])
    moving = np.flatnonzero(rng.random(len(edges)) < p)
    for _ in range(REPAIRS):
        edges[moving, 1] = rng.integers(0, n, len(moving))
        moving = _unusable(n, edges, moving, last=moving)
        if not len(moving):
            return edges
    raise InputError(f"k must be well below n = {n}, not {k}; complete({n}) joins every pair.")


def _unusable(n: int, edges: Ints, changed: Ints | None = None, last: Ints | None = None) -> Ints:
    """Positions of loops, and of all but the first of several edges between two nodes, ascending.
    changed: outside of these all is known to be well; last: edges that count as later than all
    others, in this order."""
    a, b = edges[:, 0], edges[:, 1]
    key = np.minimum(a, b) * n + np.maximum(a, b)
    if changed is None:
        ordered = np.sort(key)
        doubled = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    else:
        doubled = np.unique(key[changed])
    several = np.flatnonzero(np.isin(key, doubled))
    if last is not None:
        several = np.concatenate([np.setdiff1d(several, last), last])
    extra = np.ones(len(several), bool)
    extra[np.unique(key[several], return_index=True)[1]] = False
    loops = np.flatnonzero(a == b)
    return np.union1d(several[extra], loops)
