"""Our side of every comparison, in the environment of this project."""

from __future__ import annotations

from itertools import count
from typing import Any

import networkx as nx
import numpy as np
from turns import Work, take_turns, timed

import tacenda as tc


def prepare(work: Work) -> Any:
    return prepare_fit(work) if work.asked["method"] == "fit" else prepare_rounds(work)


def prepare_fit(work: Work) -> Any:
    """A whole fit of the estimator with its defaults, the choice of a method included."""
    from tacenda.estimators import PrivateLogisticRegression

    asked, seeds = work.asked, count()
    X, y = np.array(work.X), work.y

    def turn() -> dict[str, Any]:
        model = PrivateLogisticRegression(
            asked["epsilon"],
            asked["delta"],
            classes=(0, 1),
            n_nodes=work.nodes,
            random_state=next(seeds),
        )
        seconds, _ = timed(lambda: model.fit(X, y))
        return {"seconds": seconds, "accuracy": float(model.score(work.test_X, work.test_y))}

    return turn


def prepare_rounds(work: Work) -> Any:
    """A simulation: everything between the call and its result, spread over the rounds."""
    asked = work.asked
    rounds = int(asked["rounds"])
    problem = tc.Problem.from_arrays(
        np.array(work.X), work.y, work.records, regulariser="none", classes=(0, 1)
    )
    graph = nx.Graph()
    graph.add_nodes_from(range(work.nodes))
    graph.add_edges_from(asked["edges"])
    topology = tc.graph.Topology.of(graph)
    private = asked.get("epsilon") is not None
    budget = tc.Privacy(asked["epsilon"], asked["delta"]) if private else None
    method: Any
    if asked["method"] == "ATC":
        method = tc.algorithms.GossipGD(step_size=asked["step"], noise="independent")
    elif asked["method"] == "ADMM":
        method = tc.algorithms.ADMM(penalty=asked["penalty"])
    else:  # FedAvg with one step: gradient descent; our steps are in units of 1/L
        step = asked["step"] * problem.constants.loss_smoothness
        noise = "masked" if private else "independent"
        method = tc.algorithms.TreeGD(step_size=step, noise=noise)

    def turn() -> dict[str, Any]:
        seconds, result = timed(
            lambda: tc.simulate(
                problem,
                topology,
                method,
                rounds,
                budget,
                0,
                output="last",
                record_every=0,
                progress=False,
            )
        )
        return {"seconds": seconds, "rounds": rounds, "loss": work.loss(result.model)}

    return turn


if __name__ == "__main__":
    take_turns("tacenda", prepare)
