"""Play every chain (docs/results/measured/chains.md) and write the page's table.

python tests/chains.py            all of them: minutes
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "helpers")]

import chain_losses  # noqa: E402
import chain_statistics  # noqa: E402
import chain_table  # noqa: E402
from chain_cases import Case, Played, cases, play  # noqa: E402

PROCESSES = 6


def attempt(case: Case) -> Played | str:
    """What a case showed, or how it broke."""
    try:
        return play(case)
    except AssertionError as broken:
        return f"BROKEN {case.name}: {broken}"


def main() -> None:
    """Play, one line each, and write."""
    played: list[Played] = []
    wrong = 0
    every = cases() + chain_statistics.cases() + chain_losses.cases()
    with ProcessPoolExecutor(max_workers=PROCESSES) as pool:
        for case, found in zip(every, pool.map(attempt, every, chunksize=2), strict=True):
            if isinstance(found, str):
                print(found, flush=True)
                wrong += 1
                continue
            played.append(found)
            end = f"{found.lost:.6g} of {found.said:.6g}"
            said = f"refused: {found.refused}" if found.refused else end
            print(f"{case.name}: {said}", flush=True)
    if wrong:
        sys.exit(f"{wrong} chains are broken; the page stays as it is.")
    chain_table.write(played)


if __name__ == "__main__":
    main()
