"""Before anything is charged: which coefficients a question will probably show, and what epsilon
would show the others.

Everything follows from public numbers: the declarations (`Design`), the sizes, the noise that the
budget buys, and what the run has released. The curvature at the released model w is taken for

    H = c M,   M: mean of xx', released by a whitened run, else by declared ranges filled evenly
               c: mean of the loss's second derivative over scores N(mean, variance), by M and w

and a direction counts as seen where `newton.one_step` would see H there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.algorithms.whitening import MOMENT
from tacenda.errors import InputError
from tacenda.inference.newton import EDGES, LEAK, identifiable
from tacenda.inference.statistics import GradientMoments
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.problem.losses import NegativeBinomial, Poisson
from tacenda.problem.moments import unpacked
from tacenda.runtime.result import RunResult

INTERCEPT = "intercept"
MOST_NAMED = 6  # rows that a sentence names


@dataclass(frozen=True, eq=False)
class Design:
    """What declarations say about encoded rows x, and the quantities that a table shows.

    Parameters
    ----------
    names : tuple of str
        The k quantities that are shown.
    matrix : ndarray
        Shape (k, d): the quantities are matrix times the model's coefficients, plus `offset`.
    offset : ndarray
        Shape (k,).
    redundant : ndarray
        Shape (r, d), directions v with x.v = 0 for every record.
    constant : ndarray or None, default=None
        Shape (d,), a direction with x.v = 1 for every record.
    moment : ndarray or None, default=None
        Shape (d, d), the mean of xx' if values filled their declared ranges evenly.

    Examples
    --------
    >>> from tacenda.inference import Design
    >>> Design.plain(["age", "dose"]).matrix.shape
    (2, 2)
    """

    names: tuple[str, ...]
    matrix: Floats
    offset: Floats
    redundant: Floats
    constant: Floats | None = None
    moment: Floats | None = None

    @classmethod
    def plain(cls, names: Any) -> Design:
        """Show each coefficient by itself.

        Parameters
        ----------
        names : sequence of str
            Of the d coefficients.

        Returns
        -------
        Design
            Without redundant directions.
        """
        d = len(names)
        return cls(tuple(map(str, names)), np.eye(d), np.zeros(d), np.zeros((0, d)))


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a question will probably show.

    Attributes
    ----------
    names : tuple of str
        The rows of the table.
    epsilon : float
        What the question costs.
    needed : ndarray
        Shape (k,), the epsilon at which each row would be visible; infinite where none would do.
    assumed : str
        On what the forecast stands, in a few words.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Forecast
    >>> Forecast(("age", "dose"), 1.0, np.array([0.4, 2.0]), "").visible.tolist()
    [True, False]
    """

    names: tuple[str, ...]
    epsilon: float
    needed: Floats
    assumed: str

    @property
    def visible(self) -> Array:
        """Which rows will probably have an interval, shape (k,)."""
        return np.asarray(self.needed <= self.epsilon)

    def __str__(self) -> str:
        k, seen = len(self.names), int(self.visible.sum())
        if seen == k:
            return (
                f"At epsilon {self.epsilon:g} all {k} rows will probably be visible "
                f"({self.assumed})."
            )
        order = np.argsort(self.needed, kind="stable")
        hidden = [j for j in order if not self.visible[j]]
        named = [f"{self.names[j]}: {_epsilon(self.needed[j])}" for j in hidden[:MOST_NAMED]]
        more = len(hidden) - len(named)
        rest = f", and {more} more" if more else ""
        return (
            f"At epsilon {self.epsilon:g} probably {seen} of {k} rows will be visible "
            f"({self.assumed}). The others need about this epsilon: {', '.join(named)}{rest}."
        )

    def require_any(self) -> None:
        """Refuse a question that would show nothing.

        Raises
        ------
        InputError
            If no row will be visible; the message says what would help.
        """
        if self.visible.any():
            return
        least = float(self.needed.min(initial=math.inf))
        remedy = (
            "more records or fewer features"
            if not math.isfinite(least)
            else f"an epsilon of about {_epsilon(least)} for the first row, or more records, or "
            "fewer features"
        )
        raise InputError(
            f"privacy of epsilon {self.epsilon:g} would probably show no interval for any of the "
            f"{len(self.names)} coefficients ({self.assumed}). It takes {remedy}; nothing was "
            "asked or charged. Ask all the same with --anyway (anyway=True)."
        )

    def to_plain(self) -> dict[str, Any]:
        """Give plain values for files.

        Returns
        -------
        dict
            By row: whether it will be visible, and the epsilon that it needs.
        """
        return {
            "epsilon": self.epsilon,
            "assumed": self.assumed,
            "rows": [
                {
                    "feature": name,
                    "visible": bool(seen),
                    "needed_epsilon": float(needed) if math.isfinite(needed) else None,
                }
                for name, seen, needed in zip(self.names, self.visible, self.needed, strict=True)
            ],
        }


