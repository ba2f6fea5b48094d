"""The deployed peer: one node per organisation, over mutual TLS, with a crash-safe outbox and no
server to trust."""
