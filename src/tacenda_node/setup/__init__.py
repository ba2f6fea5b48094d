"""Before a run: drafting a contract with others, checking machines, and rehearsing."""
