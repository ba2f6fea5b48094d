"""Sites that differ: one effect estimated at each site alone, and what they say together.

With y_k the estimate of site k and v_k its variance, for noise and sampling,

    y_k ~ N(m, v_k + tau^2)        tau: how much sites truly differ

tau^2 is found by restricted maximum likelihood (or by DerSimonian and Laird's moments). The
interval of m is that of Hartung, Knapp, Sidik and Jonkman, never narrower than the usual one; the
prediction interval, where a new site's effect lies, has k - 2 degrees of freedom (Higgins et al.
2009).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri, stdtr, stdtrit

from tacenda import checks
from tacenda._types import Floats
from tacenda.data.coded import words_of
from tacenda.data.persons import persons_of
from tacenda.data.readers import read_table
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.text import strict
from tacenda.privacy.noise.persons import most_nodes
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.validate.persons import refuse_spread
from tacenda.tables.hazards import ROUNDS, AskedEffects, hazard_ratios, hidden_by
from tacenda.tables.saving import save
from tacenda.tables.text import bracketed

METHODS = ("reml", "dersimonian-laird")


@dataclass(frozen=True)
class Pooled:
    """What several sites say together.

    Parameters
    ----------
    effect : float
        Mean effect over sites.
    low : float
        Lower end of its interval.
    high : float
        Upper end.
    p_value : float
        Chance of such a mean where it is 0.
    tau : float
        Standard deviation of the sites' true effects.
    q : float
        Cochran's statistic of whether sites differ.
    q_p_value : float
        Its p-value.
    new_low : float
        Where a new site's effect lies: lower end; infinite with fewer than 3 sites.
    new_high : float
        Upper end.

    Examples
    --------
    >>> from tacenda.tables import pooled
    >>> pooled([0.1, 0.3, 0.2], [0.1, 0.1, 0.1]).tau
    0.0
    """

    effect: float
    low: float
    high: float
    p_value: float
    tau: float
    q: float
    q_p_value: float
    new_low: float
    new_high: float


def pooled(
    effects: Sequence[float] | Floats,
    errors: Sequence[float] | Floats,
    level: float = 0.95,
    method: str = METHODS[0],
) -> Pooled:
    """Summarise estimates of several sites, which may truly differ (random effects).

    Parameters
    ----------
    effects : sequence of float
        One estimate for each site, such as a log hazard ratio; at least 2.
    errors : sequence of float
        Their standard errors, for noise and sampling.
    level : float, default=0.95
        Confidence level of the intervals.
    method : {"reml", "dersimonian-laird"}, default="reml"
        How tau is found.

    Examples
    --------
    >>> from tacenda.tables import pooled
    >>> found = pooled([0.1, 0.9, 0.5], [0.1, 0.1, 0.1])
    >>> round(found.effect, 3), round(found.tau, 3)
    (0.5, 0.387)
    """
    checks.one_of("method", method, METHODS)
    y, v = np.asarray(effects, float), np.asarray(errors, float) ** 2
    if len(y) < 2 or y.shape != v.shape or not (np.isfinite(y).all() and (v > 0).all()):
        raise InputError(
            f"effects and errors must be one number for each of at least 2 sites, with errors "
            f"above 0, not {len(y)} and {len(v)} numbers."
        )
    k, share = len(y), 0.5 + checks.between("level", level, 0.0, 1.0) / 2
    w = 1 / v
    q = float(w @ (y - w @ y / w.sum()) ** 2)
    squared = _moments(q, w) if method == METHODS[1] else _likely(y, v)
    w = 1 / (v + squared)
    mean, usual = float(w @ y / w.sum()), 1 / float(w.sum())
    spread = math.sqrt(usual * max(1.0, float(w @ (y - mean) ** 2) / (k - 1)))
    wide, new = float(stdtrit(k - 1, share)) * spread, math.inf
    if k > 2:
        new = float(stdtrit(k - 2, share)) * math.sqrt(squared + spread**2)
    chance = 2 * float(stdtr(k - 1, -abs(mean) / spread))
    return Pooled(
        mean,
        mean - wide,
        mean + wide,
        chance,
        math.sqrt(squared),
        q,
        float(chdtrc(k - 1, q)),
        mean - new,
        mean + new,
    )


def _moments(q: float, w: Floats) -> float:
    return max(0.0, (q - (len(w) - 1)) / float(w.sum() - (w**2).sum() / w.sum()))


def _likely(y: Floats, v: Floats) -> float:
    """tau^2 with the largest restricted likelihood."""

    def lost(root: float) -> float:
        w = 1 / (v + root**2)
        mean = w @ y / w.sum()
        return float(w @ (y - mean) ** 2 - np.log(w).sum() + math.log(w.sum())) / 2

    most = 2 * float(np.ptp(y)) + 1e-9
    near = min(np.linspace(0.0, most, 65), key=lost)
    step = most / 64
    from scipy.optimize import minimize_scalar  # slow to load

    found = minimize_scalar(
        lost, bounds=(max(near - step, 0.0), near + step), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.x) ** 2 if lost(float(found.x)) < lost(0.0) - 1e-12 else 0.0


@dataclass(frozen=True, eq=False)
class SiteEffects:
    """One effect on the hazard at each site, and what the sites say together.

    Parameters
    ----------
    name : str
        Of the effect.
    sites : tuple of str
        Names of the sites.
    effects : tuple of float
        Log hazard ratios; NaN where the noise hides one.
    errors : tuple of float
        Their standard errors.
    privacy : Statement or None
        What each site's release guarantees to its records; None without noise.
    level : float, default=0.95
        Of the intervals.
    about : dict, default={}
        Plain public values.

    Examples
    --------
    >>> from tacenda.tables import SiteEffects
    >>> found = SiteEffects("arm=new", ("a", "b"), (-0.5, -0.7), (0.1, 0.1), None)
    >>> round(found.pooled.effect, 2)
    -0.6
    """

    name: str
    sites: tuple[str, ...]
    effects: tuple[float, ...]
    errors: tuple[float, ...]
    privacy: Statement | None
    level: float = 0.95
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Public number of records of all sites."""
        return sum(self.about.get("sizes", {}).values())

    @cached_property
    def pooled(self) -> Pooled:
        """Of the sites whose effect the noise does not hide."""
        known = [k for k, e in enumerate(self.effects) if math.isfinite(e)]
        if len(known) < 2:
            raise PrivacyError(
                f"noise hides the effect of {self.name} at all sites but {len(known)}; nothing can "
                "be pooled. Fit the sites together (`tacenda hazards`), which needs less noise."
            )
        y, e = (np.array([part[k] for k in known]) for part in (self.effects, self.errors))
        return pooled(y, e, self.level)

    def rows(self) -> list[tuple[str, float, float, float]]:
        """Name, hazard ratio and interval of each site, of all together and of a new site."""
        z = float(ndtri(0.5 + self.level / 2))
        found = [
            (site, math.exp(e), math.exp(e - z * s), math.exp(e + z * s))
            for site, e, s in zip(self.sites, self.effects, self.errors, strict=True)
        ]
        p = self.pooled
        ends = [math.exp(max(min(x, 700.0), -700.0)) for x in (p.new_low, p.new_high)]
        found.append(("all sites", math.exp(p.effect), math.exp(p.low), math.exp(p.high)))
        return [*found, ("a new site", math.exp(p.effect), ends[0], ends[1])]

    def lines(self) -> list[list[str]]:
        """Texts of the rows."""
        return [
            [name, "–", "too noisy"] if math.isnan(ratio) else
            [name, f"{ratio:.4g}", f"{low:.4g} to {high:.4g}"]
            for name, ratio, low, high in self.rows()
        ]  # fmt: skip

    @property
    def words(self) -> str:
        """How much sites differ."""
        p = self.pooled
        return (
            f"Sites differ by a standard deviation (tau) of {p.tau:.3g} in the log hazard ratio; "
            f"Cochran's Q {p.q:.2f}, p {p.q_p_value:.3g}. All together: p {p.p_value:.3g}."
        )

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        out = [f"| site | hazard ratio of {self.name} |", "| --- | ---: |"]
        out += [f"| {name} | {bracketed((v, ends))} |" for name, v, ends in self.lines()]
        return "\n".join([*out, "", self.words]) + "\n"

    @property
    def csv(self) -> str:
        """One line for each row."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["site", "ratio", "low", "high"])
        writer.writerows([name, *(f"{x:.8g}" for x in rest)] for name, *rest in self.rows())
        return out.getvalue()

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files."""
        found = {k: getattr(self, k) for k in ("name", "sites", "effects", "errors", "level")}
        privacy = None if self.privacy is None else self.privacy.to_plain()
        plain = {**found, "about": self.about, "pooled": asdict(self.pooled), "privacy": privacy}
        return dict(strict(plain))

    def save(self, path: str | Path) -> Path:
        """Write the table as .html (with a forest plot), .csv, .md or .json.

        path: its ending says which.
        """
        from tacenda.tables.pages import forest_page

        return save(self, path, forest_page)


