"""A member's own run: from its records and the contract to the shared model."""
