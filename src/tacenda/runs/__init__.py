"""A TOML file or flags in, a run folder out (`tc.fit`, `tc.compare`)."""
