"""What an experiment is: cells to run, charts to draw, findings to check. Cells are plain values,
so that they can be stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tacenda import checks
from tacenda.terms.method import SETTINGS

if TYPE_CHECKING:
    from tacenda.report import Chart, TextTable
    from tacenda_papers.experiments.rows import Rows

NO_PRIVACY, PUBLISHED, SOUND = "no privacy", "as published", "sound"
SIZES = ("quick", "reduced", "full")
CELL_FORMAT = (
    4  # raise it when a cell's meaning changes, so that stored ones are not taken for new ones
)


@dataclass(frozen=True)
class Size:
    """How much to run: "quick" (generated data, seconds), "reduced" (real shapes, few seeds) or
    "full" (as the paper)."""

    name: str = "quick"
    seeds: int | None = None

    def __post_init__(self) -> None:
        checks.one_of("size", self.name, SIZES)
        if self.seeds is not None:
            checks.whole("seeds", self.seeds, least=1)

    def pick(self, quick: Any, reduced: Any, full: Any) -> Any:
        """The value that belongs to this size."""
        return {"quick": quick, "reduced": reduced, "full": full}[self.name]

    def seed_list(self, quick: int = 2, reduced: int = 3, full: int = 10) -> range:
        """The seeds 0, 1, ...: as many as asked for, or as this size has."""
        return range(self.pick(quick, reduced, full) if self.seeds is None else self.seeds)


@dataclass(frozen=True)
class Cell:
    """One run. Every field is a plain value.

    data       {"name": ..., options of tacenda.data.load}
    nodes      records are split evenly among so many
    problem    arguments of Problem
    graph      text for tacenda.graph.parse
    algorithm  {"name": ..., hyperparameters}, or {"name": "tuned", "of": method} for the best of
               its trials
    privacy    None, or arguments of Privacy, or {"paper": {...}} for those of Privacy.from_paper
    labels     what tells this cell from others in figures: {"epsilon": 1.0, "inner_steps": 10}
    """

    method: str
    mode: str
    data: dict[str, Any]
    nodes: int
    graph: str
    algorithm: dict[str, Any]
    rounds: int
    seed: int
    problem: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    metrics: Sequence[str] = ("objective",)
    every: int = 0  # 0: after the last round only
    settings: dict[str, Any] = field(default_factory=dict)  # of the method, as plain values
    solver_tolerance: float = 1e-8

    def key(self) -> str:
        """A name that changes with any setting that can change a number; cells of one key are the
        same run under several names."""
        return self._digest(*_NAMES)

    def family(self) -> str:
        """The key without the seed: the cells of a family share their tuning and their
        calibration."""
        return self._digest(*_NAMES, "seed")

    def _digest(self, *without: str) -> str:
        plain = {k: v for k, v in asdict(self).items() if k not in (*without, "settings")}
        known = {s.name: s.default for s in SETTINGS if s.name != "rounds" and not s.later}
        plain |= known | self.settings  # a later setting left at its default keeps stored runs
        text = json.dumps({**plain, "format": CELL_FORMAT}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


_NAMES = ("method", "mode", "labels")


@dataclass(frozen=True)
class Finding:
    """One statement that the rows bear out or not; mode "as published" or "sound"; detail holds the
    numbers.

    sure is False where the difference that decides is below two standard errors of the seeds' mean,
    and None where a single run leaves that error unknown.
    short: the deciding numbers alone, for the table of claims, where detail is long.
    doubt: why it is not sure, where no standard error is the reason.
    """

    mode: str
    claim: str
    holds: bool
    detail: str
    sure: bool | None = True
    short: str = ""
    doubt: str = "within two standard errors"

    @property
    def clear(self) -> bool:
        """Whether it holds by two standard errors."""
        return self.holds and bool(self.sure)

    @property
    def sentence(self) -> str:
        word = "Holds" if self.holds else "Does not hold"
        doubt = {True: "", False: f" ({self.doubt})", None: " (one run: error unknown)"}
        return f"{word}{doubt[self.sure]}: {self.claim}. {self.detail}"


@dataclass(frozen=True)
class Claim:
    """One claim of a paper's abstract or conclusion; one file of each paper has a list CLAIMS.

    paper     authors and year, as in `Experiment.paper`
    where     "abstract", "conclusion" or "abstract and conclusion"
    words     the claim in our own words, one sentence
    findings  pairs (experiment, part of a statement): the claim is decided by every finding of that
              experiment whose `claim` contains the part; all of them hold: "holds"; none: "does
              not hold"; else "depends". Experiment "headline": the epsilon of a paper's main
              settings (`claims.from_headlines`), "formulas": what its formulas say (`formulas`)
    setting   what decides, and on what the answer depends; what was not measured
    """

    paper: str
    where: str
    words: str
    findings: tuple[tuple[str, str], ...]
    setting: str


def _all_means(rows: Rows) -> list[TextTable]:
    from tacenda_papers.experiments import tables

    return [tables.means(rows)]


@dataclass(frozen=True)
class Experiment:
    """One row of the list: where it comes from, what is asked, the settings in words, and the
    functions that make it."""

    name: str
    paper: str
    figure: str
    question: str
    settings: str
    chosen: str  # what the paper leaves out and how it was chosen here
    cells: Callable[[Size], list[Cell]]
    charts: Callable[[Rows], list[Chart]]
    findings: Callable[[Rows], list[Finding]]
    survives: Callable[[list[Finding], Rows], str]
    tables: Callable[[Rows], list[TextTable]] = _all_means
