"""From sections to the public objects of a run: graph, loss, regulariser, facts, budget. No record
is read here."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tacenda import checks, losses, schedules
from tacenda.data.label import Label
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.privacy.adjacency import check_persons
from tacenda.privacy.settings import Privacy
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.runs.sections import NetworkSection, PrivacySection, ProblemSection
from tacenda.runs.shape import Shape
from tacenda.terms.border import stated
from tacenda.terms.privacy import Promise
from tacenda.terms.problem import declared

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


def loss_of(problem: ProblemSection, classes: int, label: Label | None = None) -> Any:
    """The loss, chosen by the label's declared kind where it is "auto"; label: as a schema declares
    it, whose upper end is then the bound of counts."""
    name, labels = problem.loss, None if label is None else label.encoded_range
    if name == "auto":
        name = "huber" if classes == 0 else ("logistic" if classes == 2 else "multinomial")
        name = name if label is None else label.usual_loss
    loss = losses.by_name(name)
    if label is not None:
        label.check_loss("problem.loss", loss)
    regression = loss.kind == "regression"
    if regression != (classes == 0):
        found = "a number" if classes == 0 else f"one of {classes} classes"
        raise InputError(
            f"problem.loss {loss.name!r} does not fit the label, which is {found}; "
            "use loss = 'auto'."
        )
    options = problem.loss_options or {}
    if labels is not None and hasattr(loss, "label_bound") and labels[1] > 0.0:
        options = {"label_bound": labels[1], **options}
    loss = checks.with_options("problem.loss_options", loss, options)
    if labels is not None and regression:
        least, most = loss.label_range
        if not least <= labels[0] <= labels[1] <= most:
            raise InputError(
                f"problem.loss {loss.name!r} takes labels from {least:g} to {most:g}, and those of "
                f"the schema lie from {labels[0]:g} to {labels[1]:g} after scaling; for counts "
                "declare low = 0, a high and a typical count under [label] of the schema, without "
                "scale_to, and leave label_bound out of problem.loss_options."
            )
    return loss


def facts_of(
    problem: ProblemSection, shape: Shape, privacy: PrivacySection, tolerance: float
) -> Facts:
    """All that the noise is planned from."""
    adjacency = privacy.adjacency
    most = 1 if privacy.records_per_person is None else privacy.records_per_person
    if privacy.private:
        check_persons(adjacency, most, privacy.members_per_person)
    constants = Constants.declared(
        **declared_of(problem, shape.classes, shape.norm, shape.row_scale, shape.label),
        classes=shape.classes,
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
    ).of_outcomes(shape.classes)


def declared_of(
    problem: ProblemSection,
    classes: int,
    norm: float | None,
    row_scale: float,
    label: Label | None = None,
) -> dict[str, Any]:
    """What is declared about a problem; where it says nothing, the bound on rows and the number
    by which they were divided are the data's own; label: as a schema declares it."""
    return declared(
        problem,
        "problem.",
        loss=loss_of(problem, classes, label),
        data_norm=next(n for n in (problem.data_norm, norm, 1.0) if n is not None),
        row_scale=checks.positive(
            "problem.row_scale", row_scale if problem.row_scale is None else problem.row_scale
        ),
    )


def privacy_of(section: PrivacySection) -> Privacy | None:
    """The budget, or None for a run without noise."""
    if not section.private:
        return None
    promise = stated(Promise, section)
    noise = {name: getattr(section, name) for name in ("noise_multiplier", "round_epsilon")}
    if any(value is not None for value in noise.values()):
        without = {k: v for k, v in promise.items() if k not in ("epsilon", "mode")}
        return Privacy.from_noise(**noise, **without)
    return _from_paper(section, promise) if section.paper else Privacy(**promise)


def _from_paper(section: PrivacySection, promise: dict[str, Any]) -> Privacy:
    epsilon = promise["epsilon"]
    if (
        promise["mode"] != "as-published"
        or promise["adjacency"] != "replace-one"
        or isinstance(epsilon, list)
    ):
        raise InputError(
            "privacy.paper belongs to mode 'as-published' under 'replace-one', "
            "with one epsilon for all nodes."
        )
    paper: dict[str, Any] = {
        name: schedules.from_plain(value) for name, value in section.paper.items()
    }
    return Privacy.from_paper(
        epsilon=epsilon if set(paper) == {"c0"} else None,
        delta=promise["delta"],
        spread=promise["spread"],
        **paper,
    )


def topology_of(network: NetworkSection, shape: Shape) -> Topology:
    return Topology.of(graph_of(network, shape.labels))
