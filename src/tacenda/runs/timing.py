"""Where the time of a run goes: parts that add up to the time by the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

READING, PLANNING, ROUNDS = "reading", "planning", "rounds"
MEASURING, REFERENCES, WRITING, OTHER = "measuring", "references", "writing", "other"
PARTS = (READING, PLANNING, ROUNDS, MEASURING, REFERENCES, WRITING)


class Timing:
    """Seconds by the clock since it was made, by part.

    reading: files, encoding, the split over nodes. planning: settings and noise. rounds: the runs
    themselves; all of it, with whatever else they do, where they run in several processes.
    measuring: how good the models are, also along the way. references: the rows to compare with.
    writing: results and manifest.
    """

    def __init__(self) -> None:
        self._begin, self._parts = time.perf_counter(), dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside belongs to that part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begin)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds to a part."""
        self._parts[name] += seconds

    def to_plain(self) -> dict[str, float]:
        """{part: seconds}, with "other" for what belongs to none and "total" by the clock."""
        total = time.perf_counter() - self._begin
        parts = {name: round(seconds, 3) for name, seconds in self._parts.items()}
        other = round(max(0.0, total - sum(self._parts.values())), 3)
        return {**parts, OTHER: other, "total": round(total, 3)}