def site_effects(
    schema: Schema,
    data: Any,
    privacy: Privacy | None,
    *,
    columns: Sequence[str] | None = None,
    effect: str | None = None,
    rounds: int = ROUNDS,
    noisy: str = "refuse",
    level: float = 0.95,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> SiteEffects:
    """Estimate one hazard ratio at each site alone, privately, and pool them.

    Each site releases its own sums, without masks: a record is at one site, so the budget holds for
    it once. That is dearer than one fit of all sites, whose noise is that of one site; it tells
    whether sites differ.

    Parameters
    ----------
    schema : Schema
        As for `hazard_ratios`; its `node_column` says at which site a record is.
    data : str, Path, Table or frame
        The records of all sites.
    privacy : Privacy or None
        Budget of each site's records; None is not private.
    columns : sequence of str or None, default=None
        Columns of the model; the others' effects are adjusted for.
    effect : str or None, default=None
        Which effect is pooled; None: the first.
    rounds : int, default=6
        Releases of each site.
    noisy : {"refuse", "keep"}, default="refuse"
        What happens where noise will probably hide the effects of a site, by public numbers.
    level : float, default=0.95
        Of the intervals.
    seed : int or None, default=None
        Of the simulated noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger; each site has an account of its own.
    dataset : str or None, default=None
        Name of the accounts there, before the site's name.

    Raises
    ------
    PrivacyError
        If noise would hide the effects of a site; nothing was spent then.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["old", "new"], 24_000)
    >>> time = rng.exponential(np.where(arm == "new", 8.0, 4.0))
    >>> table = {"arm": arm, "t": np.minimum(time, 6.0), "e": np.where(time < 6, "1", "0")}
    >>> table["site"] = rng.choice(["a", "b", "c"], 24_000)
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "categorical", "name": "arm", "levels": ["old", "new"]}],
    ...     label={"name": "e", "classes": ["0", "1"]},
    ...     survival={"time": "t", "event": "e", "points": [2, 4, 6]},
    ...     node_column="site",
    ... )
    >>> found = tc.tables.site_effects(schema, table, tc.Privacy(2.0), seed=0)
    >>> found.pooled.low < np.log(0.5) < found.pooled.high
    True
    """
    checks.one_of("noisy", noisy, ("refuse", "keep"))
    if schema.node_column is None:
        raise InputError("the schema's node_column must name the column with each record's site.")
    asked = AskedEffects.of(schema, columns)
    name = asked.names[0] if effect is None else checks.one_of("effect", effect, asked.names)
    if privacy is not None and privacy.adjacency != "replace-one":
        raise InputError(
            "adjacency must be 'replace-one': the sizes of the sites must be public, so that what "
            "noise hides is known first."
        )
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    at = words_of(table.columns[schema.node_column]).astype(str)
    sites = tuple(sorted(set(at.tolist())))
    counts = {site: int((at == site).sum()) for site in sites}
    if schema.person is not None:  # each site's budget is its own: a person must be at one only
        ids = persons_of(schema, table)
        refuse_spread(most_nodes(ids[at == site] for site in sites), 1)
    if privacy is not None and noisy == "refuse":
        noises = {site: hidden_by(asked, count, privacy, rounds) for site, count in counts.items()}
        hidden = [f"{s!r} ({counts[s]} records)" for s in sites if noises[s] > 1]
        if hidden:
            raise PrivacyError(
                f"noise would probably hide the effects of {', '.join(hidden)}. Nothing was spent. "
                "Ask for fewer columns, give more epsilon, or set noisy='keep' (--noisy keep); one "
                "fit of all sites together needs far less."
            )
    found = []
    for k, site in enumerate(sites):
        own = table.part(records=np.flatnonzero(at == site))
        found.append(
            hazard_ratios(
                schema,
                own,
                privacy,
                columns=columns,
                rounds=rounds,
                noisy="keep",
                level=level,
                seed=None if seed is None else seed + k,
                ledger=ledger,
                dataset=None if dataset is None else f"{dataset}/{site}",
            )
        )
    position, z = asked.names.index(name), float(ndtri(0.5 + level / 2))
    each = [one.effects[position] for one in found]
    about = {"data": table.source, "sizes": counts, **found[0].about}
    return SiteEffects(
        name,
        sites,
        tuple(math.log(e.ratio) if e.known else math.nan for e in each),
        tuple(math.log(e.high / e.low) / (2 * z) if e.known else math.inf for e in each),
        found[0].privacy,
        level,
        about,
    )
