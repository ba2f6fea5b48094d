"""`make mutants`: change the code in small ways, one at a time, and see whether the tests notice.

    python tests/mutation/run.py         every mutant; stop with Ctrl-C, start again to go on
        --sample 300 --seed 1            a random sample, with a confidence interval of the score
        --only ledger,graph              files whose path holds one of these
        --again                          only what survived before, by all tests that cover its file
        --report                         what is known so far, without running anything

Outcomes are kept in .mutants/results.jsonl. A mutant is tried anew when its file has changed, or
the test that noticed it; a survivor when any test has that covers its file. `cover.toml` says which
tests cover which file, `survivors.toml` which survivors were looked at and why they change nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from cover import compiled, covered_files, listed_tests, short, stale_names  # noqa: E402
from mutate import Mutant, mutants_of_file  # noqa: E402
from worker import Outcome, Place, warm_up  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / ".mutants"
HERE = Path(__file__).resolve().parent


class Results:
    """What became of each mutant, one line of JSON each; the last one counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("}"):  # the last line may be cut off
                    row = json.loads(line)
                    self.known[row["name"]] = row

    def add(self, row: dict[str, Any]) -> None:
        self.known[row["name"]] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def all_mutants(only: str) -> list[Mutant]:
    """The mutants of all covered files; they are kept by the file's content, since finding them
    takes a while."""
    cache = STORE / "found"
    cache.mkdir(parents=True, exist_ok=True)
    way = hashlib.sha256((HERE / "mutate.py").read_bytes()).hexdigest()
    found: list[Mutant] = []
    for path in covered_files(ROOT):
        if not any(part in path for part in only.split(",")):
            continue
        key = hashlib.sha256(f"{way} {path} {(ROOT / path).read_text()}".encode()).hexdigest()[:24]
        kept = cache / f"{key}.json"
        if kept.exists():
            found += [Mutant(**row) for row in json.loads(kept.read_text())]
        else:
            made = mutants_of_file(ROOT, path)
            kept.write_text(json.dumps([vars(m) for m in made]))
            found += made
    return found


