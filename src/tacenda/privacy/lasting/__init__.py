"""The lasting ledger: what a data set has spent in all runs, and its budget."""
