"""One mutant, one forked process: the tests that cover its file, until the first failure.

The parent has loaded numpy, scipy, numba, pytest and the like, and nothing of tacenda; so a fork
costs milliseconds, and what it imports of tacenda is the mutant. Each place works in its own copy
of the repository, so that subprocesses meet it too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COPIED = ("src", "tests")
LINKED = (
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "examples",
    "benchmarks",
    "deploy",
    "Makefile",
)
WARM = (
    "numpy",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "scipy.sparse.linalg",
    "scipy.sparse.csgraph",
    "numba",
    "networkx",
    "dp_accounting.pld",
    "dp_accounting.rdp",
    "pydantic",
    "msgspec",
    "safetensors.numpy",
    "cryptography.x509",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "sklearn.base",
    "sklearn.linear_model",
    "hypothesis.extra.numpy",
    "mpmath",
    "jinja2",
    "pytest",
)


def warm_up() -> None:
    """Load what every test needs and no mutant changes."""
    import importlib

    for name in WARM:
        # An extra that is not installed is not used by the tests either
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@dataclass(frozen=True)
class Outcome:
    """What became of one run of tests: passed, failed, crash or timeout; by: the test that failed
    first.

    times: of each test; calls: the functions of the source that each test called, as
    "path:qualified name".
    """

    kind: str
    by: str
    seconds: float
    times: dict[str, float]
    calls: dict[str, list[str]]


class Place:
    """A copy of the repository in which one mutant at a time is tried."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.numba = folder / "numba"
        self._report, self._log = folder / "report.json", folder / "log.txt"
        folder.mkdir(parents=True, exist_ok=True)
        self.numba.mkdir(exist_ok=True)
        for top in COPIED:
            _mirror(root / top, folder / top)
        shutil.copy2(root / "pyproject.toml", folder / "pyproject.toml")
        for name in LINKED:
            link = folder / name
            if (root / name).exists() and not link.is_symlink():
                link.symlink_to(root / name)
        self.pid, self._began, self._limit = 0, 0.0, 0.0
        self._path: Path | None = None
        self._original = b"", 0
        self._fresh: Path | None = None

    def start(
        self,
        tests: list[str],
        limit: float,
        scores: dict[str, float],
        *,
        path: str = "",
        text: str = "",
        stale: Any = None,
        only: frozenset[str] | None = None,
        times: dict[str, float] | None = None,
    ) -> None:
        """Fork the tests. path, text: the mutated file; stale: file names whose compiled code may
        hold the mutated file's.

        only: the tests to run, by their ids; times: how long each usually takes, to end one that
        hangs. Without a mutated file the calls of each test are noted.
        """
        cache = self.numba
        if path:
            self._path = self.folder / path
            self._original = self._path.read_bytes(), self._path.stat().st_mtime_ns
            self._path.write_text(text, encoding="utf-8")
            for old in (self._path.parent / "__pycache__").glob(f"{self._path.stem}.*.pyc"):
                old.unlink()
        if stale is not None:
            cache = self._fresh = self.folder / "numba-mutant"
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(self.numba, cache, copy_function=os.link)
            for index in cache.rglob("*.nbi"):
                if index.name.split(".")[0] in stale:
                    index.unlink()
        self._report.unlink(missing_ok=True)
        self._began, self._limit = time.monotonic(), limit
        self.pid = os.fork()
        if self.pid == 0:
            listener = _Listener(scores, only, None if path else self.folder / "src", times)
            # Kernels are compiled inside the tests
            listener.patience += 300.0 if stale is not None else 0.0
            _play(self.folder, tests, cache, self._report, self._log, listener)

    def poll(self) -> Outcome | None:
        """The outcome, once there is one."""
        found, status = os.waitpid(self.pid, os.WNOHANG)
        seconds = time.monotonic() - self._began
        if found == 0:
            if seconds < self._limit:
                return None
            self.stop()
            return Outcome("timeout", "", seconds, {}, {})
        self._clear()
        code = os.waitstatus_to_exitcode(status)
        if not self._report.exists():
            return Outcome("timeout" if code == 1 else "crash", "", seconds, {}, {})
        seen = json.loads(self._report.read_text())
        return Outcome(
            {0: "passed", 1: "failed"}.get(code, "crash"),
            seen["by"],
            seconds,
            seen["times"],
            seen["calls"],
        )

    def stop(self) -> None:
        """End the tests and all that they started."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._clear()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _clear(self) -> None:
        """The original file again, with its time, so that compiled code stays valid."""
        with contextlib.suppress(ProcessLookupError):  # what the tests left running
            os.killpg(self.pid, signal.SIGKILL)
        self.pid = 0
        if self._path is not None:
            self._path.write_bytes(self._original[0])
            os.utime(self._path, ns=(self._original[1], self._original[1]))
            self._path = None
        if self._fresh is not None:
            shutil.rmtree(self._fresh, ignore_errors=True)
            self._fresh = None


def _mirror(source: Path, copy: Path) -> None:
    """Make `copy` hold the same files; those that are equal keep their place,
    and with it their compiled code."""
    wanted = {
        p.relative_to(source)
        for p in source.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    if copy.exists():
        for old in [p for p in copy.rglob("*") if p.is_file() and "__pycache__" not in p.parts]:
            if old.relative_to(copy) not in wanted:
                old.unlink()
    for name in wanted:
        new, old = source / name, copy / name
        if (
            not old.exists()
            or old.stat().st_mtime != new.stat().st_mtime
            or old.read_bytes() != new.read_bytes()
        ):
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(new, old)


class _Listener:
    """A pytest plugin: the chosen tests, likely killers first; which one failed; which functions
    below `source` each calls."""

    def __init__(
        self,
        scores: dict[str, float],
        only: frozenset[str] | None,
        source: Path | None,
        usual: dict[str, float] | None,
    ) -> None:
        self.scores, self.only, self.source, self.usual = scores, only, source, usual
        self.by, self.times, self.calls = "", {}, {}
        self._paths: dict[str, str | None] = {}
        self.patience = 20.0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.only is not None:
            items[:] = [item for item in items if item.nodeid in self.only]
        items.sort(key=lambda item: -self.scores.get(item.nodeid, 1e9))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.times[report.nodeid] = self.times.get(report.nodeid, 0.0) + report.duration
        if report.failed and not self.by:
            self.by = report.nodeid

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # An endless loop, also in compiled code: the process ends with 1 and leaves no report
        if self.usual is not None:
            faulthandler.dump_traceback_later(
                self.patience + 10 * self.usual.get(nodeid, 0.0), exit=True
            )
        if self.source is not None:
            self._seen: set[tuple[str, str]] = set()
            sys.settrace(self._trace)
            threading.settrace(self._trace)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self.source is not None:
            sys.settrace(None)
            threading.settrace(None)
            self.calls[nodeid] = sorted(f"{path}:{name}" for path, name in self._seen)

    def _trace(self, frame: Any, event: str, _: Any) -> None:
        """Told of calls only, since it asks for no more."""
        code = frame.f_code
        path = self._paths.get(code.co_filename, "")
        if path == "":
            inside = code.co_filename.startswith(str(self.source))
            path = self._paths[code.co_filename] = (
                f"src{code.co_filename.removeprefix(str(self.source))}" if inside else None
            )
        if path:
            self._seen.add((path, code.co_qualname.replace(".<locals>", "")))


def _play(
    folder: Path, tests: list[str], cache: Path, report: Path, log: Path, listener: _Listener
) -> None:
    """In the child: run the tests and leave with pytest's code. On the unchanged code bytecode may
    be written for later."""
    keep = listener.source is not None
    code = 3
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        sys.dont_write_bytecode = not keep
        os.environ.update(PYTHONPATH=str(folder / "src"), NUMBA_CACHE_DIR=str(cache))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep else "1"
        import numba
        import pytest

        numba.config.CACHE_DIR = str(cache)
        quiet = (
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        )
        code = int(pytest.main([*quiet, *tests], plugins=[listener]))
        report.write_text(
            json.dumps({"by": listener.by, "times": listener.times, "calls": listener.calls})
        )
    except BaseException:  # the parent's stack lies below: nothing may go on from here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
