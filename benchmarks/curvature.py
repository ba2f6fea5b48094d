"""`python -m benchmarks.curvature [lines] [--before SRC] [--store DIR] [--seeds N] [--quick]`: what
`auto` gives on each set at a true (epsilon, 1e-5), as a markdown table.

Four columns. Optimum: no noise. Server: plain noisy descent on the pooled records with central
noise, its rounds, step and output the best of SERVER's *tried on the private records themselves*,
anew for each seed; so a bound on what tuning can give, and no private result. Before: `auto` of the
sources in --before (another worktree's `src`). Now: `auto` of this one. Nothing of the last two is
tuned on the data.

Every figure is kept in the store as one file, and what is there is not run again: the command can
be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DELTA, STRENGTH = 1e-5, 1e-4
SIDES = ("now", "before", "optimum", "server")
SEEDS, FEW, SECONDS = 5, 2, 10.0  # as many seeds, or so few where one takes longer than that
SERVER = [(rounds, step) for rounds in (100, 400) for step in (2.0, 8.0, 16.0)]


@dataclass(frozen=True)
class Line:
    """A row of the table; data names a function below, graph is text for `tacenda.graph.parse`."""

    title: str
    data: str
    graph: str
    epsilon: float = 1.0
    coalition: int | None = 1


REGULAR = "random-regular:100,6,seed=0"
LINES = {
    "adult-1": Line("Adult, 100 nodes 6-regular, epsilon 1", "adult", REGULAR),
    "adult-0.5": Line("the same, epsilon 0.5", "adult", REGULAR, 0.5),
    "adult-0.1": Line("the same, epsilon 0.1", "adult", REGULAR, 0.1),
    "adult-q3": Line("the same, epsilon 1, q = 3", "adult", REGULAR, coalition=3),
    "adult-ring": Line("the same, a ring, q = 1", "adult", "ring:100"),
    "adult-none": Line("the same, 6-regular, no trust", "adult", REGULAR, coalition=None),
    "adult-1000": Line("Adult, 1000 nodes 10-regular", "adult", "random-regular:1000,10,seed=0"),
    "papers": Line("Adult as the papers encode it, 100 nodes", "papers", REGULAR),
    "a9a": Line("a9a (CSR), 50 nodes 6-regular", "a9a", "random-regular:50,6,seed=0"),
    "breast": Line("breast cancer, 5 nodes", "breast", "complete:5"),
    "digits": Line("digits, 10 classes, 6 nodes", "digits", "complete:6"),
    "generated": Line("generated, 200,000 x 50, 100 nodes", "generated", REGULAR),
    "sparse": Line(
        "generated, sparse, 50,000 x 300, 50 nodes", "sparse", "random-regular:50,6,seed=0"
    ),
    "regression": Line(
        "generated, regression, 17,000 x 60, 20 nodes", "regression", "random-regular:20,6,seed=0"
    ),
}
QUICK = {
    "quick": Line("generated, 2,000 x 8, 6 nodes", "small", "complete:6"),
    "quick-regression": Line("generated, regression, 2,000 x 8", "small-regression", "complete:6"),
}


# ---- records: (X, y, number of classes; 0 for regression)
def _named(name: str, **options: Any) -> Callable[[], tuple[Any, Any, int]]:
    def load() -> tuple[Any, Any, int]:
        import tacenda as tc

        made = tc.data.load(name, **options)
        return made.X, made.y, len(made.classes or ())

    return load


def sparse_rows(n: int = 50_000, p: int = 300, seed: int = 3) -> tuple[Any, Any, int]:
    """CSR rows of norm 1 with about a dozen entries, columns as rare as words; a noisy linear
    rule."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    often = 12.0 / (1 + np.arange(p))
    cells = rng.random((n, p)) < np.minimum(often * 1.6 / often.sum() * 12, 0.7)
    cells[~cells.any(axis=1), 0] = True
    rows = cells / np.sqrt(cells.sum(axis=1, keepdims=True))
    score = rows @ (3 * rng.standard_normal(p))
    y = (score - np.median(score) + rng.logistic(size=n) > 0).astype(np.int64)
    return csr_matrix(rows), y, 2


