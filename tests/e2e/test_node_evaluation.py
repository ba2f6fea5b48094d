"""The closing evaluation of a run: what it finds, what it costs, and that no fault makes it cost
twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from chaos_members import command
from cli_tools import run_main
from liars_stage import with_false_counts
from node_stage import Crowd, small_contract
from tacenda.cli import exits
from tacenda.errors import StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.statistics import Records
from tacenda_node.evidence.signed_statement import verify_statement
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import amendment_path
from tacenda_node.peer.evaluation_plan import statistic_of
from tacenda_node.peer.member_records import read_records
from tacenda_node.state.database import NodeState
from tacenda_node.watch.status_file import read_status

TERMS = {"held_out": 0.25, "epsilon": 3.0}
TRUSTING = {"epsilon": 5.0, "delta": 1e-5, "coalition": 1}
STOP = {"policy": "stop", "limit_seconds": 60.0}


def evaluated(folder: Path, terms: dict[str, Any] | None = None, **changes: Any) -> Crowd:
    given = {
        "finish_mixing": "exact",
        "evaluation": terms or TERMS,
        "algorithm": {"name": "treegd"},
        "privacy": TRUSTING,
        "absence": STOP,
        **changes,
    }
    contract = small_contract(3, 2, **given)
    # As on real machines: a contract that was begun is not begun anew
    real = {"rehearsal": False, "no_budget": True}
    options = dict.fromkeys(contract.names, real)
    return Crowd(folder, contract, ledgers=folder / "ledgers", options=options)


def found(crowd: Crowd, name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(
        (crowd.folder(name) / "state" / "evaluation.json").read_text("utf-8")
    )
    return values


def totals(crowd: Crowd) -> list[list[float]]:
    return [found(crowd, name)["total"] for name in crowd.names]


def charges(crowd: Crowd, name: str) -> list[Any]:
    state = NodeState(crowd.folder(name) / "state" / "evaluation")
    try:
        return [event for _, event in state.charges()]
    finally:
        state.close()


def ledger(crowd: Crowd, name: str) -> Path:
    return crowd.folder(name).parent.parent / "ledgers" / name / "ledger.sqlite"


def without_noise(crowd: Crowd) -> np.ndarray:
    """The sum over all members' held-out records, computed apart: straight from their files, by
    the split that each one's ledger decides."""
    contract = crowd.stage.contract
    statistic, model = statistic_of(contract), crowd.models()[0]
    whole = np.zeros(statistic.length)
    for name in crowd.names:
        path = crowd.stage.data[name]
        own = read_records(contract, name, crowd.stage.schema, path, ledger(crowd, name)).held_out
        assert own is not None
        rows, labels = np.asarray(own.store.rows), np.asarray(own.store.labels)
        records = Records(rows, labels, 1, "binary", lambda w, rows=rows: (rows @ w)[:, None])
        whole += statistic.vectors(records, model).sum(axis=0)
    return whole


def require_paid_once(crowd: Crowd) -> None:
    """One charge at each member, in the state and in the ledger, on the held-out account."""
    for name in crowd.names:
        assert len(charges(crowd, name)) == 1
        with LedgerStore(ledger(crowd, name)) as store:
            runs = {run["dataset"]: run["open"] for run in store.runs()}
            (held,) = [one for one in runs if one.endswith("/held-out")]
            assert runs == {held: False, held.removesuffix("/held-out"): False}
            for account, limit in ((held, 3.0), (held.removesuffix("/held-out"), 5.0)):
                epsilon = store.spent(account).curve_with_reserved.epsilon(1e-5)
                assert 0.7 * limit < epsilon <= limit * (1 + 1e-6)


def require_whole(crowd: Crowd) -> None:
    """All found the same, near what the records say, and paid once."""
    every = totals(crowd)
    assert every[0] == every[1] == every[2]
    one = found(crowd, "m0")
    apart = (np.array(every[0]) - without_noise(crowd)) / one["noise"]
    assert np.abs(apart).max() < 6 and np.abs(apart).max() > 0
    assert one["records"] == sum(map(crowd.stage.contract.held_out_size, crowd.names))
    require_paid_once(crowd)


