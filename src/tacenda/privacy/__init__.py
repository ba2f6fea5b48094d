"""Privacy: secrets with bounds, the one door, events, ledgers and accounting."""
