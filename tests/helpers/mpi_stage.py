"""What every rank of a test runs: `mpiexec -n 2 python mpi_stage.py WHAT [...]`. Each rank compares
what all ranks found together with a run of its own in one process; an error on one ends all."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import (
    LEAST_SQUARES,
    TUNED,
    WHITENED,
    graph_for,
    privacy_for,
    problem,
    same_statement,
    shards,
    uneven,
)
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.errors import InputError, NetworkError, StateError, UnsupportedError

METRICS = ("objective", "loss", "accuracy", "consensus", "own_loss", "own_misclassification")
DENSE = ("whitened treegd", "whitened dvp", "whitened treegd, diagonal")
ROUNDED = ("node_objective", "node_loss", "node_accuracy")


def same(one: Any, many: Any, what: str) -> None:
    """Models, statement, traffic and metrics of node by node, to the last bit."""
    assert np.array_equal(one.models, many.models), f"{what}: models"
    assert np.array_equal(one.last, many.last), f"{what}: last"
    assert same_statement(one.privacy, many.privacy), f"{what}: privacy"
    assert (one.messages, one.bytes) == (many.messages, many.bytes), f"{what}: traffic"
    assert len(one.history) == len(many.history), f"{what}: history"
    for a, b in zip(one.history, many.history, strict=True):
        for name in a:
            if name in ROUNDED:
                assert abs(a[name] - b[name]) <= 1e-12 * abs(a[name]), f"{what}: {name}"
            elif name != "seconds":
                assert a[name] == b[name], f"{what}: {name} {a[name]!r} {b[name]!r}"
    for name, values in one.released.items():
        assert np.array_equal(values, many.released[name]), f"{what}: {name}"


def every_algorithm(mpi: Any, names: list[str]) -> None:
    """The contract of the runtime over ranks: all by default, else those named."""
    assert {*TUNED, *LEAST_SQUARES} == set(ALGORITHMS)  # the others: one_round_releases
    data = problem(6)
    for name in names or TUNED:
        algorithm = TUNED[name]
        for chosen in (None, privacy_for(name)):
            if chosen is not None and not algorithm.private:
                continue
            graph = graph_for(name)
            settings = {
                "seed": 11,
                "metrics": METRICS,
                "record_every": 2,
                "finish_mixing": 1 if name == "dpadmm" else "exact",
            }
            one = tc.simulate(data, graph, algorithm, 4, chosen, **settings)
            many = tc.simulate(data, graph, algorithm, 4, chosen, transport=mpi, **settings)
            same(one, many, f"{name}, {chosen}")


def whitened(mpi: Any, names: list[str]) -> None:
    """Curvature first, sparse, single precision, several classes."""
    from scipy.sparse import csr_array

    graph = tc.graph.ring(6)
    for kind in ("dense", "sparse", "single", "classes"):
        task = "classes" if kind == "classes" else "binary"
        dtype = np.float32 if kind == "single" else float
        parts = shards(uneven(6), 4, 0, task=task, dtype=dtype)
        if kind == "sparse":
            parts = [(csr_array(x), y) for x, y in parts]
        loss, known = ("multinomial", (0, 1, 2)) if task == "classes" else ("logistic", None)
        data = tc.Problem(parts, loss=loss, strength=0.1, classes=known or ("no", "yes"))
        few = DENSE if kind == "dense" else DENSE[:1]  # one of each kind of noise is enough
        for name in names or few:
            settings = {"seed": 3, "metrics": ("objective", "accuracy", *ROUNDED)}
            args = (data, graph, WHITENED[name], 4, privacy_for(name))
            one = tc.simulate(*args, **settings)
            blocks = [[5, 0, 2], [1, 4, 3]] if mpi.size == 2 else 1
            many = tc.simulate(*args, transport=mpi, blocks=blocks, **settings)
            same(one, many, f"{kind}, {name}")


def both(
    mpi: Any, parts: list[Any], settings: dict[str, Any], graph: Any, *run: Any, **more: Any
) -> None:
    """The run in one process, which has all records, and on ranks with their own nodes' alone."""
    here = mpi.nodes(graph)
    own = {
        name: [value[k] for k in here] if isinstance(value, list) else value
        for name, value in settings.items()
    }
    whole, mine = tc.Problem(parts, **settings), tc.Problem([parts[k] for k in here], **own)
    one = tc.simulate(whole, graph, *run, seed=11, **more)
    many = tc.simulate(mine, graph, *run, seed=11, transport=mpi, **more)
    same(one, many, f"{run} {more}")


