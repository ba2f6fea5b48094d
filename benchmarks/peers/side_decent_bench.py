"""decent-bench's side: gradient descent (ATC, DGD) or ADMM over peers, by its public interface as
documented; run by `python -m benchmarks.peers` in an environment of its own."""

from __future__ import annotations

import logging
from typing import Any

import decent_array.interoperability as arrays
import networkx as nx
import numpy as np
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import ADMM, ATC, DGD
from decent_bench.benchmark import configure
from decent_bench.costs import LogisticRegressionCost
from decent_bench.networks import P2PNetwork
from turns import Work, take_turns, timed


def prepare(work: Work) -> Any:
    asked = work.asked
    rounds = int(asked["rounds"])
    configure("numpy", "cpu", seed=0, log_level=logging.WARNING)
    agents = []
    for node in range(work.nodes):
        X, y = work.part(node)
        data = [
            (arrays.from_numpy(row), arrays.from_numpy(label))
            for row, label in zip(X, y[:, None], strict=True)
        ]
        agents.append(Agent(LogisticRegressionCost(data), state_snapshot_period=rounds))
    graph = nx.Graph()
    graph.add_nodes_from(range(work.nodes))
    graph.add_edges_from(asked["edges"])
    network = P2PNetwork(graph, agents)
    method = {
        "ATC": lambda: ATC(step_size=asked["step"]),
        "DGD": lambda: DGD(step_size=asked["step"]),
        "ADMM": lambda: ADMM(penalty=2 * asked["penalty"], relaxation=0.5),
    }[asked["method"]]()

    def turn() -> dict[str, Any]:
        seconds, _ = timed(lambda: method.run(network, rounds))
        models = np.array([arrays.to_numpy(agent.x) for agent in network.agents()])
        return {"seconds": seconds, "rounds": rounds, "loss": work.loss(models.mean(axis=0))}

    return turn


if __name__ == "__main__":
    take_turns("decent-bench", prepare)
