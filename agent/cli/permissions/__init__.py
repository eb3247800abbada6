"""Approvals: the rules, the files that hold them, the hook that judges calls, and the terminal prompt."""
