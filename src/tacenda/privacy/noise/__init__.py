"""Noise: where it comes from, seeded for simulations and keyed for real nodes,
and how it is drawn."""
