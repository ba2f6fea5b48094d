"""Zhang et al. (2018), (26)-(27) written out in whole matrices, on graphs whose nodes differ."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tacenda import algorithms
from tacenda.algorithms import recycled_condition
from tacenda.graph.topology import Topology
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

GRAPHS = [
    nx.lollipop_graph(4, 2),
    nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]),
    nx.complete_graph(5),
]


def least(matrix: np.ndarray) -> float:
    return float(np.min(np.linalg.eigvals((matrix + matrix.T) / 2).real))


def margins(graph: nx.Graph, eta: float, gamma: float, smoothness: float) -> tuple[float, float]:
    order = sorted(graph.nodes)
    a = nx.to_numpy_array(graph, order)
    d = np.diag(a.sum(axis=0))
    eye = np.eye(len(order))
    wide = 2 * eta * d + gamma * eye
    s, dm = float(np.diag(wide).min()), smoothness**2 * eye
    first = eye + eta * (d + a) @ np.linalg.inv(wide) - 2 / (s * eta) * dm @ np.linalg.pinv(d - a)
    second = eta * (d + a) - 2 * eta**2 * (d + a) @ np.linalg.inv(wide) @ d - 2 / s * dm
    return least(first), least(second)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("eta", "gamma", "smoothness"), [(1.0, 0.5, 0.25), (0.3, 4.0, 0.6), (2.0, 30.0, 1.7)]
)
def test_the_margins_are_those_of_the_print(
    graph: nx.Graph, eta: float, gamma: float, smoothness: float
) -> None:
    found = recycled_condition._margins(eta, gamma, smoothness, Topology.of(graph))
    assert found == pytest.approx(margins(graph, eta, gamma, smoothness), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("eta", "smoothness"), [(1.0, 0.25), (0.2, 0.7)])
def test_the_smallest_gamma_is_where_a_margin_turns(
    graph: nx.Graph, eta: float, smoothness: float
) -> None:
    gamma = algorithms.least_recycle_proximal(graph, penalty=eta, smoothness=smoothness)
    assert min(margins(graph, eta, gamma * 1.0002, smoothness)) >= -1e-9
    assert min(margins(graph, eta, gamma * 0.999, smoothness)) < 0


def general_margins(
    graph: nx.Graph, eta: float, gamma: float, smoothness: float, big: float, mu: float
) -> tuple[float, float]:
    """The smallest eigenvalues of (24) and (25) for L = big and mu, in whole matrices."""
    a = nx.to_numpy_array(graph, sorted(graph.nodes))
    d, eye = np.diag(a.sum(axis=0)), np.eye(len(a))
    wide = 2 * eta * d + gamma * eye
    s, dm, inverse = float(np.diag(wide).min()), smoothness**2 * eye, np.linalg.inv(wide)
    first = eye + eta * (d + a) @ inverse
    first -= big * mu / (2 * s) / eta * dm @ np.linalg.pinv(d - a)
    second = eta * (d + a) - eta * (d + a) @ inverse @ (eta * (d - a))
    second -= 2 / big * eta * (d + a) @ inverse @ (eta * (d + a))
    second -= big * mu / (2 * s * (mu - 1)) * dm
    return least(first), least(second)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_the_best_constants_against_a_grid(graph: nx.Graph, eta: float) -> None:
    """What is found meets (24)-(25); where nothing is found, no pair of a grid does; and around
    the smallest gamma the grid says the same."""
    assert general_margins(graph, eta, 0.7, 0.3, 2.0, 2.0) == pytest.approx(
        margins(graph, eta, 0.7, 0.3), rel=1e-9, abs=1e-12
    )
    grid = [(x, 1 + y) for x in np.geomspace(0.05, 50, 25) for y in np.geomspace(0.01, 300, 25)]
    verdicts = set()
    for smoothness in (0.1, 0.6):
        turn = algorithms.least_recycle_proximal(
            graph, penalty=eta, smoothness=smoothness, best_constants=True
        )
        example = algorithms.least_recycle_proximal(graph, penalty=eta, smoothness=smoothness)
        assert turn <= example
        for gamma in (0.8 * turn, 1.25 * turn + 0.01):
            known = {"penalty": eta, "recycle_proximal": gamma, "smoothness": smoothness}
            pair = algorithms.recycled_constants(graph, **known)
            verdicts.add(pair is not None)
            if pair is None:
                at = [min(general_margins(graph, eta, gamma, smoothness, *one)) for one in grid]
                assert max(at) < 0
            else:
                assert pair[0] > 0 and pair[1] > 1
                assert min(general_margins(graph, eta, gamma, smoothness, *pair)) > 0
    assert True in verdicts


def test_on_a_bipartite_graph_no_gamma_will_do() -> None:
    star, known = nx.star_graph(4), {"penalty": 1.0, "smoothness": 0.25}
    assert algorithms.least_recycle_proximal(star, **known) == np.inf
    assert algorithms.least_recycle_proximal(star, **known, best_constants=True) == np.inf
    assert algorithms.recycled_constants(star, **known, recycle_proximal=9.0) is None


def test_the_advice_follows_the_first_rounds_settings() -> None:
    """Silent from the smallest admissible gamma on, whatever comes in later rounds; else it names
    both settings and that gamma."""
    constants = Constants.declared(loss="logistic", strength=0.1, loss_scale=2.0)
    facts = Facts(np.full(5, 40.0), 3, constants)
    # Degrees differ: on a regular graph (27) is about eta times gamma alone
    topology = Topology.of(GRAPHS[1])
    for eta in (0.2, 0.4):
        least = algorithms.least_recycle_proximal(
            topology, penalty=eta, smoothness=constants.smoothness, best_constants=True
        )
        for gamma, fits in ((least * 1.001, True), (least * 0.99, False), (least * 50, True)):
            said = recycled_condition.convergence_advice(eta, gamma, facts, topology)
            later = recycled_condition.convergence_advice(
                lambda t, eta=eta: eta if t == 1 else 1e-9,
                lambda t, gamma=gamma: gamma if t == 1 else 0.0,
                facts,
                topology,
            )
            assert said == later and (said == []) is fits, (eta, gamma)
            if not fits:
                (sentence,) = said
                assert f"recycle_proximal={gamma:g} " in sentence
                assert f"penalty {eta:g};" in sentence and f"is {least:.4g}." in sentence
    (sentence,) = recycled_condition.convergence_advice(
        1.0, 9.0, facts, Topology.of(nx.star_graph(4))
    )
    assert "bipartite" in sentence
    alone = Topology.of(nx.empty_graph(1))
    assert recycled_condition.convergence_advice(1.0, 0.0, facts, alone) == []
    for n, checked in ((600, True), (601, False)):
        wide = Topology.of(nx.cycle_graph(n))
        (sentence,) = recycled_condition.convergence_advice(1.0, 0.0, facts, wide)
        assert ("is not checked" in sentence) is not checked
