"""How far one member that lies moves a masked model: groups x lie x heterogeneity.

    python -m benchmarks.liars             # the table and the false alarms, to the page
    python -m benchmarks.liars --seeds 2   # quickly, printed only
    python -m benchmarks.liars --aimed     # lies along the gradient: all worst cases, printed only

20 members with 1,000 records each, 10 features, epsilon 1, 20 rounds of whitened TreeGD, on the
real algorithm, masks and sums of a simulation. One member adds the same false vector to its row in
every release. Lies are in units of the largest value that an honest member can have ("bound"), or
of the noise of a single member ("sd"); "moment" and "gradients" lie there alone. Aimed lies go
along the first released gradient, or the one of the round. A cell is the log
loss on fresh records beyond that of the honest run with one sum, the mean over seeds, and the worst
one in brackets.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tacenda as tc
from tacenda.privacy.secrets.door import Door

PAGE = Path("docs/results/measured/liars.md")
MEMBERS, RECORDS, FEATURES, ROUNDS, LIAR = 20, 20_000, 10, 20, 7
GROUPS = (1, 3, 4, 6)
SITES = ("alike", "label skew", "shifted features")
LIES: dict[str, tuple[str, float, str]] = {
    "none": ("", 0.0, ""),
    "0.03 bound": ("bound", 0.03, "all"),
    "0.1 bound": ("bound", 0.1, "all"),
    "0.3 bound": ("bound", 0.3, "all"),
    "1 bound": ("bound", 1.0, "all"),
    "10 bound": ("bound", 10.0, "all"),
    "10 bound, moment": ("bound", 10.0, "moment"),
    "1 bound, gradients": ("bound", 1.0, "gradients"),
    "5 sd, gradients": ("sd", 5.0, "gradients"),
    "10 sd, gradients": ("sd", 10.0, "gradients"),
    "1000 bound": ("bound", 1000.0, "all"),
}
AIMED = {  # along the gradient: the sign in every round
    "against": lambda turn: -1.0,
    "with": lambda turn: 1.0,
    "late": lambda turn: -float(turn > 10),
    "last": lambda turn: -float(turn > 17),
    "alternate": lambda turn: 1.0 - 2.0 * (turn % 2),
    "now": lambda turn: -1.0,  # along the gradient of each round
}
SIZES = [("sd", 5.0), ("sd", 10.0), ("sd", 20.0), *(("bound", x) for x in (0.03, 0.1, 0.3, 1.0))]


@contextmanager
def aimed(how: str) -> Iterator[None]:
    """A member whose gradients are shifted along the sum that all release: it hears all rows first,
    which is more than a member can."""
    name, unit_of, size = how.split()
    honest, first = Door.release_masked, []

    def false(self: Any, value: Any, turn: int, call: int, weight: float) -> Any:
        whole, unit = honest(self, value, turn, call, weight)
        if turn > 1 or call > 0:
            now = whole.sum(axis=0, dtype=np.uint64).view(np.int64) * unit
            first.append(now)
            along = now if name == "now" else first[0]
            scale = self.plan.reach[turn - 1, 1] if unit_of == "bound" else self.plan.scale.max()
            shift = AIMED[name](turn) * float(size) * scale / unit * along / np.linalg.norm(along)
            whole[LIAR] += np.rint(shift).astype(np.int64).view(np.uint64)
        return whole, unit

    with mock.patch.object(Door, "release_masked", false):
        yield


@contextmanager
def lying(lie: str) -> Iterator[None]:
    """A member whose masked rows are shifted along one direction, in every release that it lies
    in."""
    unit_of, size, where = LIES[lie]
    honest = Door.release_masked

    def false(self: Any, value: Any, turn: int, call: int, weight: float) -> Any:
        whole, unit = honest(self, value, turn, call, weight)
        moment = turn == 1 and call == 0
        if where == "all" or where == ("moment" if moment else "gradients"):
            along = np.random.default_rng(whole.shape[1]).normal(size=whole.shape[1])
            scale = self.plan.reach[turn - 1, 1] if unit_of == "bound" else self.plan.scale.max()
            shift = size * scale * along / np.linalg.norm(along) / unit
            whole[LIAR] += np.rint(shift).astype(np.int64).view(np.uint64)
        return whole, unit

    with mock.patch.object(Door, "release_masked", false):
        yield


def shards_of(sites: str, seed: int) -> tuple[Any, Any]:
    """(the members' records, fresh records)."""
    data = tc.data.make_classification(RECORDS + 10_000, FEATURES, seed=seed)
    X, y = data.X[:RECORDS], data.y[:RECORDS]
    parts = tc.data.partition
    if sites == "label skew":
        found = parts.by_label_skew(X, y, MEMBERS, concentration=5.0, seed=seed)
    elif sites == "shifted features":
        found = parts.by_feature_shift(X, y, MEMBERS, seed=seed)
    else:
        found = parts.even(X, y, MEMBERS, seed=seed)
    return found, (data.X[RECORDS:], np.where(data.y[RECORDS:] == data.y.max(), 1.0, -1.0))


def run(sites: str, groups: int, lie: str, seed: int) -> tuple[float, str]:
    """(log loss on fresh records, "" or who was said to differ; "refused" where the run stopped)"""
    shards, (X, y) = shards_of(sites, seed)
    problem = tc.Problem(shards, loss="logistic", strength=1e-3, classes=(0, 1))
    graph = tc.graph.random_regular(MEMBERS, 6, seed=1)
    with lying(lie) if lie in LIES else aimed(lie), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = tc.simulate(
                problem,
                graph,
                tc.algorithms.TreeGD(),
                ROUNDS,
                tc.Privacy(1.0),
                seed=seed,
                prepare="whitening",
                groups=groups,
                record_every=0,
            )
        except tc.errors.NetworkError:
            return float("nan"), "refused"
    said = [sentence for sentence in found.warnings if "differ" in sentence]
    return float(np.mean(np.logaddexp(0, -y * (X @ found.models[0])))), "".join(said)


def cell(losses: list[float]) -> str:
    """Mean and worst, or that the run was refused."""
    if np.isnan(losses).any():
        return "refused"
    return f"{np.mean(losses):+.4f} ({np.max(losses):+.4f})"


def tables(seeds: int, alarms: int) -> Iterator[str]:
    """The lines of the page's tables."""
    for sites in SITES:
        plain = [run(sites, 1, "none", seed)[0] for seed in range(seeds)]
        usual = f"one honest sum has a log loss of {np.mean(plain):.4f}"
        yield f"\n**{sites.capitalize()}**: {usual}.\n"
        yield "| lie | " + " | ".join(f"{g} groups" if g > 1 else "one sum" for g in GROUPS) + " |"
        yield "| --- |" + " --- |" * len(GROUPS)
        for lie in LIES:
            row, named = [], 0
            for groups in GROUPS:
                made = [run(sites, groups, lie, seed) for seed in range(seeds)]
                row.append(cell([loss - p for (loss, _), p in zip(made, plain, strict=True)]))
                named = sum(bool(said) for _, said in made)
                row[-1] += f", named {named}/{seeds}" if groups > 1 and lie != "none" else ""
            yield f"| {lie} | " + " | ".join(row) + " |"
    yield "\nHonest runs in which a group was said to differ:\n"
    yield "| sites | " + " | ".join(f"{g} groups" for g in GROUPS[1:]) + " |"
    yield "| --- |" + " --- |" * len(GROUPS[1:])
    for sites in SITES:
        counts = [
            sum(bool(run(sites, g, "none", seed)[1]) for seed in range(alarms)) for g in GROUPS[1:]
        ]
        yield f"| {sites} | " + " | ".join(f"{c} of {alarms}" for c in counts) + " |"


def worst_aims(seeds: int) -> Iterator[str]:
    """For each aim the worst of all sizes, sites and runs with four or six groups."""
    plain = {(s, k): run(s, 1, "none", k)[0] for s in SITES for k in range(seeds)}
    yield "| aim | worst of | log loss | where |"
    yield "| --- | --- | --- | --- |"
    for name in AIMED:
        made = {
            (sites, groups, f"{size:g} {unit}", k): run(sites, groups, f"{name} {unit} {size}", k)
            for sites, groups, (unit, size) in product(SITES, (4, 6), SIZES)
            for k in range(seeds)
        }
        beyond = {place: loss - plain[place[0], place[3]] for place, (loss, _) in made.items()}
        worst = max(beyond, key=lambda place: beyond[place])
        where = f"{worst[0]}, {worst[1]} groups, {worst[2]}"
        yield f"| {name} | {len(made)} runs | {beyond[worst]:+.4f} | {where} |"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs in a cell")
    parser.add_argument("--alarms", type=int, default=50, help="honest runs for false alarms")
    parser.add_argument("--write", action="store_true", help="into the page")
    parser.add_argument("--aimed", action="store_true", help="only lies along the gradient")
    given = parser.parse_args()
    if given.aimed:
        for line in worst_aims(given.seeds):
            print(line, flush=True)
        return
    lines = []
    for line in tables(given.seeds, given.alarms):
        print(line, flush=True)
        lines.append(line)
    if given.write:
        terms = json.dumps(vars(given))
        head = PAGE.read_text("utf-8").split("<!-- measured")[0] if PAGE.exists() else "# Liars\n\n"
        PAGE.write_text(f"{head}<!-- measured: {terms} -->\n" + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
