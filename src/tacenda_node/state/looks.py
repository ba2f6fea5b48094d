"""A look at a node's state from outside, also while the node runs, without taking its place."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.privacy.lasting.rounds import from_text
from tacenda_node.state.database import FILE, done_of
from tacenda_node.state.locks import lock


def in_use(folder: str | Path) -> bool:
    """Whether a node runs on this state, by a look that does not take its place."""
    try:
        handle = os.open(Path(folder) / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        lock(handle)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def booked(folder: str | Path) -> tuple[int, list[tuple[dict[str, Any], int]]]:
    """(rounds done, each release that was booked and how often), by a look from outside: also
    while the node runs, and without taking its place."""
    path = Path(folder) / FILE
    if not path.is_file():
        return 0, []
    # Without a log beside it nobody has the file open, and nothing but the file is read
    alone = "" if path.with_name(f"{FILE}-wal").exists() else "&immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{alone}", uri=True)) as db:
        try:
            db.execute("BEGIN")  # one moment for all tables
            events = db.execute("SELECT event, COUNT(*) FROM charges GROUP BY event").fetchall()
            past = db.execute("SELECT stretch FROM folded").fetchall()
            row = db.execute("SELECT view, round FROM checkpoint").fetchone()
            noted = db.execute("SELECT value FROM about WHERE name='done'").fetchone()
        except sqlite3.DatabaseError as failed:
            raise StateError(
                f"The state {path} cannot be read ({failed}); look at it again in a moment, and if "
                "that does not help, run `tacenda doctor`."
            ) from None
    for stretch in (stretch for (text,) in past for stretch in from_text(text)):
        events += [(event, stretch.rounds) for _, event in stretch.pattern]
    done = 0 if row is None else max(tuple(row), done_of(None if noted is None else noted[0]))[1]
    return int(done), [(json.loads(text), n) for text, n in events]
