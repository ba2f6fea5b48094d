"""The tables of a contract: what they ask, from contract and schema, and what was found.

A contract has tables beside a training, which pay a share of its budget in round 1
(`algorithms.Tabled`), or nothing but tables, or Cox's model: then the records are read for these
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacenda._types import Array, Floats
from tacenda.algorithms.newton import HazardNewton
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.algorithms.tabled import NOISE, TOTAL, Tabled
from tacenda.data.cells import is_missing
from tacenda.data.encoding import as_read
from tacenda.data.persons import person_words
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.data.usable import kept_positions
from tacenda.errors import InputError
from tacenda.formats.text import strict
from tacenda.privacy.statement import Statement
from tacenda.questions.hazards import HazardMoments
from tacenda.questions.statistics import Statistic
from tacenda.questions.tables import Tables
from tacenda.runtime.result import RunResult
from tacenda.tables.asked import Asked
from tacenda.tables.description import Description
from tacenda.tables.forecasting import MOST_SHARE, Forecast
from tacenda.tables.hazards import AskedEffects
from tacenda.tables.surviving import AskedCurves
from tacenda_node.identity.contract import Contract, table_terms
from tacenda_node.peer.run_plan import RunPlan

FOLDER = "tables"  # in the state folder
AUTO = "auto"  # share of a table: the planner proposes it
# Tables beside a training: at most half of the budget, and each at least so much of it
MOST_OF_TABLES, LEAST_OF_TABLE = 0.5, 0.02
ROOM = 1.2  # of the share at which a table is just readable
ENDINGS = (".json", ".csv", ".md", ".html")


@dataclass(frozen=True)
class AgreedTables:
    """What a contract's tables ask of the records."""

    describe: Asked | None
    survival: AskedCurves | None
    hazards: AskedEffects | None
    shares: tuple[float, ...]

    @classmethod
    def of(cls, contract: Contract | dict[str, Any], schema: Schema) -> AgreedTables:
        """From a contract, or from the parts of its terms."""
        plain = contract if isinstance(contract, dict) else contract.table_parts()
        parts = [plain.get(name) for name in ("describe", "survival", "hazards")]
        (describe, survival, hazards), shares = parts, []
        for part in (describe, survival):
            shares += [] if part is None else [float(part.get("share", 0.1))]
        curves, effects = None, None
        if survival is not None:
            curves = AskedCurves.of(schema, **_without(survival, "share"))
        if hazards is not None:
            effects = AskedEffects.of(schema, **hazards)
        asked = None if describe is None else Asked.of(schema, **_without(describe, "share"))
        return cls(asked, curves, effects, tuple(shares))

    @property
    def statistic(self) -> Tables | HazardMoments:
        """The question to each record."""
        if self.hazards is not None:
            return self.hazards.statistic
        sums = [part.statistic for part in (self.describe, self.survival) if part is not None]
        found = zip(sums, self.shares, strict=True)
        return Tables(tuple((one.groups, one.columns, share) for one, share in found))

    @property
    def width(self) -> int:
        """Length of a record's row."""
        return self.statistic.width

    def rows(self, schema: Schema, table: Table) -> Floats:
        """Make each record's row; none is refused."""
        if self.hazards is not None:
            self.hazards.require(table)
            return self.hazards.rows(schema, table)
        asked = self.statistic
        assert isinstance(asked, Tables)
        if self.survival is not None:
            self.survival.require(schema, table)
        parts = [part for part in (self.describe, self.survival) if part is not None]
        return asked.together([part.rows(schema, table) for part in parts])

    def beside(
        self, schema: Schema, table: Table, blank: bool, most: int | None, key: bytes | None
    ) -> Floats:
        """The rows of the records that are trained on, in the order in which `encode_usable` gives
        them. With `blank` each record has its own place: all are counted, or those that are kept of
        each person. blank, most, key: as for it."""
        rows = self.rows(schema, table)
        if blank and most is None:
            return rows
        at = kept_positions(schema, table, most, key)
        if not blank:
            return rows[at]
        found = np.full(rows.shape, np.nan)
        found[at] = rows[at]
        return found

    def found(
        self,
        released: dict[str, Array],
        records: int | None,
        privacy: Statement | None,
        level: float,
        about: dict[str, Any],
    ) -> dict[str, Any]:
        """The tables by name, from what a run has released."""
        if self.hazards is not None:
            return {"hazards": self.hazards.ratios(released, records, privacy, level, about)}
        total, noise = (released.get(name) for name in (TOTAL, NOISE))
        if total is None or noise is None:
            total, noise = released["total"], released["noise"]
        made: dict[str, Any] = {}
        asked = self.statistic
        assert isinstance(asked, Tables)
        parts = asked.apart(total, float(noise[0]))
        if self.describe is not None:
            own = parts.pop(0)
            made["describe"] = Description(self.describe, *own, records, privacy, level, about)
        if self.survival is not None:
            curves = self.survival.curves(*parts[0], records, privacy, level, dict(about))
            made["survival"] = curves
        return made


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k != name}


