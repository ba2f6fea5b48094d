"""Build wheel and source archive, look into both, and use the wheel in clean environments: `make
release-check`. Needs the extra `release`; with --wheel FILE nothing but the standard library.

Every Python from 3.11 to 3.14 that is found on this machine is tried; one that is not there is
named at the end. More are given by --python PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NEEDED = (
    "tacenda/py.typed",
    "tacenda_node/py.typed",
    "tacenda_papers/py.typed",
    "tacenda_node/templates/tacenda-node.service",
    "tacenda_node/evidence/template/evidence.html.j2",
    "tacenda/report/template/report.html.j2",
    "tacenda_papers/experiments/template/page.html.j2",
    "tacenda/data/schemas/adult.toml",
    "tacenda/examples/adult.toml",
)
UNWANTED = ("__pycache__", ".pyc", ".nbi", ".nbc", ".part", ".mypy_cache", ".hypothesis", ".venv")
FIT = (
    *("fit", "--data", "breast_cancer", "--nodes", "5", "--epsilon", "5", "--quiet"),
    *("--folder", "run", "--json"),
)
CONSUMER = '''"""A user's typed code."""

import numpy as np

import tacenda as tc
from tacenda.estimators import PrivateLogisticRegression

graph = tc.graph.random_regular(20, 4, seed=0)
data = tc.data.make_classification(200, 5, seed=0)
shards = tc.data.partition.even(data.X, data.y, 20, seed=0)
problem = tc.Problem(shards, loss="logistic", classes=(0, 1))
result = tc.simulate(
    problem, graph, tc.algorithms.DPDDA(), rounds=3, privacy=tc.Privacy(1.0, 1e-5), seed=0
)
seconds: float = result.seconds
model = PrivateLogisticRegression(epsilon=2.0, n_nodes=2).fit(data.X, data.y)
shape: tuple[int, ...] = np.asarray(model.predict(data.X)).shape
'''
WRONG = "\nsecondss: str = result.seconds\n"


def main(arguments: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--wheel", type=Path, help="try this one instead of building")
    asked.add_argument("--python", action="append", default=[], help="one more Python to try")
    asked.add_argument("--only", action="append", choices=VERSIONS, help="only these versions")
    asked.add_argument("--types", action="store_true", help="also check a typed script with mypy")
    asked.add_argument("--tutorial", action="store_true", help="also do all of docs/tutorial.md")
    given = asked.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheel = given.wheel.resolve() if given.wheel is not None else built(place / "dist")
        check_wheel(wheel)
        pythons = {v: p for v, p in found(given.python).items() if v in (given.only or VERSIONS)}
        for version, python in pythons.items():
            first = version == min(pythons, key=VERSIONS.index)
            said = tried(wheel, python, place / version, given.types and first)
            if given.tutorial and first:
                said += f", {taught(place / version)}"
            print(f"Python {version}: {said}", flush=True)
        missing = [v for v in given.only or VERSIONS if v not in pythons]
        print(f"Not tried, because not on this machine: {', '.join(missing) or 'none'}.")
    if not pythons:
        raise SystemExit("No Python from 3.11 to 3.14 was found; give one with --python.")


def built(folder: Path) -> Path:
    """The wheel, made from the source archive as an index would make it; both are checked."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", archive, wheel)
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    check_names(names, archive)
    for needed in (
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "src/tacenda/py.typed",
        "src/tacenda_node/py.typed",
    ):
        assert any(name.endswith(f"/{needed}") for name in names), f"{archive} lacks {needed}"
    print(f"{archive.name}: {len(names)} files, {archive.stat().st_size / 1e6:.2f} MB")
    return wheel


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    check_names(names, wheel)
    for needed in NEEDED:
        assert needed in names, f"{wheel} lacks {needed}"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names), "no licence"
    assert any(".dist-info/sboms/" in name for name in names), "no bill of materials"
    outside = [
        n
        for n in names
        if not n.startswith(("tacenda/", "tacenda_node/", "tacenda_papers/", "tacenda-"))
    ]
    assert not outside, f"{wheel} would install beside the package: {outside[:3]}"
    assert not [n for n in names if n.startswith("tacenda/tests")]
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.2f} MB")


def check_names(names: Sequence[str], archive: Path) -> None:
    for name in names:
        assert not any(word in name for word in UNWANTED), f"{archive} holds {name}"


def found(more: Sequence[str]) -> dict[str, Path]:
    """{version: interpreter} of this machine; one that only pretends to be there is left out."""
    result: dict[str, Path] = {}
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [*more]
    for version in VERSIONS:
        candidates += [shutil.which(f"python{version}") or ""]
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates += sorted(str(p) for p in pyenv.glob(f"{version}.*/bin/python{version}"))
    for python in candidates:
        version = version_of(python) if python else None
        if version in VERSIONS:
            result.setdefault(str(version), Path(python))
    if own in VERSIONS:
        result.setdefault(own, Path(sys.executable))
    return {v: result[v] for v in VERSIONS if v in result}


def version_of(python: str) -> str | None:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def tried(wheel: Path, python: Path, folder: Path, types: bool) -> str:
    """What was seen of the wheel in a fresh environment of this Python."""
    began = time.perf_counter()
    run(python, "-m", "venv", folder)
    binary = folder / ("Scripts" if os.name == "nt" else "bin")
    fresh, tacenda = binary / "python", binary / "tacenda"
    wanted = f"tacenda @ {wheel.as_uri()}"
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        run(uv, "pip", "install", "--quiet", "--python", fresh, wanted)
    else:
        run(fresh, "-m", "pip", "install", "--quiet", wanted)
    installed = time.perf_counter() - began
    said = run(tacenda, "--version", cwd=folder).split()[1]
    assert f"-{said}-" in wheel.name, f"{wheel.name} says that it is {said}"
    assert "adult" in run(tacenda, "examples", cwd=folder)
    run(tacenda, "examples", "copy", "adult", cwd=folder)
    began = time.perf_counter()
    run(tacenda, *FIT, cwd=folder)
    fitted = time.perf_counter() - began
    for name in ("manifest.json", "report.html"):
        assert (folder / "run" / name).is_file(), f"the run wrote no {name}"
    imported = min(seconds(fresh, "-c", "import tacenda", cwd=folder) for _ in range(3))
    helped = min(seconds(tacenda, "--help", cwd=folder) for _ in range(3))
    words = (
        f"tacenda {said}, installed in {installed:.0f} s, a fit with its report in {fitted:.0f} s, "
        f"import {imported:.2f} s, --help {helped:.2f} s"
    )
    return f"{words}, {typed(fresh, folder, uv)}" if types else words


def taught(folder: Path) -> str:
    """The tutorial to its last command, with nothing installed but the wheel."""
    began = time.perf_counter()
    binary = folder / ("Scripts" if os.name == "nt" else "bin")
    place = folder / "tutorial"
    place.mkdir()
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    script: list[str] = []  # one session: later blocks use names of earlier ones
    commands = 0
    for kind, block in re.findall(r"```(console|python)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            script.append(block)
            continue
        if script:
            (place / "session.py").write_text("\n".join(script), "utf-8")
            run(binary / "python", "session.py", cwd=place)
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            run(binary / words[0], *words[1:], cwd=place)
            commands += 1
    return f"{commands} commands of the tutorial in {time.perf_counter() - began:.0f} s"


def typed(python: Path, folder: Path, uv: str | None) -> str:
    """A user's script is type-checked against the installed package, and a mistake is found."""
    installer = [python, "-m", "pip"] if uv is None else [uv, "pip"]
    where = [] if uv is None else ["--python", python]
    run(*installer, "install", "--quiet", *where, "mypy>=1.10")
    script = folder / "consumer.py"
    script.write_text(CONSUMER, "utf-8")
    run(python, "-m", "mypy", "--strict", script.name, cwd=folder)
    script.write_text(CONSUMER + WRONG, "utf-8")
    wrong = subprocess.run(
        [python, "-m", "mypy", "--strict", script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Incompatible types in assignment" in wrong.stdout, wrong.stdout
    return "types checked by mypy --strict"


def seconds(*command: str | Path, cwd: Path) -> float:
    began = time.perf_counter()
    run(*command, cwd=cwd)
    return time.perf_counter() - began


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """The output of a command that must succeed; nothing of this repository is on its path."""
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=own, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