def drawn(mutants: list[Mutant], sample: int | None, seed: int) -> list[Mutant]:
    """In an order that the seed and each mutant's content decide: a larger sample holds the smaller
    one, edits move little.

    Of files with compiled kernels, whose mutants take minutes, a tenth of the sample, on top and
    counted apart.
    """
    order = sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.name}".encode()).digest())
    plain, kernels = (
        [m for m in order if compiled(ROOT, m.path) is wanted] for wanted in (False, True)
    )
    return plain[:sample] + kernels[: None if sample is None else -(-sample // 10)]


def stamp(path: str, killer: str = "") -> str:
    """Of what an outcome rests on: the file and the test that noticed, or, for a survivor, all
    tests that did not."""
    shared = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests" / "helpers").glob("*.py"))
    by = killer.partition("::")[0]
    tests = (
        ([by] if (ROOT / by).is_file() else []) if killer else [*listed_tests(ROOT, path), *shared]
    )
    return hashlib.sha256(b"\0".join((ROOT / p).read_bytes() for p in [path, *tests])).hexdigest()[
        :16
    ]


class Session:
    """One run of the tool."""

    def __init__(self, jobs: int, results: Results, slack: float, thorough: bool) -> None:
        self.results, self.slack, self.thorough = results, slack, thorough
        self.places = [Place(ROOT, STORE / f"place-{k}") for k in range(jobs)]
        times = STORE / "times.json"
        self._times_file = times
        self.times: dict[str, Any] = json.loads(times.read_text()) if times.exists() else {}
        self.kills: Counter[str] = Counter(
            row["by"] for row in results.known.values() if row["outcome"] == "killed"
        )
        self.stamps: dict[tuple[str, str], str] = {}

    def baseline(self, paths: list[str]) -> None:
        """Every test file once on the unchanged code: it must pass, and its time is the measure of
        a time limit."""
        needed = {path for path in paths if compiled(ROOT, path)}
        waiting = []
        # A measure holds for all sources as they are now, whichever of them are asked for later.
        everything = [
            hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in covered_files(ROOT)
        ]
        for test in sorted({test for path in paths for test in listed_tests(ROOT, path)}):
            users = [path for path in paths if test in listed_tests(ROOT, path)]
            keys = [
                hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in (test, *users)
            ]
            if not set(keys) <= set(self.times.get(test, {"keys": []})["keys"]):
                waiting.append((test, keys[:1] + everything))
        print(f"{len(waiting)} test files to run on the unchanged code", flush=True)
        busy: dict[Place, tuple[str, list[str]]] = {}
        try:
            while waiting or busy:
                for place in self.places:
                    if place not in busy and waiting:
                        busy[place] = waiting.pop()
                        place.start([busy[place][0]], 1800.0, {})
                time.sleep(0.05)
                for place, (test, keys) in list(busy.items()):
                    outcome = place.poll()
                    if outcome is not None:
                        del busy[place]
                        self._measured(test, keys, outcome, place)
        finally:
            for place in busy:
                place.stop()
        if needed:
            print(
                f"{len(needed)} files hold compiled code; "
                "their mutants compile anew and take longer",
                flush=True,
            )

    def _measured(self, test: str, keys: list[str], outcome: Outcome, place: Place) -> None:
        if outcome.kind != "passed":
            raise SystemExit(
                f"{test} does not pass on the unchanged code ({outcome.by}); "
                f"mend it first.\n{place.log[-3000:]}"
            )
        print(f"  {test} {outcome.seconds:.0f}s", flush=True)
        self.times[test] = {
            "keys": keys,
            "seconds": outcome.seconds,
            "tests": outcome.times,
            "calls": outcome.calls,
        }
        self._times_file.write_text(json.dumps(self.times))

    def run(self, mutants: list[Mutant]) -> None:
        waiting = list(reversed(mutants))
        busy: dict[Place, Mutant] = {}
        began, done, total = time.monotonic(), 0, len(mutants)
        count: Counter[str] = Counter()
        try:
            while waiting or busy:
                for place in self.places:
                    if place not in busy and waiting:
                        busy[place] = waiting.pop()
                        self._start(place, busy[place])
                time.sleep(0.05)
                for place, mutant in list(busy.items()):
                    outcome = place.poll()
                    if outcome is not None:
                        del busy[place]
                        done += 1
                        count[self._book(mutant, outcome)] += 1
                        left = (time.monotonic() - began) / done * (total - done)
                        words = (
                            f"killed {count['killed']}, survived {count['survived']}, "
                            f"{left / 60:.0f} min left"
                        )
                        print(
                            f"[{done}/{total}] {words} | "
                            f"{_words(mutant, self.results.known[mutant.name])}",
                            flush=True,
                        )
        finally:
            for place in busy:
                place.stop()

    def _start(self, place: Place, mutant: Mutant) -> None:
        tests = listed_tests(ROOT, mutant.path)
        limit = 60 + self.slack * sum(self.times[test]["seconds"] for test in tests)
        stale = stale_names(ROOT, mutant.path) if compiled(ROOT, mutant.path) else None
        if stale is not None:
            limit += 300
        times = {
            name: seconds for test in tests for name, seconds in self.times[test]["tests"].items()
        }
        scores = {
            name: (self.kills[name] + 0.2) / (seconds + 0.05) for name, seconds in times.items()
        }
        # As it was when this run began
        text = mutant.apply((place.folder / mutant.path).read_text(encoding="utf-8"))
        only = None if self.thorough else self._callers(mutant, tests)
        if only is not None:
            tests = [
                test for test in tests if any(name in only for name in self.times[test]["tests"])
            ]
        place.start(
            tests, limit, scores, path=mutant.path, text=text, stale=stale, only=only, times=times
        )

    def _callers(self, mutant: Mutant, tests: list[str]) -> frozenset[str] | None:
        """The tests that call the mutated function; None, for all, where that is not seen (a
        module's lines, a subprocess)."""
        here = f"{mutant.path}:{mutant.function}"
        found = frozenset(
            name
            for test in tests
            for name, calls in self.times[test]["calls"].items()
            if here in calls
        )
        return found or None

    def _book(self, mutant: Mutant, outcome: Outcome) -> str:
        verdict = "survived" if outcome.kind == "passed" else "killed"
        by = outcome.by or outcome.kind
        if verdict == "killed":
            self.kills[by] += 1
        row = {k: v for k, v in vars(mutant).items() if k not in ("start", "end", "new")}
        found = {
            "outcome": verdict,
            "by": by if verdict == "killed" else "",
            "seconds": round(outcome.seconds, 2),
        }
        self.results.add(
            {"name": mutant.name, **row, **found, "stamp": self._stamp(mutant.path, found["by"])}
        )
        return verdict

    def _stamp(self, path: str, killer: str) -> str:
        if (path, killer) not in self.stamps:
            self.stamps[path, killer] = stamp(path, killer)
        return self.stamps[path, killer]

    def todo(self, mutants: list[Mutant], again: bool) -> list[Mutant]:
        """Those without a valid outcome; with `again`, those that were not killed,
        whatever changed since."""

        def open_still(mutant: Mutant) -> bool:
            row = self.results.known.get(mutant.name)
            if row is None:
                return not again
            if row["outcome"] == "survived" and judged(mutant) is not None:
                return False
            if again:
                return bool(row["outcome"] == "survived")
            return bool(row["stamp"] != self._stamp(mutant.path, row["by"]))

        return [m for m in mutants if open_still(m)]


def _words(mutant: Mutant, row: dict[str, Any]) -> str:
    end = (
        f"by {row['by'].split('/')[-1]}"
        if row["outcome"] == "killed"
        else f"\n    - {mutant.before}\n    + {mutant.after}"
    )
    what = f"{short(mutant.path)} {mutant.function} {mutant.operator}"
    return f"{what} {row['outcome']} {row['seconds']:.0f}s {end}"


def judgments() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "survivors.toml").read_text()).get(
        "survivor", []
    )
    return rows


