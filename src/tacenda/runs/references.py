"""What a run is compared with: the noise-free optimum, a trusted server, one node alone, the floor.

All of them read private records for the sake of a simulation, and are marked so where they are
shown. No model of theirs is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tacenda.config.sections import RunConfig
from tacenda.errors import TacendaError
from tacenda.graph.topology import Topology
from tacenda.planning import plan_facts
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.problem.problem import Problem
from tacenda.runtime.metrics import as_shown

CEILING, SERVER = "noise-free optimum (ceiling)", "trusted server, same epsilon"
ALONE, FLOOR, MEAN = "one node alone, same epsilon", "majority class (floor)", "mean (floor)"
FEW_NODES = 5  # of which one node alone is the median
TOLERANCE = 1e-6
NOTE = (
    "trusted server and one node alone are further private fits of the simulation, one draw of "
    "noise each, made to compare with: the promise of the run does not cover them"
)

MOST_CELLS = 2e7  # of the records, beyond which fits to compare with are made only when asked for
LEFT_OUT = (
    "trusted server and one node alone are left out, because the data is large and each is a "
    "further private fit; --references adds them"
)

# (problem, test part, models) -> measures
Evaluate = Callable[[Any, tuple[Any, Any] | None, Any], dict[str, Any]]


def ceiling(problem: Problem, test: Any, measure: Evaluate) -> dict[str, Any]:
    """The centralised optimum without privacy:
    nothing that learns this model can do better on the objective."""
    return _row(CEILING, measure(problem, test, problem.solve(TOLERANCE)))


def floor(
    problem: Problem, test: Any, intercept: int | None, measure: Evaluate, adjacency: str
) -> dict[str, Any]:
    """What knows nothing of a record: a constant score that predicts the base rates, or the mean of
    a regression.

    intercept: the position of the constant feature, if there is one. The objective is then that of
    the best model of this feature alone, which is one of those that were to be learnt, so that no
    optimum lies above it. (Rows are scaled into the norm bound, so the feature itself is not quite
    constant, and its scores would rank the records.)
    Under add-remove without objective and loss: where every record has the same score they are the
    number of records in disguise.
    """
    alone = problem.with_one_feature(None)
    column = None if test is None else (np.ones((test[0].shape[0], 1)), test[1])
    found = measure(alone, column, _best_constant(alone))
    if intercept is not None:
        among = problem.with_one_feature(intercept)
        found["objective"] = float(among.objective(_best_constant(among)))
    if adjacency != "replace-one":
        found = {k: v for k, v in found.items() if k not in ("objective", "loss")}
    label = MEAN if problem.loss.kind == "regression" else FLOOR
    return as_shown(_row(label, found), adjacency)


def affordable(problem: Problem, config: RunConfig) -> bool:
    """Whether private fits to compare with are made: as asked, or where the data is not large."""
    if config.run.references != "auto":
        return config.run.references
    return float(problem.sizes.sum()) * problem.n_features <= MOST_CELLS


def trusted_server(
    problem: Problem, test: Any, config: RunConfig, measure: Evaluate
) -> dict[str, Any] | None:
    """A private fit by somebody who holds all records, at the same (epsilon, delta): what the
    missing trust costs. None where no epsilon is stated; where no such fit is possible,
    the row says why."""
    epsilons = stated(config)
    if epsilons is None:
        return None
    try:
        model = _fitted(problem.pooled(), min(epsilons), config)
    except TacendaError as why:
        return {**_row(SERVER, {}), "missing": str(why)}
    return _row(SERVER, measure(problem, test, model))


def one_node(
    problem: Problem, test: Any, config: RunConfig, measure: Evaluate
) -> dict[str, Any] | None:
    """The median over a few nodes of a private fit on their own records alone, at the same
    (epsilon, delta), judged on the records of all: what taking part is worth."""
    epsilons, n = stated(config), problem.n_nodes
    if epsilons is None or n == 1:
        return None
    chosen = np.unique(np.linspace(0, n - 1, min(FEW_NODES, n)).round().astype(int))
    try:
        models = [
            _fitted(problem.of_node(k), epsilons[k % len(epsilons)], config)
            for k in chosen.tolist()
        ]
    except TacendaError as why:
        return {**_row(ALONE, {}), "missing": str(why)}
    found = [measure(problem, test, model) for model in models]
    # A measure may be undefined for some of them
    keys = [k for k in found[0] if all(isinstance(one.get(k), int | float) for one in found)]
    middle = {key: float(np.median([one[key] for one in found])) for key in keys}
    # The median of two coarse values may be finer than either
    shown = as_shown(middle, config.privacy.adjacency)
    return {**_row(ALONE, shown), "nodes": len(found)}


def stated(config: RunConfig) -> list[float] | None:
    """The epsilon of the run, or of every node; None where noise was given, or none is wanted."""
    p = config.privacy
    if not p.private or p.mode != "sound" or p.noise_multiplier or p.round_epsilon or p.delta == 0:
        return None
    return [float(e) for e in np.ravel(p.epsilon)]


def _fitted(problem: Problem, epsilon: float, config: RunConfig) -> Any:
    """The planner's private model of a problem of one node."""
    from tacenda.runtime.simulate import simulate

    p, alone = config.privacy, Topology.of(_single())
    facts = Facts.of(problem, p.adjacency, config.run.solver_tolerance)
    plan = plan_facts(facts, alone, epsilon, p.delta, coalition=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice belongs to the run itself
        result = simulate(
            problem,
            alone,
            privacy=Privacy(epsilon, p.delta, p.adjacency),
            seed=None if config.run.fresh_noise else config.run.seeds[0],
            record_every=0,
            progress=False,
            **plan.settings,
        )
    return np.ravel(result.model)


def _single() -> Any:
    from tacenda import graph

    return graph.complete(1)


def _best_constant(alone: Problem) -> Any:
    """The optimum of a problem of one feature; losses with kinks included."""
    if alone.n_outputs > 1:
        return alone.solve(TOLERANCE)
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(lambda w: alone.objective(np.array([w])), tol=1e-9)
    return np.array([float(found.x)])


def _row(label: str, measured: dict[str, Any]) -> dict[str, Any]:
    return {"label": label, "algorithm": None, **measured}
