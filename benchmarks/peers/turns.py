"""What every side of a comparison does, whatever environment it runs in: it says when it has
imported, when it is ready, and then makes one turn for every line it is sent.

It imports nothing but the standard library and NumPy, and knows nothing of us or them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


class Work:
    """The work that is the same for all sides: records in one table, node after node, and what is
    asked for. The last `test` records belong to no node."""

    def __init__(self, folder: str, asked: str) -> None:
        self.folder = Path(folder)
        self.asked: dict[str, Any] = json.loads((self.folder / asked).read_text())
        table, labels = (
            np.load(self.folder / "X.npy", mmap_mode="r"),
            np.load(self.folder / "y.npy"),
        )
        train = len(labels) - int(self.asked["test"])
        self.X, self.test_X = table[:train], table[train:]
        self.y, self.test_y = labels[:train], labels[train:]
        self.nodes = int(self.asked["nodes"])
        self.records = train // self.nodes

    def part(self, node: int) -> tuple[Any, Any]:
        """A node's own records and labels (0 or 1)."""
        own = slice(node * self.records, (node + 1) * self.records)
        return np.array(self.X[own]), self.y[own]

    def loss(self, w: Any) -> float:
        """Mean logistic loss of a model over all records: the figure that shows that all sides did
        the same."""
        margin = (2.0 * self.y - 1) * (self.X @ np.asarray(w, float))
        return float(np.logaddexp(0, -margin).mean())


def take_turns(package: str, prepare: Callable[[Work], Callable[[], dict[str, Any]]]) -> None:
    """Prepare, then answer each line of the standard input with one turn, as a line of JSON.

    `prepare` makes problem and network and gives back what makes one turn, which answers with at
    least "seconds". Libraries that print do so into the log, not into the answers.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def tell(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")

    tell(stage="imported", program=f"{package} {metadata.version(package)}")
    turn = prepare(Work(*sys.argv[1:3]))
    tell(stage="ready")
    for _ in sys.stdin:
        tell(stage="turn", **turn())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and what came out."""
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found
