"""Converts the amounts of a recipe."""
