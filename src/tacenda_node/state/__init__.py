"""What a node keeps: its database, the mark beside the ledger, charges and spending."""
