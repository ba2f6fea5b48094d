"""Groups of members: connected, of like sizes, cheap, and a function of public facts alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda as tc
from tacenda.errors import UnsupportedError
from tacenda.graph.coalition import leverage
from tacenda.graph.groups import grouped, proposed_groups
from tacenda.graph.topology import Topology

# Members, chords, groups, coalition, and the group of each member
PINNED = [
    (20, (3, 7), 4, 1, "01100110012332233223"),
    (40, (5,), 6, 1, "0111120033344441331155522455552223304400"),
    (12, (11,), 3, 0, "001112222100"),
    (30, (7, 11), 4, 2, "000011121300111322233332223100"),
    (26, (), 5, 0, "00000111112222223333344444"),
    (30, (2,), 4, 1, "000122211122200013331333132200"),
    (36, (4, 9), 7, 1, "011223440555166650602233334441125600"),
    (17, (3,), 3, 1, "01100111111222200"),
    (28, (5, 6, 13), 5, 2, "0123201102441033442331324200"),
    (60, (7, 8), 5, 1, "001111200223330002222113333330011444333241111004444442222440"),
]


@given(st.integers(0, 10_000), st.integers(2, 14), st.integers(0, 2))
@settings(max_examples=80, deadline=None)
def test_groups_are_connected_and_cover_all(seed: int, n: int, coalition: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(n, seed=seed)
    graph.add_edges_from(rng.integers(0, n, (n, 2)).tolist())
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    topology = Topology.of(graph)
    count = int(rng.integers(1, n + 1))
    found = grouped(topology, count, coalition)
    assert sorted(np.concatenate(found.members).tolist()) == list(range(n))
    plain = topology.relabelled(range(n)).to_networkx()
    for k, members in enumerate(found.members):
        assert nx.is_connected(plain.subgraph(members.tolist()))
        assert set(found.of[members]) == {k}
    inner = {(u, v) for u, v in topology.edges.tolist() if found.of[u] == found.of[v]}
    assert {tuple(e) for e in found.masks.edges.tolist()} == inner
    again = grouped(Topology.of(graph), count, coalition)
    np.testing.assert_array_equal(found.of, again.of)


@given(st.integers(0, 10_000), st.integers(3, 8), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_the_price_is_that_of_the_worst_coalition(seed: int, n: int, coalition: int) -> None:
    """By trying every coalition: what is left of a member's own group around it."""
    from itertools import combinations

    graph = nx.gnp_random_graph(n, 0.6, seed=seed)
    graph.add_edges_from(zip(range(n - 1), range(1, n), strict=True))
    found = grouped(
        Topology.of(graph), int(np.random.default_rng(seed).integers(1, n + 1)), coalition
    )
    shares, how = found.leverage(coalition)
    masks = found.masks.relabelled(range(n)).to_networkx()
    for v in range(n):
        others = [w for w in range(n) if w != v]
        least = n
        for q in range(min(coalition, n - 1) + 1):
            for gone in combinations(others, q):
                rest = masks.subgraph(set(range(n)) - set(gone))
                least = min(least, len(nx.node_connected_component(rest, v)))
        assert shares[v] == pytest.approx(1 / least) if how == "exact" else shares[v] >= 1 / least


def test_one_group_is_the_whole_graph() -> None:
    topology = Topology.of(tc.graph.random_regular(20, 4, seed=3))
    found = grouped(topology, 1, 1)
    assert found.masks is topology
    np.testing.assert_array_equal(found.leverage(1)[0], leverage(topology, np.inf, 1)[0])


@pytest.mark.parametrize(
    ("n", "degree", "count"), [(20, 6, 4), (40, 6, 6), (100, 6, 4), (20, 4, 3)]
)
def test_graphs_of_some_degree_have_groups_at_the_least_price(
    n: int, degree: int, count: int
) -> None:
    """A coalition of one leaves every member all others of its group."""
    found = grouped(Topology.of(tc.graph.random_regular(n, degree, seed=1)), count, 1)
    least = int(found.sizes.min())
    assert least >= n // count - 1
    np.testing.assert_allclose(found.leverage(1)[0], 1 / (found.sizes[found.of] - 1))


def test_each_group_has_a_tree_and_its_root_reaches_all() -> None:
    topology = Topology.of(tc.graph.random_regular(12, 5, seed=2))
    found = grouped(topology, 3, 1)
    trees = found.trees
    assert len(trees.roots) == 3
    for root, members, way in zip(trees.roots, found.members, found.handing, strict=True):
        assert trees.sizes[root] == len(members)
        assert way.root == root
        assert way.sizes[root] == 12
    for child, parent in enumerate(trees.parent.tolist()):
        if parent >= 0:
            assert found.of[child] == found.of[parent]
            assert trees.level[child] == trees.level[parent] + 1
            assert child in topology.neighbours(parent)


@pytest.mark.parametrize(
    ("members", "coalition", "groups"),
    [(3, 1, 1), (8, 1, 1), (9, 1, 3), (12, 1, 4), (100, 1, 4), (6, 0, 1), (24, 2, 6), (15, 2, 3)],
)
def test_how_many_are_proposed(members: int, coalition: int, groups: int) -> None:
    assert proposed_groups(members, coalition) == groups


def chords(n: int, steps: tuple[int, ...]) -> nx.Graph:
    """A path with chords, which no library draws."""
    graph = nx.path_graph(n)
    graph.add_edges_from((i, (i * s + s) % n) for s in steps for i in range(n))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


@pytest.mark.parametrize(("n", "steps", "count", "coalition", "groups"), PINNED)
def test_all_members_find_the_groups_that_members_have_always_found(
    n: int, steps: tuple[int, ...], count: int, coalition: int, groups: str
) -> None:
    """Members of one run may have different versions of the program: who is in which group is part
    of the protocol, and another search would be another protocol."""
    found = grouped(Topology.of(chords(n, steps)), count, coalition)
    assert "".join(map(str, found.of)) == groups


def test_more_groups_than_members_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="between 1 and the number of members"):
        grouped(Topology.of(tc.graph.ring(4)), 5, 1)
