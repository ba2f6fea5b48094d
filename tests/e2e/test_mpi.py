"""Simulations over MPI ranks, each a real process under mpiexec: the bits of one process, records,
ledger and checkpoints of all, and a clear end for every rank whatever goes wrong on one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mpi_stage import KINDS, write_files
from tacenda.runs.references import CEILING, SERVER

pytest.importorskip("mpi4py")
TESTS = Path(__file__).parents[1]
STAGE, SOURCE = str(TESTS / "helpers" / "mpi_stage.py"), TESTS.parent / "src"
FIT = ["fit", "--data", "breast_cancer", "--nodes", "6", "-a", "dpdda", "--epsilon", "4"]
FIT += ["--seed", "0", "--no-references", "--no-report", "--rounds", "1500"]
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich")


def environment(**more: str) -> dict[str, str]:
    """A single thread for each process."""
    one = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    path = os.pathsep.join(
        [str(TESTS / "helpers"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    )
    return {**os.environ, **one, "PYTHONPATH": path, **more}


def ranks(count: int, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A program on so many ranks, with more variables."""
    return subprocess.run(
        [str(MPIEXEC), "-n", str(count), sys.executable, *arguments],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def stage(count: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ranks(count, STAGE, *arguments)


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
def test_ranks_of_two_versions_do_not_start(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src")
    file = tmp_path / "src" / "tacenda" / "words.py"
    file.write_text(file.read_text(encoding="utf-8") + "# another version\n", encoding="utf-8")
    folder = tmp_path / "run"
    fit = [sys.executable, "-m", "tacenda", *FIT, "--folder", str(folder)]
    there = [":", "-n", "1", "env", f"PYTHONPATH={tmp_path / 'src'}", *fit]
    ended = subprocess.run(
        [str(MPIEXEC), "-n", "1", "env", f"PYTHONPATH={SOURCE}", *fit, *there],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 4 and ended.stderr.count("tacenda:") == 1, ended.stderr
    assert re.search(
        r"differ in the program's files: '\w+' on rank 0, '\w+' on rank 1; install the same",
        ended.stderr,
    )
    assert not folder.exists()


class Begun:
    """`tacenda fit` on two ranks, at work and with a checkpoint; a ledger is charged for it."""

    def __init__(self, folder: Path, ledger: Path) -> None:
        self.folder, self.ledger = folder, ledger
        self.process = subprocess.Popen(
            [str(MPIEXEC), "-n", "2", sys.executable, *self.command(folder, ledger)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        until = time.monotonic() + 120
        while not list(folder.glob("checkpoints/*.ckpt")):
            assert self.process.poll() is None and time.monotonic() < until, self.said()
            time.sleep(0.02)

    @staticmethod
    def command(folder: Path, ledger: Path) -> list[str]:
        charged = ["--set", f"run.ledger={ledger}"]
        return [STAGE, "command", *FIT, *charged, "--folder", str(folder)]

    def rank(self, which: int) -> int:
        """The number of its process."""
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                variables = (place / "environ").read_bytes().split(b"\0")
            except OSError:  # has ended, or belongs to others
                continue
            if str(self.folder).encode() in words and f"PMI_RANK={which}".encode() in variables:
                return int(place.name)
        raise AssertionError(f"rank {which} is not at work: {self.said()}")

    def said(self) -> str:
        return self.process.communicate(timeout=120)[0]

    def check_rest(self, count: int, tmp_path: Path) -> None:
        """The rest of the run, on so many ranks: what an undisturbed one finds, charged once."""
        from tacenda.privacy.lasting.ledger_store import LedgerStore
        from tacenda.runtime.result import load

        [begun] = self.folder.glob("checkpoints/*.ckpt")
        assert begun.stat().st_size > 0
        resumed = ["fit", "--resume", "--no-report", "--folder", str(self.folder)]
        rest = ranks(count, STAGE, "command", *resumed)
        assert rest.returncode == 0, rest.stderr
        whole = ranks(1, *self.command(tmp_path / "whole", tmp_path / "another.db"))
        assert whole.returncode == 0, whole.stderr
        [one], [other] = (p.glob("results/*") for p in (self.folder, tmp_path / "whole"))
        assert load(one).models.tobytes() == load(other).models.tobytes()
        store = LedgerStore(self.ledger)
        assert [row["open"] for row in store.runs()] == [False]
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "count"), [(0, 3), (1, 1)])
def test_a_fit_that_lost_a_rank_goes_on(lost: int, count: int, tmp_path: Path) -> None:
    fit = Begun(tmp_path / "run", tmp_path / "ledger.db")
    os.kill(fit.rank(lost), signal.SIGKILL)
    said = fit.said()
    assert fit.process.returncode != 0 and "signal" in said.lower(), said
    fit.check_rest(count, tmp_path)


@pytest.mark.slow
def test_ctrl_c_at_the_starter_stops_a_fit_after_a_round(tmp_path: Path) -> None:
    fit = Begun(tmp_path / "run", tmp_path / "ledger.db")
    fit.process.send_signal(signal.SIGINT)
    said = fit.said()
    assert fit.process.returncode != 0, said
    assert f"Continue with: tacenda fit --resume --folder {fit.folder}" in said
    fit.check_rest(1, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_of_rank_0_ends_a_fit_with_a_sentence(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], check=True)
    try:
        fit = Begun(small / "run", tmp_path / "ledger.db")
        with (small / "filler").open("wb", buffering=0) as filler:
            with contextlib.suppress(OSError):  # until it is full
                while True:
                    filler.write(bytes(4096))
        said = fit.said()
        assert fit.process.returncode == 4, said
        assert said.count("tacenda:") == 1 and f"{fit.folder}/checkpoints" in said, said
        assert "the disk is full" in said
        (small / "filler").unlink()
        fit.check_rest(2, tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.slow
def test_notes_are_told_once(tmp_path: Path) -> None:
    fit = [*FIT[:-1], "5", "--folder", str(tmp_path / "run")]
    done = ranks(2, "-m", "tacenda", *fit, NUMBA_CACHE_DIR=str(tmp_path / "compiled"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Compiling the inner loops") == 1


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
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["--nodes", "1"], "2 ranks are more than the graph's 1 nodes"),
        (["--engine", "dask://127.0.0.1:8786"], "run.engine must be left out under mpiexec"),
    ],
)
def test_wrong_settings_are_told_once_and_end_every_rank(
    settings: list[str], words: str, tmp_path: Path
) -> None:
    ended = ranks(2, "-m", "tacenda", *FIT, *settings, "--folder", str(tmp_path / "run"))
    assert ended.returncode == 2 and ended.stderr.count("tacenda:") == 1, ended.stderr
    assert words in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_what_is_wrong_before_the_ranks_meet_is_told_once(command: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "run.toml")
    ended = ranks(2, "-m", "tacenda", command, missing, "--json")
    assert ended.returncode == 2, ended.stderr
    assert json.loads(ended.stderr)["error"]["exit_code"] == 2  # one document, not two


@pytest.mark.slow
def test_a_rank_that_fails_before_they_meet_is_named_and_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    alone, missing = ["-n", "1", sys.executable, "-m", "tacenda"], str(tmp_path / "run.toml")
    good = [*FIT, "--folder", str(tmp_path / "run")]
    mixed = subprocess.run(
        [str(MPIEXEC), *alone, *good, ":", *alone, "fit", missing],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert mixed.returncode == 2 and "tacenda: rank 1 of 2: there is no conf" in mixed.stderr


PAGE = (TESTS.parent / "docs" / "cluster.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.S | re.M)


@pytest.mark.slow
def test_the_script_of_the_page_runs_on_ranks_and_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    whole, lazily = blocks("python")[:2]
    again = re.sub(r"^shards = .*\n", lazily, whole, flags=re.M)  # with the other records
    assert "lazy=True" in again
    script.write_text(whole + again, encoding="utf-8")
    alone, many = ranks(1, str(script)), ranks(3, str(script))
    assert alone.returncode == many.returncode == 0, alone.stderr + many.stderr
    no_clock = [re.sub(r"'seconds': [^,}]+", "", done.stdout) for done in (alone, many)]
    assert no_clock[0] == no_clock[1] != ""


def test_the_batch_script_of_the_page_is_one() -> None:
    [text] = blocks("bash")
    done = subprocess.run(["bash", "-n"], input=text, text=True, check=False)
    assert done.returncode == 0
    checker = shutil.which("shellcheck")
    if checker is not None:
        checked = subprocess.run([checker, "-e", "SC1091", "-"], input=text, text=True, check=False)
        assert checked.returncode == 0
