"""Commands and scikit-learn's searches on real clusters of Dask and Ray: the same results, a lost
worker, a lost scheduler, Ctrl-C, and nothing made twice."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import engine_stage
import tacenda as tc
from cli_tools import answer, tacenda
from tacenda.estimators import PrivateLogisticRegression

pytestmark = pytest.mark.slow
SEEDS = 4
CONFIG = """
[data]
name = "digits"
[network]
nodes = 10
graph = "ring"
[privacy]
epsilon = 8.0
[run]
rounds = {rounds}
seeds = [0, 1, 2, 3]
references = false
[[compare]]
name = "dpdda"
"""


@pytest.fixture(scope="module")
def dask() -> Iterator[engine_stage.Dask]:
    pytest.importorskip("distributed")
    with engine_stage.dask() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison of the tests below, in this process."""
    folder = tmp_path_factory.mktemp("here")
    answer("compare", _config(folder, 300), "--folder", folder / "run", "--no-report", "--quiet")
    return folder / "run"


def _config(folder: Path, rounds: int) -> Path:
    path = folder / "run.toml"
    path.write_text(CONFIG.format(rounds=rounds))
    return path


def _models(folder: Path) -> dict[str, np.ndarray]:
    return {p.stem: tc.load(p).models for p in sorted(folder.glob("results/*.safetensors"))}


def _same(one: Path, other: Path) -> None:
    a, b = _models(one), _models(other)
    assert len(a) == SEEDS and a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)


def _written(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("results/*.safetensors")}


