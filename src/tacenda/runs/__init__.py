"""The application: from a configuration to finished models in a run folder, as `tacenda.fit` and `tacenda.compare`."""
