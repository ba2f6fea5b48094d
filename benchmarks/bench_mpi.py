"""`python benchmarks/bench_mpi.py`: one simulation over MPI ranks against the same in one process,
its exchange of rows against a bare one with mpi4py, and what placing near nodes together saves.

Every process has one thread. Each rank makes its own nodes' records and no others. Printed, for the
torus with `--nodes` nodes: seconds of a private round of CDP-ADMM at each number of ranks (the
least of `--repeat` stretches of rounds), the efficiency (seconds of one rank / ranks / seconds of
all), and the seconds of one exchange by our network (packing, sending, receiving and checking rows;
no sums) beside those of the same bytes packed and sent by a bare mpi4py program.
`--placement` prints the rows that cross between 2, 4 and 8 ranks for three graphs instead.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
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
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    options.add_argument("--placement", action="store_true")
    options.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.as_rank:
        as_rank(given.nodes, given.rounds, given.repeat)
    elif given.placement:
        placements(given.nodes)
    else:
        table(given)


def table(given: Any) -> None:
    found = {count: launch(count, given) for count in given.ranks}
    base = found.get(1)
    print(f"torus of {next(iter(found.values()))['nodes']} nodes x {RECORDS} x {FEATURES}")
    for count, one in found.items():
        line = f"{count} ranks: {1e3 * one['round']:.1f} ms a round, {one['megabytes']:.0f} MB each"
        if base is not None and count > 1:
            line += f", efficiency {base['round'] / count / one['round']:.2f}"
        if count > 1:
            line += (
                f"; exchange {1e6 * one['ours']:.0f} us, bare {1e6 * one['bare']:.0f} us, "
                f"ratio {one['ours'] / one['bare']:.2f} ({one['rows']} rows)"
            )
        print(line)


def launch(count: int, given: Any) -> dict[str, Any]:
    """The benchmark on so many ranks."""
    here = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=here) or shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("no mpiexec: pip install 'tacenda[mpi]' mpich")
    own = [sys.executable, __file__, "--as-rank", "--nodes", str(given.nodes)]
    more = ["--rounds", str(given.rounds), "--repeat", str(given.repeat)]
    done = subprocess.run(
        [mpiexec, "-n", str(count), *own, *more],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def as_rank(nodes: int, rounds: int, repeat: int) -> None:
    import resource

    mpi, side = tc.MPI(), math.isqrt(nodes)
    topology = tc.graph.Topology.of(tc.graph.torus(side, side))
    problem = tc.Problem([records(k) for k in mpi.nodes(topology).tolist()], classes=(0, 1))
    times: list[float] = []

    def note(done: int, models: Any) -> bool:
        times.append(time.perf_counter())
        return False

    tc.simulate(
        problem,
        topology,
        tc.algorithms.CDPADMM(penalty=0.1, proximal=1.0),
        rounds * repeat + 1,
        tc.Privacy.from_noise(noise_multiplier=5.0),
        seed=0,
        metrics=(),
        record_every=rounds,
        callback=note,
        transport=mpi,
    )
    least = min(np.diff(times)[: repeat - 1 or 1]) / rounds if len(times) > 1 else math.nan
    found = {"nodes": topology.n, "round": float(least)}
    found["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if mpi.size > 1:
        found |= exchanges(mpi, topology)
    if mpi.root:
        print(json.dumps(found))


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
    rows = np.random.default_rng(0).normal(size=(len(parts[mpi.rank]), FEATURES))
    comm, halo = library.COMM_WORLD, network._halo
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