def regression_rows(n: int = 17_000, p: int = 60, seed: int = 3) -> tuple[Any, Any, int]:
    """Half of the features follow five hidden ones, half are levels of three kinds (one in ten
    each); the best R2 is about 0.67. All within [-1, 1], the target too."""
    rng = np.random.default_rng(seed)
    half = p // 2
    hidden = rng.standard_normal((n, 5)) @ rng.standard_normal((5, half))
    values = np.tanh((hidden + rng.standard_normal((n, half))) / 3)
    levels = np.zeros((n, p - half))
    per = max(1, (p - half) // 3)
    for first in range(0, p - half, per):
        width = min(per, p - half - first)
        levels[np.arange(n), first + rng.integers(width, size=n)] = 1.0
    X = np.hstack([values, levels])
    clear = X @ rng.standard_normal(p)
    y = clear + clear.std() * np.sqrt(0.5) * rng.standard_normal(n)
    return X, np.clip((y - y.mean()) / (4 * y.std()), -1, 1), 0


DATA: dict[str, Callable[[], tuple[Any, Any, int]]] = {
    "adult": _named("adult", encoding="public"),
    "papers": _named("adult", encoding="papers"),
    "a9a": _named("a9a"),
    "breast": _named("breast_cancer"),
    "digits": _named("digits"),
    "generated": _named("classification", n=200_000, features=50, difficulty=0.3, seed=3),
    "sparse": sparse_rows,
    "regression": regression_rows,
    "small": _named("classification", n=2000, features=8, difficulty=0.2, seed=3),
    "small-regression": lambda: regression_rows(2000, 8),
}


# ---- one figure
def figures(losses: Any, scores: Any, **more: Any) -> dict[str, Any]:
    """Mean and worst node."""
    losses, scores = np.atleast_1d(losses), np.atleast_1d(scores)
    return {
        "objective": float(losses.mean()),
        "worst_objective": float(losses.max()),
        "score": float(scores.mean()),
        "worst_score": float(scores.min()),
        **more,
    }


def cost(result: Any, told: str) -> dict[str, Any]:
    return {
        "rounds": result.rounds,
        "megabytes": result.bytes / 1e6,
        "messages": result.messages,
        "seconds": result.seconds,
        "method": told,
        "epsilon": None if result.privacy is None else float(result.privacy.epsilon),
    }


def method_of(result: Any) -> str:
    """The algorithm's name, with the wrapped one's."""
    plain = result.settings["algorithm"]
    inner = plain.get("algorithm")
    return f"{plain['name']} {inner['name']}" if isinstance(inner, dict) else str(plain["name"])


def size_of(graph: Any) -> int:
    """How many nodes a network has; versions before had one of networkx."""
    return int(graph.n) if hasattr(graph, "n") else len(graph)


class Classes:
    """A classification line: problems, and how models are judged."""

    def __init__(self, line: Line) -> None:
        import tacenda as tc
        from tacenda.data import partition

        self.line = line
        self.tc: Any = tc
        self.X, self.y, self.classes = DATA[line.data]()
        self.loss = "logistic" if self.classes == 2 else "multinomial"
        self.graph = tc.graph.parse(line.graph)
        self.n = size_of(self.graph)
        self.split = partition.even

    def problem(self, nodes: int) -> Any:
        shards = self.split(self.X, self.y, nodes, 0)
        return self.tc.Problem(
            shards, loss=self.loss, strength=STRENGTH, classes=range(self.classes)
        )

    def judged(self, problem: Any, models: Any, **more: Any) -> dict[str, Any]:
        kinds, which = np.unique(models.reshape(len(models), -1), axis=0, return_inverse=True)
        losses = np.array([problem.objective(w) for w in kinds])
        scores = np.array([self.accuracy(w) for w in kinds])
        return figures(losses[which.ravel()], scores[which.ravel()], **more)

    def accuracy(self, w: Any) -> float:
        scores = self.X @ w.reshape(-1, self.X.shape[1]).T
        said = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return float((said == self.y).mean())

    def auto(self, seed: int) -> dict[str, Any]:
        line, problem = self.line, self.problem(self.n)
        outputs = 1 if self.classes == 2 else self.classes
        plan = self.tc.plan(
            problem.sizes,
            outputs * self.X.shape[1],
            self.graph,
            line.epsilon,
            DELTA,
            loss=self.loss,
            strength=STRENGTH,
            n_outputs=outputs,
            coalition=line.coalition,
        )
        budget = self.tc.Privacy(epsilon=line.epsilon, delta=DELTA, coalition=line.coalition)
        result = self.tc.simulate(
            problem,
            self.graph,
            plan.method,
            privacy=budget,
            seed=seed,
            record_every=0,
            progress=False,
        )
        return self.judged(problem, result.models, **cost(result, method_of(result)))

    def optimum(self) -> dict[str, Any]:
        problem = self.problem(1)
        return self.judged(problem, problem.solve(1e-7)[None])

    def server(self, seed: int, rounds: int, step: float) -> list[dict[str, Any]]:
        problem = self.problem(1)
        result = self.tc.simulate(
            problem,
            self.tc.graph.parse("ring:1"),
            self.tc.algorithms.GossipGD(step_size=step, noise="independent"),
            rounds,
            self.tc.Privacy(epsilon=self.line.epsilon, delta=DELTA),
            seed,
            output="average",
            record_every=0,
            progress=False,
        )
        told = f"step {step:g}"
        return [
            self.judged(problem, result.models, **cost(result, f"{told}, average")),
            self.judged(problem, result.last, **cost(result, f"{told}, last")),
        ]


class Regression:
    """A regression line, through the estimator."""

    def __init__(self, line: Line) -> None:
        import tacenda as tc

        self.line = line
        self.tc: Any = tc
        self.X, self.y, _ = DATA[line.data]()
        self.graph = tc.graph.parse(line.graph)

    def _fitted(self, seed: int, **options: Any) -> Any:
        p = self.X.shape[1]
        bounds = (-np.ones(p), np.ones(p))
        return self.tc.PrivateRidge(
            self.line.epsilon,
            DELTA,
            coalition=self.line.coalition,
            bounds=bounds,
            target_bounds=(-1.0, 1.0),
            strength=STRENGTH,
            random_state=seed,
            **options,
        ).fit(self.X, self.y)

    def _judged(self, coef: Any, intercept: Any, **more: Any) -> dict[str, Any]:
        coef, intercept = np.atleast_2d(coef), np.atleast_1d(intercept)
        losses = np.array(
            [
                ((self.X @ w + b - self.y) ** 2).mean() / 2
                for w, b in zip(coef, intercept, strict=True)
            ]
        )
        return figures(losses, 1 - 2 * losses / self.y.var(), **more)

    def _of(self, model: Any, told: str) -> dict[str, Any]:
        return self._judged(model.node_coef_, model.node_intercept_, **cost(model.result_, told))

    def auto(self, seed: int) -> dict[str, Any]:
        model = self._fitted(seed, n_nodes=size_of(self.graph), graph=self.graph)
        return self._of(model, method_of(model.result_))

    def optimum(self) -> dict[str, Any]:
        rows = np.hstack([self.X, np.ones((len(self.X), 1))])
        w = np.linalg.lstsq(rows, self.y, rcond=None)[0]
        return self._judged(w[:-1], w[-1])

    def server(self, seed: int, rounds: int, step: float) -> list[dict[str, Any]]:
        descent = self.tc.algorithms.GossipGD(step_size=step / 8, noise="independent")
        model = self._fitted(seed, n_nodes=1, algorithm=descent, rounds=rounds)
        return [self._of(model, f"step {step / 8:g}, average")]


def case_of(name: str) -> Any:
    line = {**LINES, **QUICK}[name]
    return Regression(line) if "regression" in line.data else Classes(line)


def measured(case: Any, side: str, seed: int, tried: list[tuple[int, float]]) -> dict[str, Any]:
    """One figure, in this process and with its sources."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if side == "optimum":
            return dict(case.optimum())
        if side != "server":
            return dict(case.auto(seed))
        found = [result for rounds, step in tried for result in case.server(seed, rounds, step)]
        return dict(min(found, key=lambda result: float(result["objective"])))


# ---- all of them
def same(name: str, side: str) -> str:
    """The first line with the same figure: an optimum is that of the records, a trusted server's
    figure that of the records and the budget."""
    own = {**LINES, **QUICK}
    if side in ("now", "before"):
        return name
    return next(
        other
        for other, line in own.items()
        if line.data == own[name].data and (side == "optimum" or line.epsilon == own[name].epsilon)
    )


def place(store: Path, name: str, side: str, seed: int) -> Path:
    return store / f"{name}.{side}.{seed}.json"


def stored(store: Path, name: str, side: str) -> list[dict[str, Any]]:
    paths = (place(store, name, side, seed) for seed in range(SEEDS))
    return [json.loads(path.read_text()) for path in paths if path.is_file()]


def measure(store: Path, name: str, side: str, seeds: int | None) -> None:
    """The figures of a line and side that the store lacks, into the store."""
    case, tried = None, SERVER[:1] if name in QUICK else SERVER
    store.mkdir(parents=True, exist_ok=True)
    wanted = 1 if side == "optimum" else seeds or SEEDS
    seed = 0
    while seed < wanted:
        path = place(store, name, side, seed)
        if not path.is_file():
            case = case or case_of(name)
            began = time.process_time()
            found = measured(case, side, seed, tried)
            found["processor"] = time.process_time() - began
            path.write_text(json.dumps(found, indent=1))
            told = f"{found['objective']:.4f} {found['score']:.4f}"
            spent = f"({found['processor']:.0f} s)"
            print(f"{name} {side} {seed}: {told} {spent}", file=sys.stderr, flush=True)
        if seeds is None and json.loads(path.read_text())["processor"] > SECONDS:
            wanted = min(wanted, FEW)
        seed += 1


def run(store: Path, name: str, side: str, source: str, seeds: int | None) -> None:
    """The same in a process of its own, with these sources."""
    here = str(Path(__file__).resolve().parents[1])
    asked = ["--measure", name, side, "--store", str(store)]
    asked += [] if seeds is None else ["--seeds", str(seeds)]
    subprocess.run(
        [sys.executable, "-m", "benchmarks.curvature", *asked],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, here])},
        check=True,
    )


def table(store: Path, names: list[str]) -> str:
    """Markdown: one row for each line with any figure in the store."""
    head = (
        "| set | optimum | trusted server, plain, tuned on the data | before | now "
        "| worst node now | rounds, MB before | rounds, MB now | method now | seeds before, now |"
    )
    rows = [head, "|" + " --- |" * 10]
    for name in names:
        cells = {side: stored(store, same(name, side), side) for side in SIDES}
        if not any(cells.values()):
            continue
        now = cells["now"]
        rows.append(
            f"| {({**LINES, **QUICK})[name].title} | {_told(cells['optimum'])} "
            f"| {_told(cells['server'])} | {_told(cells['before'])} | {_told(now, error=True)} "
            f"| {_told(now, 'worst_')} | {_cost(cells['before'])} | {_cost(now)} "
            f"| {now[0]['method'] if now else '–'} | {len(cells['before'])}, {len(now)} |"
        )
    return "\n".join(rows)


def _told(runs: list[dict[str, Any]], kind: str = "", *, error: bool = False) -> str:
    """Objective and accuracy (R2 for regression), means over the seeds."""
    if not runs:
        return "–"
    losses = np.array([r[f"{kind}objective"] for r in runs])
    scores = np.array([r[f"{kind}score"] for r in runs])
    spread = ""
    if error and len(runs) > 1:
        spread = f" ± {losses.std(ddof=1) / np.sqrt(len(runs)):.1g}"
    return f"{losses.mean():.4f}{spread} / {scores.mean():.3f}"


def _cost(runs: list[dict[str, Any]]) -> str:
    return f"{runs[0]['rounds']}, {runs[0]['megabytes']:.1f}" if runs else "–"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.curvature",
        description="What `auto` gives, before and now, beside a trusted server and no noise.",
    )
    parser.add_argument("lines", nargs="*", help=f"of {', '.join(LINES)} (default: all)")
    parser.add_argument("--before", help="the `src` folder of the sources to compare with")
    parser.add_argument("--store", type=Path, default=Path("results/curvature"))
    parser.add_argument("--seeds", type=int, help="instead of 5, or 2 where one takes 10 s")
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=list(SIDES))
    parser.add_argument("--quick", action="store_true", help="two small generated sets only")
    parser.add_argument(
        "--table", action="store_true", help="print what the store has, run nothing"
    )
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        name, side = chosen.measure
        measure(chosen.store, name, side, chosen.seeds)
        return
    known = list(QUICK) if chosen.quick else list(LINES)
    for name in chosen.lines:
        if name not in known:
            parser.error(f"no line {name!r}; there are {', '.join(known)}.")
    names = chosen.lines or known
    own = str(Path(__file__).resolve().parents[1] / "src")
    sources = {"now": own, "before": chosen.before, "optimum": own, "server": own}
    sides = {s: sources[s] for s in chosen.sides if sources[s] is not None}
    if not chosen.table:
        for side, source in sides.items():
            for name in dict.fromkeys(same(name, side) for name in names):
                run(chosen.store, name, side, source, chosen.seeds)
    print(table(chosen.store, names))


if __name__ == "__main__":
    main()
