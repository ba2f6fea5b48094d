"""Flower's side: FedAvg with one local gradient step on all records of every client, in Flower's
own simulation; run by `python -m benchmarks.peers` in an environment of its own."""

from __future__ import annotations

import os
import time
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from turns import Work, take_turns


def client_app(work: Work) -> ClientApp:
    """One gradient step of a client from the model it was sent. Its records are read from the
    file, as far as the system does not hold them already."""
    folder, step, records = str(work.folder), float(work.asked["step"]), work.records
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        w = message.content["arrays"].to_numpy_ndarrays()[0]
        start = int(context.node_config["partition-id"]) * records
        X = np.load(f"{folder}/X.npy", mmap_mode="r")[start : start + records]
        y = np.load(f"{folder}/y.npy", mmap_mode="r")[start : start + records]
        slope = 1 / (1 + np.exp(-(X @ w))) - y
        model = ArrayRecord([w - step * (X.T @ slope) / records])
        count = MetricRecord({"num-examples": records})
        return Message(RecordDict({"arrays": model, "metrics": count}), reply_to=message)

    return app


def prepare(work: Work) -> Any:
    rounds, features = int(work.asked["rounds"]), work.X.shape[1]
    client = client_app(work)
    cores = len(os.sched_getaffinity(0))
    # A cluster of its own: Ray would otherwise join one that happens to run on this machine
    own = {"address": "local", "num_cpus": cores, "include_dashboard": False}
    backend = {"client_resources": {"num_cpus": 1}, "init_args": own}

    def turn() -> dict[str, Any]:
        """A whole simulation. The first round starts Ray's workers, so that a round's time is that
        of the later ones."""
        after: list[float] = []
        found: list[Any] = []
        server = ServerApp()

        def note(number: int, arrays: ArrayRecord) -> None:
            after.append(time.perf_counter())

        @server.main()  # type: ignore[untyped-decorator]
        def main(grid: Grid, context: Context) -> None:
            first = ArrayRecord([np.zeros(features)])
            all_of_them = {"min_train_nodes": work.nodes, "min_available_nodes": work.nodes}
            strategy = FedAvg(fraction_evaluate=0.0, **all_of_them)
            done = strategy.start(grid, first, num_rounds=rounds, evaluate_fn=note)
            found.append(done.arrays.to_numpy_ndarrays()[0])

        run_simulation(server, client, work.nodes, backend_config=backend)
        a_round = (after[-1] - after[1]) / (rounds - 1)
        return {"seconds": a_round * rounds, "rounds": rounds, "loss": work.loss(found[0])}

    return turn


if __name__ == "__main__":
    take_turns("flwr", prepare)
