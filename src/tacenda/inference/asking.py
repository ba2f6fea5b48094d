"""`intervals`: coefficients with intervals, of a run whose release tells them already, or by asking
the records once more."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks, losses
from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, UnsupportedError
from tacenda.inference.design import Design, forecast
from tacenda.inference.newton import Estimate, Information, identifiable, one_step
from tacenda.inference.result import Condition, Inference
from tacenda.inference.scales import SHARE, scales_of
from tacenda.inference.statistics import FULL, HIDDEN_LABELS, NONE, SCALAR, GradientMoments
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.questions.moments import unpacked
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate
from tacenda.terms.problem import DECLARED

COVARIANCES = ("robust", "model")
MOST_FEATURES = 1000
PER_COEFFICIENT = 20  # least records for each coefficient
MOST_CUT = 0.01  # largest share of records whose residual was cut
MOST_HIGHER = 1.0  # largest remainder of a Newton step, in standard errors
TOO_FAR = 2.0  # beyond it there are no intervals: those of 95 % held the truth less than 90 %

INDEPENDENT = "The records are independent draws from the population in question."
RIGHT = {
    "robust": "The model need not be right: the coefficients are those of the linear score that "
    "fits the population best.",
    "model": "The model is right: the labels vary around the linear score as the loss says, "
    "equally everywhere; ask with covariance 'robust' if you are not sure.",
}


def intervals(
    result: RunResult,
    problem: Problem | None = None,
    graph: Any = None,
    *,
    privacy: Privacy | None = None,
    level: float = 0.95,
    covariance: str = "robust",
    slope: float | None = None,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    design: Design | None = None,
    anyway: bool = False,
) -> Inference:
    """Estimate a population's coefficients, with intervals for records and privacy noise.

    Least squares that was learnt in one round (`MomentRegression` with rounds=1) has released all
    that is needed: without `problem` the intervals follow from the result and cost nothing. For all
    other runs the records of `problem` are asked once more, for the gradient, the curvature and the
    spread of their loss at the released model, and `privacy` is its price, *on top of* the run's:
    give the two the parts of one budget, and both the same `ledger`. Records that were held out
    from training may be asked instead; then no record pays for both.

    Parameters
    ----------
    result : RunResult
        The run whose model is asked about.
    problem : Problem or None, default=None
        The records that are asked; None: only what the run has released is used.
    graph : Graph, Topology or None, default=None
        The network of the records' nodes.
    privacy : Privacy or None, default=None
        The price of the question. None with a `problem`: no noise, and no privacy.
    level : float, default=0.95
        Confidence level of the intervals.
    covariance : {"robust", "model"}, default="robust"
        "robust" needs no model to be right (the sandwich of Huber 1967 and White 1980); "model"
        takes the loss for the truth, and has slightly shorter intervals.
    slope : float or None, default=None
        To which the residuals of the squared loss are cut; by default by what a fifth of the
        budget tells of their sizes, as for counts (`LossScales`). Other losses have their own
        bound.
    seed : int or None, default=None
        Of the noise, which no other question shares; None draws it afresh.
    ledger : str, Path or None, default=None
        A lasting ledger, charged before noise is drawn.
    dataset : str or None, default=None
        The account of the records in it.
    design : Design or None, default=None
        What is declared about rows: redundant directions are left out, and the forecast names the
        rows that a table shows. See `tacenda.evaluation.design_of`.
    anyway : bool, default=False
        Ask although the forecast says that no coefficient will be visible.

    Returns
    -------
    Inference
        Estimates, standard errors, intervals, conditions and the cost.

    Raises
    ------
    InputError
        If nothing is asked and the run has released too little.
    PrivacyError
        If the forecast from public numbers says that the noise will hide every coefficient; then
        nothing is charged.
    UnsupportedError
        If the loss has several scores or is not smooth.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(400, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1), strength=1e-3)
    >>> graph = tc.graph.ring(4)
    >>> result = tc.simulate(problem, graph, "treegd", 10, privacy=tc.Privacy(4.0), seed=0)
    >>> found = tc.inference.intervals(
    ...     result, problem, graph, privacy=tc.Privacy(4.0), seed=1, level=0.9
    ... )
    >>> bool(np.all(found.noise_error < found.standard_error)), round(found.privacy.epsilon, 3)
    (True, 4.0)
    """
    level = checks.between("level", level, 0.0, 1.0)
    checks.one_of("covariance", covariance, COVARIANCES)
    redundant = None if design is None else design.redundant
    if problem is None:
        return _of_moment(result, level, redundant)
    if graph is None:
        raise InputError("graph must be given with problem: the network of the records' nodes.")
    facts = Facts.of(problem, "replace-one" if privacy is None else privacy.adjacency)
    asked = statistic_of(facts, covariance, slope)
    if privacy is not None and not anyway:
        expected = forecast(asked, facts, privacy, result, design)
        if expected is not None:
            expected.require_any()
    # Masks are trusted against coalitions of a stated size only
    masked = privacy is None or privacy.coalition is not None
    noise = "masked" if masked else "independent"
    first = None if privacy is None or slope is not None else scales_of(asked)
    release = StatisticRelease(asked, noise, first, SHARE)
    run = ask(release, result, problem, graph, privacy, seed, ledger, dataset)
    if first is not None:
        told, n = run.released, float(np.sum(run.settings["problem"]["sizes"]))
        asked = release.asked(told["first"], told["first_noise"], n)  # type: ignore[assignment]
    return from_released(asked, run, level, redundant)


def statistic_of(facts: Facts, covariance: str, slope: float | None = None) -> GradientMoments:
    """What is asked of records with these public facts."""
    loss = facts.constants.loss
    check_width(facts.n_features)
    if covariance == "robust":
        spread = FULL
    elif loss.is_likelihood and loss.predicts != "log-rate":  # whose unit nothing here tells
        spread = NONE
    elif loss.quadratic:
        spread = SCALAR
    else:
        raise UnsupportedError(
            f"covariance must be 'robust' for the loss {loss.name!r}: it does not say how far "
            "labels vary around the model."
        )
    asked = gradient_moments(facts, True, spread, slope)
    first = scales_of(asked)
    if first is not None and first.bend:  # as long whatever `first` will say
        asked = dataclasses.replace(asked, bend=asked.most_bend)
    return asked


def check_width(features: int) -> None:
    """Refuse a question whose answer would hold millions of numbers."""
    if features > MOST_FEATURES:
        raise UnsupportedError(
            f"Intervals are for models with at most {MOST_FEATURES} features, and this one has "
            f"{features}; choose few features from public knowledge."
        )


def facts_of_run(result: RunResult, adjacency: str) -> Facts | None:
    """Return the public facts of a run's records from its settings; None for a user's own loss,
    of which they hold a digest only."""
    about = result.settings["problem"]
    options = about["loss_options"]
    if "digest" in options:
        return None
    declared: Any = {s.name: about[s.name] for s in DECLARED if s.name in about}
    declared["loss"] = losses.by_name(about["loss"], **options)
    declared |= {"regulariser": "none", "strength": 0.0}  # the question is about the loss
    constants = Constants.declared(classes=about["n_outputs"], **declared)
    sizes = np.asarray(about["sizes"], float)
    return Facts(
        sizes,
        about["n_features"] * about["n_outputs"],
        constants,
        adjacency,
        records_per_person=about.get("records_per_person", 1),
        members_per_person=about.get("members_per_person", 1),
    )


def gradient_moments(
    facts: Facts, curvature: bool, spread: str, slope: float | None = None
) -> GradientMoments:
    """The statistic with the declared bounds of the records."""
    k = facts.constants
    if k.loss.stacked:
        raise UnsupportedError(
            f"Intervals are for losses of one score, and {k.loss.name!r} asks several questions "
            "about a record; `tacenda hazards` gives hazard ratios with intervals."
        )
    if k.n_outputs != 1:
        raise UnsupportedError(
            f"Intervals are for losses of one score, and {k.loss.name!r} has {k.n_outputs}; fit "
            "one class against the rest."
        )
    known: Any = dataclasses.fields(k.loss) if dataclasses.is_dataclass(k.loss) else ()
    options = {f.name: getattr(k.loss, f.name) for f in known}
    bound = float(k.loss.slope)
    if not math.isfinite(bound):
        # A clip that serves training would cut many residuals, and bend what is estimated
        usual = max(1.0, 0.0 if k.clip_norm is None else k.clip_norm / k.data_norm)
        bound = usual if slope is None else checks.positive("slope", slope)
    elif slope is not None:
        raise InputError(
            f"slope is for losses without a bound of their own, and {k.loss.name!r} has "
            f"{bound:g}; leave it out."
        )
    return GradientMoments(
        facts.n_features,
        k.loss.name,
        tuple(sorted(options.items())),
        float(k.data_norm),
        bound,
        curvature,
        spread,
    )


def ask(
    release: StatisticRelease,
    result: RunResult,
    problem: Problem,
    graph: Any,
    privacy: Privacy | None,
    seed: int | None,
    ledger: Any,
    dataset: str | None,
) -> RunResult:
    """Release sums at the run's average model."""
    if problem.store.weights is not None:
        raise UnsupportedError(
            "Intervals count every record once; build the Problem without weights."
        )
    model = np.asarray(result.model, float).reshape(-1)
    if model.size != problem.dim:
        raise InputError(
            f"problem has {problem.dim} coefficients, and the run's model {model.size}; give the "
            "records in the form in which the model was learnt."
        )
    if float(np.linalg.norm(model)) > problem.constants.radius:
        raise UnsupportedError(
            f"The model's norm {np.linalg.norm(model):.3g} is beyond the problem's radius "
            f"{problem.constants.radius:g}, where records are not asked; declare a larger radius."
        )
    return simulate(
        problem,
        graph,
        release,
        release.rounds,
        privacy,
        seed=seed,
        init=model,
        ledger=ledger,
        dataset=dataset,
        metrics=(),
    )


