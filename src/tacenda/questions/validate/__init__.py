"""Checks of what a user gives as records and labels."""
