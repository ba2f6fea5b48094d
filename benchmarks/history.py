"""`python -m benchmarks.history`: run the micro-benchmarks of `micro.py`, keep their ratios under
the present commit, and show them beside those of earlier commits.

pytest-benchmark runs and stores them (benchmarks/results/history); a file says which commit it was
and whether anything was not committed. Ratios are to a yardstick of the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORE = HERE / "results" / "history"
NOTABLE = 1.3  # yardsticks on a shared machine differ by less


def stored(store: Path) -> list[dict[str, Any]]:
    """What was stored, the oldest first: commit and {benchmark: ratio}."""
    found = [json.loads(path.read_text()) for path in store.rglob("*.json")]
    return [
        {
            "commit": one["commit_info"]["id"][:10] + ("+" if one["commit_info"]["dirty"] else ""),
            "ratios": {b["name"]: b["extra_info"]["ratio"] for b in one["benchmarks"]},
        }
        for one in sorted(found, key=lambda one: one["datetime"])
    ]


def table(runs: list[dict[str, Any]], columns: int = 5) -> str:
    """Ratios of the newest runs side by side; the last column compares the last two."""
    shown = runs[-columns:]
    names = list(dict.fromkeys(name for one in shown for name in one["ratios"]))
    lines = [f"{'':40}" + "".join(f"{one['commit']:>13}" for one in shown) + f"{'change':>10}"]
    for name in names:
        values = [one["ratios"].get(name) for one in shown]
        cells = "".join(f"{'' if v is None else format(v, '.3g'):>13}" for v in values)
        lines.append(f"{name.removeprefix('test_').replace('_', ' '):40}{cells}{change(values)}")
    return "\n".join(lines)


def change(values: list[float | None]) -> str:
    """The last value over the one before, with a word where it is notable."""
    known = [v for v in values if v is not None]
    if len(known) < 2 or values[-1] is None:
        return ""
    times = known[-1] / known[-2]
    word = " slower" if times > NOTABLE else " faster" if times < 1 / NOTABLE else ""
    return f"{times:10.2f}{word}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history",
        description="Runs the micro-benchmarks (under two minutes), stores their ratios to a "
        "yardstick under the present commit, and shows them beside those of earlier commits.",
    )
    parser.add_argument("-k", help="only benchmarks whose names match, as in pytest; not stored")
    parser.add_argument("--show", action="store_true", help="run nothing, show what is stored")
    given = parser.parse_args()
    if not given.show:
        import pytest

        words = [str(HERE / "micro.py"), "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
        keep = ["-k", given.k] if given.k else ["--benchmark-autosave"]
        failed = pytest.main([*words, *keep, f"--benchmark-storage=file://{STORE}"])
        if failed:
            return int(failed)
    runs = stored(STORE)
    print(table(runs) if runs else "nothing is stored yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
