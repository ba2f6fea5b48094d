"""What every rank of a test runs: `mpiexec -n 2 python mpi_stage.py WHAT [...]`. Each rank compares
what all ranks found together with a run of its own in one process; an error on one ends all."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, WHITENED, graph_for, privacy_for, problem, same_statement, shards, uneven

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
        if turn == 3 and how == "full" and mpi.root:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        if turn == 3 and how == "error" and mpi.rank == mpi.size - 1:
            self._each = lambda work: 1 / 0
        step(self, turn)

    LocalHosts.step = then  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt, match="round 3 of 8"):
        tc.simulate(data, graph, "cdpadmm", 8, tc.Privacy(2.0), 1, checkpoint=path, transport=mpi)


def main() -> None:
    what, rest = sys.argv[1], sys.argv[2:]
    warnings.simplefilter("ignore")
    if what == "versions":
        tc.__version__ = f"0.{sys.argv[2]}" if __import__("mpi4py.MPI").MPI.COMM_WORLD.rank else "0"
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
