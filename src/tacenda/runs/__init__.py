"""Run folders: where a run's configuration, models, metrics, ledger and report lie together, and how they are made."""
