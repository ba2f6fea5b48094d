"""The same work by programs that a user might choose instead, in the same run:
`python -m benchmarks.peers`."""