def from_released(
    asked: GradientMoments, run: RunResult, level: float = 0.95, redundant: Floats | None = None
) -> Inference:
    """Make intervals of what a run of `StatisticRelease` released: costs nothing more.

    Parameters
    ----------
    asked : GradientMoments
        What was asked.
    run : RunResult
        The run that asked it.
    level : float, default=0.95
        Of the intervals.
    redundant : ndarray or None, default=None
        Shape (r, d), public directions v with x.v = 0 for every record.

    Returns
    -------
    Inference
        Estimates, standard errors, intervals, conditions and the cost.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> from tacenda.algorithms import StatisticRelease
    >>> from tacenda.inference import GradientMoments, from_released
    >>> data = tc.data.make_classification(400, 3, seed=0)
    >>> problem = tc.Problem([(data.X, data.y)], classes=(0, 1))
    >>> asked = GradientMoments(3, "logistic")
    >>> run = tc.simulate(problem, tc.graph.complete(1), StatisticRelease(asked), 1)
    >>> from_released(asked, run).estimate.shape
    (3,)
    """
    sizes = run.settings["problem"]["sizes"]
    n, d = float(np.sum(sizes)), _told(redundant, asked.n_features)
    found, std = asked.means(run.released["total"], n), float(run.released["noise"][0]) / n
    units = asked.units
    curvature, gradient = found["curvature"], found["gradient"]
    # A squared residual needs its degrees of freedom; the others are asymptotic
    free = n / max(n - d, 1.0) if asked.spread == SCALAR else 1.0
    variance = curvature
    if asked.spread == FULL:
        variance = found["spread"]
    elif asked.spread == SCALAR:
        variance = max(float(found["spread"][0]), 0.0) * curvature
    told = Information(
        np.asarray(run.model, float).reshape(-1),
        gradient,
        curvature,
        variance * free * per_person(run),
        n,
        std * units["gradient"],
        std * units["curvature"],
        asked.data_norm,
        redundant,
        hidden_score=asked.hidden_score,
    )
    made = one_step(told)
    quadratic = asked.quadratic
    kind = "robust" if asked.spread == FULL else "model"
    conditions = [
        *_always(made, n, d, told.hidden_score),
        *([] if quadratic else [_step(made)]),
        *([_cut(found["cut"], std * units["cut"], asked.slope)] if "cut" in found else []),
        *_assumed(kind, run),
    ]
    method = (
        "One Newton step from the released model, by the gradient and curvature of the records' "
        f"loss there, which were released for it with {'noise' if std else 'no noise'}; the errors "
        "hold the choice of records and the privacy noise."
    )
    return Inference(
        made.values,
        made.sampling,
        made.noise,
        made.redundant if quadratic or made.higher <= TOO_FAR else np.eye(asked.n_features),
        level,
        method,
        tuple(conditions),
        run.privacy,
        spill=made.spill,
    )