def test_three_members_evaluate_their_model(tmp_path: Path) -> None:
    crowd = evaluated(tmp_path)
    crowd.start()
    crowd.finish()
    require_whole(crowd)
    contract = crowd.stage.contract
    state = crowd.folder("m1") / "state"
    signed = verify_statement(state, contract)
    assert signed.evaluation is not None
    assert 2.1 < signed.evaluation.epsilon <= 3.0 * (1 + 1e-6) < signed.statement.epsilon
    status = read_status(state)
    assert status.evaluation is not None and status.evaluation.state == "done"
    assert status.evaluation.records == contract.held_out_size("m1")
    assert {m["name"] for m in status.evaluation.measures} >= {"accuracy", "roc_auc", "log_loss"}
    assert status.summary == "finished after the evaluation"
    # Started again, a finished node keeps its statement and its result to the byte
    path = state / "statement.json"
    kept = [path, state / "results" / "treegd-m1.safetensors", state / "evaluation.json"]
    before = [file.read_bytes() for file in kept]
    assert before[0].count(b"under masks") == 2
    crowd.start("m1")
    assert crowd.wait(60, ["m1"]) == {"m1": 0}
    assert [file.read_bytes() for file in kept] == before
    # A statement whose evaluation was made cheaper is found out
    values = json.loads(path.read_text("utf-8"))
    values["body"]["evaluation"]["privacy"]["epsilon"] = 0.1
    path.write_text(json.dumps(values), "utf-8")
    with pytest.raises(StateError, match="not signed by m1"):
        verify_statement(path, contract)


def _dying(place: str, before: bool) -> Any:
    """Kill this process at a place of the closing run."""
    from tacenda_node.peer import evaluation_run, session

    if place == "begin":
        owner, name = evaluation_run.EvaluationRun, "run"
    elif place == "release":
        owner, name = session.Session, "take_leave"
    else:
        owner, name = evaluation_run.EvaluationRun, "_read"
    real = getattr(owner, name)

    def die(self: Any, *arguments: Any, **more: Any) -> Any:
        if name == "take_leave" and self.contract.evaluates is None:
            return real(self, *arguments, **more)
        if not before:
            real(self, *arguments, **more)
        return os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)


def dies(options: dict[str, Any], output: str, place: str, before: bool = True) -> None:
    _dying(place, before)
    command(options, output)


def dies_before_leave(options: dict[str, Any], output: str) -> None:
    """A member that is killed after its result is there, and before it has taken leave."""
    from tacenda_node.peer import run

    run._take_leave = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    command(options, output)


def dies_before_its_counts_leave(options: dict[str, Any], output: str) -> None:
    """A member that meets the others in the evaluation, and is killed when it is to release."""
    from tacenda_node.wire import exchange

    book = exchange.Exchange.book

    def die(self: Any, *arguments: Any) -> None:
        if self._contract.evaluates is not None:
            time.sleep(3)  # the others release meanwhile
            os.kill(os.getpid(), signal.SIGKILL)
        book(self, *arguments)

    exchange.Exchange.book = die  # type: ignore[method-assign]
    command(options, output)


def dies_when_its_counts_leave(options: dict[str, Any], output: str) -> None:
    """A member that is killed when its counts are booked and sent."""
    from tacenda_node.wire import exchange

    send = exchange.Exchange._send

    def die(self: Any, *arguments: Any) -> None:
        send(self, *arguments)
        if self._contract.evaluates is not None and list(self._state.charges()):
            os.kill(os.getpid(), signal.SIGKILL)

    exchange.Exchange._send = die  # type: ignore[method-assign]
    command(options, output)


def with_another_model(options: dict[str, Any], output: str) -> None:
    from tacenda_node.peer import evaluation_run, run

    for module in (run, evaluation_run):
        module.model_digest = lambda model: "f" * 64  # type: ignore[attr-defined]
    command(options, output)


