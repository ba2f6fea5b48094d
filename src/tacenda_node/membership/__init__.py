"""Who takes part: votes and the agreement of those who remain."""
