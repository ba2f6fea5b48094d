"""The command that this package adds to `tacenda` (`tacenda.cli.table`)."""

from __future__ import annotations

from tacenda.cli.table import Command

COMMANDS = (
    Command(
        220,
        "experiment",
        "The papers' experiments, and our own.",
        "tacenda_papers.experiments.commands:experiment_app",
    ),
)
