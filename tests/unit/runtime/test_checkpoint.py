"""A broken run goes on bit for bit: models, course and ledger,
for every algorithm, also on another placement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from support import TUNED, WHITENED, graph_for, privacy_for, problem, same_statement, simulate
from tacenda.errors import InputError, StateError
from tacenda.runtime import checkpoint as checkpoints
from tacenda.runtime import loop as module
from tacenda.runtime.checkpoint import seed_of

ROUNDS, BREAK = 8, 3


def run(name: str, data: Any = None, algorithm: Any = None, **more: Any) -> Any:
    data = problem(6) if data is None else data
    chosen = {"privacy": privacy_for(name), "seed": 5, "record_every": 1, **more}
    return simulate(data, graph_for(name), algorithm or TUNED[name], ROUNDS, **chosen)


class Killed(Exception):
    """The machine goes down between two rounds."""


def broken(path: Path, name: str, **more: Any) -> None:
    """Run until round BREAK, write the checkpoint that a timer would have written, and die."""

    def die(t: int, models: Any) -> bool:
        if t == BREAK + 1:
            raise Killed
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAVE_SECONDS", -1.0)
        with pytest.raises(Killed):
            run(name, checkpoint=path, callback=die, **more)


def assert_same(a: Any, b: Any) -> None:
    assert np.array_equal(a.models, b.models)
    assert np.array_equal(a.last, b.last)
    assert same_statement(a.privacy, b.privacy)
    assert (a.messages, a.bytes) == (b.messages, b.bytes)
    strip = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in r.history.rows] for r in (a, b)
    ]
    assert strip[0] == strip[1]


@pytest.mark.parametrize("name", TUNED)
def test_resumed_is_as_if_unbroken(tmp_path: Path, name: str) -> None:
    whole = run(name)
    for k, blocks in enumerate((1, [[0, 4], [1, 2, 3], [5]])):
        path = tmp_path / f"{k}.ckpt"
        broken(path, name)
        assert_same(run(name, checkpoint=path, resume=True, blocks=blocks), whole)


@pytest.mark.parametrize("name", WHITENED)
def test_a_whitened_run_is_resumed_with_its_map(tmp_path: Path, name: str) -> None:
    chosen = {"algorithm": WHITENED[name], "privacy": privacy_for(name)}
    whole = run("ipadmm", **chosen)
    broken(tmp_path / "a", "ipadmm", blocks=2, **chosen)
    again = run(
        "ipadmm", checkpoint=tmp_path / "a", resume=True, blocks=[[0, 4], [1, 2, 3], [5]], **chosen
    )
    assert_same(again, whole)


@pytest.mark.parametrize(
    "algorithm",
    [
        tc.algorithms.IPADMM(penalty=0.1, proximal="theory", inner_steps=2, batch_size=3),
        tc.algorithms.CDPADMM(penalty=tc.schedules.geometric(0.1, 1.02)),
        tc.algorithms.DPDDA(batch_size=2),
    ],
    ids=["theory-batch", "schedule", "dda-batch"],
)
def test_resumed_with_samples_and_schedules(tmp_path: Path, algorithm: Any) -> None:
    whole = run("ipadmm", algorithm=algorithm)
    broken(tmp_path / "a", "ipadmm", algorithm=algorithm, blocks=2)
    assert_same(run("ipadmm", algorithm=algorithm, checkpoint=tmp_path / "a", resume=True), whole)


def test_a_start_elsewhere_is_resumed(tmp_path: Path) -> None:
    whole = run("ipadmm", init=[1.0, 2, 3, 4])
    broken(tmp_path / "a", "ipadmm", init=[1.0, 2, 3, 4])
    assert_same(run("ipadmm", init=[1.0, 2, 3, 4], checkpoint=tmp_path / "a", resume=True), whole)


def test_a_finished_run_is_read_back(tmp_path: Path) -> None:
    whole = run("radmm", checkpoint=tmp_path / "a")
    assert_same(run("radmm", checkpoint=tmp_path / "a", resume=True), whole)


def test_a_run_with_its_own_seed_can_be_resumed(tmp_path: Path) -> None:
    broken(tmp_path / "a", "ipadmm", seed=None)
    own = seed_of(tmp_path / "a")  # the result does not tell it, the checkpoint must
    first = run("ipadmm", seed=None, checkpoint=tmp_path / "a", resume=True)
    assert first.settings["seed"] is None
    assert_same(run("ipadmm", seed=own), first)


def test_resume_without_a_file_starts_anew(tmp_path: Path) -> None:
    assert_same(run("ipadmm", checkpoint=tmp_path / "a.ckpt", resume=True), run("ipadmm"))


def test_the_store_keeps_no_trace_of_an_earlier_run() -> None:
    """The local solver's cached factorisations must not make the second run different
    from the first."""
    data = problem(6)
    first = run("admm", data)
    run("admm", data, algorithm=tc.algorithms.ADMM(penalty=3.0))
    assert_same(run("admm", data), first)


OTHER: dict[str, dict[str, Any]] = {
    "seed": {"seed": 6},
    "privacy": {"privacy": tc.Privacy.from_noise(noise_multiplier=2.0)},
    "algorithm": {"algorithm": tc.algorithms.IPADMM(penalty=0.2, proximal=0.3, inner_steps=3)},
    "output": {"output": "last"},
    "mixing": {"mixing": "max-degree"},
    "init": {"init": [1.0, 0, 0, 0]},
    "solver_tolerance": {"solver_tolerance": 1e-6},
    "problem": {"data": problem(6, strength=0.2)},
}


@pytest.mark.parametrize("field", OTHER)
def test_another_run_is_refused_by_name(tmp_path: Path, field: str) -> None:
    broken(tmp_path / "a", "ipadmm")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(StateError, match=rf"its {field} differs"):
        run("ipadmm", checkpoint=tmp_path / "a", resume=True, **OTHER[field])
    assert (tmp_path / "a").read_bytes() == before


@pytest.mark.parametrize("changed", ["missing in the file", "missing in the run", "null"])
def test_a_setting_that_only_one_side_has_is_a_difference(tmp_path: Path, changed: str) -> None:
    """A file of a program with another setting, on either side, is of another run."""
    known, path = {"seed": 1, "rounds": 8}, tmp_path / "a.ckpt"
    extra: dict[str, Any] = {**known, "pace": None if changed == "null" else 3}
    written, asked = (extra, known) if changed == "missing in the run" else (known, extra)
    checkpoints.write(path, checkpoints.Saved({}, {"identity": written}))
    assert checkpoints.read(path, written).about["identity"] == written
    with pytest.raises(StateError, match="its pace differs"):
        checkpoints.read(path, asked)


def test_other_records_are_refused(tmp_path: Path) -> None:
    """Same sizes, same settings, one number changed."""
    from support import shards, uneven

    parts = shards(uneven(6), 4)
    broken(tmp_path / "a", "ipadmm", data=tc.Problem(parts, classes=("no", "yes"), strength=0.1))
    parts[2][0][0, 0] *= 0.5
    with pytest.raises(StateError, match="its data differs"):
        run(
            "ipadmm",
            tc.Problem(parts, classes=("no", "yes"), strength=0.1),
            checkpoint=tmp_path / "a",
            resume=True,
        )


def test_other_rounds_are_refused(tmp_path: Path) -> None:
    broken(tmp_path / "a", "ipadmm")
    with pytest.raises(StateError, match="its rounds differs"):
        tc.simulate(
            problem(6),
            graph_for("ipadmm"),
            TUNED["ipadmm"],
            ROUNDS + 1,
            privacy_for("ipadmm"),
            5,
            checkpoint=tmp_path / "a",
            resume=True,
        )


@pytest.mark.parametrize("damage", ["cut", "flipped header", "empty", "text", "other safetensors"])
def test_a_damaged_file_is_named_and_kept(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ckpt"
    broken(path, "ipadmm")
    content = path.read_bytes()
    if damage == "other safetensors":
        from safetensors.numpy import save

        spoiled = save({"x": np.zeros(3)})
    else:
        spoiled = {
            "cut": content[: len(content) // 2],
            "flipped header": b"\xff" * 9 + content[9:],
            "empty": b"",
            "text": b"hello, this is not a checkpoint",
        }[damage]
    path.write_bytes(spoiled)
    with pytest.raises(StateError, match=r"a\.ckpt"):
        run("ipadmm", checkpoint=path, resume=True)
    assert path.read_bytes() == spoiled


def test_an_old_checkpoint_is_not_overwritten_unasked(tmp_path: Path) -> None:
    broken(tmp_path / "a", "ipadmm")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(InputError, match="resume=True"):
        run("ipadmm", checkpoint=tmp_path / "a")
    with pytest.raises(InputError, match="must be a file"):
        run("ipadmm", checkpoint=tmp_path)
    assert (tmp_path / "a").read_bytes() == before


def test_writing_is_atomic(tmp_path: Path) -> None:
    """A crash while the new file is written leaves the old one whole."""
    path = tmp_path / "a"
    broken(path, "ipadmm")
    before = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            run("ipadmm", checkpoint=path, resume=True)
    assert path.read_bytes() == before
    assert_same(run("ipadmm", checkpoint=path, resume=True), run("ipadmm"))


SCRIPT = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells leave it ignored
import support
import tacenda as tc
from support import TUNED, graph_for, privacy_for, problem

def slowly(t, models):
    print(t, flush=True)
    time.sleep(0.05)
    return False

tc.simulate(
    problem(6), graph_for("ipadmm"), TUNED["ipadmm"], 200, privacy_for("ipadmm"), 5,
    checkpoint={path!r}, callback=slowly, progress=False, blocks={blocks},
)
"""