def kinds_of_records(mpi: Any, names: list[str]) -> None:
    """Every algorithm on every kind of records and of settings that it serves."""
    from scipy.sparse import csr_array

    served = {}
    for kind in names or KINDS:
        task = {"classes": "classes", "regression": "regression"}.get(kind, "binary")
        dtype = np.float32 if kind in ("single", "sparse single") else float
        parts: list[Any] = shards(uneven(6), 4, 0, task=task, dtype=dtype)
        if kind.startswith("sparse"):
            parts = [(csr_array(x * (np.abs(x) > 0.3)).astype(dtype), y) for x, y in parts]
        settings: dict[str, Any] = {"strength": 0.1, "classes": ("no", "yes")}
        settings |= {
            "classes": {"loss": "multinomial", "classes": (0, 1, 2)},
            "regression": {"loss": "huber", "classes": None},
            "weights": {"weights": [np.linspace(0, 1, len(y)) for _, y in parts]},
            "persons": {
                "persons": [
                    [f"{k} {j // 3}" for j in range(len(y))] for k, (_, y) in enumerate(parts)
                ],
                "records_per_person": 2,
                "public_sizes": 20.0,
            },
            "l1": {"regulariser": "l1", "strength": 0.01},
        }.get(kind, {})
        more: dict[str, Any] = {"record_every": 2, "finish_mixing": "exact"}
        more |= {
            "varying": {"mixing": tc.graph.RandomEdges(0.6, seed=4), "finish_mixing": 2},
            "periodic": {
                "mixing": tc.graph.PeriodicEdges(
                    [[(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4), (5, 0)]]
                ),
                "finish_mixing": 2,
            },
            "mixed at the end": {"finish_mixing": 3, "output": "last"},
        }.get(kind, {})
        served[kind] = 0
        for name, algorithm in {**TUNED, **BATCHED}.items():
            private = privacy_for(name.split()[0])
            for chosen in (None,) if private is None else (None, private):
                if chosen is not None and kind == "persons":
                    chosen = replace(chosen, adjacency="add-remove")
                try:
                    both(mpi, parts, settings, graph_for(name), algorithm, 4, chosen, **more)
                    served[kind] += 1
                except (UnsupportedError, InputError):
                    continue  # refused in one process already; how many are left is counted
    if mpi.root:
        print(served)
    for kind, count in served.items():
        assert count >= KINDS[kind], f"{kind}: {count} runs"


# How many runs of each are served at least
KINDS = {
    "single": 32,
    "sparse": 32,
    "sparse single": 32,
    "classes": 32,
    "regression": 29,
    "weights": 32,
    "persons": 26,
    "l1": 18,
    "varying": 10,
    "periodic": 10,
    "mixed at the end": 32,
}
BATCHED = {
    "cdpadmm of a batch": tc.algorithms.CDPADMM(penalty=0.1, proximal=0.3, batch_size=3),
    "dpdda of a batch": tc.algorithms.DPDDA(offset=0.0, batch_size=3),
    "gossipgd of a batch": tc.algorithms.GossipGD(step_size=1.0, batch_size=3, noise="independent"),
}


def one_round_releases(mpi: Any, names: list[str]) -> None:
    """Regression from moments, and statistics: masked sums, and noise of each node."""
    from tacenda.questions.statistics import Count

    A, graph = tc.algorithms, tc.graph.random_regular(8, 4, seed=1)
    parts = [(x, np.clip(y, -1, 1)) for x, y in shards(uneven(8), 4, 2, task="regression")]
    squared = {"loss": "squared", "clip_norm": 1.0, "strength": 0.1, "classes": None}
    for noise in ("masked", "independent"):
        for chosen in (None, tc.Privacy(3.0)):
            both(mpi, parts, squared, graph, A.MomentRegression(noise=noise), 3, chosen)
            both(mpi, parts, squared, graph, A.TreeGD(noise=noise), 4, chosen)
            if noise == "masked":
                both(mpi, parts, squared, graph, A.StatisticRelease(Count(), noise), 1, chosen)


