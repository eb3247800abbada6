"""The folder of the user's own configuration, which applies to all projects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/steady-agent`, or `~/.config/steady-agent`. It need not exist.

    A relative XDG_CONFIG_HOME is ignored, as its specification asks.
    """
    base = environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()
    return root / "steady-agent"
