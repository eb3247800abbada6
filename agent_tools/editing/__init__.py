"""Replacing quoted text in a file."""
