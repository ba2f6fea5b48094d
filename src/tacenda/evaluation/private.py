"""A private evaluation: measures with intervals, confusion matrix, ROC and calibration, all from
one released sum of counts (`questions.counts`).

Everything here follows from released values and public facts alone, and costs no privacy. Intervals
hold both that other records might have been held out (sampling) and the privacy noise
(`private_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.errors import InputError, UnsupportedError
from tacenda.evaluation import outcome_measures, private_counts
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.figures import cut_names
from tacenda.evaluation.measure import Measure, Told
from tacenda.evaluation.measures import MEASURES
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import cell_std, confusion, n_records, projected, taken_apart
from tacenda.evaluation.score_bins import score_edges, score_spread
from tacenda.evaluation.units import Units
from tacenda.privacy.statement import Statement
from tacenda.questions.counts import (
    EDGES,
    RESIDUAL_EDGES,
    ClassCounts,
    Counts,
    CountSums,
    QuantileSums,
    ValueSums,
)
from tacenda.questions.outcomes import OutcomeCounts
from tacenda.questions.statistics import statistic_from_plain

if TYPE_CHECKING:
    from tacenda.runtime.result import RunResult

FORMAT = "tacenda-private-evaluation-1"
DO_NOT_USE = "Do not use the model."
NOTHING_KNOWN = "too few records for this noise: nothing is known"


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
        return MEASURES[self.name]

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
    statistic : ClassCounts, ValueSums, CountSums, QuantileSums or OutcomeCounts
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
    offsets : tuple of float or None, default=None
        Of a model of ordered classes or of times: its scores of a record's questions less that of
        the first, which are the same for every record.

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
    offsets: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        intervals.quantile(self.level)
        if np.shape(self.total) != (self.statistic.length,):
            raise InputError(
                f"total must hold {self.statistic.length} numbers, as the statistic does, not "
                f"{np.shape(self.total)}."
            )

    def at(self, level: float) -> PrivateEvaluation:
        """The same with intervals of another level; it costs no privacy.

        level: such as 0.9. Result: the same release, read again.
        """
        return replace(self, level=level)

    @property
    def measures(self) -> dict[str, PrivateMeasure]:
        """Measures by name, each with its interval."""
        told = {m.name: m.on_counts(self) for m in MEASURES.values() if m.on_counts is not None}
        return {name: _with_note(name, t) for name, t in told.items() if t is not None}

    @property
    def confusion(self) -> dict[str, Any] | None:
        """Records of each class by prediction: noisy counts with intervals; None for numbers."""
        if not isinstance(self.statistic, ClassCounts):
            return None
        cells, size = confusion(self)
        n, known = n_records(self)
        whole = 0.0 if known else size.sum() * cell_std(self) ** 2
        var = cell_std(self) ** 2 * (size * (1 - size / size.sum()) if known else size)
        shares = intervals.share(
            cells, n, self.level, (var, 0.0 if known else cell_std(self) ** 2 * size, whole)
        )
        ends = [np.round(np.asarray(end) * n, 1).tolist() for end in shares]
        return {"classes": list(self.class_names), **dict(zip(Estimate._fields, ends, strict=True))}

    @property
    def class_table(self) -> list[dict[str, Any]]:
        """Of each class its share of the records, recall and precision, with intervals."""
        if not isinstance(self.statistic, ClassCounts):
            return []
        cells, size = confusion(self)
        std = cell_std(self)
        n, known = n_records(self)
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
        counts, std = s.parts(self.total)["scores"], cell_std(self)
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
            return private_counts.means_by_rate(taken_apart(self), unit, self.units.centre)
        if isinstance(s, QuantileSums):
            own = self.units.reach, self.units.centre
            return private_counts.shares_by_prediction(s, taken_apart(self), *own)
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
    def cuts(self) -> list[dict[str, Any]]:
        """Predicted and observed shares beyond each step of ordered classes, or each time point.

        For times the observed share is that of Kaplan and Meier. With Brier scores and intervals.
        """
        s, o = self.statistic, outcome_measures.released(self)
        if not isinstance(s, OutcomeCounts) or o is None:
            return []
        found = outcome_measures.told(self, outcome_measures.at_cuts, o)
        names = cut_names(s.loss, self.classes or True, s.cuts)
        return [
            {
                "cut": name,
                "predicted": float(o.predicted[k]),
                "observed": _plain(Estimate(*(end[k] for end in found))),
                "brier": _plain(Estimate(*(end[s.cuts + k] for end in found))),
            }
            for k, name in enumerate(names)
        ]

    @property
    def calibration_at(self) -> list[dict[str, Any]]:
        """Observed shares beyond three of the cuts, for each bin of the prediction.

        With intervals; None where too few records are in the bin for this noise.
        """
        s, o = self.statistic, outcome_measures.released(self)
        if not isinstance(s, OutcomeCounts) or o is None:
            return []
        bins, k = s.tables["outcomes"]
        std, names = cell_std(self), cut_names(s.loss, self.classes or True, s.cuts)
        ends = s.ends(np.asarray(self.offsets))
        sizes = o.count.reshape(bins, k).sum(axis=1)
        known = sizes > intervals.FAR * std * math.sqrt(k) + 1
        found = []
        for cut in outcome_measures.horizons(s.cuts):
            told = outcome_measures.told(self, partial(outcome_measures.by_bin, bins, cut), o)
            found.append(
                {
                    "cut": names[cut],
                    "bins": [
                        {
                            "low": float(min(ends[b, cut], ends[b + 1, cut])),
                            "high": float(max(ends[b, cut], ends[b + 1, cut])),
                            "records": round(float(sizes[b]), 1),
                            "observed": _plain(Estimate(*(end[b] for end in told)))
                            if known[b]
                            else None,
                        }
                        for b in range(bins)
                    ],
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
        std, (n, known) = self.noise * s.factors()["residuals"], n_records(self)
        found = []
        for k, edge in enumerate(RESIDUAL_EDGES):
            cells = k + 1
            var = std**2 * (cells * (1 - cells / len(counts)) if known else cells)
            noise = (var, 0.0 if known else var, 0.0 if known else std**2 * len(counts))
            below = projected(counts, n, known)[:cells].sum()
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
        counts, (n, known) = s.parts(self.total)["scores"], n_records(self)
        table = np.maximum(projected(counts, n, known), 0.0)
        above = np.array([table[:, k + 1 :].sum(axis=1) for k in range(len(s.edges))])
        shares = above.sum(axis=1) / max(float(table.sum()), 1e-300)
        if missed_cost is not None:
            worth = checks.positive("missed_cost", missed_cost)
            best = int(np.argmin(above[:, 0] + worth * (table[1].sum() - above[:, 1])))
        else:
            most = checks.between("flagged", flagged, 0.0, 1.0)
            best = int(np.argmax(shares <= most)) if (shares <= most).any() else len(shares) - 1
        row, std = self.roc[best], cell_std(self)
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
            own = confusion(self)[0].sum(axis=1)
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

        Result: what `from_plain` reads back; "measures" and the tables are for readers.
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
            "cuts": self.cuts,
            "calibration_at": self.calibration_at,
            "offsets": None if self.offsets is None else list(self.offsets),
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> PrivateEvaluation:
        """Read back what `to_plain` wrote; what follows from the release is computed again."""
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
            None if values.get("offsets") is None else tuple(values["offsets"]),
        )

    def report(self, path: str | Path = "evaluation.html") -> Path:
        """Write one HTML page.

        Result: the file that was written.
        """
        from tacenda.report import private_evaluation_page

        return private_evaluation_page(self, path)


def counts_for(
    loss: Any, n_outputs: int, bounds: Sequence[float] | None = None, run: RunResult | None = None
) -> Counts:
    """Choose what is counted for a problem with this loss.

    Parameters
    ----------
    loss : Loss
        The problem's loss.
    n_outputs : int
        Number of scores of a record; of ordered classes or of times the number of outcomes.
    bounds : (low, high) or None, default=None
        Public bounds of a regression's labels, in the units of the problem. By default those of
        the loss where it has some, as counts do, else -1 and 1, those of encoded labels.
    run : RunResult or None, default=None
        The run whose model is evaluated. Where it released a second moment, the bins of two
        classes' probabilities lie where the model's scores are.

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
    if loss.stacked:
        return OutcomeCounts(loss.name, n_outputs)
    if loss.kind in ("binary", "multiclass"):
        k = 2 if loss.kind == "binary" else n_outputs
        edges = EDGES if run is None or k > 2 else score_edges(score_spread(run))
        return ClassCounts(k, loss.predicts == "log-odds", edges)
    if loss.predicts == "log-rate":
        low, high = loss.label_range if bounds is None else bounds
        if low != 0:
            raise InputError(
                f"The bounds of a count must start at 0, not at {low:g}; declare low = 0 for it."
            )
        return CountSums(float(high))
    low, high = (-1.0, 1.0) if bounds is None else bounds
    if loss.predicts == "quantile":
        return QuantileSums(float(low), float(high), loss.level)
    if loss.predicts != "value":
        raise UnsupportedError(
            f"Private evaluation must know what a score predicts, which a loss of one's own, as "
            f"{loss.name!r} is, does not say; pass counts=ValueSums(low, high) from "
            "tacenda.questions.counts to evaluate_privately if its scores are predictions."
        )
    return ValueSums(float(low), float(high))


def _plain(estimate: Estimate) -> dict[str, float]:
    return {name: float(x) for name, x in zip(Estimate._fields, estimate, strict=True)}


def _with_note(name: str, told: Told) -> PrivateMeasure:
    value, low, high = (float(x) for x in told.estimate)
    unknown = low <= told.limits[0] and high >= told.limits[1]
    return PrivateMeasure(name, value, low, high, NOTHING_KNOWN if unknown else told.note)
