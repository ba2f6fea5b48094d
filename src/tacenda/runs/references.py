"""What a run is compared with: the noise-free optimum, a trusted server, one node alone, the floor.

All of them read private records for the sake of a simulation, and are marked so where they are
shown. The optimum and the floor are computed without noise. A trusted server and one node alone are
further private fits, each at the run's own epsilon and each with a ledger of its own: the promise
of the run does not cover them (`NOTE`), and its statement does not count them. No model of theirs
is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tacenda.errors import TacendaError, UnsupportedError
from tacenda.evaluation.measures import as_shown
from tacenda.graph.topology import Topology
from tacenda.planning import plan_facts
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.runs.sections import RunConfig
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards

CEILING, SERVER = "noise-free optimum (ceiling)", "trusted server, same epsilon"
ALONE, FLOOR, MEAN = "one node alone, same epsilon", "majority class (floor)", "mean (floor)"
NO_FEATURE = "no features (floor)"
FEW_NODES = 5  # of which one node alone is the median
TOLERANCE = 1e-6
NOTE = (
    "trusted server and one node alone are separate private fits, each with one draw of noise, "
    "for comparison only: the promise of the run does not cover them"
)

MOST_CELLS = 2e7  # of the records, beyond which fits to compare with are made only when asked for
LEFT_OUT = (
    "trusted server and one node alone are left out, because the data is large and each is "
    "another private fit; --references adds them"
)

IN_PARTS = "all records would have to be in one process; run it without mpiexec"

# (records, test records, models) -> measures
Evaluate = Callable[[LocalShards, HeldOutRecords | None, Any], dict[str, Any]]


def ceiling(
    shards: LocalShards, graph: Any, test: HeldOutRecords | None, measure: Evaluate
) -> dict[str, Any]:
    """The centralised optimum without privacy:
    nothing that learns this model can do better on the objective."""
    if shards.whole is not None:
        return _row(CEILING, measure(shards, test, shards.whole.solve(TOLERANCE)))
    try:
        model = _optimum(shards, graph)
    except UnsupportedError as why:
        return {**_row(CEILING, {}), "missing": str(why)}
    return _row(CEILING, measure(shards, test, model))


def _optimum(shards: LocalShards, graph: Any) -> Any:
    """The optimum found by all ranks, each of which has its own nodes' records only."""
    from tacenda.algorithms.optimum import Optimum
    from tacenda.runtime.simulate import simulate

    if not shards.problem.loss.smooth:
        raise UnsupportedError(f"for the loss {shards.problem.loss.name!r} {IN_PARTS}")
    method = Optimum(tolerance=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = simulate(
            shards.problem,
            graph,
            method,
            method.default_rounds,
            seed=0,
            blocks=shards.parts,
            record_every=0,
            progress=False,
            transport=shards.ranks,
        )
    return np.ravel(found.model)


def floor(
    shards: LocalShards,
    test: HeldOutRecords | None,
    intercept: int | None,
    measure: Evaluate,
    adjacency: str,
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
    alone, among = shards.with_one_feature(None), None
    if intercept is not None and not shards.problem.loss.stacked:
        among = shards.with_one_feature(intercept)
    answers = None if test is None else test.all_labels
    loss = shards.problem.loss
    label = NO_FEATURE if loss.stacked else MEAN if loss.kind == "regression" else FLOOR
    if alone is None:  # not the root, which does the rest by itself
        return _row(label, {})
    column = None if answers is None else HeldOutRecords(np.ones((len(answers), 1)), answers)
    found = measure(LocalShards.alone(alone), column, _best_constant(alone))
    if among is not None:
        found["objective"] = float(among.objective(_best_constant(among)))
    if adjacency != "replace-one":
        found = {k: v for k, v in found.items() if k not in ("objective", "loss")}
    return as_shown(_row(label, found), adjacency)


def affordable(shards: LocalShards, config: RunConfig) -> bool:
    """Whether private fits to compare with are made: as asked, or where the data is not large."""
    if config.run.references != "auto":
        return config.run.references
    return float(shards.sizes.sum()) * shards.problem.n_features <= MOST_CELLS


def trusted_server(
    shards: LocalShards, test: HeldOutRecords | None, config: RunConfig, measure: Evaluate
) -> dict[str, Any] | None:
    """A private fit by somebody who holds all records, at the same (epsilon, delta): what the
    missing trust costs. None where no epsilon is stated; where no such fit is possible,
    the row says why."""
    epsilons = stated(config)
    if epsilons is None:
        return None
    if shards.whole is None:
        return {**_row(SERVER, {}), "missing": IN_PARTS}
    try:
        model = _fitted(shards.whole.pooled(), min(epsilons), config)
    except TacendaError as why:
        return {**_row(SERVER, {}), "missing": str(why)}
    return _row(SERVER, measure(shards, test, model))


def one_node(
    shards: LocalShards, test: HeldOutRecords | None, config: RunConfig, measure: Evaluate
) -> dict[str, Any] | None:
    """The median over a few nodes of a private fit on their own records alone, at the same
    (epsilon, delta), judged on the records of all: what taking part is worth."""
    epsilons, n = stated(config), shards.n
    if epsilons is None or n == 1:
        return None
    chosen = np.unique(np.linspace(0, n - 1, min(FEW_NODES, n)).round().astype(int))
    mine: dict[int, Any] = {}
    for place, k in enumerate(shards.here.tolist()):
        if k in chosen:
            try:
                mine[k] = _fitted(
                    shards.problem.of_node(place), epsilons[k % len(epsilons)], config
                )
            except TacendaError as why:
                mine[k] = str(why)
    models = {k: model for own in shards.ranks.each(mine) for k, model in own.items()}
    failed = [models[k] for k in chosen.tolist() if isinstance(models[k], str)]
    if failed:
        return {**_row(ALONE, {}), "missing": failed[0]}
    found = [measure(shards, test, models[k]) for k in chosen.tolist()]
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
    plan = plan_facts(facts, alone, Privacy(epsilon, p.delta, p.adjacency, coalition=None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice belongs to the run itself
        result = simulate(
            problem,
            alone,
            plan.method,
            privacy=Privacy(epsilon, p.delta, p.adjacency),
            seed=None if config.run.fresh_noise else config.run.seeds[0],
            record_every=0,
            progress=False,
        )
    return np.ravel(result.model)


def _single() -> Any:
    from tacenda import graph

    return graph.complete(1)


def _best_constant(alone: Problem) -> Any:
    """The optimum of a problem of one feature; losses with kinks included."""
    if alone.n_outputs > 1 or alone.n_features > 1:
        return alone.solve(TOLERANCE)
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(lambda w: alone.objective(np.array([w])), tol=1e-9)
    return np.array([float(found.x)])


def _row(label: str, measured: dict[str, Any]) -> dict[str, Any]:
    return {"label": label, "algorithm": None, **measured}
