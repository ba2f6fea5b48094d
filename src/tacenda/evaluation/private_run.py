"""`evaluate_privately`: one charged release of counts on held-out records, and what follows from
it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, LedgerWarning, UnsupportedError
from tacenda.evaluation.private import PrivateEvaluation, counts_for
from tacenda.evaluation.units import Units
from tacenda.privacy.lasting.accounts import HELD_OUT, UNNAMED
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.questions.counts import Counts
from tacenda.questions.facts import Facts
from tacenda.questions.outcomes import OutcomeCounts, outcome_model
from tacenda.runtime.lasting_run import marks_of_problem
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate

SIMULATED = (
    "a simulation: its noise is floating-point and seeded, for trials and for people who may read "
    "all records; on members' own machines use the contract's [evaluation], which draws exact "
    "noise from secret keys"
)
SAME = 0.5  # from this share of common records on, held-out records are training records


def evaluate_privately(
    model: Any,
    held_out: Problem,
    graph: Any,
    privacy: Privacy | None,
    *,
    counts: Counts | None = None,
    noise: str = "masked",
    level: float = 0.95,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    units: Units | None = None,
) -> PrivateEvaluation:
    """Evaluate a released model on held-out records, privately: a simulation over the nodes.

    Every node adds up what the model does on its held-out records; the network's sum is released
    once, with noise. All measures and their intervals follow from that sum.

    It is a simulation: its noise is floating-point and seeded, so that who knows the seed can take
    it off, and the ledger's charge is for trials. On members' own machines the contract's
    `[evaluation]` does the same with exact noise under secret keys.

    Parameters
    ----------
    model : RunResult or array_like
        A released model: (d,), (K, p), or a run's result, whose average model is taken.
    held_out : Problem
        The held-out records of every node, never trained on (`tacenda.data.hold_out`), with loss
        and declared bounds as in training.
    graph : Topology or networkx graph
        One node for each shard.
    privacy : Privacy or None
        Budget of the held-out records. They are others than those trained on, so it does not add up
        with the training's. None is not private.
    counts : ClassCounts, ValueSums, CountSums, QuantileSums or None, default=None
        What is counted; by default what the loss asks for, with the usual bins. A regression's
        labels are cut to -1 and 1, or to what the loss declares, unless it says otherwise.
    noise : {"masked", "independent"}, default="masked"
        Whether only the network's sum is readable, or each node's too, with more noise.
    level : float, default=0.95
        Confidence level of the intervals.
    seed : int or None, default=None
        Of the simulated noise. Another question, such as another model, has other noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger. The release is charged there before it is drawn. Records that the
        ledger knows as trained on are refused.
    dataset : str or None, default=None
        Name of the data set: the release is charged to the account "NAME/held-out", which has the
        budget of NAME unless it has one of its own. It must be given where the ledger holds a
        budget and does not know these records.
    units : Units or None, default=None
        From encoded labels to the label's own units, for a regression.

    Raises
    ------
    InputError
        If the model does not fit, or the records were trained on.
    BudgetError
        If the account has too little budget left.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(3000, 2, difficulty=0.2, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 3, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> found = tc.evaluate_privately(
    ...     np.zeros(2), problem, tc.graph.complete(3), tc.Privacy(1.0), seed=0
    ... )
    >>> sorted(found.measures)[:3]
    ['accuracy', 'balanced_accuracy', 'brier']
    """
    if not isinstance(held_out, Problem):
        raise InputError(
            "held_out must be a tacenda.Problem of the held-out shards, "
            f"not a {type(held_out).__name__}."
        )
    if held_out.store.weights is not None:
        raise UnsupportedError(
            "Private evaluation counts every held-out record once; "
            "build the Problem of held-out records without weights."
        )
    row, learnt = _model_of(model, held_out), held_out.loss
    run = model if isinstance(model, RunResult) else None
    cells = len(held_out.classes or ()) if learnt.stacked else held_out.n_outputs
    asked = counts_for(learnt, cells, run=run) if counts is None else counts
    if learnt.stacked:
        row, held_out = outcome_model(learnt, row, cells), held_out.of_records()
    account = dataset
    if ledger is not None:
        account = held_out_account(ledger, held_out, dataset)
    result = simulate(
        held_out,
        graph,
        StatisticRelease(asked, noise),
        rounds=1,
        privacy=privacy,
        seed=seed,
        init=row,
        record_every=0,
        metrics=(),
        progress=False,
        ledger=ledger,
        dataset=account,
    )
    found = evaluation_of(result, asked, held_out, level, units)
    if not isinstance(asked, OutcomeCounts):
        return found
    constant = held_out.largest_constant() if held_out.sizes.sum() else 1.0
    about = {**found.about, "loss": asked.loss}
    return replace(found, about=about, offsets=offsets_of(asked, row, constant))


def offsets_of(asked: OutcomeCounts, model: Floats, constant: float) -> tuple[float, ...]:
    """The scores of a record's questions less that of the first; model: (K p,), as is asked;
    constant: the last feature of every record."""
    last = np.asarray(model, float).reshape(asked.n_classes, -1)[: asked.cuts, -1] * constant
    return tuple(float(x) for x in last - last[0])


def evaluation_of(
    result: RunResult,
    counts: Counts,
    held_out: Problem,
    level: float = 0.95,
    units: Units | None = None,
) -> PrivateEvaluation:
    """What follows from a run of `StatisticRelease`: of the problem its public facts alone."""
    relation = "replace-one" if result.privacy is None else result.privacy.adjacency
    public = Facts.of(held_out, relation).counts_are_public
    names = held_out.classes
    about = {"nodes": len(held_out.sizes), "loss": held_out.loss.name}
    if result.privacy is not None:
        about["simulation"] = SIMULATED
    return PrivateEvaluation(
        counts,
        np.asarray(result.released["total"], float),
        float(result.released["noise"][0]),
        int(np.sum(held_out.sizes)) if public else None,
        result.privacy,
        None if names is None else tuple(str(c) for c in names),
        Units() if units is None else units,
        level,
        about,
    )


def held_out_account(ledger: str | Path, held_out: Problem, dataset: str | None) -> str:
    """The account of held-out records; refuse those that the ledger knows as trained on.

    Parameters
    ----------
    ledger : str or Path
        The ledger's file.
    held_out : Problem
        The held-out records.
    dataset : str or None
        Name of the data set; None takes the account that these records have, or a new one where the
        ledger holds no budget.

    Raises
    ------
    InputError
        If at least half of the records, or of an account's records, were trained on.
    PrivacyError
        If the ledger holds a budget, and the records have neither a name nor a known account.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> from tacenda.evaluation.private_run import held_out_account
    >>> data = tc.data.make_classification(20, 2, seed=0)
    >>> problem = tc.Problem([(data.X, data.y)], classes=(0, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     held_out_account(os.path.join(folder, "ledger.db"), problem, "trial")
    'trial/held-out'
    """
    with LedgerStore(ledger) as store:
        marks = marks_of_problem(held_out, store.salt)
        near = store.overlapping(marks)
        used = {row["dataset"] for row in store.runs()}
        trained = [n for n in near if not n.name.endswith(HELD_OUT) and n.name in used]
        for one in trained:
            said = (
                f"about {one.share:.0%} of the held-out records, or of those of {one.name!r}, are "
                "in both, and the ledger has charged runs on the latter"
            )
            if one.share >= SAME:
                raise InputError(
                    f"held_out must hold records that were never trained on: {said}. Hold records "
                    "out before training (tacenda.data.hold_out), and evaluate on them."
                )
        known = [n.name for n in near if n.name.endswith(HELD_OUT)]
        if dataset is not None:
            name = dataset if dataset.endswith(HELD_OUT) else f"{dataset}{HELD_OUT}"
        elif known:
            name = known[0]
            store.require_name(name)
        else:
            store.require_name()
            name = f"{UNNAMED}{marks.digest[:16]}{HELD_OUT}"
        whole = name.removesuffix(HELD_OUT)
        reasons = {one.name: f"about {one.share:.0%} of the records are in both" for one in trained}
        if store.reads_all(whole):
            reasons[whole] = "private bounds were taken from all records"
        for other, reason in reasons.items():
            store.join_held_out(name, other)
            warnings.warn(
                f"{reason}: {other!r} and {name!r} add up in the ledger.",
                LedgerWarning,
                stacklevel=3,
            )
        budget = store.budget(whole) if whole in store.datasets() else None
        has_own = name in store.datasets() and store.budget(name) is not None
        if budget is not None and not has_own:
            store.copy_budget(whole, name)
        return name


def _model_of(model: Any, problem: Problem) -> Floats:
    """(d,) of a result or an array."""
    found = model.model if isinstance(model, RunResult) else model
    try:
        row = np.asarray(found, float).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(
            f"model must be a RunResult or an array of numbers, not a {type(model).__name__}."
        ) from None
    checks.whole("number of the model's weights", row.size, least=1)
    if row.size != problem.dim:
        raise InputError(
            f"model must have {problem.dim} weights, as the held-out records need, not {row.size}."
        )
    return row
