"""The group `tacenda node`; its commands stand in three files, listed in this order."""

from __future__ import annotations

from tacenda_node.commands import life, running, watching
from tacenda_node.commands.options import node_app

__all__ = ["life", "node_app", "running", "watching"]