def judged(mutant: Mutant) -> dict[str, Any] | None:
    """The judgment of a survivor, by its content."""
    module = short(mutant.path)
    for row in judgments():
        same = (row["module"], row["before"], row["after"]) == (module, mutant.before, mutant.after)
        if (
            same
            and row.get("function", mutant.function) == mutant.function
            and row.get("nth", mutant.nth) == mutant.nth
        ):
            return row
    return None


def interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson, 95 %."""
    from scipy.stats import beta

    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    return low, 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))


def report(mutants: list[Mutant], results: Results, whole: int) -> int:
    """Print the score; the number of survivors that nobody has looked at."""
    tried = [(m, results.known[m.name]) for m in mutants if m.name in results.known]
    alive = [m for m, row in tried if row["outcome"] == "survived"]
    unread = [m for m in alive if judged(m) is None]
    print(f"\n{len(tried)} of {whole} mutants tried")
    for words, wanted in (("plain Python", False), ("compiled kernels", True)):
        rows = [(m, row) for m, row in tried if compiled(ROOT, m.path) is wanted]
        killed = sum(row["outcome"] == "killed" for _, row in rows)
        equivalent = sum(row["outcome"] == "survived" and judged(m) is not None for m, row in rows)
        if rows:
            print(
                f"{words}: {killed} killed, {equivalent} judged equivalent, "
                f"{len(rows) - killed - equivalent} survived"
            )
        for name, n in (
            ("of all", len(rows)),
            ("of those not judged equivalent", len(rows) - equivalent),
        ):
            if n:
                low, high = interval(killed, n)
                print(
                    f"  score {100 * killed / n:.1f} % {name}, "
                    f"95 % interval {100 * low:.1f} to {100 * high:.1f} %"
                )
    by_file: dict[str, Counter[str]] = {}
    for mutant, row in tried:
        by_file.setdefault(mutant.path, Counter())[row["outcome"]] += 1
    for path, count in sorted(by_file.items()):
        print(f"  {short(path):32} {count['killed']:4} of {sum(count.values()):4} killed")
    for mutant in unread:
        print(f"\nsurvived: {mutant.path} {mutant.function} ({mutant.operator}, {mutant.nth})")
        print(f"  - {mutant.before}\n  + {mutant.after}")
    return len(unread)


def _alone() -> None:
    """One run at a time, since two would change each other's files; a request to stop is heard in
    the background too."""
    import fcntl
    import signal

    lock = os.open(STORE / "lock", os.O_RDWR | os.O_CREAT, 0o600)  # held until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SystemExit(
            f"another run works in {STORE}; wait for it, or stop it with Ctrl-C."
        ) from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def main() -> int:
    parse = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parse.add_argument("--sample", type=int, help="how many mutants; all if left out")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument(
        "--only", default="", help="parts of the files' paths, with commas between them"
    )
    parse.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parse.add_argument(
        "--slack",
        type=float,
        default=6.0,
        help="a mutant's time limit, in times of its tests' usual time",
    )
    parse.add_argument(
        "--compiled", choices=("too", "only", "not"), default="too", help="files with numba kernels"
    )
    parse.add_argument("--again", action="store_true")
    parse.add_argument("--report", action="store_true")
    given = parse.parse_args()
    mutants = all_mutants(given.only)
    if given.compiled != "too":
        mutants = [m for m in mutants if compiled(ROOT, m.path) == (given.compiled == "only")]
    chosen, results = drawn(mutants, given.sample, given.seed), Results(STORE / "results.jsonl")
    if not given.report:
        _alone()
        warm_up()
        session = Session(given.jobs, results, given.slack, given.again)
        todo = session.todo(chosen, given.again)
        print(
            f"{len(mutants)} mutants, {len(chosen)} chosen, "
            f"{len(todo)} to try with {given.jobs} at a time",
            flush=True,
        )
        try:
            session.baseline(sorted({m.path for m in todo}))
            session.run(todo)
        except KeyboardInterrupt:
            print("\nstopped; the same command goes on from here", flush=True)
            report(chosen, results, len(mutants))
            return 130
    return 1 if report(chosen, results, len(mutants)) else 0


if __name__ == "__main__":
    sys.exit(main())
