"""A federation over 24 months: records come and go, members join, every id has a cap.

    python -m benchmarks.months --seeds 3     # plays what is missing in months.jsonl, then the page
    python -m benchmarks.months --turns fast  # of one turn only

Four members with 1,000 ids each, two more from months 7 and 13 on. Each month 8 % of the ids leave
and as many come, so that some stay for a month and some for three years. The truth drifts. An id's
cap is epsilon 2 over all months; a month costs what lets an id take part in 12. Who takes part, the
rosters and every charge are those of the node's code and of a lasting ledger for each member; the
noise is that of a simulation. Whitened TreeGD under masks, a complete graph, add-remove.
"""

from __future__ import annotations

import argparse
import base64
import json
import tempfile
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tacenda as tc
from tacenda.data.table import Table
from tacenda.privacy.accounting.events import Event, Gaussian
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.words import counted
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.contract_files import named_edges
from tacenda_node.membership.amendments import next_run
from tacenda_node.peer.member_records import read_records
from tacenda_node.peer.public_start import PublicStart
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.peer.taking_part import ByIds

PAGE = Path("docs/results/measured/months.md")
KEPT = Path(__file__).with_suffix(".jsonl")
MONTHS, STAYS, CAP, DELTA = 24, 12, 2.0, 1e-5
FEATURES, IDS, LEAVE, ROUNDS = 12, 1000, 0.08, 15
JOINS = {"m0": 1, "m1": 1, "m2": 1, "m3": 1, "m4": 7, "m5": 13}  # in which month
TURN = {"none": 0.0, "slow": 0.02, "fast": 0.1}  # of the truth in a month, in radians
RECENT = 6  # trainings within which an id must have joined, in the way "recent"
NO_NOISE = "the best model of the records, without noise"
WAYS = ("next", "recent", "anew", "yearly", "whole account")
MEASURED, HEADING = "<!-- measured -->", "**Drift: "
COLUMNS = (
    "| way | months 1 to 12 | months 13 to 24 | sd over seeds | largest loss of an id | "
    "all runs of m0 | places left empty | moments released |\n| --- |" + " --- |" * 7
)
TITLES = {
    "next": "next month continues",
    "recent": f"continues, --window {RECENT}",
    "anew": "every month anew",
    "yearly": "anew once a year",
    "whole account": "continues, without ids",
}


def monthly_epsilon(months: int) -> float:
    """Of a month, so that so many of them compose to the cap."""

    def epsilon(noise: float, count: int) -> float:
        return float(judge([(Gaussian(noise), count)], "add-remove").epsilon(DELTA))

    low, high = 0.1, 1000.0
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if epsilon(middle, months) > CAP else (low, middle)
    # Whole-numbered noise needs a little more than an ideal Gaussian
    return round(epsilon(high, 1) * 0.99, 4)


SCHEMA = tc.data.Schema.build(
    columns=[
        {"kind": "numeric", "name": f"x{k}", "low": -2.5, "high": 2.5} for k in range(FEATURES)
    ],
    label={"name": "y", "classes": ["no", "yes"]},
    person="id",
    intercept=True,
    row_norm=0.6,
)


