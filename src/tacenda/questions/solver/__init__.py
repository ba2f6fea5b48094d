"""Minimisers: of one node's objective, around an anchor, and of the pooled objective."""
