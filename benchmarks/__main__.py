"""`python -m benchmarks [a b c d e] [--turns N] [--json]`: the table of ratios."""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict

from benchmarks.cases import CASES


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ratios of speed and size; nothing passes or fails.",
    )
    parser.add_argument(
        "cases", nargs="*", choices=[*CASES, []], help="which of a to e (default: all)"
    )
    parser.add_argument(
        "--turns", type=int, default=8, help="turns of each rival; the best counts (default 8)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # about budgets, which are of no interest here
    if chosen.json:
        rows = {name: CASES[name](chosen.turns) for name in chosen.cases or CASES}
        print(json.dumps({name: [asdict(row) for row in found] for name, found in rows.items()}))
        return
    print(f"{'':66} {'ratio':>7} {'cpu':>7}  {'target':8} behind it")
    for name in chosen.cases or CASES:
        for row in CASES[name](chosen.turns):
            cpu = "" if row.cpu is None else f"{row.cpu:.2f}"
            print(
                f"{row.what:66} {row.ratio:7.2f} {cpu:>7}  {row.target:8} {row.detail}", flush=True
            )


if __name__ == "__main__":
    main()
