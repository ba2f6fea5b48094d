"""kill -9 at random moments, and several processes at once:
spending is never lost and never booked twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacenda.privacy.lasting.ledger_store import LedgerStore

LOOP = Path(__file__).parents[2] / "helpers" / "ledger_kill_loop.py"

CONTENDER = """
import sys
from tacenda.errors import BudgetError
from tacenda.privacy.accounting.events import Pure
from tacenda.privacy.lasting.ledger_store import LedgerStore

got = 0
with LedgerStore(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(12):
        name = f"{sys.argv[2]}-{number}"
        store.open_run(name, "data")
        try:
            store.reserve(name, [(Pure(0.1), 1)])
        except BudgetError:
            continue
        got += store.charge(name, 0, Pure(0.1))
print(got)
"""


def kill_loop(folder, kills):
    command = [sys.executable, str(LOOP), str(folder), str(kills), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_twenty_kills(tmp_path):
    summary = kill_loop(tmp_path, 20)
    assert summary["killed"] == 20
    assert summary["moments"] > 5


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    summary = kill_loop(tmp_path, 200)
    assert summary["killed"] == 200
    assert summary["moments"] > 50


def test_processes_at_once_share_one_budget(tmp_path):
    """Three processes ask for 36 releases of 0.1 where ten fit: exactly ten are granted."""
    path = tmp_path / "ledger.db"
    with LedgerStore(path) as store:
        store.set_budget("data", 1.0, 0.0)
    crew = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    for one in crew:
        assert one.stdout.readline() == "ready\n"
    granted = [int(one.communicate("go\n", timeout=120)[0]) for one in crew]
    assert sum(granted) == 10
    assert all(one.returncode == 0 for one in crew)
    with LedgerStore(path) as store:
        assert store.verify().ok
        assert store.spent("data").curve.pure_epsilon == pytest.approx(1.0)


def test_processes_may_create_the_ledger_at_once(tmp_path):
    path = tmp_path / "ledger.db"
    code = (
        "from tacenda.privacy.lasting.ledger_store import LedgerStore\n"
        f"with LedgerStore({str(path)!r}) as s: print(s.head()[1])"
    )
    crew = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    heads = {one.communicate(timeout=60)[0] for one in crew}
    assert len(heads) == 1
    assert all(one.returncode == 0 for one in crew)
