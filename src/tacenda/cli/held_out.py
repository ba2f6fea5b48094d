"""Records held out from a model's training, for a private evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacenda import losses
from tacenda._types import Array, Floats
from tacenda.cli.models import LONGEST, Model, labelled, named
from tacenda.errors import InputError
from tacenda.evaluation.outcome_measures import is_outcome
from tacenda.losses.registry import predicts


def private_records(
    model: Model, data: str | None, label: str | None
) -> tuple[Any, Array, str, Array | None, Array | None]:
    """(features, labels, which records, whose, fingerprints) for a private evaluation, of each
    person no more than the run took; the file that the model was trained on is refused."""
    own = None if model.config is None else model.config.data
    aside = own is not None and own.test_fraction > 0
    if data is None:
        if not aside:
            raise InputError(
                "DATA must name held-out records: the run set none aside (tacenda fit "
                "--test-fraction 0.2 does, before training)."
            )
        from tacenda.runs.private_run import private_run

        found = private_run(model.config)
        X, y = found.test  # type: ignore[misc]
        labels = y if model.classes is not None else model.units.labels(y)
        own_part, set_aside = found.dataset, "the records that the run set aside"
        return X, labels, set_aside, own_part.test_persons, own_part.test_fingerprints
    if own is not None and _trained_on(model, data):
        remedy = (
            "leave DATA out to take the records that the run set aside."
            if aside
            else "hold records out before training (tacenda fit --test-fraction 0.2)."
        )
        raise InputError(
            f"DATA must hold records that were never trained on, and {data} is what {model.name} "
            f"was trained on; {remedy}"
        )
    most = None if model.config is None else model.config.privacy.records_per_person
    return labelled(model, data, label, most)


def held_out_size(model: Model, data: str | None, nodes: int, given: float | None) -> float | None:
    """The public number that stands for how many held-out records each node has; None where the
    run's relation makes their number public."""
    config = model.config
    if config is None or config.privacy.adjacency != "add-remove":
        if given is not None:
            raise InputError(
                f"--public-size is for runs under add-remove; the number of records is public for "
                f"{model.name}, so leave it out."
            )
        return None
    if given is not None:
        return given / nodes
    if data is None and config.problem.public_size is not None:
        from tacenda.runs.shape import node_count

        trained = config.problem.public_size * node_count(config.network)
        share = config.data.test_fraction
        return max(1.0, float(round(trained * share / (1 - share)))) / nodes
    raise InputError(
        "--public-size must say about how many records DATA has, from public knowledge: the run's "
        "relation is add-remove, where their number is private."
    )


def _trained_on(model: Model, data: str) -> bool:
    """Whether DATA names what the run's own configuration names; a named set's test part is not
    trained on."""
    own = model.config.data
    if own.file is not None:
        a, b = Path(own.file), Path(data)
        return a.exists() and b.exists() and a.samefile(b)
    return own.name == data and named(model, data)[0].test is None


def held_out_problem(
    model: Model,
    rows: Any,
    labels: Array,
    nodes: int,
    persons: Array | None = None,
    size: float | None = None,
    fingerprints: Array | None = None,
) -> tuple[Any, Any, Floats]:
    """(problem, what is counted, model (d,)) of held-out records, spread evenly over nodes, or by
    persons where the run's promise is to persons; size: the public number for each node."""
    from scipy import sparse

    from tacenda.data.partition import by_person, even
    from tacenda.evaluation.private import counts_for
    from tacenda.problem.problem import Problem
    from tacenda.questions.outcomes import outcome_model

    weights, units = model.weights, model.units
    if np.any(model.intercept):
        one = np.ones((rows.shape[0], 1))
        rows = (
            sparse.hstack([rows, one]).tocsr() if sparse.issparse(rows) else np.hstack([rows, one])
        )
        weights = np.column_stack([weights, model.intercept])
    bounds: list[float] | None = None
    several = model.classes is not None and len(model.classes) > 2
    if model.classes is None:
        loss = "squared"  # it takes every number; what is counted follows from the model's own
        if units.low is None or units.high is None:
            raise InputError(
                f"{model.name} declares no bounds of its label, which a private evaluation needs; "
                "give low and high under [label] of the schema."
            )
        bounds = [(end - units.centre) / units.reach for end in (units.low, units.high)]
        labels = (np.asarray(labels, float) - units.centre) / units.reach
    else:
        loss = "multinomial" if several else "logistic"
        if not model.probabilities and not is_outcome(model.loss):
            loss = "multiclass-hinge" if several else "hinge"
    section = None if model.config is None else model.config.privacy
    most = None if section is None else section.records_per_person
    if most is not None and persons is None:
        raise InputError(
            f"{model.name} promises privacy to persons, so DATA must be a file with the schema's "
            "columns, among them that of the persons' ids."
        )
    problem = Problem(
        even(rows, labels, nodes)
        if persons is None or most is None
        else by_person(rows, labels, persons, nodes),
        public_sizes=size,
        records_per_person=1 if most is None else most,
        members_per_person=1 if section is None or most is None else section.members_per_person,
        loss=loss,
        data_norm=LONGEST,  # counts do not depend on it: it only refuses broken rows
        classes=None if model.classes is None else range(len(model.classes)),
        fingerprints=fingerprints,
    )
    learnt, meaning = problem.loss, predicts(model.loss)
    if is_outcome(model.loss):
        learnt = losses.by_name(str(model.loss))
        counted = counts_for(learnt, len(model.classes or ()))
        return problem, counted, outcome_model(learnt, weights, len(model.classes or ()))
    if model.loss is not None and meaning == "log-rate":
        learnt = losses.by_name(model.loss)
    elif model.loss is not None and meaning == "quantile" and model.level is not None:
        learnt = losses.by_name(model.loss, level=model.level)
    return problem, counts_for(learnt, problem.n_outputs, bounds, model.run), weights.reshape(-1)
