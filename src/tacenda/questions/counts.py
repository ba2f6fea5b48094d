"""Counts of what a released model does on held-out records, as statistics: everything that a
private evaluation says follows from one sum of them.

Two or more classes (`ClassCounts`). Every record is in one cell of each table, so a table's part of
a record's vector has norm 1:

    two classes      (class, bin of the score): 2 x bins. Confusion matrix, ROC, calibration
    more             (class, predicted class): K x K. Confusion matrix
                     (right or wrong, bin of the largest probability): 2 x bins. Calibration
    probabilities    min(-ln p, log_loss_bound)/log_loss_bound and the Brier score over its largest
                     value, each from 0 to 1; p: the probability of the true class

Numbers (`ValueSums`), with label and prediction cut to [low, high], c and g their places in it from
-1 to 1, and e = min(|label - prediction|, residual_bound)/residual_bound from 0 to 1:

    (bin of e), e^2, e, (1 + c)/2, c^2, g^2, (1 + c g)/2, (1 + g)/2

Counts of a log-linear model (`CountSums`), with label and predicted rate cut to [0, high], c and g
their places in it from 0 to 1, and d = 2 (c ln(c/g) - c + g), the Poisson deviance:

    (bin of g), (bin of c), c in the bin of g,
    min(d, 2)/2, its square, c, g, -e c ln c, (c - g)^2

A quantile (`QuantileSums`), with label and prediction cut to [low, high] and l the pinball loss
over its largest value:

    (label above prediction or not, bin of the prediction), l, l^2

Nothing is below 0. Each part is multiplied by a public scale, so that one noise of one size serves
all: the squares of the scales add up to 1, and are in proportion to how much noise a part's measure
collects over what sampling leaves unsure by itself (`scales`): this makes the sum of these ratios,
squared, as small as it can be.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Flags, Floats, Ints
from tacenda.errors import InputError
from tacenda.questions.statistics import Records, Statistic, register

# Edges of probability: fine where rare events lie; 0.5 is one, so that the confusion matrix follows
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
RESIDUAL_EDGES = tuple(2.0 ** (-k / 2) for k in range(12, 0, -1))  # of e, from 1/64
LOG_LOSS_BOUND = 5.0
MOST_CLASSES = 200
# Standard deviations of one record's part that are usual: accuracy, log loss, Brier score
USUAL = {"table": 0.36, "log_loss": 0.5, "brier": 0.2}
RATE_EDGES = tuple(2.0**-k for k in range(8, 0, -1))  # of c and g
DEVIANCE_BOUND = 2.0  # of d
QUANTILE_BINS = 5  # of equal width
USUAL_SUMS = {"deviance": 0.05, "label": 0.1, "prediction": 0.1, "entropy": 0.2, "squares": 0.05}
USUAL_VALUES = {"squares": 0.05, "absolute": 0.1, "places": 0.25}


def balanced(need: dict[str, float]) -> dict[str, float]:
    """Scales s with sum s^2 = 1 that make sum (need/s)^2 smallest: s^2 in proportion to need.

    The last place is left free, so that no rounding makes a vector longer than 1.
    """
    whole = math.fsum(need.values()) * (1 + 1e-12)
    return {name: math.sqrt(value / whole) for name, value in need.items()}


@dataclass(frozen=True)
class Counts(Statistic):
    """What an evaluation may ask: tables of counts, then single sums, nothing below 0, each part
    times its public scale. A record's vector has at most norm 1."""

    sums: ClassVar[tuple[str, ...]] = ()  # names of the single sums, in the order of the vector

    @property
    @abstractmethod
    def tables(self) -> dict[str, tuple[int, int]]:
        """Each table's rows and columns, in the order of the vector."""

    @property
    @abstractmethod
    def need(self) -> dict[str, float]:
        """How much noise each part's measure collects over what sampling leaves unsure."""

    @property
    def units(self) -> dict[str, float]:
        """The largest value of parts that are not from 0 to 1."""
        return {}

    @property
    def scales(self) -> dict[str, float]:
        """Each part's public factor; their squares add up to 1."""
        return balanced(self.need)

    @property
    def cells(self) -> int:
        """How many cells the tables have in all: the sums follow them."""
        return sum(rows * columns for rows, columns in self.tables.values())

    @property
    def length(self) -> int:
        return self.cells + len(self.sums)

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return True

    def filled(
        self, cells: dict[str, Ints], sums: tuple[Array, ...], known: Flags, **amounts: Array
    ) -> Array:
        """Return the records' vectors: a cell of each table and the single sums, times the scales.

        cells: each record's cell of each table. sums: the single ones, in their order. known: which
        records are; the others' vectors are zeros. amounts: what is in a table's cells, else 1.
        """
        scales, everyone, first = self.scales, np.arange(len(known)), 0
        found = np.zeros((len(known), self.length))
        for name, (rows, columns) in self.tables.items():
            found[everyone, first + cells[name]] = scales[name] * amounts.get(name, 1.0)
            first += rows * columns
        for k, (name, values) in enumerate(zip(self.sums, sums, strict=True), first):
            found[:, k] = scales[name] * values
        found[~known] = 0.0
        return found

    def parts(self, total: Array) -> dict[str, Floats]:
        """Take a released sum apart: each table, and each sum, shape (1,), in its own units."""
        scales, units = self.scales, self.units
        found, first = {}, 0
        for name, shape in self.tables.items():
            last = first + math.prod(shape)
            found[name] = np.asarray(total[first:last].reshape(shape) / scales[name], float)
            first = last
        for k, name in enumerate(self.sums, first):
            found[name] = total[k : k + 1] * units.get(name, 1.0) / scales[name]
        return found

    def factors(self) -> dict[str, float]:
        """How large noise of one unit on the vector is in each part's own units."""
        return {name: self.units.get(name, 1.0) / scale for name, scale in self.scales.items()}


