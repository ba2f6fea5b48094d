"""`python benchmarks/bench_node.py`: real processes over mutual TLS against the simulator, and
where the time of a round goes.

Eight members on a ring, 104 features, 100 rounds, durable writes on. Printed: seconds of all
rounds, of the simulator with the same settings, of the disk's flushes alone, of a bare stream
without a node behind it, and the shares of writing and waiting in a member's round.

`--members 8 16 32 64` prints a table instead: for each number of members the time of a round, and
for one member the processor's time of a round and of the start, its memory, and what it writes in a
round; beside it the floor, the same bytes between as many bare processes. `--features`, `--rounds`
and `--delay-ms` set what is measured.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sqlite3
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import tacenda as tc
from tacenda.algorithms.registry import from_plain
from tacenda.data.columns import NumericColumn
from tacenda.data.encoding import encode
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import topology_of
from tacenda_node.setup.delay import DelayedNetwork
from tacenda_node.setup.rehearse import Stage, prepare, rehearse
from tacenda_node.watch.observer import FILE

MEMBERS, FEATURES, ROUNDS, RECORDS = 8, 104, 100, 3000
ALGORITHM = {"name": "ipadmm", "penalty": 0.02, "proximal": 0.5, "inner_steps": 1}


def main() -> None:
    global FEATURES, ROUNDS, RECORDS
    options = argparse.ArgumentParser(description="Real processes over mutual TLS.")
    options.add_argument("--members", type=int, nargs="*", help="Print a table for these numbers.")
    options.add_argument("--features", type=int, default=FEATURES)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--records", type=int, default=RECORDS)
    options.add_argument("--delay-ms", type=float, default=0.0)
    given = options.parse_args()
    FEATURES, ROUNDS, RECORDS = given.features, given.rounds, given.records
    if given.members:
        table(given.members, given.delay_ms)
    else:
        shares()


def table(members: list[int], delay_ms: float) -> None:
    """One line for each number of members, as a table for results/measured/nodes.md."""
    print(
        "| members | a round | floor | processor, a round | processor, start | memory | "
        "written a round | sent a round |\n|" + 8 * " ---: |"
    )
    for n in members:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            stage = prepare(_contract(home, n), home / "schema.toml", home / "stage")
            addresses = {m.name: m.address for m in stage.contract.members}
            slow = DelayedNetwork(addresses, delay_ms) if delay_ms else nullcontext({})
            with slow as stage.reached:
                for name in stage.contract.names:
                    stage.start(name)
                watch = Watch(stage)
                stage.wait(1200)
            used = watch.end()
            a_round = stage.seconds_of_rounds() / (ROUNDS - 1)
            floor = _bare_ring(n) / ROUNDS
            print(
                f"| {n} | {1000 * a_round:.1f} ms | {1000 * floor:.1f} ms | "
                f"{1000 * used['processor'] / (ROUNDS - 1):.1f} ms | {used['start']:.1f} s | "
                f"{used['memory'] / 1e6:.0f} MB | {used['written'] / (ROUNDS - 1) / 1e3:.0f} kB | "
                f"{_sent(stage) / ROUNDS / 1e3:.1f} kB |",
                flush=True,
            )


class Watch:
    """What the members' processes use, looked at while they run: medians over the members."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._over = stage, threading.Event()
        self._seen: dict[str, list[tuple[bool, float, float, float]]] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for name, process in self._stage.processes.items():
                home = Path(f"/proc/{process.pid}")
                log = self._stage.folder / name / "state" / "log.jsonl"
                try:
                    stat = (home / "stat").read_text().rpartition(")")[2].split()
                    io = dict(line.split(": ") for line in (home / "io").read_text().splitlines())
                    peak = (home / "status").read_text().partition("VmHWM:")[2].split()[0]
                    begun = log.exists() and "round one done" in log.read_text()
                except (OSError, IndexError):
                    continue  # it has ended, or not begun
                seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
                now = (begun, seconds, float(io["write_bytes"]), 1024.0 * float(peak))
                self._seen.setdefault(name, []).append(now)

    def end(self) -> dict[str, float]:
        self._over.set()
        self._thread.join()
        found: dict[str, list[float]] = {"start": [], "processor": [], "written": [], "memory": []}
        for seen in self._seen.values():
            first = next((one for one in seen if one[0]), seen[-1])
            found["start"].append(first[1])
            found["processor"].append(seen[-1][1] - first[1])
            found["written"].append(seen[-1][2] - first[2])
            found["memory"].append(seen[-1][3])
        return {name: float(np.median(values)) for name, values in found.items()}


def _sent(stage: Stage) -> float:
    """Bytes that a member has sent, without TLS: the median over the members."""
    places = [stage.folder / name / "state" / FILE for name in stage.contract.names]
    return float(np.median([json.loads(p.read_text("utf-8"))["sent_bytes"] for p in places]))