def table_records(
    contract: Contract, schema: Schema, table: Table
) -> tuple[Floats, Array, Array | None, Array, Floats | None]:
    """(rows, labels, persons, fingerprints, rows beside) of all records, of a contract without a
    training. Where persons are the unit, a record without an id might be anybody's, and counts
    nothing."""
    asked, marks = AgreedTables.of(contract, schema), as_read(schema, table)
    rows = asked.rows(schema, table)
    labels = np.zeros(len(rows))
    if contract.privacy.records_per_person is None:
        return rows, labels, None, marks, None
    persons = person_words(schema, table)
    nobody = is_missing(schema, table.columns[str(schema.person)])
    if asked.hazards is not None:
        rows[nobody] = 0.0
        return rows, labels, persons, marks, None
    rows[nobody] = np.nan
    return np.zeros_like(rows), labels, persons, marks, rows


def require_agreed(contract: Contract, schema: Schema) -> None:
    """Refuse a contract whose question is not the one that follows from its tables and the
    schema."""
    found = AgreedTables.of(contract, schema).statistic.to_plain()
    stated = contract.tables if contract.has_training else _statistic_of(contract)
    if stated != found:
        raise InputError(
            "contract field tables: it is not what follows from the contract's tables and the "
            "schema; draft the contract again with this schema."
        )


def _statistic_of(contract: Contract) -> Any:
    return contract.algorithm.model_dump().get("statistic")