@register
@dataclass(frozen=True)
class ClassCounts(Counts):
    """What a classifier does: tables of counts, log loss and Brier score."""

    name: ClassVar[str] = "class-counts"
    kinds: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    n_classes: int
    probabilities: bool = True  # whether scores are log odds
    # Of the probability; without probabilities, of 1/(1 + exp(-score))
    edges: tuple[float, ...] = EDGES
    log_loss_bound: float = LOG_LOSS_BOUND  # to which a record's log loss is cut

    def __post_init__(self) -> None:
        if not 2 <= checks.whole("n_classes", self.n_classes, least=2) <= MOST_CLASSES:
            raise InputError(
                f"n_classes must be at most {MOST_CLASSES}, not {self.n_classes}: its table of "
                "counts would be larger than what noise leaves readable."
            )
        object.__setattr__(self, "edges", checked_edges(self.edges))
        checks.between("log_loss_bound", self.log_loss_bound, 0.1, 100.0, open_ends=False)

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        super().check(n_features, n_outputs, kind)
        expected = 2 if kind == "binary" else n_outputs
        if expected != self.n_classes:
            raise InputError(
                f"n_classes must be that of the problem, {expected}, not {self.n_classes}."
            )

    @property
    def sums(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("log_loss", "brier") if self.probabilities else ()

    @property
    def units(self) -> dict[str, float]:
        return {"log_loss": self.log_loss_bound, "brier": 1.0 if self.n_classes == 2 else 2.0}

    @property
    def bins(self) -> int:
        """Number of bins of the score."""
        return len(self.edges) + 1

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        if self.n_classes == 2:
            return {"scores": (2, self.bins)}
        shapes = {"confusion": (self.n_classes, self.n_classes)}
        return {**shapes, "sure": (2, self.bins)} if self.probabilities else shapes

    @property
    def need(self) -> dict[str, float]:
        # Noise of a right-or-wrong count: half of the table's cells, known to add up to all records
        need = {
            name: math.sqrt(rows * columns / 4) / USUAL["table"]
            for name, (rows, columns) in self.tables.items()
        }
        for name in self.sums:
            need[name] = self.units[name] / USUAL[name]
        return need

    def vectors(self, records: Records, model: Floats) -> Array:
        from scipy.special import expit, log_expit, log_softmax

        scores, truth = records.scores(model), records.classes
        if self.n_classes == 2:
            s = scores[:, 0]
            # NaN has no bin; np.digitize would put it into the last one
            cells = {"scores": truth * self.bins + np.digitize(expit(s), self.edges)}
            log_loss = -log_expit(np.where(truth == 1, s, -s))
            brier = expit(np.where(truth == 1, -s, s)) ** 2
        else:
            everyone = np.arange(len(records))
            chances = log_softmax(scores, axis=1)
            guess = scores.argmax(axis=1)
            cells = {"confusion": truth * self.n_classes + guess}
            sure = np.exp(chances[everyone, guess])
            cells["sure"] = (guess != truth) * self.bins + np.digitize(sure, self.edges)
            log_loss = -chances[everyone, truth]
            outcome = np.zeros_like(chances)
            outcome[everyone, truth] = 1.0
            brier = ((np.exp(chances) - outcome) ** 2).sum(axis=1) / 2
        cut = np.minimum(log_loss, self.log_loss_bound) / self.log_loss_bound
        sums = (cut, np.minimum(brier, 1.0)) if self.probabilities else ()
        return self.filled(cells, sums, np.asarray(~np.isnan(scores).any(axis=1)))


@register
@dataclass(frozen=True)
class ValueSums(Counts):
    """What a regression does: sums of residuals, labels and predictions, inside declared bounds."""

    name: ClassVar[str] = "value-sums"
    kinds: ClassVar[tuple[str, ...]] = ("regression",)
    sums = (
        "squares",
        "absolute",
        "label",
        "label_square",
        "prediction_square",
        "product",
        "prediction",
    )

    low: float
    high: float
    residual_bound: float | None = None  # to which a residual's size is cut; else high - low

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)
        if self.residual_bound is not None:
            width = self.high - self.low
            checks.between("residual_bound", self.residual_bound, 0.0, width * (1 + 1e-12))

    @property
    def reach(self) -> float:
        """To which a residual's size is cut."""
        return self.high - self.low if self.residual_bound is None else self.residual_bound

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        return {"residuals": (1, len(RESIDUAL_EDGES) + 1)}

    @property
    def need(self) -> dict[str, float]:
        need = {"residuals": 1.0 / USUAL["table"]}
        for name in self.sums:
            need[name] = 1.0 / USUAL_VALUES.get(name, USUAL_VALUES["places"])
        return need

    def vectors(self, records: Records, model: Floats) -> Array:
        label = np.clip(records.labels, self.low, self.high)
        score = records.scores(model)[:, 0]
        guess = np.clip(score, self.low, self.high)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        c, g = (label - middle) / half, (guess - middle) / half
        e = np.minimum(np.abs(label - guess) / self.reach, 1.0)
        cells = {"residuals": np.digitize(e, RESIDUAL_EDGES)}
        sums = (e**2, e, (1 + c) / 2, c**2, g**2, (1 + c * g) / 2, (1 + g) / 2)
        return self.filled(cells, sums, np.isfinite(records.labels) & np.isfinite(score))


