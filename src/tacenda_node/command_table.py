"""The commands that this package adds to `tacenda` (`tacenda.cli.table`)."""

from __future__ import annotations

from tacenda.cli.table import Command

COMMANDS = (
    Command(
        150,
        "doctor",
        "Check a member's machine before a run.",
        "tacenda_node.commands.running:doctor",
    ),
    Command(
        160, "relay", "Join members who can only call out.", "tacenda_node.commands.relaying:relay"
    ),
    Command(
        170,
        "evidence",
        "Evidence that an officer signs and anybody can check.",
        "tacenda_node.commands.evidence:app",
    ),
    Command(
        230,
        "consortium",
        "Set up a federation with others.",
        "tacenda_node.commands.federation:consortium_app",
    ),
    Command(
        240,
        "certs",
        "Keys and certificates, made on site.",
        "tacenda_node.commands.certs:certs_app",
    ),
    Command(
        250,
        "contract",
        "The contract that all members sign.",
        "tacenda_node.commands.contracts:contract_app",
    ),
    Command(
        260, "node", "Take part in a run over the network.", "tacenda_node.commands.node:node_app"
    ),
)