def large_nodes(mpi: Any, names: list[str]) -> None:
    """Nodes whose records are cut into tasks, by the whole table's mean number of non-zeros, of
    which a rank with the emptier nodes knows nothing."""
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    parts = []
    for k in range(4):
        x = random_array((3000, 400), density=0.02 + 0.1 * k, rng=rng, format="csr")
        x = x.multiply(1 / np.maximum(1e-9, np.sqrt(x.multiply(x).sum(axis=1)))[:, None]).tocsr()
        parts.append((x, np.where(rng.random(3000) < 0.5, "no", "yes")))
    both(mpi, parts, {"classes": ("no", "yes")}, tc.graph.ring(4), TUNED["dda"], 3, None)


def runs_of_files(mpi: Any, arguments: list[str]) -> None:
    """What a configuration's ranks hold, and what they find together, is what one process has: of
    every source, every partition and every kind of test part."""
    from tacenda.runs import read, table
    from tacenda.runs.private_run import private_run

    most = int(arguments[1]) if arguments[1:] else None
    for values in islice(_configurations(arguments[0]), most):
        config = read.build({"privacy": {"private": False}, **values})
        one, mine = private_run(config), private_run(config, mpi)
        here, what = mine.shards.here, str(values)
        assert one.shards.whole is not None and mine.shards.whole is None
        own, part = one.problem.of_nodes(here).store, mine.problem.store
        assert len(part.labels) < len(one.problem.store.labels), what
        own.cut_for(part.row_elements)
        for name in ("rows", "labels", "offsets", "divisors", "_tasks_of"):
            a, b = getattr(own, name), getattr(part, name)
            pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
            assert all(x.tobytes() == y.tobytes() for x, y in pairs), f"{what}: {name}"
        assert mine.dataset.n_records == 0 and mine.records == one.records
        assert mine.node_labels == one.node_labels and mine.dataset.notes == one.dataset.notes
        for relation in ("replace-one",) if one.problem.public_sizes is None else ("add-remove",):
            a, b = one.shards.facts(relation, 1e-8), mine.shards.facts(relation, 1e-8)
            assert np.array_equal(a.sizes, b.sizes) and a.exactly == b.exactly
            assert a.true_sizes == b.true_sizes
        assert one.shards.digest() == mine.shards.digest()
        models = np.random.default_rng(3).normal(size=(one.shards.n, one.problem.dim))
        tested = [
            table.evaluate(
                r.shards, r.test_records, models, "replace-one", drawn=r.dataset.classes or True
            )
            for r in (one, mine)
        ]
        if mpi.root:
            for name, value in tested[0].items():
                near = name == "worst_objective"
                found = tested[1][name]
                assert abs(found - value) < 1e-12 * abs(value) if near else found == value, name
        else:
            assert not tested[1]


