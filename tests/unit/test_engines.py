"""Engines: real processes, a real Dask cluster, a real Ray."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine_calls
import engine_stage
from tacenda.engines import Call, Engine, Workers, run_calls
from tacenda.engines import calls as engine_loop
from tacenda.engines import pools as engine_pools
from tacenda.errors import EngineError, EngineWarning, InputError

LOKY = Engine("loky")


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("loky", "loky", ""),
        ("dask://head:8786", "dask", "head:8786"),
        ("dask://[::1]:8786", "dask", "[::1]:8786"),
        ("ray://head:10001", "ray", "head:10001"),
        ("ray", "ray", ""),
    ],
)
def test_an_engine_is_read_and_written(text: str, kind: str, address: str) -> None:
    found = Engine.parse(text)
    assert (found.kind, found.address, str(found)) == (kind, address, text)
    assert found.is_local == (kind == "loky")


def test_the_place_of_a_cluster() -> None:
    assert Engine.parse("dask://head:8786").place == ("head", 8786)
    assert Engine.parse("ray://[::1]:10001").place == ("::1", 10001)


@pytest.mark.parametrize("text", ["", "dask", "dask://", "loky://x", "slurm", "http://head:80"])
def test_another_engine_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="engine must be"):
        Engine.parse(text)


@pytest.mark.parametrize(
    "text", ["dask://head", "dask://:8786", "dask://head:", "ray://head:x", "ray://head:70000"]
)
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the host and the port"):
        Engine.parse(text)


def test_one_process_or_one_call_needs_no_engine() -> None:
    assert Workers.of("loky", 1).here(9)
    assert Workers.of("loky", 4).here(1)
    assert not Workers.of("loky", 2).here(2)
    assert not Workers.of("dask://head:8786", 1).here(1)
    with pytest.raises(InputError, match="jobs"):
        Workers.of("loky", 0)


def _all(engine: Engine, calls: list[Call], jobs: int = 2, **more: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    run_calls(engine, calls, jobs, found.__setitem__, **more)
    return found


def _numbered(count: int) -> list[Call]:
    return [Call(f"square {k}", engine_calls.squared, (k,)) for k in range(count)]


@pytest.fixture(scope="module")
def dask() -> Iterator[Engine]:
    pytest.importorskip("distributed")
    with engine_stage.dask() as cluster:
        yield cluster.engine


@pytest.fixture(scope="module")
def ray() -> Iterator[Engine]:
    """One of this process, which `run_calls` starts."""
    library = pytest.importorskip("ray")
    yield Engine("ray")
    library.shutdown()


@pytest.fixture(
    params=[
        "loky",
        pytest.param("dask", marks=pytest.mark.slow),
        pytest.param("ray", marks=pytest.mark.slow),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    return LOKY if request.param == "loky" else request.getfixturevalue(request.param)


def test_workers_do_the_calls_once_each(engine: Engine, tmp_path: Path) -> None:
    calls = [Call(f"call {k}", engine_calls.counted, (str(tmp_path), k)) for k in range(5)]
    assert _all(engine, calls, folder=tmp_path) == {k: k for k in range(5)}
    assert {p.name: len(p.read_text().splitlines()) for p in tmp_path.iterdir()} == {
        f"{k}.txt": 1 for k in range(5)
    }  # nor is anything left of the mark in the folder


def test_a_shared_argument_comes_first(engine: Engine) -> None:
    calls = [Call(f"sum {k}", engine_calls.added, (k,)) for k in range(3)]
    assert _all(engine, calls, shared=10) == {0: 10, 1: 11, 2: 12}


def test_an_error_of_a_call_is_its_own(engine: Engine) -> None:
    with pytest.raises(ValueError, match="a call of its own failed: 3"):
        _all(engine, [Call("wrong", engine_calls.wrong, (3,))])


@pytest.mark.filterwarnings("ignore:engine loky. a worker was lost")
def test_a_lost_worker_is_replaced(engine: Engine, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    calls = [Call(f"call {k}", engine_calls.dies_once, (mark, k)) for k in range(4)]
    assert _all(engine, calls) == {k: k for k in range(4)}
    assert (tmp_path / "mark").exists()


@pytest.mark.filterwarnings("ignore:engine .* (a worker was lost|no worker)")
def test_a_call_that_ends_every_worker_is_named_and_harms_no_other(engine: Engine) -> None:
    found: dict[int, Any] = {}
    calls = [*_numbered(3), Call("the bad one", engine_calls.dies_always, (1,)), *_numbered(2)]
    with pytest.raises(
        EngineError, match=r"lost, at least 4 times: the bad one\. What is finished"
    ):
        run_calls(engine, calls, 2, found.__setitem__)
    assert found == {0: 0, 1: 1, 2: 4, 4: 0, 5: 1}


@pytest.mark.slow
def test_a_worker_is_watched_while_it_works(engine: Engine) -> None:
    beats: list[float] = []
    calls = [Call("slow", engine_calls.slow, (1, 2.5))]
    assert _all(engine, calls, beat=lambda: beats.append(time.monotonic())) == {0: 1}
    assert len(beats) >= 2


def test_what_waits_is_withdrawn_when_it_is_interrupted(engine: Engine, tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    calls = [Call(f"slow {k}", engine_calls.slow, (k, 2.0)) for k in range(2)]
    calls += [Call(f"call {k}", engine_calls.counted, (str(tmp_path), k)) for k in range(8)]
    with pytest.raises(KeyboardInterrupt):
        run_calls(engine, calls, 2, {}.__setitem__, folder=tmp_path, beat=interrupted)
    time.sleep(3.0)
    assert list(tmp_path.iterdir()) == []
    assert _all(engine, _numbered(2)) == {0: 0, 1: 1}


def test_threads_are_shared_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_pools.os, "cpu_count", lambda: 4)
    [found] = set(
        _all(engine, [Call("a", engine_calls.threads), Call("b", engine_calls.threads)]).values()
    )
    assert found in ((1, 2) if engine.is_local else (1,))  # two only where there are so many cores


@pytest.mark.slow
def test_workers_that_are_always_lost_end_the_rest(tmp_path: Path) -> None:
    calls = [Call(f"bad {k}", engine_calls.dies_always, (k,)) for k in range(20)]
    with (
        pytest.warns(EngineWarning, match=r"a worker was lost with bad \d, which is made again"),
        pytest.raises(EngineError, match=r"bad \d+, bad \d+, bad \d+; 17 others not done"),
    ):
        _all(LOKY, calls)


def test_a_cluster_where_nobody_listens() -> None:
    port = engine_stage.free_port()
    with pytest.raises(EngineError, match="no answer from there .*start one with `dask scheduler`"):
        _all(Engine("dask", f"127.0.0.1:{port}"), _numbered(1))


def test_the_mark_is_looked_for_in_the_folder(tmp_path: Path) -> None:
    here = engine_loop.Place(engine_loop.versions(), str(tmp_path / "absent"), 1)
    what, host = engine_loop.called(tuple(here), None, (engine_calls.squared, (2,)))
    assert what == engine_loop.ELSEWHERE and host


@pytest.mark.slow
def test_a_worker_that_sees_another_folder_is_refused(
    dask: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_loop.Path, "write_text", lambda *_: None)  # so that it is not there
    with pytest.raises(EngineError, match=f"does not see the folder of this process, {tmp_path};"):
        _all(dask, _numbered(1), folder=tmp_path)


@pytest.mark.slow
def test_workers_of_another_version_are_refused_with_both(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    shutil.copytree(engine_stage.ROOT / "src", tmp_path / "src")
    file = tmp_path / "src" / "tacenda" / "words.py"
    file.write_text(file.read_text() + "# another version\n")
    path = f"{tmp_path / 'src'}:{engine_stage.ROOT}"
    with engine_stage.dask(1, path=path) as cluster:
        with pytest.raises(
            EngineError,
            match=r"runs another program \(the program's files \w{12} there, \w{12} here\)",
        ):
            _all(cluster.engine, _numbered(1))


@pytest.mark.slow
def test_a_cluster_without_this_program_says_so(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "tacenda").mkdir()
    (tmp_path / "tacenda" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    with engine_stage.dask(1, path=str(tmp_path)) as cluster:
        with pytest.raises(EngineError, match=r"cannot load this program \(.*same version"):
            _all(cluster.engine, _numbered(1))


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engine_loop, "LOOK_SECONDS", 1.0)
    cluster = engine_stage.Dask(workers=0).wait(0)
    try:
        told: list[int] = []

        def hired() -> None:
            if told:
                return
            told.append(1)
            cluster.hire(1)

        with pytest.warns(
            EngineWarning, match="has no worker at the moment: start some with `dask"
        ):
            assert _all(cluster.engine, _numbered(2), beat=hired) == {0: 0, 1: 1}
        for worker in cluster.workers:
            worker.terminate()
            worker.wait(30)
        monkeypatch.setattr(engine_loop, "IDLE_SECONDS", 3.0)
        with (
            pytest.warns(EngineWarning, match="has no worker at the moment"),
            pytest.raises(EngineError, match="had no worker for 3 s; 2 runs not done"),
        ):
            _all(cluster.engine, _numbered(2))
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    pytest.importorskip("distributed")
    monkeypatch.setattr(engine_pools, "CONNECT_SECONDS", 1)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(EngineError, match=r"no answer from there \(timed out\)"):
            _all(Engine("dask", f"127.0.0.1:{mute.getsockname()[1]}"), _numbered(1))


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_runs() -> None:
    pytest.importorskip("distributed")
    with engine_stage.dask() as cluster:
        seen: dict[int, Any] = {}

        def take(k: int, found: Any) -> None:
            seen[k] = found
            cluster.scheduler.send_signal(signal.SIGKILL)

        began = time.monotonic()
        calls = [Call(f"{k}", engine_calls.slow, (k, 0.5 if k < 2 else 60)) for k in range(6)]
        with pytest.raises(EngineError, match=r"is gone \(\w+\); [45] runs not done"):
            run_calls(cluster.engine, calls, 1, take)
        assert seen
        assert time.monotonic() - began < 120
