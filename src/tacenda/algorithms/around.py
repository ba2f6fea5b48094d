"""What an algorithm that wraps another one leaves as it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.needs import Needs


@dataclass(frozen=True)
class Around(Algorithm):
    """An algorithm around another; `beside` is what its title adds."""

    algorithm: Algorithm

    beside: ClassVar[str]
    source: ClassVar[str] = "ours"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.algorithm.title}, {self.beside}"

    @property
    def private(self) -> bool:  # type: ignore[override]
        return self.algorithm.private

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        return self.algorithm.needs

    @property
    def default_output(self) -> str:  # type: ignore[override]
        return self.algorithm.default_output

    @property
    def batch_size(self) -> int | None:  # type: ignore[override]
        return self.algorithm.batch_size

    def averaging_weight(self, turn: int, rounds: int) -> float:
        return self.algorithm.averaging_weight(turn, rounds)
