"""`python -m benchmarks.report`: measure everything that performance.md shows, point by point,
then write its tables and draw its pictures.

Points are stored in benchmarks/results/performance.json as they are measured; after an interruption
the same command goes on. A point of another program or machine is measured again, so that all
figures on the page belong together. Takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import figures, page, scaling
from benchmarks.cases import CASES
from benchmarks.environments import Unavailable
from benchmarks.peers.comparisons import PEERS, compare
from benchmarks.store import Results

SECTIONS = ("ratios", "peers", *scaling.SECTIONS)


def points(section: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and measurement of every point of a section."""
    if section == "ratios":
        for case in CASES:
            yield f"ratios/{case}", lambda c=case: ratio(c)
    elif section == "peers":
        for name, comparisons in PEERS.items():
            for number, one in enumerate(comparisons):
                yield f"peers/{name}/{number}", lambda o=one: peer(o)
    else:
        yield from scaling.points(section)


def ratio(case: str) -> Any:
    """The rows of a case, measured in a process of its own."""
    words = [sys.executable, "-m", "benchmarks", case, "--json"]
    root = Path(__file__).parents[1]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)[case]


def peer(one: Any) -> Any:
    try:
        return compare(one)
    except Unavailable as why:
        return {"unavailable": str(why)}


def report(
    sections: Sequence[str] = SECTIONS, *, again: bool = False, minutes: float = float("inf")
) -> bool:
    """Measure what is missing; where nothing is, write the page. Whether it was written."""
    results = Results()
    asked = {name: work for section in sections for name, work in points(section)}
    todo = {name: work for name, work in asked.items() if again or not results.has(name)}
    begin = time.monotonic()
    if todo:
        results.here()
    for number, (name, work) in enumerate(todo.items()):
        if time.monotonic() - begin > 60 * minutes:
            say(f"{len(todo) - number} points are left; the same command goes on")
            return False
        say(f"[{number + 1}/{len(todo)}] {name}", end=" ")
        begun = time.monotonic()
        results.add(name, work)
        say(f"({time.monotonic() - begun:.0f} s)")
    missing = [name for section in SECTIONS for name, _ in points(section) if not results.has(name)]
    if missing:
        say(f"not written, since {len(missing)} points are missing or of another program: ", end="")
        say(", ".join(missing[:4]) + (" ..." if len(missing) > 4 else ""))
        return False
    write(results)
    say(f"written: {page.PAGE.relative_to(Path(__file__).parents[1])} and its pictures")
    return True


def write(results: Results) -> None:
    """Page and pictures from the stored points alone."""
    results.keep(name for section in SECTIONS for name, _ in points(section))
    page.write(results)
    figures.draw(results)


def say(what: str, end: str = "\n") -> None:
    print(what, end=end, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description="Measures what performance.md shows, and writes its tables and pictures. "
        "Points are stored as they are measured: after an interruption the same command goes on. "
        "On two cores it takes about a quarter of an hour; the machine should have nothing else "
        "to do.",
    )
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--again", action="store_true", help="measure what is stored again")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument(
        "--page", action="store_true", help="only write page and pictures from what is stored"
    )
    given = parser.parse_args()
    if given.page:
        write(Results())
        return
    report(given.sections or SECTIONS, again=given.again, minutes=given.minutes)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("\ninterrupted; what was measured is stored, and the same command goes on")
        sys.exit(130)
