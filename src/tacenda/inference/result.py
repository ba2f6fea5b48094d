"""`Inference`: coefficients with standard errors and intervals that hold both the choice of records
and the privacy noise, and the conditions on which they stand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.errors import StateError, UnsupportedError
from tacenda.formats.files import write_json
from tacenda.inference.newton import visible
from tacenda.privacy.statement import Statement

FORMAT = "tacenda-inference-3"


@dataclass(frozen=True)
class Condition:
    """One thing on which intervals and p-values stand.

    Parameters
    ----------
    name : str
        In one word.
    holds : bool or None
        Whether released numbers say that it holds; None where nothing released can tell.
    text : str
        What it is, and what was found, in one sentence.

    Examples
    --------
    >>> from tacenda.inference import Condition
    >>> Condition("records", True, "There are 50 records for each coefficient.").holds
    True
    """

    name: str
    holds: bool | None
    text: str


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates of a population's coefficients, with how far they may be off.

    What is estimated are the coefficients at which the population's mean loss is least, without a
    regulariser: the released model itself is shrunk towards zero by its regulariser, and these
    estimates are not.

    Attributes
    ----------
    estimate : ndarray
        Shape (d,), the coefficients.
    sampling : ndarray
        Shape (d, d), their covariance by the choice of records.
    noise : ndarray
        Shape (d, d), their covariance by the privacy noise.
    redundant : ndarray
        Shape (p, r), orthonormal directions of the model's p coefficients in which nothing can be
        told: no record varies there, by declaration, or the step was too long.
    level : float
        The level of the intervals, such as 0.95.
    method : str
        How they were made, in one sentence.
    conditions : tuple of Condition
        On what they stand.
    privacy : Statement or None
        What asking for them cost, on top of the run; None where it cost nothing.
    rows : ndarray or None
        Shape (d, p), where `mapped` was used: each estimate as a combination of the model's
        coefficients.
    spill : ndarray or None
        Shape (p, m), where the noise hides directions: intervals are wider by |r'spill| to each
        side, with r the row of `rows`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Inference
    >>> one = np.eye(1)
    >>> found = Inference(np.ones(1), 0.03 * one, 0.01 * one, np.zeros((1, 0)), 0.95, "By hand.")
    >>> found.standard_error
    array([0.2])
    """

    estimate: Floats
    sampling: Floats
    noise: Floats
    redundant: Floats
    level: float
    method: str
    conditions: tuple[Condition, ...] = ()
    privacy: Statement | None = None
    rows: Floats | None = None
    spill: Floats | None = None

    @property
    def shown(self) -> Array:
        """Which estimates can be told, shape (d,); the others have no interval."""
        return visible(self._rows, _root(self.sampling + self.noise), self.redundant, self._spill)

    @property
    def _rows(self) -> Floats:
        return np.eye(len(self.redundant)) if self.rows is None else self.rows

    @property
    def _spill(self) -> Floats:
        return np.zeros((len(self.redundant), 0)) if self.spill is None else self.spill

    @property
    def hidden_part(self) -> Floats:
        """By how much intervals are wider, to each side, for what the noise hides, shape (d,)."""
        return np.asarray(np.linalg.norm(self._rows @ self._spill, axis=1))

    @property
    def standard_error(self) -> Floats:
        """By records and noise together, shape (d,); NaN where it is not known."""
        return np.where(self.shown, _root(self.sampling + self.noise), math.nan)

    @property
    def noise_error(self) -> Floats:
        """By the privacy noise alone, shape (d,); NaN where it is not known."""
        return np.where(self.shown, _root(self.noise), math.nan)

    def interval(self, level: float | None = None) -> tuple[Floats, Floats]:
        """Give the intervals of the coefficients.

        level: another level than `level`. Result: lower ends, shape (d,); NaN where there is no
        interval.
        """
        from scipy.stats import norm

        level = self.level if level is None else checks.between("level", level, 0.0, 1.0)
        reach = float(norm.ppf(0.5 + level / 2)) * self.standard_error + self.hidden_part
        return self.estimate - reach, self.estimate + reach

    @property
    def failed(self) -> list[Condition]:
        """The conditions that do not hold."""
        return [c for c in self.conditions if c.holds is False]

    def p_values(self) -> Floats:
        """Give two-sided p-values of "this coefficient is 0", by the normal distribution.

        Result: shape (d,); NaN where a coefficient has no interval.
        """
        from scipy.stats import norm

        if self.failed:
            raise UnsupportedError(
                "There are no p-values, since a condition does not hold: "
                + " ".join(c.text for c in self.failed)
            )
        error = self.standard_error
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(2 * norm.sf(np.abs(self.estimate) / error))

    def mapped(self, matrix: Floats, offset: Floats) -> Inference:
        """Give the same for quantities that are linear in the coefficients.

        matrix: shape (k, d). offset: shape (k,). Result: of matrix times the coefficients plus
        offset.
        """
        m = np.asarray(matrix, float)
        return replace(
            self,
            estimate=m @ self.estimate + offset,
            sampling=m @ self.sampling @ m.T,
            noise=m @ self.noise @ m.T,
            rows=m if self.rows is None else m @ self.rows,
        )

    def to_plain(self) -> dict[str, Any]:
        """Give plain values for files."""
        return {
            "format": FORMAT,
            "estimate": self.estimate.tolist(),
            "sampling": self.sampling.tolist(),
            "noise": self.noise.tolist(),
            "redundant": self.redundant.tolist(),
            "spill": None if self.spill is None else self.spill.tolist(),
            "rows": None if self.rows is None else self.rows.tolist(),
            "level": self.level,
            "method": self.method,
            "conditions": [[c.name, c.holds, c.text] for c in self.conditions],
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Inference:
        """Read back what `to_plain` gave."""
        if plain.get("format") != FORMAT:
            raise StateError(
                f"Intervals of coefficients have the format {FORMAT!r}, not "
                f"{plain.get('format')!r}; ask for them again."
            )
        return cls(
            np.asarray(plain["estimate"], float),
            np.asarray(plain["sampling"], float),
            np.asarray(plain["noise"], float),
            np.asarray(plain["redundant"], float),
            float(plain["level"]),
            plain["method"],
            tuple(Condition(*c) for c in plain["conditions"]),
            None if plain["privacy"] is None else Statement.from_plain(plain["privacy"]),
            None if plain["rows"] is None else np.asarray(plain["rows"], float),
            None if plain["spill"] is None else np.asarray(plain["spill"], float),
        )

    def save(self, path: str | Path) -> Path:
        """Write them to a file of JSON."""
        return write_json(path, self.to_plain())

    @classmethod
    def load(cls, path: str | Path) -> Inference:
        """Read back what `save` wrote."""
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as why:
            raise StateError(f"{path} holds no intervals that can be read: {why}.") from None
        return cls.from_plain(plain if isinstance(plain, dict) else {})


def _root(covariance: Floats) -> Floats:
    """Standard errors (d,) from a covariance."""
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))


def cost_of(privacy: Statement) -> str:
    """What a question cost, in words."""
    coalition = privacy.curve().coalition
    limit = "" if coalition is None else f", against coalitions of at most {coalition}"
    return f"epsilon {privacy.epsilon:.3g}, delta {privacy.delta:.3g} ({privacy.adjacency}{limit})"


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Correct p-values for their number, by Holm's step-down method (Holm 1979).

    The chance that any true null hypothesis is rejected at level a is at most a, however the
    tests hang together.

    Parameters
    ----------
    p_values : sequence of float
        Of all tests that were made; NaN where there was none.

    Examples
    --------
    >>> from tacenda.inference import holm
    >>> [round(float(p), 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, float)
    found = np.full(given.shape, math.nan)
    known = np.flatnonzero(~np.isnan(given))
    order = known[np.argsort(given[known], kind="stable")]
    steps = given[order] * np.arange(len(order), 0, -1)
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return found
