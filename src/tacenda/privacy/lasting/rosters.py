"""Who took part in which run, by the keyed hash of a declared id: so that a budget holds for each
id by itself, however records come and go.

A run may note a *roster*: the ids whose records it reads, and on which side of a split they are.
What an id has lost is the sum of the runs that it took part in, on both sides, and of those without
a roster, which may have read anybody. The largest such sum counts against the budget, rather than
the sum of all runs. A run without a roster is held to the sum of all.

The rosters of joined accounts are not compared, because another name may have other ids: their runs
count for everybody. NAME and NAME/held-out are one data set with the same ids.

A hash has 64 bits. Two ids that share one count as one, which may count too much and never too
little. The rows of the ledger hold a hash of each roster, as they do of a sketch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacenda._types import Flags, Ints
from tacenda.privacy.lasting.accounts import HELD_OUT, joined
from tacenda.privacy.lasting.database import LedgerFile

Ids = NDArray[np.uint64]  # hashes, rising
TRAINED, HELD = "trained", "held out"


def hashes_of(names: Iterable[str], key: bytes) -> Ids:
    """(n,) one for each name, in their order."""
    found = []
    for name in names:
        raw = str(name).encode("utf-8", "surrogatepass")
        one = hashlib.blake2b(raw, key=key, digest_size=8, person=b"tacenda-roster")
        found.append(int.from_bytes(one.digest(), "little"))
    return np.array(found, np.uint64)


@dataclass(frozen=True, eq=False)
class Roster:
    """The ids that a run reads, and the side that they are on from then on."""

    ids: Ids
    side: str = TRAINED


def note(file: LedgerFile, run: str, dataset: str, roster: Roster) -> None:
    """Once for each run; inside a transaction."""
    if of_run(file, run) is not None:
        return
    blob = np.unique(roster.ids).astype("<u8").tobytes()
    file.append("roster", dataset, run, roster.side, body={"ids": file.keyed(blob)})
    file.execute("INSERT INTO rosters VALUES (?, ?)", run, blob)


def of_run(file: LedgerFile, run: str) -> Roster | None:
    """A run's roster, if it noted one."""
    row = file.one(
        "SELECT ids, rows.key FROM rosters JOIN rows USING (run) WHERE run=? AND kind='roster'", run
    )
    return None if row is None else Roster(_read(row[0]), row[1])


def of_data_set(file: LedgerFile, dataset: str) -> dict[str, Roster]:
    """By run, in their order, of a data set's both sides; runs that were given back, with nothing
    released, are left out."""
    query = (
        "SELECT rosters.run, ids, rows.key FROM rosters JOIN rows USING (run) JOIN runs USING (run)"
        " WHERE kind='roster' AND runs.dataset IN (?, ?) AND (open=1 OR EXISTS "
        "(SELECT 1 FROM tally WHERE tally.run = rosters.run AND charged > 0)) ORDER BY rows.seq"
    )
    return {run: Roster(_read(ids), side) for run, ids, side in file.all(query, *_sides(dataset))}


def histories(file: LedgerFile, dataset: str, ids: Ids) -> tuple[list[tuple[str, ...]], Ints]:
    """(the sets of runs in which some of these ids took part, which of them is each id's)."""
    names, rosters = joined(file, dataset), of_data_set(file, dataset)
    marks = ", ".join("?" * len(names))
    runs = [r for (r,) in file.all(f"SELECT run FROM runs WHERE dataset IN ({marks})", *names)]
    runs += [run for run in rosters if run not in set(runs)]
    took = np.ones((len(ids), len(runs)), bool)
    for k, run in enumerate(runs):
        if run in rosters:
            took[:, k] = np.isin(ids, rosters[run].ids)
    packed = np.packbits(took, axis=1) if runs else np.zeros((len(ids), 1), np.uint8)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    sets = [tuple(run for run, there in zip(runs, took[k], strict=True) if there) for k in first]
    return sets, np.asarray(which, np.int64).reshape(-1)


def largest_sets(sets: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those that no other one holds: no id has lost more than one of these."""
    found: list[frozenset[str]] = []
    listed = {frozenset(one): one for one in sets}
    for one in sorted(listed, key=len, reverse=True):
        if not any(one <= other for other in found):
            found.append(one)
    return [listed[one] for one in found]


def sides_of(rosters: Iterable[Roster], ids: Ids) -> tuple[Flags, Flags]:
    """((n,) trained on before, (n,) held out before)."""
    trained, held = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
    for roster in rosters:
        side = held if roster.side == HELD else trained
        side |= np.isin(ids, roster.ids)
    return trained, held


def first_seen(rosters: Iterable[Roster], ids: Ids) -> Ints:
    """(n,) how many trainings ago each id first took part, 0 in the one to come: months of entry.
    A training and its evaluation count as one."""
    number, first = 0, np.full(len(ids), -1, np.int64)
    for roster in rosters:
        number += roster.side == TRAINED
        first[(first < 0) & np.isin(ids, roster.ids)] = max(number, 1)
    return np.where(first < 0, 0, number + 1 - first)


def fault(file: LedgerFile, rows: Iterable[dict[str, str]]) -> str:
    """In words, where the kept rosters are not those of the rows; empty where they are."""
    noted = {r["run"]: json.loads(r["body"])["ids"] for r in rows if r["kind"] == "roster"}
    kept = {run: file.keyed(blob) for run, blob in file.all("SELECT run, ids FROM rosters")}
    for run in sorted(set(noted) | set(kept)):
        if noted.get(run) != kept.get(run):
            return f"the ids noted for run {run!r} are not those that the rows refer to"
    return ""


def _sides(dataset: str) -> tuple[str, str]:
    whole = dataset.removesuffix(HELD_OUT)
    return whole, f"{whole}{HELD_OUT}"


def _read(blob: bytes) -> Ids:
    return np.frombuffer(blob, "<u8").astype(np.uint64)
