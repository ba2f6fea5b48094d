"""All commands of `tacenda consortium`."""

from __future__ import annotations

from tacenda_node.commands import consortium, proposing
from tacenda_node.commands.options import consortium_app

__all__ = ["consortium", "consortium_app", "proposing"]
