"""Which algorithm serves which loss and regulariser, private or not: found by asking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacenda import graph, losses, regularisers
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts


@dataclass(frozen=True)
class Support:
    """plain, private: runs without, with privacy; clipped: if clipped; why: the refusal."""

    algorithm: str
    loss: str
    regulariser: str
    plain: bool
    private: bool
    clipped: bool
    why: str | None


def support(algorithm: str, loss: str, regulariser: str) -> Support:
    """What one combination can do."""
    plain = _refusal(algorithm, loss, regulariser, None, private=False)
    private: str | None = "It adds no noise."
    clipped: str | None = private
    if ALGORITHMS[algorithm].private:
        private = _refusal(algorithm, loss, regulariser, None, private=True)
        clipped = _refusal(algorithm, loss, regulariser, 1.0, private=True)
    needs_clip = private is not None and clipped is None
    return Support(
        algorithm, loss, regulariser, plain is None, clipped is None, needs_clip, plain or clipped
    )


def markdown() -> str:
    """The table for the docs: a row for the regularisers of an algorithm that are served alike, a
    column for each loss. Regularisers that nothing is served with have no row."""
    names = losses.names()
    marks = {(True, False): "yes", (True, True): "clipped", (False, False): "no noise"}
    lines = [
        f"| algorithm | regulariser | {' | '.join(names)} |",
        "| --- | --- |" + " --- |" * len(names),
    ]
    for a in ALGORITHMS:
        alike: dict[str, list[str]] = {}
        for r in regularisers.names():
            found = [support(a, lo, r) for lo in names]
            if any(s.plain for s in found):
                cells = [marks[s.private, s.clipped] if s.plain else "–" for s in found]
                alike.setdefault(" | ".join(cells), []).append(r)
        lines += [f"| {a} | {', '.join(served)} | {row} |" for row, served in alike.items()]
    return "\n".join(lines)


def _refusal(
    algorithm: str, loss: str, regulariser: str, clip_norm: float | None, private: bool
) -> str | None:
    constants = Constants.declared(
        loss=loss, regulariser=regulariser, clip_norm=clip_norm, classes=3
    )
    facts = Facts(np.full(4, 100.0), 5 * constants.n_outputs, constants).of_outcomes(5)
    try:
        ALGORITHMS[algorithm]().check(facts, Topology.of(graph.complete(4)), 10, private)
    except UnsupportedError as refused:
        return str(refused)
    return None
