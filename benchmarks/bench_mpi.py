"""`python benchmarks/bench_mpi.py`: one simulation over MPI ranks against the same in one process,
its exchange of rows against a bare one with mpi4py, and what placing near nodes together costs and
saves.

Every process has one thread, and makes its own nodes' records alone; rank 0 makes all of them too,
to run the whole problem by itself. The two take turns in one launch, since a machine is rarely the
same for long, and the others sleep meanwhile. Printed for the torus and for the random 6-regular
graph with `--nodes` nodes, of `--repeat` turns of `--rounds` rounds the quickest:

  round      seconds of a private round of CDP-ADMM in one process, and on all ranks
  efficiency one process / ranks / all ranks
  apart      the same if each rank had a problem of its own, of its share of the nodes, and nothing
             to send: what the machine's memory and cores allow
  exchange   one exchange of rows by our network (packing, sending, receiving and checking; no sums)
             beside the same bytes packed and sent by a bare mpi4py program

`--placement` prints rows that cross between ranks, and the seconds of METIS, instead. `--memory`
prints the peak of each process of `tacenda fit` on a CSV of `--records` records, over what it takes
on one of a thousand.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import tacenda as tc
from tacenda.graph.locality import near_parts, rows_sent
from tacenda.runtime.network import Network, placement

FEATURES, RECORDS = 10, 10
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def main() -> None:
    options = argparse.ArgumentParser(description="Simulations over MPI ranks.")
    options.add_argument("--nodes", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--repeat", type=int, default=6)
    options.add_argument("--ranks", type=int, nargs="*", default=[2])
    options.add_argument("--graphs", nargs="*", default=["torus", "regular"], choices=list(GRAPHS))
    options.add_argument("--placement", action="store_true")
    options.add_argument("--memory", action="store_true")
    options.add_argument("--records", type=int, default=500_000)
    options.add_argument("--fit", nargs="*", default=[], help=argparse.SUPPRESS)
    options.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.as_rank:
        as_rank(given.graphs[0], given.nodes, given.rounds, given.repeat)
    elif given.fit:
        fit(*given.fit)
    elif given.placement:
        placements(given.nodes)
    elif given.memory:
        memory(given.records, given.ranks)
    else:
        for graph in given.graphs:
            for count in given.ranks:
                line(graph, count, launch(graph, count, given))


def line(graph: str, count: int, found: dict[str, Any]) -> None:
    one, all_of_them, apart = found["one"], found["all"], found["apart"]
    print(
        f"{graph} of {found['nodes']} nodes x {RECORDS} x {FEATURES}, {count} ranks: a round "
        f"{1e3 * one:.1f} ms in one process, {1e3 * all_of_them:.1f} ms on all, efficiency "
        f"{one / count / all_of_them:.2f} (apart {one / count / apart:.2f}); exchange "
        f"{1e6 * found['ours']:.0f} us, bare {1e6 * found['bare']:.0f} us, ratio "
        f"{found['ours'] / found['bare']:.2f} ({found['rows']} rows); placing the nodes "
        f"{found['placing']:.1f} s",
        flush=True,
    )


def launch(graph: str, count: int, given: Any) -> dict[str, Any]:
    """The benchmark on so many ranks."""
    own = ["--as-rank", "--nodes", str(given.nodes), "--graphs", graph]
    more = ["--rounds", str(given.rounds), "--repeat", str(given.repeat)]
    found: dict[str, Any] = json.loads(on_ranks(count, *own, *more)[-1])
    return found


def on_ranks(count: int, *arguments: str) -> list[str]:
    """What this program prints on so many ranks."""
    here = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=here) or shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("no mpiexec: pip install 'tacenda[mpi]' mpich")
    done = subprocess.run(
        [mpiexec, "-n", str(count), sys.executable, __file__, *arguments],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()


def memory(records: int, ranks: list[int], features: int = 40) -> None:
    """Peaks in MB of `fit` on one process and on ranks, over those on a small table."""
    names = [f"x{j}" for j in range(features)]
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in names]
    label = {"name": "y", "classes": ["no", "yes"]}
    rng = np.random.default_rng(0)
    lines = []
    for row in rng.normal(size=(5000, features)).clip(-4, 4):
        lines.append(",".join(f"{x:.4f}" for x in row) + f",{'yes' if row[0] > 0 else 'no'}\n")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tc.data.Schema.build(columns=columns, label=label, row_norm=1.0).write(folder / "t.toml")
        for name, count in (("small", 1000), ("large", records)):
            with (folder / f"{name}.csv").open("w", encoding="utf-8") as file:
                file.write(",".join([*names, "y"]) + "\n")
                file.writelines(lines[k] for k in rng.integers(len(lines), size=count))
        whole = records * features * 8 / 1e6
        for count in (1, *ranks):
            base, peak = (peaks(on_ranks(count, "--fit", made, n)) for n in ("small", "large"))
            over = ", ".join(f"{b:.0f} + {p - b:.0f}" for b, p in zip(base, peak, strict=True))
            print(
                f"{records} records x {features} ({whole:.0f} MB), ranks: {count}; peak of each in "
                f"MB, program + records: {over}",
                flush=True,
            )


def peaks(lines: list[str]) -> list[float]:
    """Of each rank, in MB."""
    found = dict(line.split()[1:] for line in lines if line.startswith("peak "))
    return [float(found[rank]) for rank in sorted(found, key=int)]


def fit(folder: str, name: str) -> None:
    """`tacenda fit` as a user has it, and then the peak of this process."""
    from tacenda.cli.app import app
    from tacenda.runtime.mpi import world

    table = ["--data", f"{folder}/{name}.csv", "--schema", f"{folder}/t.toml", "--nodes", "100"]
    more = ["-a", "cdpadmm", "--epsilon", "4", "--rounds", "5", "--seed", "0", "--no-references"]
    place = ["--folder", tempfile.mkdtemp(dir=folder), "--no-report", "--quiet"]
    app(["fit", *table, *more, *place], standalone_mode=False)
    # The kernel's own mark: getrusage also counts what the parent held when it started this process
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    print("peak", world().rank, f"{1.024e-3 * peak:.1f}", flush=True)


def torus(nodes: int) -> Any:
    side = math.isqrt(nodes)
    return tc.graph.torus(side, side)


GRAPHS = {"torus": torus, "regular": lambda nodes: tc.graph.random_regular(nodes, 6, seed=0)}


def as_rank(graph: str, nodes: int, rounds: int, repeat: int) -> None:
    mpi = tc.MPI()
    topology = tc.graph.Topology.of(GRAPHS[graph](nodes))
    begin = time.perf_counter()
    here = mpi.nodes(topology).tolist()
    placing = time.perf_counter() - begin
    mine = problem_of(here)
    whole = problem_of(range(topology.n)) if mpi.root else mine
    # Of as many nodes as are here, and of about as many edges; nobody else is heard
    small = tc.graph.Topology.of(GRAPHS[graph](len(here)))
    apart = problem_of(range(small.n))
    best = {"one": math.inf, "all": math.inf, "apart": math.inf}
    for turn in range(repeat + 1):  # the first loads the compiled code
        found = {"one": math.nan}
        if mpi.root:
            found["one"] = seconds(whole, topology, rounds)
        asleep(mpi)
        found["all"] = seconds(mine, topology, rounds, mpi)
        asleep(mpi)
        found["apart"] = seconds(apart, small, rounds)
        asleep(mpi)
        if turn:
            slowest = {k: max(v) for k, v in zipped(mpi.each(found)).items()}
            best = {k: min(best[k], slowest[k]) for k in best}
    told = {**best, "nodes": topology.n, "placing": placing, **exchanges(mpi, topology)}
    if mpi.root:
        print(json.dumps(told))


def zipped(each: list[dict[str, float]]) -> dict[str, list[float]]:
    return {k: [found[k] for found in each if found[k] == found[k]] for k in each[0]}


def problem_of(nodes: Any) -> Any:
    return tc.Problem([records(k) for k in nodes], classes=(0, 1))


def asleep(mpi: Any) -> None:
    """Wait for the others without using a core, as a bare barrier would."""
    meeting = mpi._comm.Ibarrier()
    while not meeting.Test():
        time.sleep(0.005)


def seconds(problem: Any, topology: Any, rounds: int, transport: Any = None) -> float:
    """Of one round, in the second half of the run."""
    times: list[float] = []

    def note(done: int, models: Any) -> bool:
        times.append(time.perf_counter())
        return False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tc.simulate(
            problem,
            topology,
            tc.algorithms.CDPADMM(penalty=0.1, proximal=1.0),
            2 * rounds,
            tc.Privacy.from_noise(noise_multiplier=5.0),
            seed=0,
            metrics=(),
            record_every=rounds,
            callback=note,
            transport=transport,
        )
    return (times[1] - times[0]) / rounds if times else math.nan  # rank 0 is called


def records(node: int) -> tuple[Any, Any]:
    """One node's records, made from its number."""
    rng = np.random.default_rng(node)
    x = rng.normal(size=(RECORDS, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, 2, RECORDS)


def exchanges(mpi: Any, topology: Any, times: int = 20) -> dict[str, float]:
    """Seconds of one exchange by our network, and bare."""
    from mpi4py import MPI as library

    parts = mpi.parts(topology, 1)
    network = Network(topology, parts, mpi.rank, mpi.end(), np.float64)
    network._kernels = SimpleNamespace(weighted_sums=lambda *_: None)
    network._add_border = lambda *_: None  # type: ignore[method-assign]
    rows = np.random.default_rng(0).normal(size=(len(parts[mpi.rank]), FEATURES))
    comm, halo = library.COMM_WORLD, network._halo.links
    buffers = {
        other: (np.empty((len(own), FEATURES)), np.empty((len(theirs), FEATURES)))
        for other, (own, theirs) in halo.items()
    }

    def ours(turn: int) -> None:
        network._sums(network._adjacency, rows, (turn, 0))

    def bare(turn: int) -> None:
        requests = [comm.Irecv(buffers[other][1], other) for other in halo]
        for other, (own, _) in halo.items():
            np.take(rows, own, axis=0, out=buffers[other][0], mode="clip")
            requests.append(comm.Isend(buffers[other][0], other))
        library.Request.Waitall(requests)

    best = {"ours": math.inf, "bare": math.inf}
    for _ in range(50):
        for name, work in (("ours", ours), ("bare", bare)):
            comm.Barrier()
            begin = time.perf_counter()
            for turn in range(times):
                work(turn)
            best[name] = min(best[name], (time.perf_counter() - begin) / times)
    return {**best, "rows": rows_sent(topology, parts)}


def placements(nodes: int) -> None:
    side = math.isqrt(nodes)
    graphs = {
        "torus": tc.graph.torus(side, side),
        "small world": tc.graph.small_world(nodes, 6, 0.05, seed=0),
        "random 6-regular": tc.graph.random_regular(nodes, 6, seed=0),
    }
    for name, graph in graphs.items():
        whole = tc.graph.Topology.of(graph)
        order = np.random.default_rng(1).permutation(whole.n)
        for ranks in (2, 4, 8):
            begin = time.perf_counter()
            near = rows_sent(whole, near_parts(whole, ranks))
            seconds = time.perf_counter() - begin
            numbered = rows_sent(whole, placement(whole.n, ranks))
            random = rows_sent(whole, np.array_split(order, ranks))
            print(
                f"{name}, {whole.n} nodes, {ranks} ranks: rows sent {near} near, {numbered} as "
                f"numbered, {random} at random; {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