class _Command:
    """`tacenda compare` as a process of its own, as a user starts it."""

    def __init__(self, *arguments: Any, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tacenda", "compare", *map(str, arguments), "--no-report"],
            env={**os.environ, "PYTHONPATH": engine_stage.PATH, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def when(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not happened():
            assert self.process.poll() is None and time.monotonic() < deadline, self.ended()
            time.sleep(0.05)

    def ended(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=150)
        return self.process.returncode, said


def test_compare_on_dask_is_compare_here_and_a_second_time_makes_nothing(
    dask: engine_stage.Dask, here: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    given = ["--engine", str(dask.engine), "--folder", folder, "--no-report"]
    table = answer("compare", _config(tmp_path, 300), *given)["table"]
    assert len(table) == 1 and table[0]["rounds"] == 300
    _same(folder, here)
    assert not list(folder.glob(".*"))
    before = _written(folder)
    again = answer("compare", _config(tmp_path, 300), *given, "--resume")["table"]
    assert {**again[0], "seconds": 0} == {**table[0], "seconds": 0}
    assert _written(folder) == before


def test_a_killed_worker_costs_nothing_but_time(here: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with engine_stage.dask(1, nanny=False) as cluster:
        cluster.hire(1, nanny=False)
        cluster.wait(2)
        folder = tmp_path / "run"
        command = _Command(_config(tmp_path, 300), "--engine", cluster.engine, "--folder", folder)
        command.when(lambda: bool(_written(folder)))
        cluster.workers[0].send_signal(signal.SIGKILL)
        code, said = command.ended()
        assert code == 0, said
        _same(folder, here)


def test_a_killed_scheduler_ends_with_a_sentence_and_resume_makes_the_rest(
    here: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    folder = tmp_path / "run"
    with engine_stage.dask(1) as cluster:
        command = _Command(_config(tmp_path, 300), "--engine", cluster.engine, "--folder", folder)
        command.when(lambda: bool(_written(folder)))
        cluster.scheduler.send_signal(signal.SIGKILL)
        code, said = command.ended()
    assert code == 5, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith(f"tacenda: engine {cluster.engine} is gone")
    assert f"Continue with: tacenda compare --resume --folder {folder}" in last
    assert not list(folder.glob(".*"))
    before = _written(folder)
    assert 1 <= len(before) < SEEDS
    given = ["--folder", folder, "--resume", "--engine", "loky", "--jobs", "2", "--no-report"]
    answer("compare", _config(tmp_path, 300), *given)
    _same(folder, here)
    after = _written(folder)
    assert {name: after[name] for name in before} == before


def test_ctrl_c_withdraws_what_waits_and_keeps_the_rest(
    dask: engine_stage.Dask, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    command = _Command(_config(tmp_path, 4000), "--engine", dask.engine, "--folder", folder)
    command.when(lambda: bool(list(folder.glob("checkpoints/*"))) or bool(_written(folder)))
    command.process.send_signal(signal.SIGINT)
    code, said = command.ended()
    assert code == 130, said
    assert "Traceback" not in said
    assert f"Continue with: tacenda compare --resume --folder {folder}" in said
    given = ["--folder", folder, "--resume", "--engine", str(dask.engine), "--no-report"]
    answer("compare", _config(tmp_path, 4000), *given)
    assert len(_models(folder)) == SEEDS


def test_experiments_audits_and_plans_on_dask(dask: engine_stage.Dask, tmp_path: Path) -> None:
    engine = ["--engine", str(dask.engine)]

    def rows(out: Path, *more: str) -> list[dict[str, str]]:
        [told] = answer("experiment", "run", "cdp-lasso", "--seeds", "1", "--out", out, *more)
        with Path(told["rows"]).open(newline="") as lines:
            return [{**row, "seconds": ""} for row in csv.DictReader(lines)]

    assert rows(tmp_path / "there", *engine) == rows(tmp_path / "here")
    written = {p: p.stat().st_mtime_ns for p in (tmp_path / "there" / "cells").iterdir()}
    rows(tmp_path / "there", *engine)
    assert written == {p: p.stat().st_mtime_ns for p in (tmp_path / "there" / "cells").iterdir()}

    def audited(*more: str) -> dict[str, Any]:
        return answer("audit", "dpdda", "--trials", "2000", "--rounds", "5", "--seed", "3", *more)

    there, alone = audited(*engine), audited()
    assert alone["epsilon_bound"]["right_of"] > 0
    assert {**there, "seconds": 0} == {**alone, "seconds": 0}

    def predicted(*more: str) -> dict[str, Any]:
        return answer("plan", "--nodes", "20", "--features", "5", "--trials", "4", *more)[
            "prediction"
        ]

    planned = predicted()
    assert predicted(*engine) == planned
    assert predicted("--jobs", "2") == planned


def test_an_engine_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    where = f"dask://127.0.0.1:{engine_stage.free_port()}"
    given = ["--folder", tmp_path / "run", "--engine", where]
    result = tacenda("compare", _config(tmp_path, 10), *given)
    assert result.exit_code == 5
    assert "no answer from there" in result.stderr
    assert not (tmp_path / "run").exists()


def test_ray_as_a_client_with_a_token_and_when_its_head_dies(
    here: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("ray")
    token = "0123456789abcdef" * 2
    env = engine_stage.ray_environment(token)
    short = Path(os.environ.get("TMPDIR", "/tmp")) / f"ray-{os.getpid()}"  # paths of its sockets
    with engine_stage.ray_head(short, token) as (engine, group):
        given = [_config(tmp_path, 300), "--engine", engine, "--folder"]
        code, said = _Command(*given, tmp_path / "run", **env).ended()
        assert code == 0, said
        _same(tmp_path / "run", here)
        command = _Command(*given, tmp_path / "lost", "--set", "run.rounds=20000", **env)
        command.when(lambda: bool(list((tmp_path / "lost").glob("checkpoints/*"))))
        os.killpg(group, signal.SIGKILL)
        code, said = command.ended()
        assert code == 5, said
        assert f"tacenda: engine {engine} is gone" in said.splitlines()[-1]
        assert list((tmp_path / "lost").glob("checkpoints/*"))


def _search(**more: Any) -> tuple[GridSearchCV, np.ndarray]:
    """A grid and a cross-validation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 4))
    y = (X[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(
        epsilon=2.0, delta=1e-5, n_nodes=4, data_norm=2.0, bounds=(-1, 1), random_state=0
    )
    grid = GridSearchCV(model, {"strength": [1e-4, 1e-2]}, cv=2, **more).fit(X, y)
    return grid, cross_val_score(model, X, y, cv=2, **more)


@pytest.mark.filterwarnings("ignore::tacenda.estimators.warnings.BudgetWarning")
@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_searches_of_scikit_learn_through_joblib(
    backend: str, request: pytest.FixtureRequest
) -> None:
    alone, scores = _search()
    if backend == "dask":
        from distributed import Client

        cluster = request.getfixturevalue("dask")
        client = Client(cluster.engine.address)
        request.addfinalizer(client.close)
    elif backend == "ray":
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = pytest.importorskip("ray")
        from ray.util.joblib import register_ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        request.addfinalizer(ray.shutdown)
        register_ray()
    with joblib.parallel_config(backend=backend, n_jobs=2):
        there, found = _search()
    assert np.array_equal(found, scores)
    for name in ("mean_test_score", "std_test_score"):
        assert np.array_equal(there.cv_results_[name], alone.cv_results_[name])
    assert np.array_equal(there.best_estimator_.coef_, alone.best_estimator_.coef_)
    assert there.best_estimator_.privacy_.epsilon == alone.best_estimator_.privacy_.epsilon


@pytest.mark.filterwarnings("ignore::tacenda.estimators.warnings.BudgetWarning")
def test_the_search_of_the_page_runs_on_dask(dask: engine_stage.Dask, tmp_path: Path) -> None:
    page = (engine_stage.ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    [text] = [t for t in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M) if "Client" in t]
    script = tmp_path / "search.py"
    script.write_text(text.replace("127.0.0.1:8786", dask.engine.address), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    grid, scores = _search()
    assert done.stdout == f"{grid.best_params_} {scores}\n"
