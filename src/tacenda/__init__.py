"""Differentially private, fully decentralised convex learning."""
