"""Simulations over MPI ranks, each a real process under mpiexec: the bits of one process, records,
ledger and checkpoints of all, and a clear end for every rank whatever goes wrong on one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpi_stage import KINDS, write_files
from tacenda.runs.references import CEILING, SERVER

pytest.importorskip("mpi4py")
TESTS = Path(__file__).parents[1]
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich")


def ranks(count: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program on so many ranks, of a single thread each."""
    one = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    path = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return subprocess.run(
        [str(MPIEXEC), "-n", str(count), sys.executable, *arguments],
        env={**os.environ, **one, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def stage(count: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ranks(count, str(TESTS / "mpi_stage.py"), *arguments)


def assert_done(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0 and '"done"' in done.stdout, done.stdout + done.stderr


def test_a_run_on_two_ranks_is_that_of_one_process() -> None:
    assert_done(stage(2, "every_algorithm", "cdpadmm", "treegd"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_every_algorithm_on_ranks(count: int) -> None:
    assert_done(stage(count, "every_algorithm"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_algorithm_on_every_kind_of_records(kind: str, count: int) -> None:
    assert_done(stage(count, "kinds_of_records", kind))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_masked_sums_moments_and_statistics(count: int) -> None:
    assert_done(stage(count, "one_round_releases"))


@pytest.mark.slow
def test_large_sparse_nodes_are_cut_as_in_one_process() -> None:
    assert_done(stage(2, "large_nodes"))


def test_ranks_read_their_own_nodes_records(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert_done(stage(2, "runs_of_files", str(tmp_path), "3"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_ranks_read_their_own_part_of_every_source(count: int, tmp_path: Path) -> None:
    write_files(tmp_path)
    assert_done(stage(count, "runs_of_files", str(tmp_path)))


@pytest.mark.slow
def test_what_only_all_ranks_see_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path)
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8")
    (tmp_path / "0.csv").write_text(lines, encoding="utf-8")
    (tmp_path / "1.csv").write_text(lines.replace(",yes,", ",no,", 1), encoding="utf-8")
    assert_done(stage(2, "refusals", str(tmp_path)))


@pytest.mark.slow
def test_whitened_records_of_every_kind_on_ranks() -> None:
    assert_done(stage(2, "whitened"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_each_rank_holds_its_own_records_and_one_ledger_has_all(count: int, tmp_path: Path) -> None:
    assert_done(stage(count, "own_records", str(tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupt", "killed", "full"])
def test_a_stopped_run_goes_on_with_another_number_of_ranks(how: str, tmp_path: Path) -> None:
    file = str(tmp_path / "run.ckpt")
    ended = stage(2, "stopped", file, how)
    if how == "interrupt":
        assert_done(ended)
    else:
        assert ended.returncode != 0
    if how == "full":
        assert file in ended.stderr and "File too large" in ended.stderr, ended.stderr
    assert_done(stage(3, "stopped", file, "resume"))


@pytest.mark.slow
def test_a_rank_that_stands_still_is_waited_for(tmp_path: Path) -> None:
    assert_done(stage(2, "stopped", str(tmp_path / "run.ckpt"), "paused"))


@pytest.mark.slow
def test_an_error_in_a_round_of_one_rank_ends_all_with_its_message(tmp_path: Path) -> None:
    ended = stage(2, "stopped", str(tmp_path / "run.ckpt"), "error")
    assert ended.returncode == 5
    assert "rank 1 of 2 failed in round 3: division by zero" in ended.stderr


@pytest.mark.slow
def test_an_error_in_the_script_of_one_rank_ends_all() -> None:
    ended = stage(2, "error")
    assert ended.returncode == 5
    assert "a fault of this rank alone" in ended.stderr and "rank 1 of 2" in ended.stderr


@pytest.mark.slow
def test_ranks_of_two_versions_do_not_start() -> None:
    ended = stage(2, "versions", "9")
    assert ended.returncode == 1 and ended.stderr.count("errors.StateError:") == 1
    assert "differ in the version of tacenda: '0' on rank 0, '0.9' on rank 1" in ended.stderr


@pytest.mark.slow
def test_fit_and_compare_under_mpiexec(tmp_path: Path) -> None:
    from tacenda.runtime.result import load

    write_files(tmp_path)
    table = ["--data", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "t.toml")]
    table += ["--seed", "1", "--set", "data.test_fraction=0.2", "--references"]
    common = ["--epsilon", "4", "--rounds", "5", "--json"]
    named = ["--data", "breast_cancer", "--nodes", "6"]
    for command, names in (
        ("fit", [*named, "-a", "cdpadmm"]),
        ("compare", [*named, "-A", "cdpadmm,dpdda"]),
        ("fit", [*table, "-a", "treegd"]),
    ):
        found, rows = {}, {}
        for count in (1, 2):
            folder = tmp_path / f"{command}{len(names)}{count}"
            done = ranks(count, "-m", "tacenda", command, *common, *names, "--folder", str(folder))
            assert done.returncode == 0, done.stderr
            assert done.stdout.count('"folder"') == 1  # one of the ranks speaks
            found[count] = {p.name: load(p).models for p in folder.glob("results/*.safetensors")}
            rows[count] = {row["label"]: row for row in json.loads(done.stdout)["table"]}
        assert found[1].keys() == found[2].keys()
        for name, models in found[1].items():
            assert models.tobytes() == found[2][name].tobytes()
        check_tables(rows[1], rows[2])


def check_tables(one: dict[str, Any], two: dict[str, Any]) -> None:
    """The same rows with the same numbers: but for the optimum, which ranks find by other steps,
    and the trusted server, whom ranks do not have."""
    assert one.keys() == two.keys()
    for label, row in one.items():
        for name, value in row.items():
            found = two[label].get(name)
            if label == SERVER:
                assert found is None or name in ("label", "missing")
            elif name in ("worst_objective", "worst_objective_range"):
                assert found == pytest.approx(value, rel=1e-12)
            elif label == CEILING or name == "suboptimality":
                near = isinstance(value, float)
                assert found == (pytest.approx(value, abs=1e-3) if near else value), (label, name)
            elif name != "seconds":
                assert found == value, (label, name)
    if SERVER in two:
        assert "in one process" in two[SERVER]["missing"]


@pytest.mark.slow
def test_wrong_settings_are_told_once_and_end_every_rank() -> None:
    ended = ranks(2, "-m", "tacenda", "fit", "--data", "breast_cancer", "--nodes", "1")
    assert ended.returncode == 2 and ended.stderr.count("tacenda:") == 1, ended.stderr
    assert "2 ranks are more than the graph's 1 nodes" in ended.stderr


PAGE = (TESTS.parent / "docs" / "cluster.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.S | re.M)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_the_script_of_the_page_runs_on_ranks_and_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(block("python"), encoding="utf-8")
    alone, many = ranks(1, str(script)), ranks(3, str(script))
    assert alone.returncode == many.returncode == 0, alone.stderr + many.stderr
    no_clock = [re.sub(r"'seconds': [^,}]+", "", done.stdout) for done in (alone, many)]
    assert no_clock[0] == no_clock[1] != ""


def test_the_batch_script_of_the_page_is_one() -> None:
    done = subprocess.run(["bash", "-n"], input=block("bash"), text=True, check=False)
    assert done.returncode == 0
    checker = shutil.which("shellcheck")
    if checker is not None:
        text = block("bash")
        checked = subprocess.run([checker, "-e", "SC1091", "-"], input=text, text=True, check=False)
        assert checked.returncode == 0
