"""The command `agent`: one way of showing a run per file."""
