"""The application: from a configuration to a finished run folder (`tc.fit`, `tc.compare`)."""