def _in_the_background(script: str) -> subprocess.Popen[str]:
    beside = Path(support.__file__).parent  # where the script finds `support`
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=beside,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("blocks", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_usable_checkpoint(tmp_path: Path, blocks: int) -> None:
    path = tmp_path / "run.ckpt"
    script = SCRIPT.format(path=str(path), blocks=blocks)
    process = _in_the_background(script)
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "stopped after round" in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.ckpt"]
    seen: list[int] = []
    args = (problem(6), graph_for("ipadmm"), TUNED["ipadmm"], 200, privacy_for("ipadmm"), 5)
    resumed = tc.simulate(
        *args, checkpoint=path, resume=True, callback=lambda t, m: seen.append(t), progress=False
    )
    assert 4 < seen[0] < 200
    assert_same(resumed, tc.simulate(*args))


def test_kill_9_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    script = SCRIPT.format(path=str(path), blocks=1)
    script = script.replace(
        "import tacenda as tc",
        "import tacenda as tc\nimport tacenda.runtime.loop as s\ns.SAVE_SECONDS = 0.1",
        1,
    )
    process = _in_the_background(script)
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    args = (problem(6), graph_for("ipadmm"), TUNED["ipadmm"], 200, privacy_for("ipadmm"), 5)
    assert_same(
        tc.simulate(*args, checkpoint=path, resume=True, progress=False), tc.simulate(*args)
    )


def test_a_damaged_checkpoint_is_found_or_changes_nothing(tmp_path: Path) -> None:
    """Any byte flipped, any cut: the run is refused,
    or it is the very same run with the very same spending."""
    path, whole = tmp_path / "run.ckpt", run("ipadmm")
    broken(path, "ipadmm")
    data = path.read_bytes()
    for at in sorted(
        {*np.linspace(0, len(data) - 1, 40).astype(int).tolist(), 8, data.index(b"count") + 8}
    ):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(StateError):
                run("ipadmm", checkpoint=path, resume=True)
    path.write_bytes(data)
    assert_same(run("ipadmm", checkpoint=path, resume=True), whole)


def test_a_checkpoint_with_fewer_charges_than_its_rounds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    broken(path, "ipadmm")
    saved = checkpoints._read(path)
    saved.about.pop("format")
    for count in (0, 1, saved.about["charges"][0]["count"] - 1):
        saved.about["charges"][0]["count"] = count
        # With a digest that fits, as a faulty program would have left it
        checkpoints.write(path, saved)
        with pytest.raises(StateError, match="charges were lost or changed"):
            run("ipadmm", checkpoint=path, resume=True)