def drafted(values: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Terms with what follows from their tables; "tables" and "cox" are algorithms of terms."""
    algorithm = values.get("algorithm")
    name = algorithm.get("name") if isinstance(algorithm, dict) else algorithm
    if name == "cox":
        values = {"hazards": {}, **values}
    named = ("describe", "survival", "hazards")
    parts = table_terms({k: values[k] for k in named if values.get(k) is not None})
    if not parts:
        if name == "tables":
            raise InputError(
                "contract field describe: a contract of tables needs [describe] or [survival] in "
                "its terms, or --describe-by; add one."
            )
        return values
    if "hazards" in parts and (name != "cox" or len(parts) > 1):
        raise InputError(
            "contract field hazards: Cox's model is a contract of its own, without [describe], "
            "[survival] or a training; name the algorithm 'cox', or leave hazards out."
        )
    agreed = AgreedTables.of(parts, schema)
    asked = agreed.statistic
    if agreed.hazards is not None:  # written out: who signs reads what is asked
        columns = [column.name for column in agreed.hazards.columns]
        values = {**values, "hazards": {**parts["hazards"], "columns": columns}}
    if name not in ("tables", "cox"):
        return {**values, "tables": asked.to_plain()}
    privacy = {"coalition": 1, **values.get("privacy", {})}
    masked = privacy["coalition"] != "all"
    if not masked:
        del privacy["coalition"]
    kind = "hazard-newton" if name == "cox" else "statistic"
    noise = "masked" if masked else "independent"
    rounds = HazardNewton.default_rounds if name == "cox" else 1
    return {
        **{k: v for k, v in values.items() if k not in ("evaluation", "prepare")},
        "algorithm": {"name": kind, "statistic": asked.to_plain(), "noise": noise},
        "rounds": values.get("rounds", rounds) if name == "cox" else 1,
        "privacy": privacy,
        "problem": {
            "loss": "squared",
            "n_features": asked.width,
            "row_scale": schema.row_scale,
            "strength": 1e-6,
        },
    }


def _released_std(plan: RunPlan, statistic: Statistic) -> float:
    """Standard deviation of each number of the network's sum in a round."""
    scaled = plan.calibration.plan
    each = plan.spec.facts.statistic_distance(statistic) * scaled.scale
    return float(np.sqrt(((each / np.sqrt(scaled.weights[0])) ** 2).sum()))


class TableNoise(NamedTuple):
    """Of a contract's tables: what of them noise will leave unreadable, in words, and how many
    times larger than readable the noise of each is."""

    words: list[str]
    excess: dict[str, float]


def table_noise(plan: RunPlan, schema: Schema) -> TableNoise:
    """How far noise will move a contract's tables, from public numbers alone."""
    contract, found = plan.contract, TableNoise([], {})
    asked = AgreedTables.of(contract, schema)
    algorithm = plan.spec.algorithm
    if asked.hazards is not None or not isinstance(algorithm, (Tabled, StatisticRelease)):
        return found
    statistic, facts = asked.statistic, plan.spec.facts
    assert isinstance(statistic, Tables)
    std = _released_std(plan, statistic)
    if isinstance(algorithm, Tabled):
        degree = plan.spec.topology.degrees[:, None]
        std /= math.sqrt(float(np.min(algorithm.weight(facts, degree, contract.rounds))))
    noises = [noise for _, noise in statistic.apart(np.zeros(statistic.length), std)]
    records = float(sum(contract.trained_size(name) for name in contract.names))
    if asked.describe is not None:
        told = Forecast.of(asked.describe, records, noises.pop(0))
        found.excess["describe"] = told.factor
        if told.unreadable:
            found.words.append(
                f"noise will leave {', '.join(map(repr, told.unreadable))} of the table "
                f"unreadable, with about {told.group_size:.0f} records in a group"
            )
    if asked.survival is not None:
        wide = asked.survival.noise_reach(noises[0], records)
        found.excess["survival"] = wide / MOST_SHARE
        if wide > MOST_SHARE:
            found.words.append(f"noise alone will move survival by about {100 * wide:.0f} points")
    return found


def open_shares(terms: dict[str, Any]) -> list[str]:
    """The tables whose share of the budget the terms leave to the planner."""
    parts = {k: terms[k] for k in ("describe", "survival") if isinstance(terms.get(k), dict)}
    algorithm = terms.get("algorithm")
    name = algorithm.get("name") if isinstance(algorithm, dict) else algorithm
    if len(parts) == 1 and name == "tables":  # it has all of the budget
        return []
    return [k for k, v in parts.items() if v.get("share", AUTO) == AUTO]


def proposed_shares(
    excess: dict[str, float], shares: dict[str, float], wanted: list[str], beside: bool
) -> dict[str, float]:
    """Propose what each of the `wanted` tables takes: as much as makes it readable, with room.

    A table's noise falls with the root of its share. excess, shares: of every table as it is.
    beside: whether a training pays, which keeps at least half; else the shares divide the budget.
    """
    need = {k: ROOM * shares[k] * excess[k] ** 2 for k in wanted}
    if beside:
        fixed = sum(v for k, v in shares.items() if k not in wanted)
        free = max(MOST_OF_TABLES - fixed, LEAST_OF_TABLE * len(need))
        need = {k: max(v, LEAST_OF_TABLE) for k, v in need.items()}
        need = {k: v * min(1.0, free / sum(need.values())) for k, v in need.items()}
    else:
        whole = sum(need.values())
        need = {k: min(max(v / whole, LEAST_OF_TABLE), 0.98) for k, v in need.items()}
    return {k: max(float(f"{v:.2g}"), 0.001) for k, v in need.items()}


def save(
    folder: Path, result: RunResult, contract: Contract, schema: Schema, absent: frozenset[str]
) -> dict[str, Any]:
    """Write a run's tables into the state folder; the tables by name."""
    public = contract.privacy.adjacency == "replace-one" and not absent
    records = sum(contract.trained_size(name) for name in contract.names) if public else None
    about = {
        "data": f"records of {len(contract.names)} members",
        "contract": contract.hash(),
        "charged": True,
    }
    if contract.rehearsal_seed is not None:
        about["simulation"] = "a rehearsal with seeded noise"
    if contract.has_training:
        about["share"] = contract.tables_share
    asked = AgreedTables.of(contract, schema)
    privacy = result.privacy
    found = asked.found(result.released, records, privacy, 0.95, about)
    (folder / FOLDER).mkdir(exist_ok=True)
    for name, table in found.items():
        for ending in ENDINGS:
            table.save(folder / FOLDER / f"{name}{ending}")
    return {name: strict(table.to_plain()) for name, table in found.items()}
