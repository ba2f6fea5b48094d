"""What the records of a node answer: gradients, moments, statistics and argmins."""