def stops_in_evaluation(options: dict[str, Any], output: str) -> None:
    """A member whose operator presses Ctrl-C once the evaluation has begun."""
    from tacenda_node.peer import evaluation_run

    real = evaluation_run.Session.run

    def run(self: Any, *arguments: Any) -> None:
        if self.contract.evaluates is not None:
            os.kill(os.getpid(), signal.SIGINT)
        real(self, *arguments)

    evaluation_run.Session.run = run  # type: ignore[method-assign]
    command(options, output)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before leave", "begin", "release", "read"])
@pytest.mark.parametrize("noise", ["masked", "independent"])
def test_killed_around_the_evaluation(tmp_path: Path, place: str, noise: str) -> None:
    privacy = TRUSTING if noise == "masked" else {"epsilon": 5.0, "delta": 1e-5}
    algorithm = {"name": "treegd"} if noise == "masked" else {"name": "ipadmm", "penalty": 0.1}
    crowd = evaluated(tmp_path, privacy=privacy, algorithm=algorithm)
    if place == "before leave":
        crowd.start_as("m1", dies_before_leave)
    else:
        crowd.start_as("m1", dies, place)
    crowd.start("m0", "m2")
    assert crowd.wait(120, ["m1"]) == {"m1": -signal.SIGKILL}
    crowd.start("m1")
    crowd.finish()
    require_whole(crowd)


@pytest.mark.slow
def test_stopped_in_the_evaluation_and_started_again(tmp_path: Path) -> None:
    crowd = evaluated(tmp_path)
    crowd.start_as("m2", stops_in_evaluation)
    crowd.start("m0", "m1")
    assert crowd.wait(120, ["m2"]) == {"m2": exits.INTERRUPTED}
    status = read_status(crowd.folder("m2") / "state")
    assert status.state == "stopped" and "evaluation" in status.summary
    crowd.start("m2")
    crowd.finish()
    require_whole(crowd)
    # Started once more, a finished node changes nothing
    before = totals(crowd)
    crowd.start("m0")
    assert crowd.wait(60, ["m0"]) == {"m0": 0}
    assert totals(crowd) == before
    require_paid_once(crowd)


@pytest.mark.slow
def test_a_member_with_another_model_is_not_met(tmp_path: Path) -> None:
    crowd = evaluated(tmp_path, absence={"policy": "stop", "limit_seconds": 10.0})
    crowd.start_as("m1", with_another_model)
    crowd.start("m0", "m2")
    codes = crowd.wait(120)
    assert set(codes.values()) != {0} and 0 not in codes.values()
    for name in ("m0", "m2"):  # found before the evaluation, where the digests go round
        assert "MemberCaught: m1 has signed another model after the last" in crowd.output(name)
    for name in crowd.names:
        assert not (crowd.folder(name) / "state" / "evaluation.json").exists()
        assert (crowd.folder(name) / "state" / "statement.json").exists()  # the model is there


@pytest.mark.slow
def test_a_member_that_stays_away_is_waited_for(tmp_path: Path) -> None:
    crowd = evaluated(tmp_path, absence={"policy": "stop", "limit_seconds": 8.0})
    crowd.start_as("m1", dies, "begin")
    crowd.start("m0", "m2")
    codes = crowd.wait(120)
    assert codes["m0"] != 0 and codes["m2"] != 0
    assert "m1 stayed away" in crowd.output("m0")
    crowd.start()
    crowd.finish()
    require_whole(crowd)


@pytest.mark.slow
def test_a_lost_state_of_the_evaluation_is_not_begun_anew(tmp_path: Path) -> None:
    crowd = evaluated(tmp_path, absence={"policy": "stop", "limit_seconds": 8.0})
    crowd.start_as("m1", dies, "release")
    crowd.start("m0", "m2")
    crowd.wait(120)
    place = crowd.folder("m1") / "state" / "evaluation"
    place.rename(tmp_path / "lost")
    crowd.start("m1")
    assert crowd.wait(60, ["m1"])["m1"] != 0
    assert "m1 has begun this contract before, with another state" in crowd.output("m1")
    shutil.rmtree(place)
    (tmp_path / "lost").rename(place)
    crowd.start()
    crowd.finish()
    require_whole(crowd)


