"""Members in groups: a public partition of a graph into connected parts, each with masks, a tree
and a sum of its own, so that who lies spoils the sum of one group only.

Regions grow from seeds, the smallest first, each by the free node with the most neighbours in it;
then nodes move to a neighbouring region where that leaves fewer of them alone. Of several tries
the one with the least price counts, the largest leverage of a member among its own group
(`graph.cuts`). Everything is a function of the graph, the number of groups and the size of a
coalition, so whoever knows these knows the groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tacenda._types import Array, Ints
from tacenda.errors import UnsupportedError
from tacenda.graph.cuts import components, least_components, neighbours
from tacenda.graph.topology import Topology
from tacenda.graph.tree import Tree, joined_trees, spanning_tree, tree_from

ROBUST = 3  # groups from which a rule can tell most of them from one
TRIES = 24  # partitions that are compared
LARGE = 2000  # nodes from which one is enough
MOVES = 30  # passes over the nodes in which they may move
SLACK = 3  # by which a move may make two sizes differ, if it saves a node from being alone

Near = list[list[int]]


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a graph's nodes, numbered by their first member.

    of (n,): the group of every position. members: the positions of each group, ascending. masks:
    the graph without the edges between groups.
    """

    topology: Topology
    of: Ints
    members: tuple[Ints, ...]
    masks: Topology

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.members)

    @cached_property
    def sizes(self) -> Array:
        """(G,) members of each group."""
        return np.array([len(some) for some in self.members])

    @cached_property
    def parts(self) -> tuple[Topology, ...]:
        """Each group by itself, in the order of its members."""
        return tuple(_part(self.masks, some) for some in self.members)

    @cached_property
    def trees(self) -> Tree:
        """A tree in each group, along which its sum goes up: a root for each."""
        return joined_trees([spanning_tree(part) for part in self.parts], self.members)

    @cached_property
    def handing(self) -> tuple[Tree, ...]:
        """For each group, the tree of the whole graph along which its root hands the sum down."""
        return tuple(tree_from(self.topology, root) for root in self.trees.roots)

    def leverage(self, coalition: int) -> tuple[Array, str]:
        """((n,) 1/(members among which each node is hidden in its group), "exact" or "bound")."""
        shares, found = np.empty(self.topology.n), "exact"
        for part, some in zip(self.parts, self.members, strict=True):
            members, how = least_components(part, coalition)
            shares[some] = 1 / members
            found = how if how == "bound" else found
        return shares, found

    def names(self, group: int, most: int = 8) -> str:
        """The members of a group, as people read them."""
        labels = [str(self.topology.labels[k]) for k in self.members[group][:most]]
        more = len(self.members[group]) - len(labels)
        return ", ".join(labels) + (f" and {more} more" if more else "")


