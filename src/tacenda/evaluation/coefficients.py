"""A model's coefficients as people read them: by feature name, in the original units, the largest
effects first, with their standard errors and, where an `Inference` tells them, intervals.

Everything here follows from what was released and public declarations, and costs no privacy.

    coefficient       change of the score for one unit of the quantity (of the label for a
                      regression, of the log odds for a logistic loss)
    effect            change of the score over the whole declared range of the quantity
    standard_error    of the coefficient, by the privacy noise alone: how far it would move if the
                      same records were learnt from again with other noise

With an `Inference` (`tacenda.inference`) the errors are those of its estimate of the population's
coefficient, to which the regulariser has done nothing:

    estimate          of the population's coefficient
    standard_error    of the estimate, by the choice of records and the privacy noise together
    noise_error       by the privacy noise alone
    low, high         the interval
    p_value, p_holm   of "the coefficient is 0", and corrected for the number of rows; only where
                      all conditions hold that released numbers can tell
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.errors import InputError
from tacenda.inference.design import INTERCEPT
from tacenda.inference.result import Inference, cost_of, holm

ORIGINAL, ENCODED = "in the original units", "of the features as the data set encodes them"
SHORTENED = "of the shortened rows"
KNOWN = "moments"  # the algorithm whose noise passes on to its model by a known linear map


@dataclass(frozen=True)
class Coefficient:
    """One row of a table of coefficients.

    Attributes
    ----------
    feature : str
        The quantity that is multiplied, in its original units, such as ``"income"``,
        ``"log1p(income)"`` or ``"site is 'a'"``.
    coefficient : float
        Change of the score for one unit of the quantity.
    standard_error : float or None
        Of the coefficient, by the privacy noise alone; with an interval, of the estimate, by the
        choice of records and the noise together. None where it is not known.
    effect : float
        Change of the score over the whole declared range of the quantity.
    output : str or None
        The class that the coefficient belongs to, where there are several scores.
    estimate : float or None
        Of the population's coefficient, without a regulariser.
    noise_error : float or None
        The part of `standard_error` that the privacy noise adds.
    low : float or None
        Lower end of the interval.
    high : float or None
        Upper end of the interval.
    p_value : float or None
        Of "the coefficient is 0"; None where a condition does not hold.
    p_holm : float or None
        The same, corrected for the number of coefficients by Holm's method.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.evaluation import coefficient_table
    >>> coefficient_table(["age"], np.array([[0.5]]), None, spans=np.array([80.0])).rows[0].effect
    40.0
    """

    feature: str
    coefficient: float
    standard_error: float | None
    effect: float
    output: str | None = None
    estimate: float | None = None
    noise_error: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None


INFERRED = ("estimate", "noise_error", "low", "high", "p_value", "p_holm")


@dataclass(frozen=True)
class CoefficientTable:
    """Coefficients sorted by the size of their effect, the intercept last.

    It is iterable; `str` gives an aligned text, and `to_plain` rows for ``pandas.DataFrame``.

    Attributes
    ----------
    rows : tuple of Coefficient
        The rows.
    errors : str
        How the standard errors are known, in one sentence.
    notes : tuple of str
        What else a reader must know.
    units : str
        Whether the coefficients are in the original units, in words.
    level : float or None
        The level of the intervals; None where there are none.
    positive : str or None
        Of two classes the one for which a positive coefficient speaks.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.evaluation import coefficient_table
    >>> table = coefficient_table(["age", "site is 'a'"], np.array([[0.5, 3.0]]), np.array([1.0]))
    >>> [row.feature for row in table]
    ["site is 'a'", 'age', 'intercept']
    """

    rows: tuple[Coefficient, ...]
    errors: str
    notes: tuple[str, ...] = ()
    units: str = ORIGINAL
    level: float | None = None
    positive: str | None = None

    def __iter__(self) -> Iterator[Coefficient]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_plain(self) -> list[dict[str, Any]]:
        """Give the rows as plain values, for files and data frames.

        Result: one dict for each row, with the fields of `Coefficient`; `output` only where there
        are several, those of an interval only where there are intervals.
        """
        left_out = set() if self._several else {"output"}
        left_out |= set(INFERRED) if self.level is None else set()
        return [{k: v for k, v in asdict(r).items() if k not in left_out} for r in self.rows]

    @property
    def _several(self) -> bool:
        return any(row.output is not None for row in self.rows)

    def columns(self) -> list[tuple[str, list[Any]]]:
        """Give the table by its columns.

        Result: the heading and the values of each column, None where a number is not known; of
        classes only where there are several, of intervals only where there are any, of p-values
        only where the conditions hold.
        """
        shown = [("class", "output")] if self._several else []
        shown += [("feature", "feature"), ("coefficient", "coefficient")]
        if self.level is not None:
            shown += [("estimate", "estimate")]
        shown += [("standard error", "standard_error")]
        if self.level is not None:
            shown += [("of noise", "noise_error")]
            shown += [(f"{self.level:.3g} low", "low"), ("high", "high")]
            if any(row.p_value is not None for row in self.rows):
                shown += [("p", "p_value"), ("p (Holm)", "p_holm")]
        shown += [("effect", "effect")]
        return [(title, [getattr(row, name) for row in self.rows]) for title, name in shown]

    @property
    def texts(self) -> int:
        """How many of the first columns are words; the others are numbers."""
        return 2 if self._several else 1

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Give the table as text.

        Result: the headings, those of `columns`.
        """
        columns = self.columns()
        words = [
            [str(v) if k < self.texts else _short(v) for v in values]
            for k, (_, values) in enumerate(columns)
        ]
        return [title for title, _ in columns], [list(row) for row in zip(*words, strict=True)]

    def __str__(self) -> str:
        header, rows = self.cells()
        widths = [max(len(line[k]) for line in (header, *rows)) for k in range(len(header))]
        texts = self.texts
        lines = [
            "  ".join(
                c.ljust(w) if k < texts else c.rjust(w)
                for k, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (header, *rows)
        ]
        return "\n".join([*lines, self.errors, *self.notes])


def coefficient_table(
    names: Sequence[str],
    coef: Floats,
    intercept: Floats | None,
    *,
    coef_std: Floats | None = None,
    intercept_std: Floats | None = None,
    spans: Floats | None = None,
    outputs: Sequence[Any] | None = None,
    errors: str = "The standard errors are not known.",
    notes: Sequence[str] = (),
    units: str = ORIGINAL,
    inference: Inference | None = None,
    shared: bool = False,
) -> CoefficientTable:
    """Make the table of a linear model's coefficients.

    Parameters
    ----------
    names : sequence of str
        The p quantities.
    coef : array of shape (K, p)
        Coefficients in the original units.
    intercept : array of shape (K,) or None
        The intercepts; None where there are none.
    coef_std : array of shape (K, p) or None, default=None
        Standard errors of the coefficients; NaN where one is not known.
    intercept_std : array of shape (K,) or None, default=None
        Standard errors of the intercepts.
    spans : array of shape (p,) or None, default=None
        The declared range of each quantity; 1 where none is declared.
    outputs : sequence or None, default=None
        The K classes, where K > 1; of two classes with one score both, the positive one second.
    errors : str, default="The standard errors are not known."
        How the standard errors are known, in one sentence.
    notes : sequence of str, default=()
        What else a reader must know.
    units : str, default="in the original units"
        Whether the coefficients are in the original units, in words.
    inference : Inference or None, default=None
        Of the p coefficients and, behind them, the intercept if there is one; for K = 1. In place
        of `coef_std`, `intercept_std` and `errors`.
    shared : bool, default=False
        Whether all outputs have the same coefficients, which are then shown once.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.evaluation import coefficient_table
    >>> print(coefficient_table(["age"], np.array([[2.0]]), None, coef_std=np.array([[0.5]])))
    feature  coefficient  standard error  effect
    age                2             0.5       2
    The standard errors are not known.
    """
    coef = np.atleast_2d(np.asarray(coef, float))
    spans = np.ones(coef.shape[1]) if spans is None else np.asarray(spans, float)
    std = None if coef_std is None else np.broadcast_to(coef_std, coef.shape)
    rows, last = [], []
    for k, values in enumerate(coef):
        output = str(outputs[k]) if outputs is not None and len(coef) > 1 else None
        for j, value in enumerate(values if k == 0 or not shared else values[:0]):
            error = None if std is None or math.isnan(std[k, j]) else float(std[k, j])
            effect = float(value * spans[j])
            whose = "all" if shared else output
            rows.append(Coefficient(str(names[j]), float(value), error, effect, whose))
        if intercept is not None:
            b = float(np.ravel(intercept)[k])
            error = None if intercept_std is None else float(np.ravel(intercept_std)[k])
            error = None if error is None or math.isnan(error) else error
            last.append(Coefficient(INTERCEPT, b, error, b, output))
    positive = None
    if outputs is not None and len(outputs) == 2 and len(coef) == 1:
        positive = str(outputs[1])
        notes = [
            f"Positive class: {positive}. A positive coefficient makes it more likely.",
            *notes,
        ]
    if inference is not None:
        if len(coef) != 1:
            raise InputError(
                f"inference is for models with one score, and this one has {len(coef)}; leave it "
                "out."
            )
        told = [
            replace(r, **f)
            for r, f in zip([*rows, *last], _inferred(inference, len(rows)), strict=True)
        ]
        rows, last = told[: len(rows)], told[len(rows) :]
        errors, notes = inference.method, [*inferred_notes(inference), *notes]
    rows.sort(key=lambda row: -abs(row.effect))
    level = None if inference is None else inference.level
    return CoefficientTable((*rows, *last), errors, tuple(notes), units, level, positive)


def _inferred(inference: Inference, tested: int) -> Iterator[dict[str, Any]]:
    """The fields of each row that an inference tells; only the first rows are hypotheses, and an
    intercept behind them is none."""
    low, high = inference.interval()
    p = np.full(len(low), np.nan)
    if not inference.failed:
        p[:tested] = inference.p_values()[:tested]
    both = (
        np.where(inference.shown, inference.estimate, np.nan),
        inference.standard_error,
        inference.noise_error,
        low,
        high,
        p,
        holm(p),
    )
    names = ("estimate", "standard_error", "noise_error", "low", "high", "p_value", "p_holm")
    for row in zip(*both, strict=True):
        yield {k: None if np.isnan(v) else float(v) for k, v in zip(names, row, strict=True)}


def inferred_notes(inference: Inference) -> list[str]:
    """What a reader of intervals and p-values must know, in sentences."""
    cost = inference.privacy
    said = (
        []
        if cost is None
        else [f"Asking for the intervals cost {cost_of(cost)} on top of the run."]
    )
    if inference.failed:
        said.append(
            "There are no p-values, since a condition does not hold: "
            + " ".join(c.text for c in inference.failed)
        )
    held = " ".join(c.text for c in inference.conditions if c.holds)
    assumed = " ".join(c.text for c in inference.conditions if c.holds is None)
    said.append(f"Conditions that hold: {held}" if held else "")
    said.append(f"Conditions that released numbers cannot check: {assumed}" if assumed else "")
    return [text for text in said if text]


RATE_RATIO = "a rate ratio"  # what exp(coefficient) is where scores are logarithms of rates
RATIOS = {
    "log-rate": RATE_RATIO,
    "order": "an odds ratio (of a higher class)",
    "hazard": "a ratio of the hazard's odds, close to the hazard ratio where hazards are small",
}


def ratio_note(ratio: str) -> str:
    """How to read a coefficient whose exponential has a name, in one sentence."""
    return (
        f"exp(coefficient) is {ratio}: the factor for one more unit of the feature, all else equal."
    )


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}"