def _configurations(folder: str) -> Any:
    """Runs on files that lie in the folder (`write_files`), and on generated data."""
    table = {"file": f"{folder}/t.csv", "schema": f"{folder}/t.toml"}
    plain = {**table, "schema": f"{folder}/plain.toml"}
    libsvm = {"file": f"{folder}/t.svm", "features": 30, "labels": ["-1", "+1"]}
    made = {"name": "classification", "options": {"n": 900, "features": 5, "classes": 3}}
    yield {"data": table}  # by the node column
    yield {"data": {**table, "test_fraction": 0.3}, "network": {"graph": "complete"}}
    yield {"data": {**plain, "test_fraction": 0.2}, "network": {"nodes": 9}}
    for network in (
        {"partition": "sizes", "sizes": "lognormal", "spread": 0.8},
        {"partition": "label-skew", "concentration": 0.5},
        {"partition": "feature-shift", "feature": 1},
        {"partition": "feature-shift"},  # is read whole
    ):
        yield {"data": plain, "network": {"nodes": 9, **network}}
    person = {**plain, "person": "who"}
    declared = {"public_size": 50}
    for more in ({"records_per_person": 2}, {}):
        privacy = {"private": False, "adjacency": "add-remove", **more}
        yield {
            "data": person, "privacy": privacy, "problem": declared, "network": {"nodes": 4},
        }  # fmt: skip
    spread = {"records_per_person": 2, "members_per_person": 7, "adjacency": "add-remove"}
    yield {
        "data": {**table, "person": "who"},
        "privacy": {"private": False, **spread},
        "problem": declared,
    }
    for form in ({"sparse": True}, {"dtype": "float32"}, {"sparse": True, "dtype": "float32"}):
        yield {"data": {**plain, **form}, "network": {"nodes": 9}}
    for more in ({}, {"test_fraction": 0.25}, {"intercept": False}):
        yield {"data": {**libsvm, **more}, "network": {"nodes": 5}}
    yield {"data": made, "network": {"nodes": 7}}
    yield {"data": {**made, "test_fraction": 0.4, "intercept": False}, "network": {"nodes": 7}}
    like = {"name": "epsilon-like", "options": {"rows": 500, "features": 20}}
    yield {"data": like, "network": {"nodes": 7, "partition": "label-skew"}}
    yield {"data": {"name": "sparse-regression"}, "problem": {"on_large_rows": "scale"}}
    yield {"data": {"name": "breast_cancer", "test_fraction": 0.5}, "network": {"nodes": 7}}
    yield {"data": {"name": "diabetes"}, "network": {"nodes": 7}}


def write_files(folder: Any) -> None:
    """A table with nodes, persons, gaps and odd cells, its schemas, and a LIBSVM file."""
    rng = np.random.default_rng(5)
    lines = ["age,dose,ward,ill,site,who"]
    for k in range(800):
        age = "?" if k % 19 == 4 else f"{rng.uniform(0, 100):.3f}"
        words = (rng.choice(["n", "s", "e"]), rng.choice(["no", "yes"]), f"h{rng.integers(7)}")
        lines.append(
            f'{age},{rng.normal():.17g},"{words[0]}",{words[1]},{words[2]},p{rng.integers(350)}'
        )
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    columns = [
        {"kind": "numeric", "name": "age", "low": 0, "high": 90, "impute": 40},
        {"kind": "numeric", "name": "dose", "low": -3, "high": 3},
        {"kind": "categorical", "name": "ward", "levels": ["n", "s", "e"]},
    ]
    common: dict[str, Any] = {
        "columns": columns,
        "label": {"name": "ill", "classes": ["no", "yes"]},
        "missing": "drop",
        "missing_values": ["?"],
        "row_norm": 1.0,
        "intercept": True,
    }
    tc.data.Schema.build(**common, node_column="site").write(folder / "t.toml")
    tc.data.Schema.build(**common).write(folder / "plain.toml")
    rows = []
    for _ in range(600):
        at = np.sort(rng.choice(30, size=rng.integers(1, 8), replace=False)) + 1
        pairs = " ".join(f"{j}:{rng.normal():.17g}" for j in at)
        rows.append(f"{rng.choice(['-1', '+1'])} {pairs}")
    (folder / "t.svm").write_text("\n".join(rows) + "\n", encoding="utf-8")


def refusals(mpi: Any, arguments: list[str]) -> None:
    """What only all ranks together can see is refused by all of them."""
    from tacenda.runs import read
    from tacenda.runs.private_run import private_run

    graph, parts = tc.graph.ring(4), shards([6] * 4)
    here = mpi.nodes(graph)
    everywhere = [["the same"] + [f"{k} {j}" for j in range(5)] for k in here]
    data = tc.Problem(
        [parts[k] for k in here], classes=("no", "yes"), persons=everywhere,
        members_per_person=len(here),
    )  # fmt: skip
    with pytest.raises((InputError, NetworkError), match="members_per_person must be at least 4"):
        tc.simulate(data, graph, "cdpadmm", 2, transport=mpi)
    table = {"file": f"{arguments[0]}/{mpi.rank}.csv", "schema": f"{arguments[0]}/plain.toml"}
    config = read.build({"data": table, "network": {"nodes": 4}, "privacy": {"private": False}})
    with pytest.raises(StateError, match="differ in the records' labels.*the same data"):
        private_run(config, mpi)


