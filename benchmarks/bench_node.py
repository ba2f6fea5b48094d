"""`python benchmarks/bench_node.py`: real processes over mutual TLS against the simulator, and
where the time of a round goes.

Eight members on a ring, 104 features, 100 rounds, durable writes on. Printed: seconds of all
rounds, of the simulator with the same settings, of the disk's flushes alone, of a bare stream
without a node behind it, and the shares of writing and waiting in a member's round.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tacenda as tc
from tacenda.algorithms.registry import from_plain
from tacenda.data.encoding import encode
from tacenda.data.schema import Label, NumericColumn, Schema
from tacenda.node.identity import contract_files
from tacenda.node.identity.contract import Contract
from tacenda.node.rehearse import Stage, rehearse
from tacenda.node.run_plan import topology_of

MEMBERS, FEATURES, ROUNDS, RECORDS = 8, 104, 100, 3000
ALGORITHM = {"name": "ipadmm", "penalty": 0.02, "proximal": 0.5, "inner_steps": 1}


def main() -> None:
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


def _contract(home: Path) -> Contract:
    columns = tuple(NumericColumn(name=f"x{k}", low=0, high=1) for k in range(FEATURES - 1))
    schema = Schema(columns=columns, label=Label(name="y", classes=("no", "yes")), intercept=True)
    schema.write(home / "schema.toml")
    names = [f"m{k}" for k in range(MEMBERS)]
    members = [
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
            "members": members,
            "algorithm": ALGORITHM,
            "edges": contract_files.named_edges("ring", names),
            "authorities": ["-----BEGIN CERTIFICATE-----"],
            "problem": {"n_features": FEATURES, "classes": ["no", "yes"]},
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
