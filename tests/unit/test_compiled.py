"""Compiled kernels find a place where neither the program's folder nor a home can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tacenda
from tacenda import _compiled
from tacenda._compiled import VARIABLE, keep_compiled


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "x")  # so that it is put back
    monkeypatch.delenv(VARIABLE)


def test_numbas_own_places_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiled, "_own_places", lambda: [tmp_path / "new" / "folder"])
    keep_compiled(tmp_path / "state")
    assert VARIABLE not in os.environ
    assert not (tmp_path / "state").exists()


def test_a_choice_of_the_operator_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiled, "_own_places", list)
    monkeypatch.setenv(VARIABLE, "/chosen")
    keep_compiled(tmp_path / "state")
    assert os.environ[VARIABLE] == "/chosen"


def test_otherwise_a_closed_folder_of_this_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    monkeypatch.setattr(_compiled, "_own_places", lambda: [in_the_way, in_the_way / "below"])
    keep_compiled(tmp_path / "state")
    place = tmp_path / "state" / "compiled" / tacenda.__version__
    assert os.environ[VARIABLE] == str(place)
    assert place.stat().st_mode & 0o777 == 0o700


def test_numba_looks_where_we_think(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    beside, home = _compiled._own_places()
    assert beside.parent == Path(tacenda.__file__).parent / "privacy" / "noise"
    assert home == tmp_path
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("nobody")))
    assert _compiled._own_places() == [beside]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a read-only mount needs root")
def test_in_a_read_only_system_without_a_home(tmp_path: Path) -> None:
    """As a service is run: sources mounted read-only, no home."""
    sources = Path(tacenda.__file__).parent.parent
    state = tmp_path / "state"
    code = (
        "from pathlib import Path; from tacenda._compiled import keep_compiled; "
        f"keep_compiled(Path({str(state)!r})); import tacenda.privacy.noise.streams"
    )
    script = (
        f"mount --bind {sources} {sources} && mount -o remount,ro,bind {sources} && "
        f'exec {sys.executable} -c "{code}"'
    )
    env = {**os.environ, "HOME": "/proc/nobody", "PYTHONPATH": str(sources)}
    env.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-800:]
    assert (state / "compiled" / tacenda.__version__).is_dir()


LEAN = """
import sys
import numpy as np
from tacenda.graph import kernels
from tacenda.graph.topology import Topology

ring = Topology.if_connected(5, np.array([[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]), "")
hops, queue = np.full(5, -1), np.empty(5, np.int64)
reached = kernels.breadth_first(ring.indptr, ring.indices, 0, hops, queue)
hit = sum(kernels.breadth_first.stats.cache_hits.values())
print(reached, *hops, hit, "numba.np.linalg" in sys.modules, "scipy.sparse" in sys.modules)
sizes = np.ones(5, np.int64)
kernels.add_up(queue, np.array([-1, 0, 1, 4, 0]), sizes)
print(*sizes, sum(kernels.add_up.stats.cache_misses.values()))
"""


def test_a_kernel_that_is_kept_is_loaded_without_the_compilers_tables(tmp_path: Path) -> None:
    """A kernel that is not kept is compiled in the same process all the same."""
    env = {**os.environ, VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", LEAN]
    first, second = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == "5 0 1 2 2 1 0 True False\n5 2 1 1 2 1\n"
    assert second == "5 0 1 2 2 1 1 False False\n5 2 1 1 2 0\n"
    for kept in tmp_path.rglob("*add_up*"):
        kept.unlink()
    third = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert third == "5 0 1 2 2 1 1 False False\n5 2 1 1 2 1\n"