@pytest.mark.slow
def test_another_share_in_the_next_contract_adds_up(tmp_path: Path) -> None:
    """The same records and ledgers under a second contract: with the same share each side pays for
    itself again, with another one the two sides add up."""
    first = evaluated(tmp_path / "first")
    first.start()
    first.finish()
    for number, share in enumerate((0.25, 0.4)):
        place = tmp_path / f"next {number}"
        crowd = evaluated(place, {**TERMS, "held_out": share}, title=f"next {number}")
        for name in crowd.names:
            shutil.copy(first.stage.data[name], crowd.stage.data[name])
            shutil.rmtree(place / "ledgers" / name)
            shutil.copytree(ledger(first, name).parent, place / "ledgers" / name)
        crowd.start()
        crowd.finish()
        told = crowd.log("m0")
        with LedgerStore(ledger(crowd, "m0")) as store:
            (held,) = {r["dataset"] for r in store.runs() if r["dataset"].endswith("/held-out")}
            names = store.spent(held).names
        assert ("add up" in told or "adds up" in told) == (share != 0.25)
        assert len(names) == (1 if share == 0.25 else 2)


@pytest.mark.slow
def test_without_who_was_absent_at_the_end(tmp_path: Path) -> None:
    """Four members, of whom one is gone before the training ends: the others evaluate, at the same
    price, and the reservation for four is given back."""
    contract: Contract = small_contract(
        4,
        3,
        graph="complete",
        finish_mixing="exact",
        evaluation=TERMS,
        algorithm={"name": "treegd"},
        privacy=TRUSTING,
        absence={"policy": "continue", "limit_seconds": 6.0},
    )
    crowd = Crowd(tmp_path, contract, ledgers=tmp_path / "ledgers")
    crowd.start("m0", "m1", "m2")
    codes = crowd.wait(150, ["m0", "m1", "m2"])
    assert set(codes.values()) == {0}, [crowd.output(name) for name in crowd.names]
    crowd.names = ["m0", "m1", "m2"]
    assert totals(crowd)[0] == totals(crowd)[1] == totals(crowd)[2]
    assert found(crowd, "m0")["about"]["members"] == ["m0", "m1", "m2"]
    for name in crowd.names:
        assert len(charges(crowd, name)) == 1
        with LedgerStore(ledger(crowd, name)) as store:
            (held,) = {r["dataset"] for r in store.runs() if r["dataset"].endswith("/held-out")}
            assert store.spent(held).curve_with_reserved.epsilon(1e-5) <= 3.0 * (1 + 1e-6)
            assert not any(run["open"] for run in store.runs())


def _leave(crowd: Crowd, who: str) -> list[str]:
    """An amendment without `who`, signed by each of the others in a copy of its own."""
    stay = [name for name in crowd.names if name != who]
    made = amendment_path(crowd.contracts[stay[0]], 1)
    run_main("contract", "amend", "-c", crowd.contracts[stay[0]], "--remove", who)
    for name in stay:
        mine = amendment_path(crowd.contracts[name], 1)
        if mine != made:
            shutil.copy(made, mine)
    for name in stay:
        mine = amendment_path(crowd.contracts[name], 1)
        run_main("contract", "sign", "--contract", mine, "-i", crowd.folder(name) / "identity")
    return stay


def require_nothing_reserved(crowd: Crowd, names: list[str], releases: dict[str, int]) -> None:
    """Each has paid for its releases in the evaluation, and no run is open in its ledger."""
    for name in names:
        assert len(charges(crowd, name)) == releases[name], name
        with LedgerStore(ledger(crowd, name)) as store:
            assert not any(run["open"] for run in store.runs()), name
            (held,) = {r["dataset"] for r in store.runs() if r["dataset"].endswith("/held-out")}
            epsilon = store.spent(held).curve_with_reserved.epsilon(1e-5)
            assert epsilon <= 3.0 * (1 + 1e-6) and (epsilon > 0) == (releases[name] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["masked", "independent"])
