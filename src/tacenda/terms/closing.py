"""How a run ends: with a number of closing mixings, or with one exact average of all outputs over
the spanning tree. Both act on released values only and cost no privacy.

    finish_mixing = k         k rounds that only mix: 2 E k messages, the nodes come near each other
    finish_mixing = "exact"   one round up and down the tree: 2 (n - 1) messages, never more than
                              a single mixing's, and all nodes have the same model to the bit
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacenda import checks
from tacenda.errors import InputError
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.graph.topology import Topology

EXACT = "exact"
Finish = int | str


def checked_finish(name: str, value: Any) -> Finish:
    """The number of closing mixings, or "exact"."""
    if isinstance(value, str):
        if value == EXACT:
            return value
        raise InputError(
            f"{name} must be a whole number of closing mixings, or {EXACT!r} for one exact "
            f"average, not {value!r}."
        )
    return checks.whole(name, value)


def closing_for(topology: Topology) -> Finish:
    """One exact average, which costs no more than a mixing; nothing where a node is alone."""
    return EXACT if topology.n > 1 else 0


def closing_words(finish: Finish) -> str:
    """For readers."""
    if isinstance(finish, str):
        return "one closing average, exact, over a spanning tree"
    return counted(finish, "closing mixing round")


def finish_of(settings: Mapping[str, Any]) -> Finish:
    """How a run ended, by its plain settings."""
    found: Finish = settings.get("finish_mixing", 0)
    return found


def closes(settings: Mapping[str, Any]) -> bool:
    """Whether rounds follow those of the algorithm, by a run's plain settings."""
    return finish_of(settings) != 0