@register
@dataclass(frozen=True)
class CountSums(Counts):
    """What a log-linear model of counts does: deviance, and mean label by predicted rate."""

    name: ClassVar[str] = "count-sums"
    kinds: ClassVar[tuple[str, ...]] = ("regression",)
    sums = ("deviance", "deviance_square", "label", "prediction", "entropy", "squares")

    high: float

    def __post_init__(self) -> None:
        checks.between("high", self.high, 0.0, 1e9)

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        return dict.fromkeys(("rates", "labels", "means"), (1, len(RATE_EDGES) + 1))

    @property
    def need(self) -> dict[str, float]:
        need = {"rates": 1.0 / USUAL["table"], "labels": 1.0, "means": 1.0 / USUAL["table"]}
        for name in self.sums:
            need[name] = 1.0 / USUAL_SUMS.get(name, 1.0)
        return need

    def vectors(self, records: Records, model: Floats) -> Array:
        from scipy.special import xlogy

        score = records.scores(model)[:, 0]
        c = np.clip(records.labels, 0.0, self.high) / self.high
        # ln g: of a rate above the bound 0
        log_g = np.minimum(score - math.log(self.high), 0.0)
        g = np.exp(log_g)
        with np.errstate(invalid="ignore"):  # 0 * -inf, where c is 0
            d = 2.0 * (xlogy(c, c) - np.where(c > 0, c * log_g, 0.0) - c + g)
        d = np.clip(d, 0.0, DEVIANCE_BOUND) / DEVIANCE_BOUND
        bins = np.digitize(g, RATE_EDGES)
        cells = {"rates": bins, "labels": np.digitize(c, RATE_EDGES), "means": bins}
        entropy = np.clip(-math.e * xlogy(c, c), 0.0, 1.0)
        sums = (d, d**2, c, g, entropy, (c - g) ** 2)
        return self.filled(cells, sums, ~(np.isnan(records.labels) | np.isnan(score)), means=c)