def _epsilon(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "none would do"


def forecast(
    asked: GradientMoments,
    facts: Facts,
    privacy: Privacy,
    result: RunResult,
    design: Design | None = None,
) -> Forecast | None:
    """Forecast which rows a question will show, from public numbers alone.

    Parameters
    ----------
    asked : GradientMoments
        What will be asked.
    facts : Facts
        Of the records.
    privacy : Privacy
        The price of the question.
    result : RunResult
        The run at whose model the records will be asked.
    design : Design or None, default=None
        What is declared about rows, and what is shown.

    Returns
    -------
    Forecast or None
        None where the privacy is given by its noise and not by an epsilon.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.inference import GradientMoments, forecast
    >>> from tacenda.problem.facts import Facts
    >>> data = tc.data.make_classification(400, 3, seed=0)
    >>> problem = tc.Problem([(data.X, data.y)], classes=(0, 1))
    >>> run = tc.simulate(problem, tc.graph.complete(1), "treegd", 5)
    >>> asked = GradientMoments(3, "logistic")
    >>> forecast(asked, Facts.of(problem), tc.Privacy(4.0), run).visible.tolist()
    [True, True, True]
    """
    epsilon = float(np.max(privacy.epsilon_of(facts.n)))
    if not math.isfinite(epsilon):
        return None
    design = Design.plain([f"x{j}" for j in range(asked.n_features)]) if design is None else design
    mu = gaussian_mu(epsilon, privacy.delta)
    std = _noise(facts, privacy, asked) / mu / float(facts.sizes.sum()) * asked.units["curvature"]
    curvature, assumed = _curvature(asked, facts, result, design)
    q, _ = identifiable(design.redundant, asked.n_features)
    e, vectors = np.linalg.eigh(q.T @ curvature @ q)
    edge = EDGES * math.sqrt(2.0 * q.shape[1]) * std
    rows = [j for j, name in enumerate(design.names) if name != INTERCEPT]
    matrix = design.matrix[rows]
    # Ascending: a row is seen once the noise leaves all but LEAK of it visible
    along = (matrix @ (q @ vectors)) ** 2
    allowed = LEAK**2 * (matrix**2).sum(axis=1, keepdims=True)
    first = np.argmax(np.cumsum(along, axis=1) > allowed * (1 + 1e-12) + 1e-300, axis=1)
    never_hidden = along.sum(axis=1) <= allowed[:, 0]
    least = np.where(never_hidden, math.inf, np.maximum(e[first], 0.0))
    with np.errstate(divide="ignore"):
        times = np.where(least > 0, edge / least, math.inf)
    steps, place = np.unique(times, return_inverse=True)
    needed = np.array([_needed(mu * t, privacy.delta) for t in steps])[place]
    return Forecast(tuple(design.names[j] for j in rows), epsilon, needed, assumed)


def _needed(mu: float, delta: float) -> float:
    return GaussianProfile(mu).epsilon(delta) if mu < 1e3 else math.inf


def _noise(facts: Facts, privacy: Privacy, asked: GradientMoments) -> float:
    """Return the noise of the network's sum for mu = 1: what one record moves it by, times what
    masks against a coalition, or noise of each node's own, cost more."""
    moved, n = facts.statistic_distance(asked) * facts.members_per_person, facts.n
    if privacy.coalition is None:
        return moved * math.sqrt(n)
    honest = max(n - privacy.coalition, 1)
    return moved * math.sqrt(n / honest)


def _curvature(
    asked: GradientMoments, facts: Facts, result: RunResult, design: Design
) -> tuple[Floats, str]:
    d = asked.n_features
    if MOMENT in result.released:
        moment = unpacked(np.asarray(result.released[MOMENT], float))
        assumed = "by the second moment that the run released"
    elif design.moment is not None:
        moment, assumed = design.moment, "if values fill their declared ranges evenly"
    else:
        moment = np.eye(d) * (asked.data_norm**2 / d)
        assumed = "if features vary as much as their norm allows, in all directions alike"
    return _mean_second(asked, facts, result, design, moment) * moment, assumed


def _mean_second(
    asked: GradientMoments, facts: Facts, result: RunResult, design: Design, moment: Floats
) -> float:
    """Return the mean of the loss's second derivative at the released model, for scores of normal
    shape; for losses whose derivative depends on the label, a typical one."""
    loss = facts.constants.loss
    if loss.kind == "regression" and not isinstance(loss, Poisson):
        if isinstance(loss, NegativeBinomial):
            return float(loss.typical_curvature)
        return float(min(loss.curvature, 1.0))
    w = np.asarray(result.model, float).reshape(-1)
    mean = 0.0 if design.constant is None else float(w @ moment @ design.constant)
    variance = max(float(w @ moment @ w) - mean**2, 0.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    scores = mean + math.sqrt(variance) * nodes
    second = np.array(loss.second(scores, np.ones(len(scores))))  # type: ignore[attr-defined]
    return float(np.clip(weights @ second / weights.sum(), 0.0, loss.curvature))
