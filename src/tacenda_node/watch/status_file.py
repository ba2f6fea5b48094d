"""A node's status from its state folder, whether it runs or not."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from tacenda.errors import InputError, StateError
from tacenda_node.operate.settings import FILE as SETTINGS
from tacenda_node.operate.settings import read_settings, settings_file
from tacenda_node.state.looks import booked
from tacenda_node.watch import observer
from tacenda_node.watch.status import FORMAT, NodeStatus, day, duration

SILENT = 15.0  # seconds without a sign of life, after which a node counts as ended


def state_folder(place: Path | None) -> Path:
    """The state folder that is meant: itself, or that of the member's folder with its node.toml,
    of the present or latest run of its queue; by default those of the current folder."""
    if place is not None and (place / observer.FILE).exists():
        return place
    if place is None and settings_file(None) is None:
        return Path("state")
    if place is not None and not (place / SETTINGS).exists() and not place.is_file():
        return place
    from tacenda_node.operate.queue import Queue

    return Queue(place).present_state() or read_settings(place).state


def read_status(folder: str | Path) -> NodeStatus:
    """What the node last told about itself; of one that ended without a word (killed, or the power
    failed), that, and the round that its state has reached."""
    path = Path(folder) / observer.FILE
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"No node has been started with the state folder {str(folder)!r}: it holds no "
            f"{observer.FILE}; start it by `tacenda node run`, or give another folder."
        ) from None
    except ValueError:
        raise StateError(
            f"{path} is not readable JSON; start the node again to renew it."
        ) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise StateError(
            f"{path} is not in the format {FORMAT!r}; it is of another version of the program."
        )
    status = NodeStatus.from_plain(values)
    age = time.time() - status.at
    if status.state in ("finished", "stopped") or age < SILENT:
        return status
    rounds, _ = booked(folder)
    return replace(
        status,
        state="stopped",
        summary=f"stopped after round {rounds}",
        alive=False,
        ready=False,
        in_order=False,
        round=rounds,
        waiting_for=[],
        waiting_seconds=0.0,
        causes=[],
        stopped=f"The node gave no sign of life since {day(status.at)}, {duration(age)} ago: its "
        "process was killed or hangs, or the machine was turned off.",
        to_do="Start the node again: it continues where it stopped, and nothing is spent twice.",
    )
