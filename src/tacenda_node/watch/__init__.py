"""What a node tells its operator: status, page, metrics and display."""
