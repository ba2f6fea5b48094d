"""Speed as ratios within one run: `python -m benchmarks`. Nothing passes or fails on time."""