def own_records(mpi: Any, arguments: list[str]) -> None:
    """Each rank builds its own nodes' records only, with a ledger and a checkpoint; the same run
    again in one process costs nothing and finds the checkpoint."""
    folder = arguments[0]
    graph, all_records = tc.graph.random_regular(12, 4, seed=1), shards(uneven(12), 3, 5)
    here = mpi.nodes(graph)
    mine = tc.Problem([all_records[k] for k in here], strength=0.1, classes=("no", "yes"))
    assert len(mine.store.labels) < sum(len(y) for _, y in all_records)
    whole = tc.Problem(all_records, strength=0.1, classes=("no", "yes"))
    privacy = tc.Privacy(2.0, 1e-5)

    def run(data: Any, name: str, **more: Any) -> Any:
        seed = more.pop("seed", 4)
        return tc.simulate(data, graph, "cdpadmm", 6, privacy, seed, metrics=METRICS, **more)

    same(run(whole, "one"), run(mine, "many", transport=mpi), "own records")
    kept = {"ledger": f"{folder}/ledger.db", "checkpoint": f"{folder}/run.ckpt"}
    many = run(mine, "charged", transport=mpi, **kept)
    if mpi.root:
        again = run(whole, "again", resume=True, **kept)
        assert np.array_equal(again.models, many.models)
        from tacenda.privacy.lasting.ledger_store import LedgerStore

        store = LedgerStore(kept["ledger"])
        assert len(store.runs()) == 1 and not store.runs()[0]["open"], store.runs()
        store.close()


def stopped(mpi: Any, arguments: list[str]) -> None:
    """Stops itself after round 3 of 8 as by Ctrl-C on the last rank, with a checkpoint."""
    import os
    import resource
    import signal
    import subprocess
    import time

    from tacenda.runtime import loop

    data, graph = problem(6), tc.graph.ring(6)
    path, how = arguments
    if how == "resume":
        found = tc.simulate(
            data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1, checkpoint=path, resume=True,
            transport=mpi,
        )  # fmt: skip
        same(tc.simulate(data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1), found, "resumed")
        return

    from tacenda.runtime.local import LocalHosts

    step = LocalHosts.step
    if how in ("killed", "full"):
        loop.SAVE_SECONDS = -1.0  # after every round

    def then(self: Any, turn: int) -> None:
        if turn == 3 and mpi.rank == mpi.size - 1:
            if how == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "paused":
                subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)
        if turn == 3 and how == "full" and mpi.root:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        if turn == 3 and how == "error" and mpi.rank == mpi.size - 1:
            self._each = lambda work: 1 / 0
        step(self, turn)

    LocalHosts.step = then  # type: ignore[method-assign]
    if how == "paused":
        begin = time.monotonic()
        found = tc.simulate(data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1, transport=mpi)
        assert time.monotonic() - begin > 1.9  # the others have waited
        LocalHosts.step = step  # type: ignore[method-assign]
        same(tc.simulate(data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1), found, "paused")
        return
    with pytest.raises(KeyboardInterrupt, match="round 3 of 8"):
        tc.simulate(data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1, checkpoint=path, transport=mpi)


def command(arguments: list[str]) -> None:
    """`tacenda ARGUMENTS`, which writes its checkpoint more often than it does for users."""
    from tacenda.cli import main as tacenda
    from tacenda.runtime import loop

    loop.SAVE_SECONDS = 0.2
    sys.argv[1:] = arguments
    tacenda()


def main() -> None:
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "command":
        command(rest)
    warnings.simplefilter("ignore")
    mpi = tc.MPI()
    if what == "error":
        if mpi.rank == mpi.size - 1:
            raise ValueError("a fault of this rank alone")
        mpi.gathered(np.zeros(1), [np.array([k]) for k in range(mpi.size)])
    globals().get(what, lambda *_: None)(mpi, rest)
    if mpi.root:
        print(json.dumps({"done": what, "ranks": mpi.size}))


if __name__ == "__main__":
    main()