def test_a_member_lost_in_the_evaluation_leaves_by_amendment(tmp_path: Path, noise: str) -> None:
    """Nobody has released yet, because all wait for m1: the others evaluate without it, once."""
    privacy = TRUSTING if noise == "masked" else {"epsilon": 5.0, "delta": 1e-5}
    algorithm = {"name": "treegd"} if noise == "masked" else {"name": "ipadmm", "penalty": 0.1}
    short = {"policy": "stop", "limit_seconds": 8.0}
    crowd = evaluated(tmp_path, absence=short, privacy=privacy, algorithm=algorithm)
    crowd.keep_own_signatures()
    crowd.start_as("m1", dies, "begin")
    crowd.start("m0", "m2")
    codes = crowd.wait(120)
    assert codes["m0"] != 0 and codes["m2"] != 0
    stay = _leave(crowd, "m1")
    crowd.start(*stay)
    assert crowd.wait(90, stay) == dict.fromkeys(stay, 0), [crowd.output(n) for n in stay]
    assert found(crowd, "m0")["total"] == found(crowd, "m2")["total"]
    assert found(crowd, "m0")["about"]["members"] == stay
    assert found(crowd, "m0")["records"] == sum(map(crowd.stage.contract.held_out_size, stay))
    require_nothing_reserved(crowd, stay, dict.fromkeys(stay, 1))


@pytest.mark.slow
def test_a_release_in_the_evaluation_is_not_paid_twice(tmp_path: Path) -> None:
    """m0 has released when m1 is lost: the evaluation ends for all, in words, and what is left of
    the reservations is free."""
    crowd = evaluated(tmp_path, absence={"policy": "stop", "limit_seconds": 8.0})
    crowd.keep_own_signatures()
    crowd.start_as("m1", dies_before_its_counts_leave)
    crowd.start("m0", "m2")
    crowd.wait(120)
    before = {name: len(charges(crowd, name)) for name in ("m0", "m2")}
    assert sum(before.values()) > 0
    stay = _leave(crowd, "m1")
    crowd.start(*stay)
    assert crowd.wait(90, stay) == dict.fromkeys(stay, 0), [crowd.output(n) for n in stay]
    require_nothing_reserved(crowd, stay, before)
    for name in stay:
        assert not (crowd.folder(name) / "state" / "evaluation.json").exists()
        status = read_status(crowd.folder(name) / "state")
        assert status.evaluation is not None
        assert status.evaluation.state == "ended without a result"
        assert any("left the run after a member had released" in w for w in status.warnings)
    crowd.start("m0")  # and stays so
    assert crowd.wait(60, ["m0"]) == {"m0": 0}
    require_nothing_reserved(crowd, stay, before)


@pytest.mark.slow
def test_who_leaves_by_amendment_has_paid_for_the_counts_that_it_released(tmp_path: Path) -> None:
    """m3 was killed when its counts were sent, and reads at its next start, still in the training's
    farewell, that it has left: the counts are booked before the rest of the reservation is free."""
    contract = small_contract(
        5,
        2,
        finish_mixing="exact",
        evaluation=TERMS,
        algorithm={"name": "treegd"},
        privacy=TRUSTING,
        absence={"policy": "continue", "limit_seconds": 30.0},
    )
    real = {"rehearsal": False, "no_budget": True}
    crowd = Crowd(
        tmp_path,
        contract,
        ledgers=tmp_path / "ledgers",
        options=dict.fromkeys(contract.names, real),
    )
    crowd.keep_own_signatures()
    try:
        crowd.start("m0", "m2", "m4")
        crowd.start_as("m1", dies_before_leave)
        crowd.start_as("m3", dies_when_its_counts_leave)
        crowd.until("m3", "evaluation begins")  # though m1 has not taken leave of it
        crowd.start("m1")
        crowd.processes["m3"].join(120)
    finally:
        crowd.stop()
    assert len(charges(crowd, "m3")) == 1
    stay = _leave(crowd, "m3")
    shutil.copy(amendment_path(crowd.contracts[stay[0]], 1), crowd.contracts["m3"].parent)
    signatures = amendment_path(crowd.contracts["m3"], 1)
    for name in stay:
        run_main(
            "contract", "sign", "--contract", signatures, "-i", crowd.folder(name) / "identity"
        )
    crowd.start("m3")
    assert crowd.wait(60, ["m3"]) == {"m3": 2}
    assert "has left the run by amendment" in crowd.output("m3")
    require_nothing_reserved(crowd, ["m3"], {"m3": 1})


