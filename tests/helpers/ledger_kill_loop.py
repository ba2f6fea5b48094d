"""Run by test_ledger_store_kill: forks a worker that charges and sends, kills it with SIGKILL,
checks, and again.

    python ledger_kill_loop.py FOLDER KILLS SEED

The worker does what a node does: reserve, and for each message charge the ledger, then send (append
a line to a file). A worker that comes up again redoes what was not sent. Prints a JSON summary; a
broken promise is an AssertionError.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.accounting.judge import judge  # noqa: F401  loaded before the forks, for speed
from tacenda.privacy.lasting.ledger_store import LedgerStore

ROUNDS, EVENT = 6, Gaussian(50.0)


def sent(folder: Path) -> list[list[int]]:
    path = folder / "sent"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def work(folder: Path, last_run: int) -> None:
    """All runs up to `last_run`, from where the last worker was killed."""
    done = {tuple(pair) for pair in sent(folder)}
    with LedgerStore(folder / "ledger.db") as store, (folder / "sent").open("a") as out:
        closed = {run["run"] for run in store.runs() if not run["open"]}
        for number in range(last_run):
            name = f"run-{number}"
            if name in closed:
                continue
            store.open_run(name, "data")
            store.reserve(name, [(EVENT, ROUNDS)])
            for turn in range(ROUNDS):
                if (number, turn) not in done:
                    store.charge(name, turn, EVENT)
                    out.write(json.dumps([number, turn]) + "\n")
                    out.flush()
            store.close_run(name)


def check(folder: Path) -> int:
    """Nothing sent is unbooked, nothing is booked twice,
    reservations of unfinished runs still count."""
    messages = Counter(map(tuple, sent(folder)))
    with LedgerStore(folder / "ledger.db") as store:
        verdict = store.verify()
        assert verdict.ok, str(verdict)
        rows = [json.loads(line) for line in store.export()]
        booked = Counter(
            (int(r["run"][4:]), json.loads(r["key"])) for r in rows if r["kind"] == "charge"
        )
        assert not set(messages) - set(booked), "a message was sent that the ledger has lost"
        assert max(booked.values(), default=1) == 1, "a message was charged twice"
        assert max(messages.values(), default=1) == 1, "a message was sent twice"
        assert len(set(booked) - set(messages)) <= 1, (
            "more than the one message in flight is booked and unsent"
        )
        reserved = {r["run"] for r in rows if r["kind"] == "reserve"}
        open_runs = {run["run"] for run in store.runs() if run["open"]} & reserved
        charged_open = sum(f"run-{number}" in open_runs for number, _ in booked)
        spent = store.spent("data")
        held = sum(count for _, count in spent.reserved)
        assert held == ROUNDS * len(open_runs) - charged_open, (
            "a reservation was lost or counted twice"
        )
        assert sum(count for _, count in spent.events) == len(booked)
    return len(booked)


def main(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    killed = finished = 0
    moments: list[int] = [0]
    longest = 0.06
    LedgerStore(folder / "ledger.db").close()
    while killed < kills:
        child = os.fork()
        if child == 0:
            work(folder, 100_000)
            os._exit(0)
        time.sleep(chance.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the worker ended by itself with status {status}"
        killed += 1
        moments.append(check(folder))
        # On a busy machine a worker may die before it did anything: the next one may live longer.
        longest = max(0.06, longest / 2) if moments[-1] > moments[-2] else min(2 * longest, 2.0)
    runs = moments[-1] // ROUNDS + 1
    work(folder, runs)  # nobody kills this one
    finished = check(folder)
    assert finished == runs * ROUNDS
    print(json.dumps({"killed": killed, "booked": finished, "moments": len(set(moments))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
