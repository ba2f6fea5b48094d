"""Accounting: events, privacy curves and their judges, and from a target back to the noise."""
