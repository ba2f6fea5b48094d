"""The papers: their experiments, what they claim, and their bounds as functions."""
