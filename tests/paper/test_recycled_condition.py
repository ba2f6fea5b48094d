"""Zhang et al. (2018), (26)-(27) written out in whole matrices, on graphs whose nodes differ."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tacenda import theory
from tacenda.algorithms import recycled_condition
from tacenda.graph.topology import Topology
from tacenda.problem.constants import Constants
from tacenda.problem.facts import Facts

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
    gamma = recycled_condition.smallest_recycle_proximal(eta, smoothness, Topology.of(graph))
    assert min(margins(graph, eta, gamma * 1.0002, smoothness)) >= -1e-9
    assert min(margins(graph, eta, gamma * 0.999, smoothness)) < 0


def test_on_a_bipartite_graph_no_gamma_will_do() -> None:
    assert theory.least_recycle_proximal(nx.star_graph(4), penalty=1.0, smoothness=0.25) == np.inf


def test_the_advice_follows_the_first_rounds_settings() -> None:
    """Silent from the smallest admissible gamma on, whatever comes in later rounds; else it names
    both settings and that gamma."""
    constants = Constants.declared(loss="logistic", strength=0.1, loss_scale=2.0)
    facts = Facts(np.full(5, 40.0), 3, constants)
    # Degrees differ: on a regular graph (27) is about eta times gamma alone
    topology = Topology.of(GRAPHS[1])
    for eta in (0.3, 2.0):
        least = recycled_condition.smallest_recycle_proximal(eta, constants.smoothness, topology)
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