@dataclass
class World:
    """People with fixed values and a truth that turns; `here[name]`: the ids at each member."""

    turn: float
    seed: int
    here: dict[str, list[int]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        mix = self.rng.normal(size=(FEATURES, FEATURES)) / FEATURES**0.5
        self.mix = mix @ np.diag(np.linspace(1.4, 0.4, FEATURES))
        first, second = np.linalg.qr(self.rng.normal(size=(FEATURES, 2)))[0].T
        self.axes = first, second
        self.cells: dict[int, tuple[np.ndarray, int]] = {}

    def truth(self, month: int) -> np.ndarray:
        angle = self.turn * month
        return 3.0 * (np.cos(angle) * self.axes[0] + np.sin(angle) * self.axes[1])

    def draw(self, count: int, month: int) -> tuple[np.ndarray, np.ndarray]:
        X = self.rng.normal(size=(count, FEATURES)) @ self.mix.T
        chance = 1 / (1 + np.exp(-(X @ self.truth(month) - 0.4)))
        return X, (self.rng.random(count) < chance).astype(int)

    def go_on(self, month: int) -> None:
        """8 % leave each member, and as many come; who joins has its ids from its month on."""
        for name, joins in JOINS.items():
            if month < joins:
                continue
            old = self.here.get(name, [])
            old = [k for k in old if self.rng.random() > LEAVE]
            X, y = self.draw(IDS - len(old), month)
            new = list(range(self.made, self.made + len(y)))
            self.made += len(y)
            self.cells |= {k: (X[j], int(y[j])) for j, k in enumerate(new)}
            self.here[name] = old + new

    def table(self, name: str) -> Table:
        ids = self.here[name]
        X = np.array([self.cells[k][0] for k in ids])
        columns: dict[str, Any] = {f"x{k}": X[:, k] for k in range(FEATURES)}
        columns["y"] = ["yes" if self.cells[k][1] else "no" for k in ids]
        columns["id"] = [f"person {k}" for k in ids]
        return Table.of(columns)


def first_contract(names: list[str], epsilon: float) -> Contract:
    """Of the first month; nobody signs it here."""
    return Contract.build(
        {
            "title": "month 1",
            "rounds": ROUNDS,
            "schema_hash": SCHEMA.hash(),
            "members": [
                {k: v for k, v in card(name).items() if k != "authority"} for name in names
            ],
            "edges": named_edges("complete", names),
            "authorities": ["-----BEGIN CERTIFICATE-----"],
            "problem": {
                "n_features": len(SCHEMA.feature_names),
                "classes": ["no", "yes"],
                "row_scale": SCHEMA.row_scale,
                "strength": 1e-4,
            },
            "algorithm": {"name": "tree-gd", "noise": "masked"},
            "prepare": {"name": "whitening"},
            "privacy": {
                "epsilon": epsilon,
                "delta": DELTA,
                "adjacency": "add-remove",
                "coalition": 1,
                "records_per_person": 1,
                "members_per_person": 1,
            },
        }
    )


def card(name: str) -> dict[str, Any]:
    """What a contract says of a member; keys that open nothing."""
    k = int(name[1:])
    key = (k + 1).to_bytes(32, "big")
    return {
        "name": name,
        "size": IDS,
        "address": f"localhost:{k + 1}",
        "fingerprint": f"{k + 1:064x}",
        "signing_key": base64.b64encode(key).decode(),
        "authority": "-----BEGIN CERTIFICATE-----",
    }


class Federation:
    """One way to spend the cap over the months, with a ledger for each member."""

    def __init__(self, way: str, folder: Path, seed: int) -> None:
        self.way, self.folder, self.seed = way, folder, seed
        stays = {"recent": RECENT, "yearly": 2, "whole account": MONTHS}
        self.months = stays.get(way, STAYS)
        self.contract: Contract | None = None
        self.start: PublicStart | None = None
        self.model = np.zeros(len(SCHEMA.feature_names))
        self.book: dict[str, dict[Event, int]] = defaultdict(lambda: defaultdict(int))
        self.left_out = self.moments = 0

    def month(self, number: int, world: World) -> None:
        """Spend a month, where this way does, and charge it."""
        if self.way == "yearly" and number % STAYS != 1:
            return
        names = list(world.here)
        self.contract = self._contract(number, names)
        taken = None if self.start is None else self.start.taken_by(self.contract)
        plan, shards, persons = make_plan(self.contract, taken), [], []
        for name in names:
            ledger = self.folder / f"{name}.sqlite"
            named = name if self.way != "whole account" else None
            with LedgerStore(ledger) as store:
                if store.budget(name) is None:
                    store.set_budget(name, CAP, DELTA, "add-remove", plan.unit)
            by_ids = ByIds.of(ledger, named, plan, name)
            found = read_records(self.contract, name, SCHEMA, world.table(name), ledger, by_ids)
            chosen, problem = found.chosen, found.trained
            events, run = plan.reservation(name), f"month {number}"
            with LedgerStore(ledger) as store:
                roster = None if chosen is None else chosen.rosters[0]
                store.open_run(run, name, "", "add-remove", events, plan.unit, DELTA, roster)
                booked = [event for event, count in events for _ in range(count)]
                store.charge_many(run, list(enumerate(booked)))
                store.close_run(run)
            rows = problem.store.rows
            shards.append((np.asarray(rows), np.asarray(problem.store.labels)))
            persons.append(problem._persons)
            self.left_out += IDS - len(shards[-1][1])
            for one in problem._persons:
                for event, count in events:
                    self.book[f"{name} {one}"][event] += count
        self._learn(plan, taken, shards, persons, number)

    def _contract(self, number: int, names: list[str]) -> Contract:
        if self.contract is None:
            return first_contract(names, monthly_epsilon(self.months))
        new = [card(name) for name in names if name not in self.contract.names]
        continues = None
        if self.start is not None and self.way in ("next", "recent", "whole account"):
            continues = {"run": self.contract.run_id(), "start": self.start.digest}
            continues |= {"window": RECENT} if self.way == "recent" else {}
        ends = self.contract.names
        return next_run(self.contract, f"month {number}", new, ends, continues=continues)

    def _learn(
        self, plan: Any, taken: Any, shards: list[Any], persons: list[Any], number: int
    ) -> None:
        labels = [np.where(y > 0, 1, 0) for _, y in shards]
        problem = tc.Problem(
            [(X, y) for (X, _), y in zip(shards, labels, strict=True)],
            classes=range(2),
            strength=1e-4,
            public_sizes=[float(IDS)] * len(shards),
            persons=persons,
        )
        continues = plan.contract.continues is not None
        found = tc.simulate(
            problem,
            plan.spec.topology,
            plan.spec.algorithm,
            plan.contract.rounds,
            plan.contract.privacy.promise,
            seed=1000 * self.seed + number,
            init=self.start.model if continues and self.start is not None else None,
            record_every=0,
        )
        self.moments += sum(count for _, count in found.privacy.charges) - plan.contract.rounds
        self.model, self.start = found.models[0], PublicStart.of(found)

    def largest(self) -> float:
        """Epsilon of the id that has lost most, by a book of its own."""
        each = {tuple(sorted(events.items(), key=str)) for events in self.book.values()}
        return max(float(judge(list(e), "add-remove").epsilon(DELTA)) for e in each)


def best_of(world: World) -> np.ndarray:
    """The model that fits the records of all members best, without noise and without caps."""
    parts = [tc.data.encode(SCHEMA, world.table(name)) for name in world.here]
    X, y = np.vstack([part.X for part in parts]), np.concatenate([part.y for part in parts])
    shards = [(X, np.where(y > 0, 1, 0))]
    return tc.Problem(shards, classes=range(2), strength=1e-4).solve()


def loss(model: np.ndarray, world: World, month: int) -> float:
    """Log loss on fresh people of that month, less that of the truth."""
    X, y = World.draw(world, 20_000, month)
    rows = tc.data.encode(
        SCHEMA,
        {
            **{f"x{k}": X[:, k] for k in range(FEATURES)},
            "y": np.where(y > 0, "yes", "no").tolist(),
            "id": [str(k) for k in range(len(y))],
        },
    )
    signs = np.where(y > 0, 1.0, -1.0)
    best = np.logaddexp(0, -signs * (X @ world.truth(month) - 0.4)).mean()
    return float(np.logaddexp(0, -signs * (rows.X @ model)).mean() - best)


def years(each: list[float]) -> dict[str, float]:
    """Means over the two years."""
    half = MONTHS // 2
    return {"first year": float(np.mean(each[:half])), "second year": float(np.mean(each[half:]))}


def play(turn: float, seed: int) -> dict[str, dict[str, float]]:
    """24 months by each way, on the same people."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        ways = [Federation(way, Path(place) / way, seed) for way in WAYS]
        for one in ways:
            one.folder.mkdir()
        losses: dict[str, list[float]] = defaultdict(list)
        world = World(turn, seed)
        for month in range(1, MONTHS + 1):
            world.go_on(month)
            losses[NO_NOISE].append(loss(best_of(world), world, month))
            for one in ways:
                one.month(month, world)
                losses[one.way].append(loss(one.model, world, month))
        found[NO_NOISE] = years(losses[NO_NOISE])
        for one in ways:
            each = losses[one.way]
            with LedgerStore(one.folder / "m0.sqlite") as store:
                assert store.verify().ok
                whole = float(store.spent("m0").curve.epsilon(DELTA))
            largest = one.largest()
            assert largest <= CAP * (1 + 1e-9), f"{one.way}: an id has lost {largest}"
            found[one.way] = {
                **years(each),
                "largest": largest,
                "whole": whole,
                "left out": float(one.left_out),
                "moments": float(one.moments),
            }
    return found


def kept() -> dict[tuple[str, int], dict[str, dict[str, float]]]:
    """What was played so far, by turn and seed."""
    rows = KEPT.read_text("utf-8").splitlines() if KEPT.exists() else []
    return {(row["turn"], row["seed"]): row["found"] for row in map(json.loads, rows)}


def tables(page: str) -> str:
    """The page's tables: of a turn that was played, made again; of another, as it is there."""
    prices = [f"{monthly_epsilon(n):g}" for n in (STAYS, RECENT, MONTHS, 2)]
    found = [
        f"A month costs epsilon {prices[0]}; with --window {RECENT} {prices[1]}; without ids "
        f"{prices[2]}; once a year {prices[3]}."
    ]
    there = {part.split("*")[0]: part for part in page.split(HEADING)[1:]}
    for words, turn in TURN.items():
        runs = [row for (of, _), row in sorted(kept().items()) if of == words]
        if runs:
            found.append(
                f"{HEADING}{words}** ({turn:g} radians a month, {counted(len(runs), 'seed')})."
            )
            found.append("\n".join([COLUMNS, *(row_of(way, runs) for way in (*WAYS, NO_NOISE))]))
        elif words in there:
            found.append(f"{HEADING}{there[words].strip()}")
    return "\n\n".join(found) + "\n"


def row_of(way: str, runs: list[dict[str, dict[str, float]]]) -> str:
    """A line of a table."""
    each = {k: np.array([run[way][k] for run in runs]) for k in runs[0][way]}
    spread = f"{each['second year'].std(ddof=1):.4f}" if len(runs) > 1 else "-"
    loss = f"{each['first year'].mean():.4f} | {each['second year'].mean():.4f} | {spread}"
    if way == NO_NOISE:
        return f"| {NO_NOISE} | {loss} |" + " - |" * 4
    return (
        f"| {TITLES[way]} | {loss} | {each['largest'].max():.3f} | {each['whole'].mean():.2f} | "
        f"{each['left out'].mean():.0f} | {each['moments'].mean():.0f} |"
    )


def main() -> None:
    """Play what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--turns", nargs="*", choices=list(TURN), default=list(TURN))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in range(given.seeds):
        for turn in given.turns:
            if (turn, seed) not in kept():
                row = {"turn": turn, "seed": seed, "found": play(TURN[turn], seed)}
                with KEPT.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
    page = PAGE.read_text("utf-8")
    head = page.split(MEASURED)[0]
    PAGE.write_text(f"{head}{MEASURED}\n\n{tables(page)}", "utf-8")


if __name__ == "__main__":
    main()