def proposed_groups(members: int, coalition: int) -> int:
    """How many groups to take where nobody has said it: enough that a rule finds its way where a
    coalition has a group for each of its members, if every group then has two members more than
    the coalition; else 1, which is one masked sum."""
    found = min(2 * coalition + 2, members // (coalition + 2))
    return found if found >= ROBUST else 1


@lru_cache(maxsize=16)
def grouped(topology: Topology, count: int, coalition: int) -> Groups:
    """The groups of a connected graph, priced against coalitions of that size."""
    n = topology.n
    if not 1 <= count <= n:
        raise UnsupportedError(
            f"groups must be between 1 and the number of members ({n}), not {count}."
        )
    near = neighbours(topology)
    best: tuple[tuple[float, int], list[int]] | None = None
    for start in _starts(n, count):
        grown = _grown(near, _seeds(near, count, start))
        for of in (grown, _mended(near, list(grown), count, coalition)):
            price = _price(topology, of, count, coalition)
            if best is None or price < best[0]:
                best = price, of
        assert best is not None
        if best[0] == (1 / max(n // count - coalition, 1), int(n % count > 0)):
            break  # nothing is better
    assert best is not None
    return _numbered(topology, best[1], count)


def _starts(n: int, count: int) -> list[int]:
    if count in (1, n) or n > LARGE:
        return [0]
    tries = min(n, TRIES)
    return [k * n // tries for k in range(tries)]


def _seeds(near: Near, count: int, start: int) -> list[int]:
    """Nodes far from each other: each as far as any from those before it."""
    found, hops = [start], _hops(near, start)
    while len(found) < count:
        furthest = max(range(len(near)), key=lambda v: (v not in found, hops[v], -v))
        found.append(furthest)
        hops = [min(a, b) for a, b in zip(hops, _hops(near, furthest), strict=True)]
    return found


def _hops(near: Near, start: int) -> list[int]:
    hops, order = {start: 0}, [start]
    for v in order:
        for w in near[v]:
            if w not in hops:
                hops[w] = hops[v] + 1
                order.append(w)
    return [hops[v] for v in range(len(near))]


def _grown(near: Near, seeds: list[int]) -> list[int]:
    """The group of each node: connected, and together all of the graph."""
    of, sizes = [-1] * len(near), [1] * len(seeds)
    edge: list[dict[int, int]] = [{} for _ in seeds]  # free neighbours, and their links into it

    def take(v: int, group: int) -> None:
        of[v] = group
        for w in near[v]:
            if of[w] < 0:
                edge[group][w] = edge[group].get(w, 0) + 1
        for some in edge:
            some.pop(v, None)

    for group, seed in enumerate(seeds):
        of[seed] = group
    for group, seed in enumerate(seeds):
        take(seed, group)
    for _ in range(len(near) - len(seeds)):
        group = min((g for g in range(len(seeds)) if edge[g]), key=lambda g: (sizes[g], g))
        links = edge[group]
        take(min(links, key=lambda v: (-links[v], sum(of[w] < 0 for w in near[v]), v)), group)
        sizes[group] += 1
    return of


def _mended(near: Near, of: list[int], count: int, coalition: int) -> list[int]:
    """Nodes moved between neighbouring groups as long as that helps, while all stay connected:
    first towards more than `coalition` neighbours in their own group, without which they can be
    left alone, then towards equal sizes, then towards more edges inside."""
    sizes = [of.count(g) for g in range(count)]
    inner = [sum(of[w] == of[v] for w in near[v]) for v in range(len(near))]
    short = coalition + 1

    def gain(v: int, group: int) -> tuple[int, int, int]:
        links = sum(of[w] == group for w in near[v])
        lonely = max(0, short - inner[v]) - max(0, short - links)
        for w in near[v]:
            lonely += (of[w] == group and inner[w] < short) - (of[w] == of[v] and inner[w] <= short)
        return lonely, sizes[of[v]] - sizes[group] - 1, links - inner[v]

    def moved(v: int, group: int) -> None:
        sizes[of[v]] -= 1
        sizes[group] += 1
        for w in near[v]:
            inner[w] += (of[w] == group) - (of[w] == of[v])
        of[v] = group
        inner[v] = sum(of[w] == group for w in near[v])

    for _ in range(MOVES):
        changed = False
        for v in range(len(near)):
            options = {of[w] for w in near[v]} - {of[v]} if sizes[of[v]] > 1 else set()
            best = max(((gain(v, g), -g) for g in options), default=((0, 0, 0), 0))
            helps = best[0] > (0, 0, 0) and best[0][1] >= -SLACK
            if helps and _stays_whole(near, of, v):
                moved(v, -best[1])
                changed = True
        if not changed:
            return of
    return of


def _stays_whole(near: Near, of: list[int], leaving: int) -> bool:
    rest = {v for v in range(len(near)) if of[v] == of[leaving] and v != leaving}
    return len(components(near, rest)) == 1


def _price(topology: Topology, of: list[int], count: int, coalition: int) -> tuple[float, int]:
    """(the largest leverage, how far the sizes differ)."""
    sizes, worst = [of.count(g) for g in range(count)], 0.0
    whole = _numbered(topology, of, count)
    for part in whole.parts:
        worst = max(worst, 1 / float(least_components(part, coalition)[0].min()))
    return worst, max(sizes) - min(sizes)


def _numbered(topology: Topology, of: list[int], count: int) -> Groups:
    first = sorted(range(count), key=of.index)
    groups = np.argsort(np.array(first))[np.array(of)]
    members = tuple(np.flatnonzero(groups == g) for g in range(count))
    return Groups(topology, groups, members, within(topology, groups))


def within(topology: Topology, of: Ints) -> Topology:
    """The graph without the edges between groups; the same object where there are none."""
    ends = topology.edges
    kept = of[ends[:, 0]] == of[ends[:, 1]]
    if kept.all():
        return topology
    return Topology.in_parts(topology.labels, np.array(ends[kept]), topology.name)


def _part(masks: Topology, members: Ints) -> Topology:
    place = np.full(masks.n, -1, np.int64)
    place[members] = np.arange(len(members))
    ends = place[masks.edges]
    inner = ends[(ends >= 0).all(axis=1)]
    labels = tuple(masks.labels[k] for k in members)
    return Topology.in_parts(labels, np.array(inner), masks.name)


def group_words(groups: Groups | None, coalition: int) -> str:
    """What groups of these sizes cost in noise, in words; nothing for one sum."""
    if groups is None:
        return ""
    n, least = groups.topology.n, float(groups.leverage(coalition)[0].max())
    times = math.sqrt(least * max(n - coalition, 1))
    return (
        f"{groups.count} groups of {groups.sizes.min()} to {groups.sizes.max()} members: their "
        f"sums are public, and all draw {times:.3g} times the noise of one sum"
    )
