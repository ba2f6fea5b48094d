"""Signed proposals among the members: the next run, another member, one less, or a stop."""