@pytest.mark.parametrize(
    ("noise", "lie"),
    [
        ("masked", "a shift"),
        pytest.param("masked", "random", marks=pytest.mark.slow),
        pytest.param("independent", "a shift", marks=pytest.mark.slow),
    ],
)
def test_impossible_counts_end_the_evaluation(tmp_path: Path, noise: str, lie: str) -> None:
    """The model stays, nobody reads a result from the counts, and what was released is paid once,
    also after a restart."""
    privacy = TRUSTING if noise == "masked" else {"epsilon": 5.0, "delta": 1e-5}
    algorithm = {"name": "treegd"} if noise == "masked" else {"name": "ipadmm", "penalty": 0.1}
    crowd = evaluated(tmp_path, privacy=privacy, algorithm=algorithm)
    try:
        crowd.start("m0", "m2")
        crowd.start_as("m1", with_false_counts, lie)
        codes = crowd.wait(120)
        assert codes == dict.fromkeys(crowd.names, 0), [crowd.output(n) for n in crowd.names]
        require_nothing_reserved(crowd, crowd.names, dict.fromkeys(crowd.names, 1))
        crowd.start("m0")  # and stays so
        assert crowd.wait(60, ["m0"]) == {"m0": 0}
    finally:
        crowd.stop()
    require_nothing_reserved(crowd, crowd.names, dict.fromkeys(crowd.names, 1))
    for name in crowd.names:
        assert not (crowd.folder(name) / "state" / "evaluation.json").exists()
        status = read_status(crowd.folder(name) / "state")
        assert status.evaluation is not None
        assert status.evaluation.state == "ended without a result"
        assert any("honest members cannot release" in words for words in status.warnings)
        assert (crowd.folder(name) / "state" / "results").is_dir()


@pytest.mark.slow
def test_a_result_that_is_worse_than_a_guess_is_told(tmp_path: Path, tools: ModuleType) -> None:
    """All labels are the same, and the training's noise hides them (seeded): the model is worse
    than always predicting that class, and at the radius, which is small. Status, report and the
    node's last words say both."""
    contract = small_contract(
        3,
        2,
        finish_mixing="exact",
        evaluation={"held_out": 0.4, "epsilon": 100.0},
        algorithm={"name": "treegd"},
        problem={"n_features": 4, "classes": ["no", "yes"], "strength": 0.01, "radius": 5.0},
        privacy={"epsilon": 0.01, "delta": 1e-5, "coalition": 1},
        absence=STOP,
    )
    crowd = Crowd(tmp_path, contract, seed=1)
    for path in crowd.stage.data.values():
        path.write_text(path.read_text("utf-8").replace("yes", "no"), "utf-8")
    crowd.start()
    crowd.finish()
    home, stage = crowd.folder("m0"), crowd.stage  # started again, the command says it again
    places = ("-c", stage.contract_path, "-s", stage.schema, "-d", stage.data["m0"])
    own = ("-i", home / "identity", "--state", home / "state", "--rehearsal")
    done = subprocess.run(
        [sys.executable, "-m", "tacenda", "node", "run", *places, *own],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    wanted = ("worse than the", "problem.radius of 5")
    state = crowd.folder("m0") / "state"
    status = read_status(state)
    for words in wanted:
        assert any(words in sentence for sentence in status.warnings), status.warnings
        assert words in done.stdout + done.stderr
        assert words in tools.tacenda("node", "status", str(state)).stdout
    tools.tacenda("report", str(state), "--out", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert all(words in page for words in wanted)
