"""Secrets: values of known sensitivity, the one door, what a release costs,
and the ledger of a run."""
