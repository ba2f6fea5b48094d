"""One TOML file describes a run: read it, override it, fill it in, and turn it into objects."""
