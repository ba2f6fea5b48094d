"""Which members can cut a graph, whom they cut off, and which edges would fix it.

Where values are masked, a node is hidden among the members of its component in the graph without a
coalition (`graph.coalition`). With vertex connectivity above q no q members cut anybody off, and
each component has n - q members.

Whether the connectivity is above q is settled after Even: take the vertices in the order of a
breadth-first search; the first q + 1 of them must be joined to each other by q + 1 paths that share
no inner vertex, and every later one must have q + 1 paths, sharing no vertex but itself, to
different vertices before it. If q members separate anybody, look at the first vertex that they
separate from one before it: they separate it from all before it, and it has at most q such paths.
In a breadth-first order these paths are short, so a vertex costs little more than its surroundings.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tacenda._types import Array
from tacenda.graph.topology import Topology
from tacenda.words import counted

SEARCHED = 20_000  # coalitions that are tried one by one
MENDED = 40  # edges that are proposed at most

Near = list[list[int]]


def least_components(topology: Topology, coalition: int) -> tuple[Array, str]:
    """((n,) members of each node's component, itself included, in the graph without the worst q
    others; "exact", or "bound" where some may be larger)."""
    n, q = topology.n, min(coalition, topology.n - 1)
    near = neighbours(topology)
    if q == 0 or len(topology.edges) == n * (n - 1) // 2:
        return np.full(n, n - q), "exact"
    if topology.degrees.max() <= q:
        return np.ones(n, np.int64), "exact"  # its neighbours are a coalition
    if q == 1:
        return _without_one(near), "exact"
    if separator(near, q) is None:
        return np.full(n, n - q), "exact"
    if math.comb(n, q) <= SEARCHED:
        return _searched(near, q), "exact"
    sizes = np.ones(n, np.int64)
    for alike in _classes(near, q):
        sizes[alike] = np.maximum(sizes[alike], len(alike) - q)
    return sizes, "bound"


def neighbours(topology: Topology) -> Near:
    """The neighbours of every position, as lists."""
    flat, at = topology.indices.tolist(), topology.indptr.tolist()
    return [flat[a:b] for a, b in zip(at, at[1:], strict=False)]


def separator(
    near: Near, q: int, among: set[int] | None = None
) -> tuple[set[int], set[int]] | None:
    """(at most q vertices, a part of the graph that they cut off from another one), or None where
    no q vertices separate any two (of `among`). The graph is connected."""
    order = _breadth_first(near, max(range(len(near)), key=lambda v: len(near[v])))
    if among is not None:
        order = [v for v in order if v in among]
    first = order[: q + 1]
    for u, v in combinations(first, 2):
        if v not in near[u]:
            found = _fan(near, u, set(near[v]), q + 1, without=v)
            if found is not None:
                return found
    before = set(first)
    for v in order[q + 1 :]:
        if sum(w in before for w in near[v]) <= q:
            found = _fan(near, v, before, q + 1)
            if found is not None:
                return found
        before.add(v)
    return None


def _fan(
    near: Near, source: int, targets: set[int], paths: int, without: int = -1
) -> tuple[set[int], set[int]] | None:
    """None if so many paths lead from `source` to different targets, sharing no vertex but it; else
    (the fewer vertices that every path meets, the source's side).

    By augmenting paths: a vertex is passed from its inner to its outer half once, and given back
    the other way.
    """
    before: dict[int, int] = {}  # on a path: the vertex before it
    for _ in range(paths):
        came: dict[tuple[int, bool], tuple[int, bool] | None] = {(source, True): None}
        queue, end = deque([(source, True)]), None
        while queue and end is None:
            state = queue.popleft()
            v, outer = state
            if outer:
                ahead = [(w, False) for w in near[v] if w != source and w != without]
                ahead += [(v, False)] if v in before else []
            elif v in before:
                ahead = [] if before[v] == source else [(before[v], True)]
            elif v in targets:
                end, ahead = state, []
            else:
                ahead = [(v, True)]
            for step in ahead:
                if step not in came:
                    came[step] = state
                    queue.append(step)
        if end is None:
            met = {v for v, outer in came if not outer and (v, True) not in came}
            return met, {v for v, outer in came if outer}
        _augment(before, came, end)
    return None


def _augment(
    before: dict[int, int],
    came: dict[tuple[int, bool], tuple[int, bool] | None],
    end: tuple[int, bool],
) -> None:
    """Add the path that ends at `end`: first what it gives back, then what it takes."""
    taken, state = [], end
    while (last := came[state]) is not None:
        if last[1] and not state[1] and last[0] != state[0]:
            taken.append((state[0], last[0]))
        elif not last[1] and state[1] and last[0] != state[0]:
            del before[last[0]]
        state = last
    before.update(taken)


def _breadth_first(near: Near, root: int, allowed: set[int] | None = None) -> list[int]:
    seen, order = {root}, [root]
    for v in order:
        for w in near[v]:
            if w not in seen and (allowed is None or w in allowed):
                seen.add(w)
                order.append(w)
    return order


def components(near: Near, left: set[int]) -> list[list[int]]:
    """The components of the graph on the vertices `left`, the largest first."""
    rest, found = set(left), []
    for v in sorted(left):
        if v in rest:
            part = _breadth_first(near, v, left)
            rest.difference_update(part)
            found.append(part)
    return sorted(found, key=len, reverse=True)


def _searched(near: Near, q: int) -> Array:
    """By trying every coalition of q members; a smaller one cuts no better, unless all are in."""
    everybody = set(range(len(near)))
    sizes = np.full(len(near), len(near))
    for members in combinations(range(len(near)), q):
        for part in components(near, everybody.difference(members)):
            sizes[part] = np.minimum(sizes[part], len(part))
    return sizes


def _classes(near: Near, q: int) -> list[list[int]]:
    """Sets of vertices of which no q others separate any two: whoever is in one keeps all of it but
    q. Who has at most q neighbours can be left alone, and is in none."""
    stack, found = [{v for v, row in enumerate(near) if len(row) > q}], []
    while stack:
        among = stack.pop()
        if len(among) <= q + 1:
            continue
        cut = separator(near, q, among)
        if cut is None:
            found.append(sorted(among))
            continue
        for side in components(near, set(range(len(near))) - cut[0]):
            part = among & (set(side) | cut[0])
            if not part <= cut[0]:
                stack.append(part)
    return found


def _without_one(near: Near) -> Array:
    """Exactly, for one member: the subtrees of a depth-first search that it cuts off, and the rest.

    In the order of the search a subtree is an interval; each interval is painted with the size of
    its component, the smallest first.
    """
    n = len(near)
    number, low = [-1] * n, [0] * n  # of a vertex: its place in the order, the least it reaches
    pieces: list[tuple[int, int, int]] = []
    cut_off: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    stack, parent, at = [0], [-1] * n, [0] * n
    number[0], count = 0, 1
    while stack:
        v = stack[-1]
        if at[v] < len(near[v]):
            w = near[v][at[v]]
            at[v] += 1
            if number[w] < 0:
                parent[w], number[w], low[w] = v, count, count
                count += 1
                stack.append(w)
            elif w != parent[v]:
                low[v] = min(low[v], number[w])
            continue
        stack.pop()
        p = parent[v]
        if p >= 0:
            low[p] = min(low[p], low[v])
            if low[v] >= number[p]:
                cut_off[p].append((number[v], count))
    for v in range(n):
        gone, rest = [(number[v], number[v] + 1), *cut_off[v]], n - 1
        for a, b in cut_off[v]:
            pieces.append((b - a, a, b))
            rest -= b - a
        start = 0
        for a, b in [*sorted(gone), (n, n)]:
            if start < a:
                pieces.append((rest, start, a))
            start = max(start, b)
    return _painted(pieces, n)[np.array(number)]


def _painted(pieces: list[tuple[int, int, int]], n: int) -> Array:
    """(n,) the smallest value of the pieces (value, first, end) over each place."""
    out = np.full(n, n - 1)
    ahead = list(range(n + 1))  # the next place that is not painted yet

    def next_free(k: int) -> int:
        while ahead[k] != k:
            ahead[k] = ahead[ahead[k]]
            k = ahead[k]
        return k

    for value, first, end in sorted(pieces):
        k = next_free(first)
        while k < end:
            out[k] = value
            ahead[k] = k + 1
            k = next_free(k)
    return out


@dataclass(frozen=True)
class Cut:
    """Members (positions) that cut off others, if they combine what they know."""

    members: tuple[int, ...]
    cut_off: tuple[int, ...]


def worst_cut(topology: Topology, coalition: int) -> Cut | None:
    """A coalition of at most q members that cuts the graph, and the smallest part that it cuts off:
    the neighbours of a node that has so few, else whichever is found. None where none can."""
    near = neighbours(topology)
    if len(near) <= coalition + 1:
        return None
    alone = int(np.argmin(topology.degrees))
    if len(near[alone]) <= coalition:
        return Cut(tuple(near[alone]), (alone,))
    found = separator(near, coalition)
    if found is None:
        return None
    parts = components(near, set(range(len(near))) - found[0])
    return Cut(tuple(sorted(found[0])), tuple(sorted(parts[-1])))


def mending_edges(topology: Topology, coalition: int) -> list[tuple[int, int]] | None:
    """Edges that lift the vertex connectivity above q, found one by one: from the smallest part
    that is cut off to the largest, between the members with the fewest neighbours. None where more
    than MENDED would be needed, or n - 1 <= q."""
    near = [list(row) for row in neighbours(topology)]
    if len(near) <= coalition + 1:
        return None
    added: list[tuple[int, int]] = []
    while (found := separator(near, coalition)) is not None:
        if len(added) == MENDED:
            return None
        parts = components(near, set(range(len(near))) - found[0])
        u = min(parts[-1], key=lambda v: (len(near[v]), v))
        w = min(parts[0], key=lambda v: (len(near[v]), v))
        near[u].append(w)
        near[w].append(u)
        added.append((min(u, w), max(u, w)))
    return sorted(added)


def cut_advice(topology: Topology, coalition: int, least: int) -> list[str]:
    """What a masked run should know of a graph that a coalition can cut: who, whom, at what price,
    and what would fix it. least: members of the smallest component that a coalition leaves, from
    which the noise of all follows."""
    whole = topology.n - min(coalition, topology.n - 1)
    cut = worst_cut(topology, coalition) if least < whole else None
    if cut is None:
        return []
    edges = mending_edges(topology, coalition)
    mend = (
        f"more than {MENDED} edges are missing; use a graph in which everybody has more than "
        f"{counted(coalition, 'neighbour')}, such as a random regular one"
        if edges is None
        else "these edges would fix it: "
        + ", ".join(f"{topology.labels[u]}-{topology.labels[v]}" for u, v in edges)
    )
    who = _named(topology, cut.members)
    does = "cuts" if len(cut.members) == 1 else "together cut"
    return [
        f"masks hide a member only among those that a coalition of {coalition} cannot cut it off "
        f"from, and here {who} {does} off {_named(topology, cut.cut_off)}: all members draw "
        f"{math.sqrt(whole / least):.3g} times the noise that a graph without such cuts needs; "
        f"{mend}."
    ]


def _named(topology: Topology, nodes: tuple[int, ...], most: int = 5) -> str:
    names = [str(topology.labels[v]) for v in nodes[:most]]
    more = len(nodes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
