"""Before anything is charged: which coefficients a question will probably show, and what epsilon
would show the others.

Everything follows from public numbers: the declarations (`Design`), the sizes, the noise that the
budget buys, and what the run has released. The curvature at the released model w is taken for

    H = c M,   M: mean of xx', released by the run, else by declared ranges filled evenly
               c: mean of the loss's second derivative over scores N(mean, variance), by M and w

and a row counts as visible where `newton` would show it with H known. What a run says of M along
directions that its own noise hides is a guess, and nothing shows that records vary there at all. So
there are three forecasts: with the guess, with nothing in its place, and with the guess's sum
shared unevenly, as rare levels are. A row is promised by the second; where it needs more than the
first names, the first is told as a least epsilon, and the third decides whether it is worth asking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.errors import PrivacyError
from tacenda.inference.known_curvature import known_curvature
from tacenda.inference.newton import MOST_SPILL, edge, hidden_count, identifiable
from tacenda.inference.scales import SHARE, expected, scales_of
from tacenda.inference.statistics import GradientMoments
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.runtime.result import RunResult

INTERCEPT = "intercept"
MOST_NAMED = 6  # rows that a sentence names
STEPS = np.logspace(-4, 4, 1601)  # sizes of noise that are tried, over that of the question
ALIKE = 1.1  # two forecasts of an epsilon that say the same
HIDING = 0.25  # of a row, in hidden directions: one that is named


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

        names: of the d coefficients. Result: without redundant directions.
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
    least : ndarray or None
        Shape (k,), where `needed` is only a lower bound: the run released too little to say more.
        None: nowhere.
    likely : ndarray or None
        Shape (k,), the epsilon at which each row will probably be visible, where `needed` is only a
        lower bound. None: as `needed`.
    hiding : tuple of str
        Rows that the noise of the run itself hides.

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
    least: Array | None = None
    likely: Floats | None = None
    hiding: tuple[str, ...] = ()

    @property
    def visible(self) -> Array:
        """Which rows will probably have an interval, shape (k,)."""
        return np.asarray((self.needed <= self.epsilon) & ~self._at_least)

    @property
    def _at_least(self) -> Array:
        return np.zeros(len(self.names), bool) if self.least is None else self.least

    @property
    def _open(self) -> Array:
        """Which rows may have an interval, though nothing public says so."""
        return np.asarray((self._likely <= self.epsilon) & self._at_least)

    @property
    def _likely(self) -> Floats:
        return self.needed if self.likely is None else self.likely

    def _of_row(self, j: int) -> str:
        """The epsilon that a row needs, in words."""
        least = _epsilon(self.needed[j])
        if not self._at_least[j]:
            return least
        most = _epsilon(self._likely[j])
        return f"more than {least}" + (f", perhaps {most}" if most != least else "")

    @property
    def _joining(self) -> str:
        """What to do about the rows that hide, a sentence or nothing."""
        if not self.hiding:
            return ""
        more = len(self.hiding) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        return (
            f" Hidden in the run's noise: {', '.join(self.hiding[:MOST_NAMED])}{rest}. Join rare "
            "levels, or leave columns out that hardly vary or repeat others, and learn again."
        )

    def __str__(self) -> str:
        k, seen = len(self.names), int(self.visible.sum())
        if seen == k:
            return (
                f"At epsilon {self.epsilon:g} all {k} rows will probably be visible "
                f"({self.assumed})."
            )
        order = np.argsort(self.needed, kind="stable")
        hidden = [j for j in order if not self.visible[j]]
        named = [f"{self.names[j]}: {self._of_row(j)}" for j in hidden[:MOST_NAMED]]
        more = len(hidden) - len(named)
        rest = f"; and {more} more" if more else ""
        unsure = int(self._open.sum())
        perhaps = f", and {unsure} may be" if unsure else ""
        return (
            f"At epsilon {self.epsilon:g} probably {seen} of {k} rows will be visible{perhaps} "
            f"({self.assumed}). The others need about this epsilon: {'; '.join(named)}{rest}."
            f"{self._joining}"
        )

    @property
    def worth_asking(self) -> bool:
        """True unless every row will probably stay hidden."""
        return bool(self.visible.any() or self._open.any())

    def require_any(self) -> None:
        """Refuse a question that would show nothing."""
        if self.worth_asking:
            return
        first = int(np.argmin(self._likely))
        above = self._at_least[first]
        remedy = (
            "more records or fewer features"
            if not math.isfinite(self.needed[first])
            else f"an epsilon of {'' if above else 'about '}{self._of_row(first)} for the first "
            "row, or more records, or fewer features"
        )
        raise PrivacyError(
            f"privacy of epsilon {self.epsilon:g} would probably show no interval for any of the "
            f"{len(self.names)} coefficients ({self.assumed}). It takes {remedy}; nothing was "
            f"asked or charged.{self._joining} Ask all the same with --anyway (anyway=True)."
        )

    def to_plain(self) -> dict[str, Any]:
        """Give plain values for files.

        Result: by row: whether it will be visible, the epsilon that it needs, whether that is only
        a lower bound, and what it may take then; and the rows that hide.
        """
        return {
            "epsilon": self.epsilon,
            "assumed": self.assumed,
            "hiding": list(self.hiding),
            "rows": [
                {
                    "feature": name,
                    "visible": bool(seen),
                    "needed_epsilon": float(needed) if math.isfinite(needed) else None,
                    "needs_more": bool(more),
                    "likely_epsilon": float(likely) if math.isfinite(likely) else None,
                }
                for name, seen, needed, more, likely in zip(
                    self.names, self.visible, self.needed, self._at_least, self._likely, strict=True
                )
            ],
        }


def _epsilon(value: float) -> str:
    """Rounded up to two digits: what is named must be enough."""
    if not math.isfinite(value):
        return "none would do"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1.0
    return f"{math.ceil(value / unit * (1 - 1e-9)) * unit:.2g}"


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
    >>> from tacenda.questions.facts import Facts
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
    mu = whole = gaussian_mu(epsilon, privacy.delta)
    if scales_of(asked) is not None:
        asked, mu = expected(asked), mu * math.sqrt(1.0 - SHARE)
    std = _noise(facts, privacy, asked) / mu / float(facts.sizes.sum()) * asked.units["curvature"]
    told = known_curvature(asked, facts, result, design.redundant, design.constant, design.moment)
    names = tuple(name for name in design.names if name != INTERCEPT)

    def needed_with(h: Floats) -> Floats:
        steps, place = np.unique(_most_noise(asked, facts, design, h, std), return_inverse=True)
        with np.errstate(divide="ignore"):
            return np.array([_needed(whole / t, privacy.delta) for t in steps])[place]

    needed = needed_with(told.guess)
    if told.sure is None:
        return Forecast(names, epsilon, needed, told.assumed)
    most = np.maximum(needed_with(told.sure), needed)
    likely = np.clip(needed_with(told.uneven), needed, most)
    clear = (most <= epsilon) | (most <= ALIKE * needed)
    hiding = _hiding(design, told.hidden)
    if clear.all():
        return Forecast(names, epsilon, most, told.assumed, hiding=hiding)
    needed, likely = np.where(clear, most, needed), np.where(clear, most, likely)
    return Forecast(names, epsilon, needed, told.assumed, ~clear, likely, hiding)


def _hiding(design: Design, hidden: Floats) -> tuple[str, ...]:
    """The rows of which a large part lies in hidden directions, that with the largest first."""
    length = np.maximum(np.linalg.norm(design.matrix, axis=1), np.finfo(float).tiny)
    part = (np.linalg.norm(design.matrix @ hidden, axis=1) / length) ** 2
    order = np.argsort(-part, kind="stable")
    names = [design.names[j] for j in order if part[j] > HIDING]
    return tuple(name for name in names if name != INTERCEPT)


def _hidden(e: Floats, std: float) -> int:
    return hidden_count(e, edge(np.arange(1, len(e) + 1)) * std)


def _most_noise(
    asked: GradientMoments, facts: Facts, design: Design, curvature: Floats, std: float
) -> Floats:
    """(k,) the most noise that shows a row, over `std`, that of the question: as much more as
    leaves it visible, or else as little less as does; 0 where none would."""
    q, _ = identifiable(design.redundant, asked.n_features)
    e, vectors = np.linalg.eigh(q.T @ curvature @ q)
    rows = [j for j, name in enumerate(design.names) if name != INTERCEPT]
    along = (design.matrix[rows] @ (q @ vectors)) ** 2
    shown = _shown(asked, facts, np.maximum(e, 0.0), along, std)
    now = len(STEPS) // 2
    more = np.logical_and.accumulate(shown[now:]).sum(axis=0)
    less = STEPS[:now, None] * shown[:now]
    return np.where(more > 0, STEPS[now + more - 1], less.max(axis=0))


def _shown(asked: GradientMoments, facts: Facts, e: Floats, along: Floats, std: float) -> Array:
    """(steps, k) whether rows, with squared components `along` (k, d) in the directions of the
    eigenvalues e, are visible with STEPS times the noise `std`: by the rule of `newton`."""
    n, missed = float(facts.sizes.sum()), asked.hidden_score / asked.data_norm
    ratio = asked.units["gradient"] / asked.units["curvature"]
    scatter = facts.constants.loss.typical.scatter
    found = np.zeros((len(STEPS), len(along)), bool)
    for i, noise in enumerate(STEPS * std):
        h = _hidden(e, noise)
        if h == 0:
            found[i] = True
        elif h < len(e):
            squared = (along[:, h:] / e[h:] ** 2).sum(axis=1)
            error = squared * (ratio * noise) ** 2
            error = error + scatter * (along[:, h:] / e[h:]).sum(axis=1) / n
            # The noise turns each hidden direction a little into the seen ones
            leak = 0.5 * (h + 1) * noise**2 * squared
            spill = missed**2 * (along[:, :h].sum(axis=1) + leak)
            found[i] = spill <= MOST_SPILL**2 * error
    return found


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
