"""The ways of running the command, one per module."""
