"""Choosing among candidates inside one budget.

budget     how a budget is divided over the trainings of a search, and which way is the better one
scores     the score of every candidate on a record: the statistic by which one is chosen
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.selection.budget import Way, ways_to_search
    from tacenda.selection.scores import CandidateScores

_HOMES = {"CandidateScores": "scores", "Way": "budget", "ways_to_search": "budget"}

__all__ = ["CandidateScores", "Way", "ways_to_search"]

__getattr__ = lazily(__name__, _HOMES)