def told_by(result: RunResult) -> bool:
    """Whether a run has released all that intervals need."""
    return "moment" in result.released and result.rounds == 1


def _told(redundant: Floats | None, d: int) -> int:
    """How many coefficients the records can tell."""
    return identifiable(redundant, d)[0].shape[1]


def _of_moment(result: RunResult, level: float, redundant: Floats | None = None) -> Inference:
    """Least squares by the released second moment M of (x, s y): at the point 0 the gradient is
    -mean(x y) and the curvature mean(x x')."""
    if not told_by(result):
        raise InputError(
            f"problem must be given for a run of {result.settings['algorithm']['name']!r}: it has "
            "released too little for intervals. Give the records, graph and privacy of one more "
            "question, or learn least squares with MomentRegression in one round."
        )
    about, algorithm = result.settings["problem"], result.settings["algorithm"]
    scale, bound = float(algorithm["label_scale"]), float(algorithm["label_bound"])
    moment = unpacked(np.asarray(result.released["moment"], float))
    std, c = float(result.released["noise"][0]), float(about["loss_scale"])
    sizes = np.asarray(about["sizes"], float)
    n = len(sizes) ** 2 / float(np.sum(1.0 / sizes))  # means of nodes' means
    curvature, cross = moment[:-1, :-1] / c, moment[:-1, -1] / (c * scale)
    d = len(cross)
    noise = std / c
    told = Information(
        np.zeros(d),
        -cross,
        curvature,
        np.zeros((d, d)),
        n,
        noise / math.sqrt(2) / scale,
        noise,
        data_norm=float(about["data_norm"]),
        redundant=redundant,
        far=True,  # 0
        hidden_score=HIDDEN_LABELS * bound,
    )
    d = _told(redundant, d)
    t = one_step(told).values
    residual = float(moment[-1, -1] / (c * scale**2) - 2 * t @ cross + t @ curvature @ t)
    variance = max(residual, _residual_std(t, noise, scale)) * n / max(n - d, 1.0)
    made = one_step(dataclasses.replace(told, variance=variance * per_person(result) * curvature))
    conditions = [
        *_always(made, n, d, told.hidden_score),
        Condition(
            "labels",
            None,
            f"No label lies beyond {bound:g} in encoded units: such labels were cut to it, nothing "
            "released tells how many, and 1 in 100 is enough to make the intervals too short.",
        ),
        *_assumed("model", result),
    ]
    method = (
        "Least squares without a regulariser by the second moment that the run released, at no "
        "further cost; the errors hold the choice of records and the privacy noise."
    )
    return Inference(
        made.values,
        made.sampling,
        made.noise,
        made.redundant,
        level,
        method,
        tuple(conditions),
        spill=made.spill,
    )


