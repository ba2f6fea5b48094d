"""From sections to the public objects of a run: graph, loss, regulariser, facts, budget. No record
is read here."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tacenda import checks, schedules
from tacenda.config.sections import NetworkSection, PrivacySection, ProblemSection
from tacenda.config.shape import Shape
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.privacy.adjacency import check_persons
from tacenda.privacy.settings import Privacy
from tacenda.problem import losses, regularisers
from tacenda.problem.constants import RADIUS, Constants
from tacenda.problem.facts import Facts

# The words of [network] -> the parameter names that the generators use for them.
_WORDS = {
    "degree": ("degree", "k"),
    "probability": ("p",),
    "rows": ("rows",),
    "columns": ("cols",),
    "dimension": ("dim",),
}


def graph_of(network: NetworkSection, labels: tuple[Any, ...]) -> Any:
    """The network on the given node labels."""
    from tacenda import graph

    n = len(labels)
    if ":" in network.graph:
        made = graph.parse(network.graph)
    else:
        made = graph.by_name(network.graph, **_parameters(network, n))
    if made.n != n:
        raise InputError(
            f"network.graph {network.graph!r} has {made.n} nodes, "
            f"but the data is held by {n}; leave the number out, or make them equal."
        )
    return made if list(labels) == list(range(n)) else made.relabelled(labels)


def _parameters(network: NetworkSection, n: int) -> dict[str, Any]:
    from tacenda import graph

    kind = checks.one_of(
        "network.graph", network.graph.strip().lower().replace("-", "_"), graph.KINDS
    )
    takes = inspect.signature(graph.KINDS[kind]).parameters
    values: dict[str, Any] = {"n": n} if "n" in takes else {}
    if "seed" in takes:
        values["seed"] = network.seed
    for word, names in _WORDS.items():
        given = getattr(network, word)
        name = next((name for name in names if name in takes), None)
        if given is not None and name is None:
            raise InputError(
                f"network.{word} does not belong to the graph {network.graph!r}, "
                f"which takes {list(takes)}."
            )
        if given is not None and name is not None:
            values[name] = given
    if kind == "random_regular" and network.degree is None:
        values["degree"] = regular_degree(n)
    if kind == "erdos_renyi" and network.probability is None:
        values["p"] = min(1.0, 2.5 * np.log(max(n, 2)) / n)
    if kind == "small_world":
        values.setdefault("k", min(4, n - 1))
        values.setdefault("p", 0.1)
    return values


def regular_degree(n: int) -> int:
    """6, or what a regular graph on n nodes can have: n * degree must be even."""
    degree = min(6, n - 1)
    return degree - 1 if n * degree % 2 else degree


def loss_of(problem: ProblemSection, classes: int) -> Any:
    """The loss, chosen by the label's declared kind where it is "auto"."""
    name = problem.loss
    if name == "auto":
        name = "huber" if classes == 0 else ("logistic" if classes == 2 else "multinomial")
    loss = losses.by_name(name)
    regression = loss.kind == "regression"
    if regression != (classes == 0):
        found = "a number" if classes == 0 else f"one of {classes} classes"
        raise InputError(
            f"problem.loss {loss.name!r} does not fit the label, which is {found}; "
            "use loss = 'auto'."
        )
    return checks.with_options("problem.loss_options", loss, problem.loss_options)


def regulariser_of(problem: ProblemSection) -> Any:
    return checks.with_options(
        "problem.regulariser_options",
        regularisers.by_name(problem.regulariser),
        problem.regulariser_options,
    )


def facts_of(
    problem: ProblemSection, shape: Shape, privacy: PrivacySection, tolerance: float
) -> Facts:
    """All that the noise is planned from."""
    adjacency = privacy.adjacency
    most = 1 if privacy.records_per_person is None else privacy.records_per_person
    if privacy.private:
        check_persons(adjacency, most, privacy.members_per_person)
    constants = Constants.declared(
        loss=loss_of(problem, shape.classes),
        regulariser=regulariser_of(problem),
        strength=problem.strength,
        loss_scale=problem.loss_scale,
        data_norm=data_norm_of(problem, shape.norm),
        clip_norm=problem.clip_norm,
        radius=radius_of(problem),
        classes=shape.classes,
        row_scale=row_scale_of(problem, shape.row_scale),
        prefix="problem.",
    )
    sizes = shape.sizes.astype(float)
    if adjacency == "add-remove":
        if problem.public_size is None:
            raise InputError(
                "problem.public_size must be declared under adjacency 'add-remove', "
                "where a node's record count is itself private: "
                "one public number in its place, for instance a round one."
            )
        sizes = np.full(len(sizes), problem.public_size)
    return Facts(
        sizes,
        constants.n_outputs * shape.features,
        constants,
        adjacency,
        tolerance,
        records_per_person=most,
        members_per_person=privacy.members_per_person,
    )


def radius_of(problem: ProblemSection) -> float:
    """The bound on every coordinate of a model."""
    return RADIUS if problem.radius is None else checks.positive("problem.radius", problem.radius)


def data_norm_of(problem: ProblemSection, declared: float | None) -> float:
    """The bound on every row: as configured, else as the data's own declaration, else 1."""
    norm = problem.data_norm if problem.data_norm is not None else declared
    return checks.positive("problem.data_norm", 1.0 if norm is None else norm)


def row_scale_of(problem: ProblemSection, declared: float) -> float:
    """By how much the rows are divided: as configured, else as the data's own declaration."""
    scale = declared if problem.row_scale is None else problem.row_scale
    return checks.positive("problem.row_scale", scale)


def privacy_of(section: PrivacySection) -> Privacy | None:
    """The budget, or None for a run without noise."""
    if not section.private:
        return None
    spread: Any = schedules.from_plain(section.spread)
    pooled = None if section.coalition == "all" else section.coalition
    if section.noise_multiplier is not None or section.round_epsilon is not None:
        return Privacy.from_noise(
            noise_multiplier=section.noise_multiplier,
            round_epsilon=section.round_epsilon,
            delta=section.delta,
            adjacency=section.adjacency,
            spread=spread,
            node_noise=section.node_noise,
            coalition=pooled,
        )
    if section.paper:
        return _from_paper(section, spread)
    return Privacy(
        section.epsilon,
        section.delta,
        section.adjacency,
        section.mode,
        spread,
        section.node_noise,
        coalition=pooled,
    )


def _from_paper(section: PrivacySection, spread: Any) -> Privacy:
    if (
        section.mode != "as-published"
        or section.adjacency != "replace-one"
        or isinstance(section.epsilon, list)
    ):
        raise InputError(
            "privacy.paper belongs to mode 'as-published' under 'replace-one', "
            "with one epsilon for all nodes."
        )
    epsilon = section.epsilon if set(section.paper) == {"c0"} else None
    paper: dict[str, Any] = {
        str(name): schedules.from_plain(value) for name, value in section.paper.items()
    }
    return Privacy.from_paper(epsilon=epsilon, delta=section.delta, spread=spread, **paper)


def topology_of(network: NetworkSection, shape: Shape) -> Topology:
    return Topology.of(graph_of(network, shape.labels))
