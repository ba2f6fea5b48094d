"""How far private bounds are off, beside OpenDP and SmartNoise at the same epsilon: `python -m
benchmarks.bounds_ranks`; a table of results/measured/bounds.md, stored in `bounds_ranks.json`.

One column is bounded at a time, with pure epsilon for both ends together, one record replaced.
Nobody knows a range. OpenDP's `make_private_quantile` is asked for the same two quantiles, among
the two-digit numbers from 1e-12 to 1e18 of either sign, which is how far our search reaches.
SmartNoise's `approx_bounds` looks for the extremes, among signed powers of two. Both run in
environments of their own, and are left out where those cannot be made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import OPENDP, SMARTNOISE, Unavailable
from tacenda.data import NumericColumn
from tacenda.data.quantile_search import MOST_TAIL, Price, Search
from tacenda.formats.files import write_json
from tacenda.privacy.secrets.ledger import Ledger

STORE = Path(__file__).with_name("bounds_ranks.json")
SIZES, EPSILONS = (1_000, 10_000, 100_000), (0.01, 0.1, 1.0)
TIMES = {"tacenda": 100, "opendp": 100, "smartnoise": 10}  # rivals: a tenth above 10,000 records
SEARCH = Search.of(NumericColumn(name="x", low=0, high=1), None)


def columns(n: int) -> dict[str, Any]:
    """Generated columns of the kinds that tables have."""
    rng = np.random.default_rng(7)
    wet, early = rng.random(n) < 0.1, rng.random(n) < 0.6
    return {
        "pressure": np.round(rng.normal(1017.9, 7.4, n), 1),
        "income": np.round(np.exp(rng.normal(10.3, 0.7, n)), 2),
        "delay": np.round(np.where(early, rng.normal(-5, 4, n), rng.exponential(40, n))),
        "rain": np.where(wet, np.round(rng.exponential(0.05, n), 2), 0.0),
        "year": np.round(2013 - rng.gamma(2, 5, n)),
    }  # fmt: skip


def price(epsilon: float) -> Price:
    return Price.of(epsilon, 0.0, 1.0, (SEARCH,))


def ours(values: Any, epsilon: float, tail: float, times: int) -> Any:
    cost, asked = price(epsilon), price(epsilon).tail(len(values))
    found = [SEARCH.bounds(lambda: values, asked, cost, Ledger(None), 1) for _ in range(times)]
    return np.array(found)


def rival(method: str, python: Path, asked: list[tuple[Any, float, float, int]]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "asked.npz"
        np.savez(
            file,
            asked=np.array([rest for _, *rest in asked]),
            candidates=SEARCH.centres,
            **{f"column{k}": values for k, (values, *_) in enumerate(asked)},
        )
        script = Path(__file__).with_name("bounds_rival.py")
        subprocess.run(
            [python, "-W", "ignore", script, method, file],
            check=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        with np.load(file.with_name("found.npz")) as found:
            return [found[f"bounds{k}"] for k in range(len(asked))]


def measures(values: Any, found: Any, tail: float) -> dict[str, list[float]]:
    """Of every draw: the worse end's rank error and the width, in parts of the records and of the
    distance between the 1 % and 99 % quantiles."""
    n, ordered = len(values), np.sort(values)
    errors = []
    for low, high in found:
        ends = []
        for x, target in ((low, tail * n), (high, (1 - tail) * n)):
            below, up_to = np.searchsorted(ordered, x, "left"), np.searchsorted(ordered, x, "right")
            ends.append(max(0.0, below - target, target - up_to) / n)
        errors.append(max(ends))
    reach = np.subtract(*np.quantile(values, [0.99, 0.01]))
    return {"error": errors, "width": ((found[:, 1] - found[:, 0]) / reach).tolist()}


def measured(store: dict[str, Any]) -> None:
    for method in TIMES:
        try:
            python = None if method == "tacenda" else RIVALS[method].python()
        except Unavailable as why:
            print(f"{method} is left out: {why}")
            continue
        for n in SIZES:
            for epsilon in EPSILONS:
                key, tail = f"{method} {n} {epsilon:g}", float(price(epsilon).tail(n))
                if key in store or (tail > MOST_TAIL and method == "tacenda"):
                    continue
                tail = min(tail, float(MOST_TAIL))
                times = TIMES[method] if n <= 10_000 or python is None else TIMES[method] // 10
                asked = [(v, epsilon, tail, times) for v in columns(n).values()]
                answers = (
                    [ours(*one) for one in asked]
                    if python is None
                    else rival(method, python, asked)
                )
                store[key] = {
                    name: {**measures(values, found, tail), "tail": tail}
                    for (name, values), found in zip(columns(n).items(), answers, strict=True)
                }
                write_json(STORE, store)
                print(key, flush=True)


RIVALS = {"opendp": OPENDP, "smartnoise": SMARTNOISE}


def table(store: dict[str, Any]) -> str:
    lines = [
        "| records | epsilon | quantiles | Tacenda: rank error | widths | "
        "OpenDP: rank error | widths | SmartNoise: widths |",
        "| ---: | ---: | --- | ---: | --- | ---: | --- | --- |",
    ]
    for n in SIZES:
        for epsilon in EPSILONS:
            cells = []
            for method in TIMES:
                found = store.get(f"{method} {n} {epsilon:g}")
                if found is None:
                    cells += ["refused" if method == "tacenda" else "-", "-"]
                    continue
                errors = np.concatenate([one["error"] for one in found.values()])
                widths = np.concatenate([np.array(one["width"], float) for one in found.values()])
                middle, most = 100 * np.quantile(errors, [0.5, 0.95])
                cells += [f"{middle:.2g} to {most:.2g} %", _widths(widths)]
            tail = 100 * max(float(price(epsilon).tail(n)), 0.001)
            shown = f"{tail:.2g} %" if tail <= 20 else "beyond 20 %"
            lines.append(
                f"| {n:,} | {epsilon:g} | {shown} | " + " | ".join(cells[:4] + cells[5:]) + " |"
            )
    return "\n".join(lines)


def _widths(widths: Any) -> str:
    known = widths[~np.isnan(widths)]
    if len(known) < 0.5 * len(widths):
        return "none found"
    middle, most = np.quantile(known, [0.5, 0.95])
    gaps = (
        f", none in {100 * (1 - len(known) / len(widths)):.0f} %"
        if len(known) < len(widths)
        else ""
    )
    return f"{middle:.2g} to {most:.2g}{gaps}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--print", action="store_true", help="only the table of what is stored")
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    if not asked.parse_args().print:
        measured(store)
    print(table(store))


if __name__ == "__main__":
    main()