def _residual_std(t: Floats, std: float, scale: float) -> float:
    """Of the noise in (-t, 1/s)' M (-t, 1/s): z'Ez has the variance std^2 |z|^4."""
    return std * float(t @ t + 1 / scale**2)


def per_person(run: RunResult) -> float:
    """k: the records of a person, at all nodes, go together, and their sum varies by at most k
    times as much as if they did not."""
    about = run.settings["problem"]
    return float(about.get("records_per_person", 1) * about.get("members_per_person", 1))


def _always(made: Estimate, n: float, d: int, score: float) -> list[Condition]:
    enough = n >= PER_COEFFICIENT * d
    records = (
        f"There are {PER_COEFFICIENT} records or more for each coefficient: {n:.0f} for {d}."
        if enough
        else f"There must be {PER_COEFFICIENT} records for each coefficient, and there are "
        f"{n:.0f} for {d}; use fewer features."
    )
    times = "many times" if not math.isfinite(made.short) else f"{made.short:.2g} times"
    noise = (
        "The noise leaves the curvature visible in all directions."
        if made.directions == 0
        else f"The noise hides the curvature in {made.directions} of {d} directions, where the "
        f"coefficients may be anything. To see them takes {times} as many records, or as large an "
        "epsilon, or fewer features. Intervals are wider by what hidden directions add if they "
        f"move no record's score by more than {score:g}, and rows for which that is much have "
        "none. Where columns nearly repeat each other it may be more: keep one of them."
    )
    return [Condition("records", enough, records), Condition("noise", made.directions == 0, noise)]


def _step(made: Estimate) -> Condition:
    near = made.higher <= MOST_HIGHER
    text = (
        "The released model is near enough to the estimates for one Newton step: what it leaves "
        f"out is at most {made.higher:.2g} standard errors"
    )
    if not near:
        text = (
            "The released model is too far from the estimates for one Newton step: what it leaves "
            f"out may be {made.higher:.2g} standard errors, and {MOST_HIGHER:g} is allowed (beyond "
            f"{TOO_FAR:g} there are no intervals); learn the model with a smaller strength, more "
            "rounds or a larger share of the budget"
        )
    return Condition("step", near, f"{text}.")


def _cut(share: Floats, std: float, slope: float) -> Condition:
    found = float(np.ravel(share)[0])
    few = found <= MOST_CUT + 2 * std
    text = f"{max(found, 0.0):.2%} of the residuals were cut to {slope:g}"
    text += f" (known to {std:.2g})" if std else ""
    allowed = f", and {MOST_CUT:.0%} is allowed; ask at a larger epsilon or declare a larger slope"
    remedy = "" if few else allowed
    return Condition("clipping", few, f"{text}{remedy}.")


def _assumed(kind: str, run: RunResult) -> list[Condition]:
    k = per_person(run)
    people = (
        f" Records of one person, at most {k:.0f}, may go together: the errors are those of the "
        "worst case."
        if k > 1
        else ""
    )
    return [
        Condition("independence", None, INDEPENDENT + people),
        Condition("model", None, RIGHT[kind]),
    ]