def _bare_ring(members: int) -> float:
    """Seconds of all rounds if every member does nothing but send its row to two others over
    asyncio's own TLS streams and wait for theirs: all in one process."""
    import asyncio
    import ssl

    import trustme

    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.configure_trust(client)
    authority.issue_cert("localhost").configure_cert(server)
    message = bytes(8 * FEATURES)

    async def measured() -> float:
        waiting: list[asyncio.Future[Any]] = []

        def come(*stream: Any) -> None:
            waiting.pop(0).set_result(stream)

        listener = await asyncio.start_server(come, "localhost", 0, ssl=server)
        port = listener.sockets[0].getsockname()[1]
        edges = []
        for _ in range(members):
            waiting.append(asyncio.get_running_loop().create_future())
            coming = waiting[-1]
            near = await asyncio.open_connection("localhost", port, ssl=client)
            edges.append((near, await coming))
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            for pair in edges:
                for end in pair:
                    end[1].write(message)
            reads = (end[0].readexactly(len(message)) for pair in edges for end in pair)
            await asyncio.gather(*reads)
        seconds = time.perf_counter() - begin
        for pair in edges:
            for end in pair:
                end[1].close()
        listener.close()
        return seconds

    return asyncio.run(measured())


def shares() -> None:
    """Where the time of a round of eight members goes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        stage = rehearse(_contract(home), home / "schema.toml", home / "stage")
        node, ours = stage.seconds_of_rounds(), _shares(stage)
        print(
            f"{MEMBERS} processes, {ROUNDS} rounds, durable writes: "
            f"{node:.2f} s ({1000 * node / ROUNDS:.1f} ms a round)"
        )
        print(
            f"of it, a member writes {np.mean(ours['writing']):.2f} s and waits "
            f"{np.mean(ours['waited']):.2f} s"
        )
        print(f"one member's flushes alone, on a quiet disk: {_flushes(home):.2f} s")
        print(
            "the network's floor, messages of that size to and fro on one bare stream over "
            f"mutual TLS: {_bare_stream():.2f} s"
        )
        print(f"the simulator, all members in one process: {_simulated(stage):.3f} s")


def _contract(home: Path, members: int = MEMBERS) -> Contract:
    columns = tuple(NumericColumn(name=f"x{k}", low=0, high=1) for k in range(FEATURES - 1))
    schema = Schema(columns=columns, label=Label(name="y", classes=("no", "yes")), intercept=True)
    schema.write(home / "schema.toml")
    names = [f"m{k}" for k in range(members)]
    people = [
        {
            "name": name,
            "size": RECORDS,
            "address": "localhost:1",
            "fingerprint": f"{k:064x}",
            "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
        }
        for k, name in enumerate(names)
    ]
    return Contract.build(
        {
            "title": "benchmark",
            "rounds": ROUNDS,
            "schema_hash": schema.hash(),
            "members": people,
            "algorithm": ALGORITHM,
            "edges": contract_files.named_edges("ring", names),
            "authorities": ["-----BEGIN CERTIFICATE-----"],
            "problem": {
                "n_features": FEATURES,
                "classes": ["no", "yes"],
                "row_scale": schema.row_scale,
            },
            "privacy": {"epsilon": 1.0, "delta": 1e-5},
        }
    )


def _shares(stage: Stage) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"writing": [], "waited": []}
    for name in stage.contract.names:
        for line in (stage.folder / name / "state" / "log.jsonl").read_text("utf-8").splitlines():
            entry = json.loads(line)
            if entry["event"] == "all rounds done":
                for share, values in found.items():
                    values.append(float(entry[share]))
    return found


def _flushes(home: Path) -> float:
    db = sqlite3.connect(home / "flush.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE t (data BLOB)")
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        db.execute("INSERT INTO t VALUES (?)", (bytes(8 * FEATURES * 6),))
    db.close()
    return time.perf_counter() - begin


def _bare_stream() -> float:
    """Seconds for one message per round each way, as gRPC alone moves them:
    no queue, no checks, no disk."""
    import asyncio

    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    import grpc
    import trustme

    authority = trustme.CA()
    pair = authority.issue_cert("localhost")
    key = pair.private_key_pem.bytes()
    chain = pair.cert_chain_pems[0].bytes()
    root = authority.cert_pem.bytes()

    async def echo(requests: Any, context: Any) -> Any:
        async for message in requests:
            yield message

    async def measured() -> float:
        server = grpc.aio.server()
        handlers = {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare", handlers),))
        port = server.add_secure_port(
            "localhost:0", grpc.ssl_server_credentials([(key, chain)], root, True)
        )
        await server.start()
        async with grpc.aio.secure_channel(
            f"localhost:{port}", grpc.ssl_channel_credentials(root, key, chain)
        ) as channel:
            stream = channel.stream_stream("/bare/Echo")()
            message = bytes(8 * FEATURES)
            await stream.write(message)
            await stream.read()  # the connection is made before the clock starts
            begin = time.perf_counter()
            for _ in range(ROUNDS):
                await stream.write(message)
                await stream.read()
            seconds = time.perf_counter() - begin
        await server.stop(None)
        return seconds

    return asyncio.run(measured())


def _simulated(stage: Stage) -> float:
    contract = stage.contract
    sets = [encode(Schema.read(stage.schema), stage.data[name]) for name in contract.names]
    problem = tc.Problem(
        [(s.X, s.y) for s in sets], classes=(0, 1), strength=contract.problem.strength
    )
    graph, algorithm = topology_of(contract), from_plain(contract.algorithm.model_dump())
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        tc.simulate(
            problem,
            graph,
            algorithm,
            ROUNDS,
            tc.Privacy(epsilon=1.0, delta=1e-5),
            seed=0,
            record_every=0,
        )
        best = min(best, time.perf_counter() - begin)
    return best


if __name__ == "__main__":
    main()
