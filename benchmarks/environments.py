"""Environments for programs that we compare with, one for each, made when they are first needed:
their requirements and ours do not fit together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".bench"


class Unavailable(Exception):
    """An environment cannot be made here; the message says why."""


@dataclass(frozen=True)
class Environment:
    """Packages with their versions, and the versions of Python on which they install, the
    preferred one first."""

    name: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]

    def python(self, folder: Path = FOLDER) -> Path:
        """The interpreter of the environment, which is made if it is missing or another one."""
        home = folder / self.name
        made, wanted = home / "made-of.txt", "\n".join(self.packages)
        python = home / "bin" / "python"
        if made.exists() and made.read_text() == wanted and python.exists():
            return python
        shutil.rmtree(home, ignore_errors=True)
        base = interpreter(self.pythons)
        if base is None:
            raise Unavailable(
                f"{self.name} needs Python {' or '.join(self.pythons)}, and none was found here; "
                "install one, so that python3.X is on the PATH."
            )
        print(f"making {home} with {', '.join(self.packages)}", file=sys.stderr, flush=True)
        self._make(base, home, python)
        made.write_text(wanted)
        return python

    def _make(self, base: str, home: Path, python: Path) -> None:
        own = Path(sys.executable).parent
        uv = shutil.which("uv", path=str(own)) or shutil.which("uv")
        install = [str(python), "-m", "pip", "install", "--quiet"]
        if uv:
            install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        for words in ([base, "-m", "venv", str(home)], [*install, *self.packages]):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable(f"{' '.join(words[-3:])} failed: {done.stderr.strip()[-600:]}")


DECENT_BENCH = Environment("decent-bench", ("decent-bench==0.3.0",), ("3.13", "3.14"))
FLOWER = Environment("flower", ("flwr[simulation]==1.41.0",), ("3.11", "3.12", "3.13"))
# A newer scikit-learn and this diffprivlib do not import together
DIFFPRIVLIB = Environment(
    "diffprivlib", ("diffprivlib==0.6.6", "scikit-learn<1.5"), ("3.11", "3.12")
)
OPENDP = Environment("opendp", ("opendp[numpy]==0.16.0",), ("3.11", "3.12", "3.13"))
SMARTNOISE = Environment("smartnoise", ("smartnoise-sql==1.0.10",), ("3.11", "3.12"))


def interpreter(versions: tuple[str, ...]) -> str | None:
    """A Python of one of these versions on this machine, the first named first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in versions:
        candidates = [sys.executable, shutil.which(f"python{version}") or ""]
        candidates += sorted(str(p) for p in pyenv.glob(f"{version}.*/bin/python{version}"))
        for python in filter(None, candidates):
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if told.returncode == 0 and told.stdout.strip() == version:
                return python
    return None
