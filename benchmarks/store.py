"""What was measured, point by point: an interrupted report goes on where it stopped, and a point
that another program, another machine or another benchmark measured is measured again."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import commit, machine
from tacenda.formats.files import write_json
from tacenda.sources import program

RESULTS = Path(__file__).with_name("results") / "performance.json"
SAME_MACHINE = ("processor", "cores", "memory_gb", "system")
# The files that a section's points depend on, besides the program that is measured
CURVES = ("scaling.py", "tables.py", "machine.py")
MEASURED_BY = {
    "ratios": ("cases.py", "rivals.py", "timing.py", "__main__.py"),
    "peers": ("peers/*.py", "environments.py", "tables.py"),
    "nodes": CURVES,
    "features": CURVES,
    "ranks": ("scaling.py", "bench_mpi.py"),
}


@functools.cache
def benchmark(section: str) -> str:
    """A digest of the files that measure a section."""
    here, found = Path(__file__).parent, hashlib.sha256()
    for pattern in MEASURED_BY[section]:
        for file in sorted(here.glob(pattern)):
            found.update(file.read_bytes())
    return found.hexdigest()


class Results:
    """The stored points of one machine."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        self.content: dict[str, Any] = {"machine": None, "points": {}}
        if path.exists():
            self.content = json.loads(path.read_text())

    @property
    def machine(self) -> dict[str, Any]:
        return dict(self.content["machine"])

    @property
    def points(self) -> dict[str, Any]:
        return {name: one["found"] for name, one in self.content["points"].items()}

    def here(self) -> None:
        """State this machine; what another one has measured is dropped."""
        now, then = machine(), self.content["machine"]
        if then is not None and any(now[word] != then[word] for word in SAME_MACHINE):
            self.content["points"] = {}
        self.content["machine"] = now
        self._write()

    def has(self, name: str) -> bool:
        """Whether this program and this benchmark have measured the point."""
        one = self.content["points"].get(name)
        by = {"program": program(), "benchmark": benchmark(name.partition("/")[0])}
        return one is not None and all(one[word] == digest for word, digest in by.items())

    def add(self, name: str, measure: Callable[[], Any]) -> None:
        found = measure()
        self.content["points"][name] = {
            "program": program(),
            "benchmark": benchmark(name.partition("/")[0]),
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "found": found,
        }
        self._write()

    def keep(self, names: Iterable[str]) -> None:
        """Drop points that no report asks for any more; the others come in its order."""
        points = self.content["points"]
        self.content["points"] = {name: points[name] for name in names if name in points}
        self._write()

    @property
    def programs(self) -> dict[str, str]:
        """{digest of a program that measured a point: its commit}."""
        return {one["program"]: one["commit"] for one in self.content["points"].values()}

    @property
    def dates(self) -> list[str]:
        return sorted({one["date"] for one in self.content["points"].values()})

    def digest(self, prefix: str) -> str:
        """Of all points whose names begin so, and of the machine: drawn into their picture."""
        parts = {name: found for name, found in self.points.items() if name.startswith(prefix)}
        text = json.dumps([self.machine, parts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        write_json(self.path, self.content)
