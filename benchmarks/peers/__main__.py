"""`python -m benchmarks.peers [decent-bench flower diffprivlib] [--turns N] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks.environments import Unavailable
from benchmarks.peers.comparisons import PEERS, compare


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="The same work by programs that a user might choose instead. Each runs in an "
        "environment of its own under .bench, which is made the first time (some minutes; one of "
        "them compiles); all sides take turns in one run, and the best turn of each counts.",
    )
    parser.add_argument("peers", nargs="*", choices=[*PEERS, []], help="which (default: all)")
    parser.add_argument("--turns", type=int, help="turns of each side (default: 2 to 5)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for name in chosen.peers or PEERS:
        try:
            found[name] = [compare(one, chosen.turns, say) for one in PEERS[name]]
        except Unavailable as why:
            found[name] = {"unavailable": str(why)}
        if not chosen.json:
            show(name, found[name])
    if chosen.json:
        print(json.dumps(found, indent=1))


def say(what: str) -> None:
    print(f"  {what}", file=sys.stderr, flush=True)


def show(name: str, found: Any) -> None:
    if isinstance(found, dict):
        print(f"{name}: not measured. {found['unavailable']}")
        return
    for one in found:
        print(f"\n{one['title']}: {one['nodes']} nodes x {one['records']} x {one['features']}")
        head = ("ours / it", "ms", "start", "first run", "later run", "memory", one["quality"])
        print(f"{'':40}" + "".join(f"{word:>12}" for word in head))
        base = one["sides"][0]["seconds"]
        for side in one["sides"]:
            cells = (
                f"{base / side['seconds']:.3f}",
                f"{1e3 * side['seconds']:.1f}",
                f"{side['import_seconds'] + side['setup_seconds']:.1f} s",
                f"{side['first_run_seconds']:.1f} s",
                f"{side['later_run_seconds']:.1f} s",
                f"{side['peak_mb']:.0f} MB",
                f"{side[one['quality']]:.6f}",
            )
            print(f"{side['name']:40}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