@register
@dataclass(frozen=True)
class QuantileSums(Counts):
    """What a quantile model does: labels at or below the prediction, and the pinball loss."""

    name: ClassVar[str] = "quantile-sums"
    kinds: ClassVar[tuple[str, ...]] = ("regression",)
    sums = ("pinball", "pinball_square")

    low: float
    high: float
    level: float = 0.5  # the share of labels that should be below the prediction

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)
        checks.between("level", self.level, 0.0, 1.0)

    @property
    def largest(self) -> float:
        """The largest pinball loss, in the units of the problem."""
        return (self.high - self.low) * max(self.level, 1.0 - self.level)

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        return {"below": (2, QUANTILE_BINS)}  # labels above the prediction; at or below it

    @property
    def need(self) -> dict[str, float]:
        need = {"below": math.sqrt(QUANTILE_BINS / 2) / USUAL["table"]}
        return need | {"pinball": 1.0 / USUAL_VALUES["absolute"], "pinball_square": 1.0}

    def vectors(self, records: Records, model: Floats) -> Array:
        score = records.scores(model)[:, 0]
        label, guess = (np.clip(x, self.low, self.high) for x in (records.labels, score))
        u = label - guess
        loss = np.maximum(self.level * u, (self.level - 1.0) * u) / self.largest
        loss = np.clip(loss, 0.0, 1.0)
        edges = np.linspace(self.low, self.high, QUANTILE_BINS + 1)[1:-1]
        cells = {"below": (u <= 0.0) * QUANTILE_BINS + np.digitize(guess, edges)}
        return self.filled(cells, (loss, loss**2), ~(np.isnan(records.labels) | np.isnan(score)))


def _check_range(low: float, high: float) -> None:
    for name, value in (("low", low), ("high", high)):
        checks.between(name, value, -1e9, 1e9, open_ends=False)
    if not low < high:
        raise InputError(f"high must be above low ({low:g}), not {high:g}.")


def checked_edges(edges: object) -> tuple[float, ...]:
    """Check that edges are rising numbers between 0 and 1, with 0.5 among them."""
    try:
        found = tuple(float(edge) for edge in edges)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(f"edges must be numbers between 0 and 1, not {edges!r}.") from None
    rising = all(a < b for a, b in zip(found, found[1:], strict=False))
    inside = all(0.0 < edge < 1.0 for edge in found)
    if not found or not rising or not inside or 0.5 not in found:
        raise InputError(
            "edges must be rising numbers between 0 and 1, with 0.5 among them, not "
            f"{found!r}; leave them out for the usual ones."
        )
    return found
