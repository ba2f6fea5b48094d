"""A page to watch a node: served by the node itself on 127.0.0.1, to whoever holds its token."""

from tacenda_node.watch.dashboard.page import Dashboard

__all__ = ["Dashboard"]
