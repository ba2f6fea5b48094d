"""`make fuzz`: a coverage-guided fuzzer looks for floats that move an answer beyond its declared
sensitivity.

    python tests/fuzz_sensitivity.py [--seconds 60] [--corpus FOLDER]

Every input is a case of `tests/helpers/hostile.py`: a loss, a layout, a kind of question, hostile
points, rows and labels of two neighbouring data sets. It ends with the number of inputs and the
largest ratio of moved to declared that was seen; a ratio above 1 stops it, and the input is kept
in a file.

The kernels are compiled and cannot be instrumented. What guides the fuzzer is the Python around
them (checks of data, queries, the solver around an anchor) and a ladder: a rung of the ratio that
was not reached before counts as new ground. Without atheris (it has no wheel for every Python) the
same cases are drawn at random, and the first line says so.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None

GUIDES = [
    "hostile",
    "tacenda.questions.queries",
    "tacenda.questions.rules",
    "tacenda.questions.facts",
    "tacenda.questions.validate.rows",
    "tacenda.questions.validate.labels",
    "tacenda.questions.solver.local",
    "tacenda.questions.solver.around",
    "tacenda.questions.solver.reference",
    "tacenda.questions.radius",
    "tacenda.questions.lattice",
]
sys.path.insert(0, str(Path(__file__).parent / "helpers"))
LONGEST = 600
seen: Any = SimpleNamespace(
    inputs=0, refused=0, largest=Counter(), began=time.monotonic(), seconds=60
)


def climb(ratio: float) -> int:
    """The rung of a ratio; the loop's count is what the fuzzer sees."""
    rung, level = 0, 1e-6
    while ratio > level and rung < 100:
        rung, level = rung + 1, level * 1.15
    return rung


def one_input(data: bytes) -> None:
    from hostile import case_of, excess
    from tacenda.errors import InputError

    if time.monotonic() - seen.began > seen.seconds:
        summary()
        os._exit(0)  # the fuzzer would leave without a word
    seen.inputs += 1
    case = case_of(data)
    try:
        ratio = excess(case)
    except InputError:  # the data are refused before any run begins
        seen.refused += 1
        return
    climb(ratio)
    seen.largest[case.question] = max(seen.largest[case.question], ratio)
    if ratio > 1.0:
        summary()
        raise AssertionError(
            f"one record moved the answer {ratio} times as far as declared: {case}"
        )


def summary() -> None:
    tried = (
        f"{seen.inputs} inputs in {time.monotonic() - seen.began:.0f} s, "
        f"{seen.refused} refused as data"
    )
    worst = ", ".join(f"{name} {ratio:.6f}" for name, ratio in sorted(seen.largest.items()))
    print(f"{tried}; largest moved/declared: {worst}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    parser.add_argument("--corpus", help="a folder to keep and reuse interesting inputs")
    chosen = parser.parse_args()
    seen.seconds = chosen.seconds
    if atheris is None:
        print(
            "atheris is not installed (pip install 'tacenda[fuzz]'): cases are drawn at random.",
            flush=True,
        )
        while True:
            one_input(os.urandom(LONGEST))
    with atheris.instrument_imports(include=GUIDES):
        import hostile  # noqa: F401
        import tacenda.questions.lattice
        import tacenda.questions.solver.around  # noqa: F401
    atheris.instrument_func(climb)
    flags = [
        f"-max_len={LONGEST}",
        "-len_control=0",
        "-timeout=600",
        "-report_slow_units=600",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *flags, *([chosen.corpus] if chosen.corpus else [])], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
