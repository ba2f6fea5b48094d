"""A private evaluation: measures with intervals, confusion matrix, ROC and calibration, all from
one released sum of counts (`problem.counts`).

Everything here follows from released values and public facts alone, and costs no privacy. Intervals
hold both that other records might have been held out (sampling) and the privacy noise
(`private_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.errors import InputError
from tacenda.evaluation import private_counts
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.measures import MEASURES, Measure, Units
from tacenda.evaluation.private_counts import Released
from tacenda.evaluation.private_intervals import Estimate
from tacenda.privacy.statement import Statement
from tacenda.problem.counts import (
    DEVIANCE_BOUND,
    RESIDUAL_EDGES,
    ClassCounts,
    Counts,
    CountSums,
    QuantileSums,
    ValueSums,
)
from tacenda.problem.statistics import statistic_from_plain

FORMAT = "tacenda-private-evaluation-1"
DO_NOT_USE = "Do not use the model."
NOTHING_KNOWN = "too few records for this noise: nothing is known"
BIAS = Measure("bias", "mean of label - prediction", 4, False, has_unit=True)
SLOPE = Measure("calibration_slope", "calibration slope", 3, True)
D2 = Measure("d2", "D2, share of the deviance explained", 4, True)
OWN = {m.name: m for m in (BIAS, SLOPE, D2)}


@dataclass(frozen=True)
class PrivateMeasure:
    """One measure with its interval.

    Parameters
    ----------
    name : str
        Its key, such as "accuracy".
    value : float
        The estimate.
    low : float
        Lower end of the interval.
    high : float
        Upper end.
    note : str, default=""
        What the reader must know about it.

    Examples
    --------
    >>> from tacenda.evaluation.private import PrivateMeasure
    >>> str(PrivateMeasure("accuracy", 0.84, 0.82, 0.86))
    'accuracy 0.8400 (0.8200 to 0.8600)'
    """

    name: str
    value: float
    low: float
    high: float
    note: str = ""

    @property
    def measure(self) -> Measure:
        """How it is called and shown."""
        return MEASURES.get(self.name) or OWN[self.name]

    @property
    def known(self) -> bool:
        """Whether the noise leaves anything to know."""
        return self.note != NOTHING_KNOWN

    def __str__(self) -> str:
        said = self.measure
        ends = f"{said.text(self.low)} to {said.text(self.high)}"
        shown = f"{said.title} {said.text(self.value)} ({ends})" if self.known else said.title
        return f"{shown}: {self.note}" if self.note else shown


@dataclass(frozen=True, eq=False)
class PrivateEvaluation:
    """What is known about a model from one release of noisy counts on held-out records.

    Parameters
    ----------
    statistic : ClassCounts, ValueSums, CountSums or QuantileSums
        What was counted.
    total : ndarray
        The released sum, shape (length,).
    noise : float
        Standard deviation of the noise of each of its numbers.
    records : int or None
        Public number of held-out records; None where it is private itself.
    privacy : Statement or None
        What the release guarantees; None without noise.
    classes : tuple of str or None, default=None
        Names of the classes.
    units : Units, default=Units()
        From encoded labels to the label's own units.
    level : float, default=0.95
        Of the intervals; `at` gives others, at no cost.
    about : dict, default={}
        Plain public values: what was evaluated, on what.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(4000, 4, difficulty=0.3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> training, held_out = tc.data.hold_out(shards, 0.5, seed=0)
    >>> graph, budget = tc.graph.complete(4), tc.Privacy(2.0)
    >>> problems = [tc.Problem(part, classes=(0, 1)) for part in (training, held_out)]
    >>> result = tc.simulate(problems[0], graph, "treegd", 20, budget, seed=0)
    >>> found = tc.evaluate_privately(result, problems[1], graph, budget, seed=0)
    >>> found.measures["accuracy"].low > 0.6
    True
    """

    statistic: Counts
    total: Floats
    noise: float
    records: int | None
    privacy: Statement | None
    classes: tuple[str, ...] | None = None
    units: Units = Units()
    level: float = 0.95
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        intervals.quantile(self.level)
        if np.shape(self.total) != (self.statistic.length,):
            raise InputError(
                f"total must hold {self.statistic.length} numbers, as the statistic does, not "
                f"{np.shape(self.total)}."
            )

    def at(self, level: float) -> PrivateEvaluation:
        """The same with intervals of another level; it costs no privacy.

        Parameters
        ----------
        level : float
            Such as 0.9.

        Returns
        -------
        PrivateEvaluation
            The same release, read again.
        """
        return replace(self, level=level)

    @property
    def measures(self) -> dict[str, PrivateMeasure]:
        """Measures by name, each with its interval."""
        s = self.statistic
        if isinstance(s, CountSums):
            found = _counted(self)
        elif isinstance(s, QuantileSums):
            found = _of_quantile(self)
        else:
            found = _classified(self) if isinstance(s, ClassCounts) else _valued(self)
        return {m.name: m for m in found}

    @property
    def confusion(self) -> dict[str, Any] | None:
        """Records of each class by prediction: noisy counts with intervals; None for numbers."""
        if not isinstance(self.statistic, ClassCounts):
            return None
        cells, size = _confusion(self)
        n, known = _size(self)
        whole = 0.0 if known else size.sum() * _std(self) ** 2
        var = _std(self) ** 2 * (size * (1 - size / size.sum()) if known else size)
        shares = intervals.share(
            cells, n, self.level, (var, 0.0 if known else _std(self) ** 2 * size, whole)
        )
        ends = [np.round(np.asarray(end) * n, 1).tolist() for end in shares]
        return {"classes": list(self.class_names), **dict(zip(Estimate._fields, ends, strict=True))}

    @property
    def class_table(self) -> list[dict[str, Any]]:
        """Of each class its share of the records, recall and precision, with intervals."""
        if not isinstance(self.statistic, ClassCounts):
            return []
        cells, size = _confusion(self)
        std = _std(self)
        n, known = _size(self)
        found = []
        for k, name in enumerate(self.class_names):
            row: dict[str, Any] = {"class": name}
            right, var = cells[k, k], std**2 * size[k, k]
            own, column = cells[k].sum(), cells[:, k].sum()
            of_all = std**2 * size[k].sum()
            noise = (of_all, 0.0, 0.0) if known else (of_all, of_all, std**2 * size.sum())
            pairs = {
                "share": (own, n, noise),
                "recall": (right, own, (var, var, of_all)),
                "precision": (right, column, (var, var, std**2 * size[:, k].sum())),
            }
            for what, (part, whole, spread) in pairs.items():
                estimate = intervals.share(part, whole, self.level, spread)
                row |= {what: _plain(estimate)}
            found.append(row)
        return found

    @property
    def roc(self) -> list[dict[str, Any]]:
        """At each declared threshold: share of class 0 and of class 1 above it, with intervals."""
        s = self.statistic
        if not isinstance(s, ClassCounts) or s.n_classes != 2:
            return []
        counts, std = s.parts(self.total)["scores"], _std(self)
        wholes = counts.sum(axis=1)
        found = []
        for k, threshold in enumerate(s.edges):
            above, cells = counts[:, k + 1 :].sum(axis=1), s.bins - k - 1
            noise = (cells * std**2, cells * std**2, s.bins * std**2)
            ends = intervals.share(above, wholes, self.level, noise)
            false, true = (_plain(Estimate(*(x[c] for x in ends))) for c in (0, 1))
            found.append({"threshold": threshold, "false": false, "true": true})
        return found

    @property
    def calibration(self) -> list[dict[str, Any]]:
        """Of each bin of the probability the observed share of the outcome, with its interval.

        The outcome is class 1; with more than two classes, that the largest probability was right.
        Of a quantile the bins are of the prediction, and the outcome is that the label lies at or
        below it; of counts they are of the predicted rate, and "observed" is the mean label.
        """
        s = self.statistic
        if isinstance(s, CountSums):
            unit = s.high * self.units.reach
            return private_counts.means_by_rate(_released(self), unit, self.units.centre)
        if isinstance(s, QuantileSums):
            own = self.units.reach, self.units.centre
            return private_counts.shares_by_prediction(s, _released(self), *own)
        if not isinstance(s, ClassCounts) or not s.probabilities:
            return []
        parts = s.parts(self.total)
        table = parts["scores"] if s.n_classes == 2 else parts["sure"][::-1]
        std = self.noise * s.factors()["scores" if s.n_classes == 2 else "sure"]
        edges = (0.0, *s.edges, 1.0)
        found = []
        for k in range(s.bins):
            noise = (std**2, std**2, 2 * std**2)
            both = float(table[:, k].sum())
            ends = intervals.share(table[1, k], both, self.level, noise)
            known = both > intervals.quantile(self.level) * math.sqrt(2) * std and both >= 1
            found.append(
                {
                    "low": edges[k],
                    "high": edges[k + 1],
                    "records": round(both, 1),
                    "observed": _plain(ends) if known else None,
                }
            )
        return found

    @property
    def calibration_words(self) -> tuple[str, str]:
        """What the bins of `calibration` are of, and what is observed in them."""
        if isinstance(self.statistic, CountSums):
            return "predicted rate", "mean label"
        if isinstance(self.statistic, QuantileSums):
            return "prediction", "share of labels at or below"
        return "probability", "observed share"

    @property
    def residuals(self) -> list[dict[str, Any]]:
        """Share of records whose residual is no larger than each size, with intervals."""
        s = self.statistic
        if not isinstance(s, ValueSums):
            return []
        counts = s.parts(self.total)["residuals"][0]
        std, (n, known) = self.noise * s.factors()["residuals"], _size(self)
        found = []
        for k, edge in enumerate(RESIDUAL_EDGES):
            cells = k + 1
            var = std**2 * (cells * (1 - cells / len(counts)) if known else cells)
            noise = (var, 0.0 if known else var, 0.0 if known else std**2 * len(counts))
            below = _projected(counts, n, known)[:cells].sum()
            ends = intervals.share(below, n, self.level, noise)
            size = edge * s.reach * self.units.reach
            found.append({"size": size, "share": _plain(ends)})
        return found

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, numbers where there are none."""
        s = self.statistic
        if self.classes is not None or not isinstance(s, ClassCounts):
            return self.classes or ()
        return tuple(str(k) for k in range(s.n_classes))

    @property
    def positive(self) -> str | None:
        """The class that ROC, F1 and thresholds are about, where there are two."""
        return self.class_names[1] if len(self.class_names) == 2 else None

    def threshold(
        self, *, missed_cost: float | None = None, flagged: float | None = None
    ) -> dict[str, Any]:
        """Choose from what probability on a record counts as positive; it costs no privacy.

        Parameters
        ----------
        missed_cost : float or None, default=None
            How much worse a missed positive is than a false alarm: the declared threshold with the
            least cost by the released counts.
        flagged : float or None, default=None
            The largest share of records that may count as positive: the lowest declared threshold
            that keeps to it by the released counts.

        Returns
        -------
        dict
            "threshold", "flagged" (share of records at or above it), "recall" and "false" (shares
            of the positive and of the other class at or above it), each with its interval.

        Raises
        ------
        InputError
            If both or none is given, or the evaluation is not one of two classes.
        """
        if not self.roc or (missed_cost is None) == (flagged is None):
            raise InputError(
                "threshold needs an evaluation of two classes and either missed_cost or flagged."
            )
        s = self.statistic
        assert isinstance(s, ClassCounts)
        counts, (n, known) = s.parts(self.total)["scores"], _size(self)
        table = np.maximum(_projected(counts, n, known), 0.0)
        above = np.array([table[:, k + 1 :].sum(axis=1) for k in range(len(s.edges))])
        shares = above.sum(axis=1) / max(float(table.sum()), 1e-300)
        if missed_cost is not None:
            worth = checks.positive("missed_cost", missed_cost)
            best = int(np.argmin(above[:, 0] + worth * (table[1].sum() - above[:, 1])))
        else:
            most = checks.between("flagged", flagged, 0.0, 1.0)
            best = int(np.argmax(shares <= most)) if (shares <= most).any() else len(shares) - 1
        row, std = self.roc[best], _std(self)
        cells = float(counts[:, best + 1 :].size)
        noise = (cells * std**2, cells * std**2, counts.size * std**2)
        ends = intervals.share(float(above[best].sum()), float(table.sum()), self.level, noise)
        return {
            "threshold": row["threshold"],
            "flagged": _plain(ends),
            "recall": row["true"],
            "false": row["false"],
        }

    @property
    def warnings(self) -> list[str]:
        """What speaks against using the model.

        It is worse than the floor, a guess that looks at no feature, or not shown to be better.
        """
        found, floor = self.measures, 0.0
        if isinstance(self.statistic, ClassCounts):
            own = _confusion(self)[0].sum(axis=1)
            floor = float(own.max() / max(float(own.sum()), 1e-300))
        name = next((name for name in ("accuracy", "r2", "d2") if name in found), None)
        if name is None or not found[name].known:
            return []
        one, area = found[name], found.get("roc_auc")
        guess = "the most frequent class" if name == "accuracy" else "the mean of the labels"
        floor_said = f"{one.measure.text(floor)} of always predicting {guess}"
        said = f"The model's {one.measure.title} of {one.measure.text(one.value)}"
        ranks = area is not None and area.known and area.low > 0.5
        if one.high < floor or (area is not None and area.known and area.high < 0.5):
            advice = "It ranks records well: choose another threshold." if ranks else DO_NOT_USE
            return [f"{said} is worse than the {floor_said}. {advice}"]
        if one.value < floor and not ranks:
            return [f"{said} is not shown to be better than the {floor_said}. Do not rely on it."]
        return []

    @property
    def text(self) -> str:
        """Everything in plain lines."""
        of = "a private number of" if self.records is None else f"{self.records}"
        lines = [f"Private evaluation on {of} held-out records; intervals of {self.level:.0%}."]
        lines += [f"  {measure}" for measure in self.measures.values()]
        if self.positive is not None:
            lines.append(f"Positive class: {self.positive}.")
        lines += [f"Warning: {sentence}" for sentence in self.warnings]
        if self.privacy is None:
            lines.append("No noise: these numbers are not private.")
        else:
            p = self.privacy
            lines.append(f"Privacy of the held-out records: epsilon {p.epsilon:.4g}, delta")
            lines[-1] += f" {p.delta:g} ({p.adjacency}), for {p.unit}."
            if "simulation" in self.about:
                lines.append(f"Note: {self.about['simulation']}.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"PrivateEvaluation({', '.join(self.measures)}; records={self.records})"

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files: what was released, and what follows from it.

        Returns
        -------
        dict
            What `from_plain` reads back; "measures" and the tables are for readers.
        """
        return {
            "format": FORMAT,
            "statistic": self.statistic.to_plain(),
            "total": [float(x) for x in self.total],
            "noise": float(self.noise),
            "records": self.records,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "classes": None if self.classes is None else list(self.classes),
            "units": list(self.units),
            "level": self.level,
            "about": self.about,
            "measures": {name: asdict(m) for name, m in self.measures.items()},
            "positive": self.positive,
            "confusion": self.confusion,
            "class_table": self.class_table,
            "roc": self.roc,
            "calibration": self.calibration,
            "residuals": self.residuals,
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> PrivateEvaluation:
        """Read back what `to_plain` wrote; what follows from the release is computed again.

        Parameters
        ----------
        values : dict
            Plain values.

        Returns
        -------
        PrivateEvaluation
            The same evaluation.

        Raises
        ------
        InputError
            If these are not the values of a private evaluation.
        """
        if values.get("format") != FORMAT:
            raise InputError(
                f"format must be {FORMAT!r}, not {values.get('format')!r}; pass what "
                "`tacenda evaluate --private --json` printed."
            )
        statistic = statistic_from_plain(values["statistic"])
        if not isinstance(statistic, Counts):
            raise InputError(f"{statistic.name!r} is no statistic of an evaluation.")
        privacy, classes = values["privacy"], values["classes"]
        return cls(
            statistic,
            np.asarray(values["total"], float),
            float(values["noise"]),
            values["records"],
            None if privacy is None else Statement.from_plain(privacy),
            None if classes is None else tuple(classes),
            Units(*values["units"]),
            float(values["level"]),
            dict(values["about"]),
        )

    def report(self, path: str | Path = "evaluation.html") -> Path:
        """Write one HTML page (extra `report`).

        Parameters
        ----------
        path : str or Path, default="evaluation.html"
            Where to write.

        Returns
        -------
        Path
            The file that was written.
        """
        from tacenda.report import private_evaluation_page

        return private_evaluation_page(self, path)


def counts_for(loss: Any, n_outputs: int, bounds: Sequence[float] | None = None) -> Counts:
    """Choose what is counted for a problem with this loss.

    Parameters
    ----------
    loss : Loss
        The problem's loss.
    n_outputs : int
        Number of scores of a record.
    bounds : (low, high) or None, default=None
        Public bounds of a regression's labels, in the units of the problem. By default those of
        the loss where it has some, as counts do, else -1 and 1, those of encoded labels.

    Returns
    -------
    ClassCounts, ValueSums, CountSums or QuantileSums
        With the usual edges.

    Raises
    ------
    InputError
        If bounds of counts do not begin at 0.
    UnsupportedError
        If it is not known what the loss's scores predict.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.evaluation.private import counts_for
    >>> counts_for(tc.losses.Logistic(), 1).n_classes
    2
    >>> counts_for(tc.losses.Poisson(label_bound=12), 1)
    CountSums(high=12.0)
    """
    from tacenda.errors import UnsupportedError
    from tacenda.evaluation.measures import LOG_RATES, PROBABILITIES, QUANTILES

    if loss.kind in ("binary", "multiclass"):
        k = 2 if loss.kind == "binary" else n_outputs
        return ClassCounts(k, loss.name in PROBABILITIES)
    if loss.name in LOG_RATES:
        low, high = loss.label_range if bounds is None else bounds
        if low != 0:
            raise InputError(
                f"The bounds of a label that is a count must begin at 0, not at {low:g}; declare "
                "low = 0 for it."
            )
        return CountSums(float(high))
    low, high = (-1.0, 1.0) if bounds is None else bounds
    if loss.name in QUANTILES:
        return QuantileSums(float(low), float(high), loss.level)
    if loss.name not in SCORES_ARE_PREDICTIONS:
        raise UnsupportedError(
            f"Private evaluation must know what a score predicts, which a loss of one's own, as "
            f"{loss.name!r} is, does not say; pass counts=ValueSums(low, high) from "
            "tacenda.problem.counts to evaluate_privately if its scores are predictions."
        )
    return ValueSums(float(low), float(high))


SCORES_ARE_PREDICTIONS = ("squared", "huber", "absolute-deviation")


# ---- from sums to measures
def _size(e: PrivateEvaluation) -> tuple[float, bool]:
    """(number of records, whether it is public); a private one is the noisy sum of a table."""
    if e.records is not None:
        return float(e.records), True
    name = next(iter(e.statistic.tables))
    return float(e.statistic.parts(e.total)[name].sum()), False


def _size_noise(e: PrivateEvaluation) -> float:
    """Variance of the number of records."""
    if e.records is not None:
        return 0.0
    name, (rows, columns) = next(iter(e.statistic.tables.items()))
    return (e.noise * e.statistic.factors()[name]) ** 2 * rows * columns


def _std(e: PrivateEvaluation) -> float:
    """Standard deviation of a cell of the first table."""
    return e.noise * e.statistic.factors()[next(iter(e.statistic.tables))]


def _projected(counts: Floats, n: float, known: bool) -> Floats:
    """Cells moved alike so that they add up to the public number of records."""
    return counts + (n - counts.sum()) / counts.size if known else counts


def _confusion(e: PrivateEvaluation) -> tuple[Floats, Floats]:
    """(counts (K, K), number of noisy cells in each): rows are classes, columns predictions."""
    s = e.statistic
    assert isinstance(s, ClassCounts)
    n, known = _size(e)
    parts = s.parts(e.total)
    if s.n_classes > 2:
        return _projected(parts["confusion"], n, known), np.ones((s.n_classes, s.n_classes))
    half = s.edges.index(0.5) + 1
    table = _projected(parts["scores"], n, known)
    cells = np.column_stack([table[:, :half].sum(axis=1), table[:, half:].sum(axis=1)])
    return cells, np.tile([float(half), float(s.bins - half)], (2, 1))


def _named(
    name: str, estimate: Estimate, limits: tuple[float, float], note: str = ""
) -> PrivateMeasure:
    value, low, high = (float(x) for x in estimate)
    unknown = low <= limits[0] and high >= limits[1]
    return PrivateMeasure(name, value, low, high, NOTHING_KNOWN if unknown else note)


def _classified(e: PrivateEvaluation) -> list[PrivateMeasure]:
    s = e.statistic
    assert isinstance(s, ClassCounts)
    unit, std = (0.0, 1.0), _std(e)
    (n, known), cells = _size(e), _confusion(e)
    counts, size = cells
    right, number = float(np.trace(counts)), float(np.trace(size))
    var, cov = std**2 * number, 0.0 if known else std**2 * number
    if known:
        var *= 1 - number / size.sum()
    found = [
        _named("accuracy", intervals.share(right, n, e.level, (var, cov, _size_noise(e))), unit)
    ]
    own, own_size = counts.sum(axis=1), size.sum(axis=1)
    hits = std**2 * np.diag(size)
    recalls = intervals.share(np.diag(counts), own, e.level, (hits, hits, std**2 * own_size))
    found.append(_named("balanced_accuracy", intervals.average(recalls), unit))
    if s.n_classes == 2:
        table = s.parts(e.total)["scores"]
        area, within = intervals.roc_auc(table, e.level, std)
        note = f"of binned scores; that of the scores themselves is within {float(within):.3f}"
        found.append(_named("roc_auc", area, unit, note))
        # Of the records that are, or are predicted as, class 1: the share that is both
        union = counts[1, 1] + counts[0, 1] + counts[1, 0]
        spread = std**2 * np.array([size[1, 1], size[1, 1], size[1].sum() + size[0, 1]])
        both = intervals.share(counts[1, 1], union, e.level, tuple(spread))
        found.append(_named("f1", Estimate(*(2 * j / (1 + j) for j in both)), unit))
    if s.probabilities:
        found += _chances(e, n)
    return found


def _chances(e: PrivateEvaluation, n: float) -> list[PrivateMeasure]:
    """Log loss and Brier score; how much records differ is bounded by the bins they are in."""
    s = e.statistic
    assert isinstance(s, ClassCounts)
    parts, factors = s.parts(e.total), s.factors()
    edges = np.array([0.0, *s.edges, 1.0])
    most = {"log_loss": s.log_loss_bound, "brier": 1.0 if s.n_classes == 2 else 2.0}
    name = "scores" if s.n_classes == 2 else "sure"
    shares = np.maximum(parts[name], 0.0)
    shares = shares / max(float(shares.sum()), 1e-300)
    found = []
    for what, top in most.items():
        total = float(parts[what][0])
        mean = min(max(total / n, 0.0), top) if n > 0 else top / 2
        square = _second_moment(what, s.n_classes == 2, shares, edges, top, mean)
        variance = min(max(square - mean**2, 0.0), mean * (top - mean))
        noise = ((e.noise * factors[what]) ** 2, _size_noise(e))
        limits = (0.0, top)
        estimate = intervals.mean(total, n, e.level, variance, noise, limits)
        note = f"each record's cut to {top:g}" if what == "log_loss" else ""
        found.append(_named(what, estimate, limits, note))
    return found


def _second_moment(
    what: str, binary: bool, shares: Floats, edges: Floats, top: float, mean: float
) -> float:
    """A bound on the mean square of a record's log loss or Brier score, from its bins."""
    low, high = edges[:-1], edges[1:]

    def worst(p: Floats) -> Floats:
        """At probability p of the true class; of several classes no more than 2 (1 - p)^2."""
        with np.errstate(divide="ignore"):
            score = -np.log(p) if what == "log_loss" else (1 - p) ** 2 * (1.0 if binary else 2.0)
        return np.asarray(np.minimum(score, top))

    if binary:
        return float((shares[0] * worst(1 - high) ** 2 + shares[1] * worst(low) ** 2).sum())
    # Right ones by their bin; the wrong ones' part of the mean, each of them at most `top`
    least = -np.log(high) if what == "log_loss" else (1 - high) ** 2
    right = float((shares[0] * worst(low) ** 2).sum())
    rest = mean - float((shares[0] * least).sum())
    return right + top * max(rest, 0.0)


def _valued(e: PrivateEvaluation) -> list[PrivateMeasure]:
    s = e.statistic
    assert isinstance(s, ValueSums)
    z, (n, _) = intervals.quantile(e.level), _size(e)
    parts = {name: float(v[0]) for name, v in s.parts(e.total).items() if name != "residuals"}
    counts = np.maximum(s.parts(e.total)["residuals"][0], 0.0)
    shares = counts / max(float(counts.sum()), 1e-300)
    var = {name: (e.noise * f) ** 2 for name, f in s.factors().items()}
    tops = np.array([*RESIDUAL_EDGES, 1.0])

    def of_residuals(name: str, power: int) -> Estimate:
        mean = min(max(parts[name] / n, 0.0), 1.0) if n > 0 else 0.5
        square = float((shares * tops ** (2 * power)).sum())
        spread = min(max(square - mean**2, 0.0), mean * (1 - mean))
        return intervals.mean(parts[name], n, e.level, spread, (var[name], _size_noise(e)))

    squares, absolute = of_residuals("squares", 2), of_residuals("absolute", 1)
    own = s.reach * e.units.reach
    note = "" if s.residual_bound is None else f"each residual cut to {own:g}"
    roots = Estimate(*(own * math.sqrt(max(float(x), 0.0)) for x in squares))
    sizes = Estimate(*(own * float(x) for x in absolute))
    found = [_r2(e, squares, parts, var, n, z)]
    found.append(_named("rmse", roots, (0.0, own), note))
    found.append(_named("mae", sizes, (0.0, own), note))
    found.append(_bias(e, squares, parts, var, n, z))
    found.append(_slope(e, squares, parts, var, n, z))
    return found


def _released(e: PrivateEvaluation) -> Released:
    """The released sum taken apart."""
    s = e.statistic
    noise = {name: (e.noise * factor) ** 2 for name, factor in s.factors().items()}
    return Released(s.parts(e.total), noise, _size(e)[0], _size_noise(e), e.level)


def _counted(e: PrivateEvaluation) -> list[PrivateMeasure]:
    s, found = e.statistic, []
    assert isinstance(s, CountSums)
    notes = {"deviance": f"each record's cut to {DEVIANCE_BOUND * s.high * e.units.reach:g}"}
    for name, estimate, top in private_counts.of_counts(s, _released(e), e.units.reach):
        if estimate is None:
            found.append(PrivateMeasure(name, 0.0, -1.0, 1.0, NOTHING_KNOWN))
            continue
        least = {"d2": -math.inf, "deviance": 0.0, "bias": -top}[name]
        found.append(_named(name, estimate, (least, top), notes.get(name, "")))
    return found


def _of_quantile(e: PrivateEvaluation) -> list[PrivateMeasure]:
    s, r = e.statistic, _released(e)
    assert isinstance(s, QuantileSums)
    below = private_counts.share_below(r, e.records is not None)
    loss = Estimate(*(e.units.reach * x for x in private_counts.pinball(s, r)))
    return [
        _named("share_below", below, (0.0, 1.0), f"{s.level:g} is wanted"),
        _named("pinball", loss, (0.0, s.largest * e.units.reach)),
    ]


def _r2(
    e: PrivateEvaluation,
    squares: Estimate,
    parts: dict[str, float],
    var: dict[str, float],
    n: float,
    z: float,
) -> PrivateMeasure:
    """1 - Q/T, Q the mean squared residual and T the labels' variance, both in half widths of the
    label's range; whatever their correlation, their deviations add up at most."""
    s = e.statistic
    assert isinstance(s, ValueSums)
    half = (s.high - s.low) / 2
    if n <= 0:
        return PrivateMeasure("r2", 0.0, -1.0, 1.0, NOTHING_KNOWN)
    middle = 2 * parts["label"] / n - 1
    spread = parts["label_square"] / n - middle**2
    noise = (var["label_square"] + (4 * middle) ** 2 * var["label"]) / n**2
    noise += _size_noise(e) * (parts["label_square"] / n + 2 * abs(middle)) ** 2 / n**2
    widest = (1 + min(abs(middle), 1.0)) ** 2
    std = math.sqrt(max(widest * spread - spread**2, 0.0) / n + noise)
    if spread <= max(intervals.FAR * math.sqrt(noise), 1e-12):
        return PrivateMeasure("r2", 0.0, -1.0, 1.0, NOTHING_KNOWN)
    unit = (s.reach / half) ** 2
    q, low, high = (float(x) * unit for x in squares)
    ratio = q / spread
    down = ((high - q) + ratio * z * std) / spread
    up = ((q - low) + ratio * z * std) / spread
    return PrivateMeasure("r2", 1 - ratio, 1 - ratio - down, min(1 - ratio + up, 1.0))


def _bias(
    e: PrivateEvaluation,
    squares: Estimate,
    parts: dict[str, float],
    var: dict[str, float],
    n: float,
    z: float,
) -> PrivateMeasure:
    """Mean of label - prediction: zero where predictions are right on average."""
    s = e.statistic
    assert isinstance(s, ValueSums)
    width = (s.high - s.low) * e.units.reach
    if n <= 0:
        return PrivateMeasure("bias", 0.0, -width, width, NOTHING_KNOWN)
    mean = (parts["label"] - parts["prediction"]) / n
    # A cut residual says less than all about how much they differ
    square = float(squares.high) * (s.reach / (s.high - s.low)) ** 2
    square = square if s.residual_bound is None else 1.0
    noise = var["label"] + var["prediction"] + mean**2 * _size_noise(e)
    wide = z * math.sqrt(square / n + noise / n**2)
    ends = Estimate(*(width * min(max(x, -1.0), 1.0) for x in (mean, mean - wide, mean + wide)))
    return _named("bias", ends, (-width, width))


def _slope(
    e: PrivateEvaluation,
    squares: Estimate,
    parts: dict[str, float],
    var: dict[str, float],
    n: float,
    z: float,
) -> PrivateMeasure:
    """Slope of labels over predictions: 1 where predictions are neither too bold nor too timid.

    Sampling as in least squares with residuals that do not depend on the prediction; noise to first
    order.
    """
    s = e.statistic
    assert isinstance(s, ValueSums)
    unknown = PrivateMeasure("calibration_slope", 0.0, -10.0, 10.0, NOTHING_KNOWN)
    if n <= 0:
        return unknown
    label, guess = 2 * parts["label"] / n - 1, 2 * parts["prediction"] / n - 1
    spread = parts["prediction_square"] / n - guess**2
    together = 2 * parts["product"] / n - 1 - label * guess
    below = (var["prediction_square"] + (4 * guess) ** 2 * var["prediction"]) / n**2
    above = 4 * var["product"] + 4 * guess**2 * var["label"] + 4 * label**2 * var["prediction"]
    # A noisy number of records moves each of these means by at most its own size
    sizes = _size_noise(e) / n**2
    below, above = below + 9 * sizes, above / n**2 + 9 * sizes
    if spread <= max(intervals.FAR * math.sqrt(below), 1e-12):
        return unknown
    slope = together / spread
    square = float(squares.high) * (2 * s.reach / (s.high - s.low)) ** 2
    square = square if s.residual_bound is None else 4.0
    std = math.sqrt(square / (n * spread))
    std += (math.sqrt(above) + abs(slope) * math.sqrt(below)) / spread
    return PrivateMeasure("calibration_slope", slope, slope - z * std, slope + z * std)


def _plain(estimate: Estimate) -> dict[str, float]:
    return {name: float(x) for name, x in zip(Estimate._fields, estimate, strict=True)}
