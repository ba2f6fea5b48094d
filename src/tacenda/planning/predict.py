"""`predict`: the planned run carried out on data that stands in for the private records, and what
came of it.

With a public sample of the same kind, each trial draws its truth from what the sample tells
(`plan.public`) and its rows from the sample's; without one, rows and truth of an assumed shape,
another one in each trial. The stand-in has the private problem's nodes, sizes, loss and noise. Of
more than `MOST_VALUES` values only 1/k of the records are drawn, with a budget of k mu: noise_std =
2Gc/(m mu) is then the same. Fewer records N have an optimum that follows chance more closely, by
1/(2N) in every direction; the part that a run of total step tau does not follow, exp(-2 h tau), is
taken off again.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda import checks
from tacenda.data import partition
from tacenda.data.stand_in import StandIn
from tacenda.engines import HERE, Call, Workers, run_calls
from tacenda.errors import InputError
from tacenda.planning.forecast import Landscape, signal_scale
from tacenda.planning.public import PublicSample
from tacenda.privacy.accounting.roots import brent
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.runtime.progress import Progress
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan

MOST_VALUES = 8_000_000
# Nine in ten of what was measured lay between so many times the least and the largest trial
# (benchmarks/forecasts.py)
BELOW, ABOVE = 0.4, 6.0
OFF = 1.6  # likewise of an accuracy, in log odds beside the least and the largest trial


@dataclass(frozen=True)
class Shape:
    """Of generated data. decay: of the rows' spectrum. signal: scores in units of the loss's
    typical ones. fill: squared length of rows that a declared range leaves, over the largest;
    a third where values fill it evenly. prevalence: share of the second of two classes."""

    decay: float
    signal: float
    fill: float
    prevalence: float


# Usual; flat, faint and uneven; steep, strong and rare
ASSUMED = (Shape(1.0, 1.5, 1 / 3, 0.5), Shape(0.5, 1.0, 1 / 9, 0.2), Shape(1.5, 2.0, 1 / 9, 0.05))


@dataclass(frozen=True)
class Range:
    """Mean over trials, with the least and the largest."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Range:
        return cls(float(np.mean(values)), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Prediction:
    """What a plan achieves on stand-in data or on a public sample.

    Attributes
    ----------
    excess_risk : Range
        Objective of the nodes' own models above the noise-free optimum.
    accuracy : Range or None
        Their accuracy; None for a regression.
    best_accuracy : float or None
        Accuracy without noise.
    trials : int
        Number of runs.
    assumptions : tuple of str
        What was assumed of the data.

    Examples
    --------
    >>> import tacenda as tc
    >>> predicted = tc.plan(200, 3, tc.graph.ring(4), epsilon=2.0).predict(trials=1)
    >>> predicted.trials
    1
    """

    excess_risk: Range
    accuracy: Range | None
    best_accuracy: float | None
    trials: int
    assumptions: tuple[str, ...]

    @property
    def range(self) -> Range:
        """Where the excess risk of real data was in nine of ten measured cases."""
        e = self.excess_risk
        return Range(e.mean, BELOW * e.low, ABOVE * e.high)

    @property
    def accuracy_range(self) -> Range | None:
        """The same of the accuracy; None for a regression."""
        a = self.accuracy
        if a is None:
            return None
        return Range(a.mean, moved(a.low, -OFF), moved(a.high, OFF))

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings, lists and dictionaries only.
        """
        accuracy = self.accuracy_range
        found = {
            **asdict(self),
            "range": asdict(self.range),
            "accuracy_range": None if accuracy is None else asdict(accuracy),
        }
        return {**found, "assumptions": list(self.assumptions)}

    def explain(self) -> str:
        """The prediction in words.

        Result: a few lines of text.
        """
        lines = [f"Predicted excess risk {self.excess_risk}"]
        if self.accuracy is not None:
            lines[0] += f"; accuracy {self.accuracy}, {self.best_accuracy:.3g} without noise"
        accuracy = self.accuracy_range
        share = "" if accuracy is None else f", accuracy {accuracy.low:.2g} to {accuracy.high:.2g}"
        return "\n".join(
            [
                lines[0] + f"; {counted(self.trials, 'trial')}, mean and range.",
                f"  - Expect {self.range.low:.2g} to {self.range.high:.2g}{share}: nine of ten "
                "measured runs were in such a range.",
                *(f"  - {a}" for a in self.assumptions),
            ]
        )


def moved(share: float, log_odds: float) -> float:
    """A share whose log odds are moved; 0 and 1 stay."""
    if not 0.0 < share < 1.0:
        return share
    return 1.0 / (1.0 + (1.0 - share) / share * math.exp(-log_odds))


def predict(
    plan: Plan,
    public: Any = None,
    trials: int = 3,
    seed: int = 0,
    workers: Workers = HERE,
    progress: str | bool = False,
    prevalence: float | None = None,
) -> Prediction:
    """Carry the plan out `trials` times on stand-in data; public=(X, y) is a public sample of the
    same kind of records. The trials are the same wherever they run."""
    shapes = _shapes(plan.facts.constants, public, prevalence)
    trials, seed = checks.whole("trials", trials, least=1), checks.whole("seed", seed)
    sample = (
        None if public is None else PublicSample.of(public, plan.facts.constants, plan.facts.dim)
    )
    shrink = max(1.0, float(plan.facts.sizes.sum()) * plan.facts.dim / MOST_VALUES)
    found: dict[int, tuple[float, Any, Any]] = {}
    with Progress(progress, "prediction", trials) as show:

        def take(trial: int, outcome: tuple[float, Any, Any]) -> None:
            found[trial] = outcome
            show(len(found))

        settings = [(shrink, seed + t, shapes[t % len(shapes)]) for t in range(trials)]
        if workers.here(trials):
            for t, values in enumerate(settings):
                take(t, _trial((plan, sample), *values))
        else:
            run_calls(
                workers.engine,
                [Call(f"trial {t}", _trial, values) for t, values in enumerate(settings)],
                workers.jobs,
                take,
                shared=(plan, sample),
                beat=lambda: show(len(found)),
            )
    excess, accuracy, best = zip(*(found[t] for t in range(trials)), strict=True)
    classes = accuracy[0] is not None
    return Prediction(
        Range.of(list(excess)),
        Range.of(list(accuracy)) if classes else None,
        float(np.mean(best)) if classes else None,
        trials,
        _assumptions(plan.facts, sample, shrink, shapes[:trials]),
    )


def _shapes(constants: Constants, public: Any, prevalence: float | None) -> tuple[Shape, ...]:
    """The shapes in turn, with the declared prevalence."""
    if prevalence is None:
        return ASSUMED
    if public is not None or constants.loss.kind != "binary":
        raise InputError(
            "prevalence is the share of the second of two classes, where nothing else tells it: "
            "leave it out of a problem without two classes and beside a public sample."
        )
    checks.between("prevalence", prevalence, 0.0, 1.0)
    return tuple(replace(shape, prevalence=prevalence) for shape in ASSUMED)


def _trial(
    of: tuple[Plan, PublicSample | None], shrink: float, seed: int, shape: Shape
) -> tuple[float, Any, Any]:
    """(excess risk, accuracy, best accuracy) of one run, the mean over the nodes' models."""
    from tacenda.runtime.simulate import simulate

    plan, sample = of
    sizes = np.maximum(1, np.round(plan.facts.sizes / shrink)).astype(int)
    X, y = _records(plan.facts, sample, int(sizes.sum()), seed, shape)
    problem = _problem(plan.facts, sizes, X, y)
    with warnings.catch_warnings():
        # Advice on convergence belongs to the real run
        warnings.simplefilter("ignore", UserWarning)
        result = simulate(
            problem,
            plan.topology,
            plan.method,
            privacy=_privacy(plan, shrink),
            seed=seed,
            record_every=0,
            progress=False,
        )
    models = result.models.reshape(plan.topology.n, -1)
    optimum = problem.solve(3e-5)
    excess = float(np.mean(problem.objective(models))) - float(problem.objective(optimum))
    if shrink > 1:
        excess = max(
            0.0, excess - _overfit(plan, X) * (1 / len(y) - 1 / float(plan.facts.sizes.sum()))
        )
    if not plan.facts.constants.loss.classifies:
        return excess, None, None
    return excess, float(np.mean(problem.accuracy(models))), float(problem.accuracy(optimum))


def _overfit(plan: Plan, X: Any) -> float:
    """c/2 sum over directions of exp(-2 h tau), h = c * (typical curvature) * eigenvalue of X'X/N;
    on whitened records, where directions are alike, the forecast's share that is left undone."""
    k = plan.facts.constants
    if plan.algorithm.traits.reaches_consensus:
        nothing, _ = Landscape.assumed(k, plan.facts.dim).excess(0.0, 0.0, shrinking=False)
        share = min(1.0, plan.forecast.left_undone / nothing)
        return 0.5 * k.loss_scale * plan.facts.dim * share
    square = X.T @ X
    values = np.linalg.eigvalsh(
        (square.toarray() if hasattr(square, "toarray") else square) / X.shape[0]
    )
    h = k.loss_scale * k.loss.typical.curvature * np.maximum(values, 0.0)
    return 0.5 * k.loss_scale * k.n_outputs * float(np.sum(np.exp(-2 * h * plan.forecast.step)))


def _records(
    facts: Facts, sample: PublicSample | None, n: int, seed: int, shape: Shape
) -> tuple[Any, NDArray[Any]]:
    k, draw = facts.constants, StandIn(seed)
    p = facts.dim // k.n_outputs
    # The truth comes first, so that two numbers of records with one seed are about the same truth.
    if sample is not None:
        w = draw.posterior(sample.mode, sample.precision_root)
        X = draw.resample(sample.X, n)
        noise_std = sample.noise_std
    else:
        w, X = _generated(facts, draw, n, shape)
        noise_std = 0.5 * signal_scale(k)
    scores = np.asarray(X @ w.reshape(k.n_outputs, p).T)
    if math.isfinite(k.loss.label_range[1]):  # counts: a rate below the bound, and its spread
        most = k.loss.label_range[1]
        typical_rate = 1.0 if sample is not None else min(1.0, most / 8)
        mean = np.minimum(np.exp(np.minimum(scores, 700.0)) * typical_rate, most)
        return X, np.clip(draw.labels("regression", mean, 0.5 * min(1.0, most / 8)), 0.0, most)
    return X, draw.labels(k.loss.kind, scores, noise_std)


def _generated(
    facts: Facts, draw: StandIn, n: int, shape: Shape
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(truth, rows): of declared ranges, whose values do not fill them, or of norm data_norm; the
    last feature is a constant of a feature's share."""
    k = facts.constants
    p = facts.dim // k.n_outputs
    varied, w = max(p - 1, 1), draw.direction(facts.dim).reshape(k.n_outputs, p)
    fill = shape.fill if k.row_scale > 1.0 else 1.0
    X = draw.rows(n, varied, shape.decay, k.data_norm * math.sqrt(fill * varied / p))
    if p > 1:
        X = np.column_stack([X, np.full(n, k.data_norm / math.sqrt(p))])
        w[:, -1] = 0.0
    size = float(np.sqrt(np.mean((X @ w.T) ** 2)))
    w *= shape.signal * k.loss.typical.signal * signal_scale(k) / size
    if k.loss.kind == "binary" and p > 1:
        w[0, -1] = centre(X @ w[0], shape.prevalence) * math.sqrt(p) / k.data_norm
    return w.reshape(-1), X


def centre(scores: NDArray[Any], prevalence: float) -> float:
    """What is added to log odds so that their mean chance is the prevalence."""
    from scipy.special import expit

    reach = float(np.abs(scores).max()) + 40.0
    return brent(lambda b: float(np.mean(expit(scores + b))) - prevalence, -reach, reach)


def _problem(facts: Facts, sizes: NDArray[Any], X: Any, y: NDArray[Any]) -> Problem:
    k = facts.constants
    classes = None if k.loss.kind == "regression" else tuple(range(max(2, k.n_outputs)))
    return Problem(
        list(partition.by_sizes(X, y, sizes.tolist())),
        **{**k.stated(), "loss": k.loss.of_a_row},
        on_large_rows="scale",
        classes=classes,
        public_sizes=sizes if facts.adjacency == "add-remove" else None,
    )


def _privacy(plan: Plan, shrink: float) -> Privacy:
    """The plan's own promise; for 1/k of the records one of k mu, which has the same noise. Rows of
    one record are records of their own here, and have 1/rows of mu."""
    from tacenda.privacy.accounting.calibration import gaussian_mu
    from tacenda.privacy.accounting.curves import GaussianProfile

    epsilon, times = plan.epsilon, shrink / plan.facts.rows_each
    if times != 1:
        found = {
            e: GaussianProfile(times * gaussian_mu(e, plan.delta)).epsilon(plan.delta)
            for e in set(np.ravel(epsilon).tolist())
        }
        epsilon = found[epsilon] if isinstance(epsilon, float) else tuple(found[e] for e in epsilon)
    return replace(plan.promise, epsilon=epsilon)


def _assumptions(
    facts: Facts, sample: PublicSample | None, shrink: float, shapes: tuple[Shape, ...]
) -> tuple[str, ...]:
    k = facts.constants
    if sample is not None:
        said = [
            f"The private records are of the same kind as the {sample.X.shape[0]} public ones; "
            "each trial draws a truth from what these leave open, and rows from theirs."
        ]
    else:
        unit = k.loss.typical.signal * signal_scale(k)
        told = ", ".join(f"k^-{a.decay:g} with scores of size {a.signal * unit:g}" for a in shapes)
        rows = (
            "rows that fill declared ranges in part"
            if k.row_scale > 1.0
            else f"rows of norm {k.data_norm:g}"
        )
        said = [
            f"No public sample was given: {rows}, whose variances fall, in turn, like {told}. Your "
            "data may be easier or harder; a public sample of the same kind predicts better."
        ]
        if k.loss.kind == "binary":
            rates = [f"{a.prevalence:g}" for a in shapes]
            one = len(set(rates)) == 1
            said.append(
                f"The second class has a share of {rates[0]}."
                if one
                else f"The second class has, in turn, a share of {', '.join(rates)}; declare yours "
                "(prevalence), since accuracy depends on it."
            )
    if shrink > 1:
        said.append(f"Simulated with 1/{shrink:.1f} of the records and the same noise.")
    return (*said, "Every node's records come from one population. No private record was read.")
