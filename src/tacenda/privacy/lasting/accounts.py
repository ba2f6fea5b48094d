"""Whose budget a run is charged to: the account of its records, whatever their order, split or run.

An account has a name. `dataset=` gives it, once: the ledger notes which records were meant, and
books every later run on the same records there, named or not. Records that it has seen under two
names, or that overlap strongly with those of another account, have these accounts *joined*: from
then on what any of them spent counts for all of them, and each one's budget holds for the sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import PrivacyError
from tacenda.privacy.accounting.events import event_from_dict
from tacenda.privacy.lasting.database import LedgerFile
from tacenda.privacy.lasting.fingerprints import Marks
from tacenda.privacy.lasting.units import Unit, largest


@dataclass(frozen=True)
class Account:
    """The name under which a run is booked,
    and what the user should read about how it was found."""

    name: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Near:
    """Another account, and which share of the smaller of the two sets of records lies in both."""

    name: str
    share: float


def joined(file: LedgerFile, dataset: str) -> list[str]:
    """All accounts that add up with this one, itself first."""
    pairs = file.all("SELECT dataset, key FROM rows WHERE kind='join'")
    found, grown = [dataset], True
    while grown:
        more = [b for pair in pairs for a, b in (pair, pair[::-1]) if a in found and b not in found]
        found += dict.fromkeys(more)
        grown = bool(more)
    return found


def join(file: LedgerFile, one: str, other: str) -> bool:
    """Make two accounts add up; False if they do already. Inside a transaction."""
    if other in joined(file, one):
        return False
    relations = {
        relation for name in (one, other) for relation in relations_of(file, joined(file, name))
    }
    if len(relations) > 1:
        raise PrivacyError(
            f"accounts {one!r} and {other!r} hold the same records, "
            "and their runs were charged under different relations "
            f"({', '.join(sorted(relations))}), which do not add up; "
            "keep to one relation for these records."
        )
    file.append("join", one, key=other)
    check_units(file, one)
    return True


def relations_of(file: LedgerFile, names: Iterable[str]) -> list[str]:
    """The neighbouring relations of the runs of these accounts."""
    listed = list(names)
    marks = ", ".join("?" * len(listed))
    return [
        r[0]
        for r in file.all(
            f"SELECT DISTINCT adjacency FROM runs WHERE dataset IN ({marks}) ORDER BY adjacency",
            *listed,
        )
    ]


def units_of(file: LedgerFile, names: Iterable[str]) -> list[Unit]:
    """The units of the runs of these accounts."""
    listed = list(names)
    marks = ", ".join("?" * len(listed))
    query = f"SELECT DISTINCT records, members FROM runs WHERE dataset IN ({marks})"
    return [Unit(records, members) for records, members in file.all(query, *listed)]


def unit_of(file: LedgerFile, dataset: str, more: Iterable[Unit] = ()) -> Unit:
    """Whom an account is about: the largest unit of its budgets and runs, and of `more`. The
    records trained on and those held out are about the same people."""
    names = _with_other_sides(joined(file, dataset))
    bodies = filter(None, (budget_of(file, name) for name in names))
    budgets = [Unit(body["records"], body["members"]) for body in bodies]
    return largest([*budgets, *units_of(file, names), *more])


def check_units(file: LedgerFile, dataset: str, more: Iterable[Unit] = ()) -> None:
    """Refuse a unit (the account's, with `more`) for which some of its runs cannot be counted."""
    names, unit = _with_other_sides(joined(file, dataset)), unit_of(file, dataset, more)
    marks = ", ".join("?" * len(names))
    query = (
        "SELECT DISTINCT event FROM tally JOIN runs USING (run) WHERE records IS NULL "
        f"AND dataset IN ({marks})"
    )
    for (text,) in file.all(query, *names):
        unit.counts(Unit(), [(event_from_dict(json.loads(text)), 1)])


def _with_other_sides(names: Iterable[str]) -> list[str]:
    """These accounts, and with each the one of the records held out from it, or trained on."""
    wholes = dict.fromkeys(name.removesuffix(HELD_OUT) for name in names)
    return [side for whole in wholes for side in (whole, f"{whole}{HELD_OUT}")]


def budget_of(file: LedgerFile, name: str) -> dict[str, Any] | None:
    """The fields of the budget that was set last for one account, whatever it is joined with."""
    row = file.one(
        "SELECT body FROM rows WHERE kind='budget' AND dataset=? ORDER BY seq DESC LIMIT 1", name
    )
    return None if row is None else dict(json.loads(row[0]))


def account_of(file: LedgerFile, marks: Marks, name: str | None) -> Account:
    """The account of these records, noted for the next time; inside a transaction."""
    known = _known(file, marks)
    near = [] if known else overlapping(file, marks)
    found = (
        _named(file, name, known, near) if name is not None else _unnamed(file, marks, known, near)
    )
    alike = [] if known or near else _look_alike(file, found.name, marks)
    _note(file, found.name, marks)
    return replace(found, notes=(*found.notes, *alike))


def account_for_bounds(file: LedgerFile, marks: Marks, name: str) -> Account:
    """The same for a run that only looks for bounds, in all records: they are known again, and
    count neither as trained on nor as held out. Inside a transaction."""
    known = _known(file, marks)
    found = _named(file, name, known, [] if known else overlapping(file, marks))
    if name not in known:
        file.append("all records", name, key=marks.digest)
    return found


def _known(file: LedgerFile, marks: Marks) -> list[str]:
    """The accounts that have seen exactly these records."""
    query = (
        "SELECT dataset FROM rows WHERE kind IN ('records', 'all records') AND key=? ORDER BY seq"
    )
    return [row[0] for row in file.all(query, marks.digest)]


def _look_alike(file: LedgerFile, name: str, marks: Marks) -> list[str]:
    """A note about each account whose records have the same features: perhaps with the columns in
    another order, or with other labels."""
    together, others = joined(file, name), []
    for other, body in file.all("SELECT dataset, body FROM rows WHERE kind='records'"):
        if marks.look and other not in together and json.loads(body)["look"] == marks.look:
            others.append(other)
    return [
        f"the records of {name!r} have the features of those of {other!r}, with other labels or in "
        "another order of columns, and are counted apart. If they are the same people's: tacenda "
        f"ledger join LEDGER {name!r} {other!r}"
        for other in dict.fromkeys(others)
    ]


UNNAMED = "records-"  # before the name of an account that nobody has named
HELD_OUT = "/held-out"  # behind the name of the account of those that are trained on
BOUNDS = "bounds-"  # before the name of a run that reads all records, held out or not


def held_out_of(file: LedgerFile, name: str, trained: Marks, kept: Marks, apart: bool) -> Account:
    """The account of records that are held out of training on the records of account `name`; inside
    a transaction.

    As long as the two accounts have seen nothing but these two sets of records, no record is in
    both, and each covers its own. Once either has seen others (all records, before any were held
    out; another share; data that grew; private bounds of all records), some may be in both: then
    the two add up, which may count too much and never too little.
    """
    held = f"{name}{HELD_OUT}"
    notes = []
    seen = [(name, trained), (held, kept)]
    mixed = any(
        digest != marks.digest
        for account, marks in seen
        for (digest,) in file.all(
            "SELECT key FROM rows WHERE kind='records' AND dataset=?", account
        )
    )
    mixed = mixed or reads_all(file, name)
    if mixed and join(file, name, held):
        notes.append(
            f"data set {name!r} was used before with other records, with another share held "
            "out, or for private bounds, so that some records may have paid on both sides: from "
            f"now on {name!r} and {held!r} add up."
        )
    near = [n for n in overlapping(file, kept) if n.name not in (name, held)]
    known = [
        row[0]
        for row in file.all(
            "SELECT DISTINCT dataset FROM rows WHERE kind='records' AND key=?", kept.digest
        )
    ]
    for other in dict.fromkeys([*known, *(() if apart else (n.name for n in near))]):
        if join(file, held, other):
            notes.append(
                f"records of {held!r} are also charged as {other!r}: from now on the two add up."
            )
    _note(file, held, kept)
    return Account(held, tuple(notes))


def reads_all(file: LedgerFile, name: str) -> bool:
    """Whether a run of this account read all records, those held out too."""
    found = file.all("SELECT run FROM runs WHERE dataset=?", name)
    return any(run.startswith(BOUNDS) for (run,) in found)


def join_sides(file: LedgerFile, name: str) -> bool:
    """Make the records of an account and those held out from it add up, where there are such; False
    if there are none or they do already. Inside a transaction."""
    held = f"{name}{HELD_OUT}"
    known = file.one("SELECT 1 FROM rows WHERE dataset=? LIMIT 1", held) is not None
    return known and join(file, name, held)


def _named(file: LedgerFile, name: str, known: list[str], near: list[Near]) -> Account:
    """The user's word counts;
    only the very same records are never counted under two names apart."""
    notes = [
        f"the records of data set {name!r} are also charged as {other!r}: "
        "from now on the two add up."
        for other in dict.fromkeys(known)
        if join(file, name, other)
    ]
    # Nobody named these two apart: they are the two sides of one data set
    if any(n.name == f"{name}{HELD_OUT}" for n in near) and join_sides(file, name):
        notes.append(
            f"records that were held out of {name!r} are now trained on: from now on {name!r} and "
            f"{name + HELD_OUT!r} add up."
        )
    together = joined(file, name)
    notes += [
        f"about {n.share:.0%} of the records of data set {name!r} or of {n.name!r} are in both, "
        "and their budgets are kept apart because you named them apart. "
        f"If they are the same people's: tacenda ledger join LEDGER {name!r} {n.name!r}"
        for n in near
        if n.name not in together
    ]
    return Account(name, tuple(notes))


def _unnamed(file: LedgerFile, marks: Marks, known: list[str], near: list[Near]) -> Account:
    if known:
        require_name(file, known[0])
        return Account(known[0])
    if near:
        first = near[0]
        require_name(file, first.name)
        others = [n.name for n in near[1:] if join(file, first.name, n.name)]
        also = f" (which now adds up with {', '.join(map(repr, others))})" if others else ""
        return Account(
            first.name,
            (
                f"about {first.share:.0%} of these records or of those of {first.name!r} are in "
                f"both, so the run is charged to {first.name!r}{also}. "
                "If these are other people's records, pass a name of their own: dataset=...",
            ),
        )
    require_name(file)
    return Account(f"{UNNAMED}{marks.digest[:16]}")


def require_name(file: LedgerFile, found: str | None = None) -> None:
    """Refuse records without a name, where the ledger holds a budget: they may be the same
    people's, written in another way. found: the account that they have; one that was named, or has
    a budget, is enough."""
    if found is not None:
        whole = found.removesuffix(HELD_OUT)
        held = [budget_of(file, one) for name in (found, whole) for one in joined(file, name)]
        if not found.startswith(UNNAMED) or any(held):
            return
    rows = file.all("SELECT DISTINCT dataset FROM rows WHERE kind='budget' ORDER BY dataset")
    names = [name for (name,) in rows if not name.endswith(HELD_OUT)]
    if names:
        raise PrivacyError(
            f"the ledger holds a budget for {', '.join(map(repr, names))}, and these records have "
            "no name; they may be the same people's in another form. Name their account: "
            f"dataset={names[0]!r} (in the shell --dataset, in a run file run.ledger_dataset), or "
            "another name if they are other people's. It is remembered with the records."
        )


def overlapping(file: LedgerFile, marks: Marks) -> list[Near]:
    """Accounts that share many records with these, the nearest first."""
    best: dict[str, float] = {}
    for name, sketch in file.all("SELECT dataset, sketch FROM sketches"):
        share = marks.share(read_sketch(sketch))
        if share > best.get(name, 0.0):
            best[name] = share
    return [
        Near(name, share)
        for name, share in sorted(best.items(), key=lambda item: (-item[1], item[0]))
    ]


def _note(file: LedgerFile, name: str, marks: Marks) -> None:
    """The chained row holds a hash of the sketch, since exports leave the house and a sketch tells
    how many records there are."""
    if (
        file.one(
            "SELECT 1 FROM rows WHERE kind='records' AND dataset=? AND key=?", name, marks.digest
        )
        is not None
    ):
        return
    blob = marks.sketch.astype("<u8").tobytes()
    body = {"sketch": file.keyed(blob), "look": marks.look}
    file.append("records", name, key=marks.digest, body=body)
    file.execute("INSERT INTO sketches VALUES (?, ?, ?)", name, marks.digest, blob)


def read_sketch(blob: Any) -> NDArray[np.uint64]:
    return np.frombuffer(blob, "<u8").astype(np.uint64)


def sketch_fault(file: LedgerFile, rows: Iterable[dict[str, Any]]) -> str:
    """In words, where the kept sketches are not those of the rows; empty where they are."""
    noted = {
        (r["dataset"], r["key"]): json.loads(r["body"])["sketch"]
        for r in rows
        if r["kind"] == "records"
    }
    kept = {
        (name, digest): file.keyed(blob)
        for name, digest, blob in file.all("SELECT dataset, digest, sketch FROM sketches")
    }
    for key in sorted(set(noted) | set(kept)):
        if noted.get(key) != kept.get(key):
            return f"the records noted for data set {key[0]!r} are not those that the rows refer to"
    return ""
