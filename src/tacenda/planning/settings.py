"""What a run is given beside its problem and its budget, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacenda.algorithms.base import Algorithm
from tacenda.runtime.closing import Finish


@dataclass(frozen=True)
class Settings:
    """An algorithm with its rounds, output rule and closing mixings; one sentence for each choice.

    `tc.simulate(problem, graph, privacy=..., **settings.settings)` carries it out.

    Attributes
    ----------
    algorithm : Algorithm
        The algorithm with its settings.
    rounds : int
        Number of rounds.
    output : str
        "average" or "last".
    finish_mixing : int or str
        Closing mixings, or "exact".
    reasons : tuple of str
        One sentence for each choice.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.planning import without_privacy
    >>> wish = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> sorted(without_privacy(wish.facts).settings)
    ['algorithm', 'finish_mixing', 'output', 'rounds']
    """

    algorithm: Algorithm
    rounds: int
    output: str
    finish_mixing: Finish
    reasons: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `simulate` that are decided here."""
        return {
            "algorithm": self.algorithm,
            "rounds": self.rounds,
            "output": self.output,
            "finish_mixing": self.finish_mixing,
        }
