"""Compiled passes over a graph's CSR arrays."""

from __future__ import annotations

from typing import Any

from tacenda._jit import EXACT, njit


@njit(**EXACT)
def breadth_first(indptr: Any, indices: Any, start: int, hops: Any, queue: Any) -> int:
    """Fill hops (n,), given as -1, with the distances from `start`; returns how many were
    reached, which are the first ones of queue (n,)."""
    queue[0], hops[start] = start, 0
    first, last = 0, 1
    while first < last:
        node = queue[first]
        first += 1
        for k in range(indptr[node], indptr[node + 1]):
            other = indices[k]
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                queue[last] = other
                last += 1
    return last


@njit(**EXACT)
def add_up(order: Any, parent: Any, sizes: Any) -> None:
    """sizes[parent of k] += sizes[k], from the last of `order` to the second."""
    for place in range(len(order) - 1, 0, -1):
        node = order[place]
        sizes[parent[node]] += sizes[node]
