"""Names files that programs outside a sandbox obey, so that confined tools do not change them.

A confined command that may write `.git/config` decides what the next `git status` of the user runs.
"""

from __future__ import annotations

# Relative to the root. Git reads `commondir` and `config.worktree` in place of, or beside, `config`.
PROTECTED = (
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks",
    ".git/info",
    ".steady-agent.toml",
    ".envrc",
    ".vscode",
    ".idea",
)
