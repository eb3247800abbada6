"""Reads a TOML file of settings; whatever is wrong with it is a ConfigurationError that names the file."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from agent.errors import ConfigurationError

# Hundreds of rules fit. The parser needs quadratic time for some files, and a project may bring any file.
_MAX_BYTES = 64 * 1024
# Opening a named pipe would wait for its writer.
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def read_toml(path: Path, *, max_bytes: int = _MAX_BYTES) -> dict[str, Any]:
    """The tables of a file; empty when there is no file of that name.

    Raises ConfigurationError for a file that is not regular, can't be read, is larger than `max_bytes` or is
    not valid TOML, and for a link that leads nowhere.
    """
    try:
        data = _read(path, max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigurationError(f"{path} is a link to a file that does not exist") from None
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path} is not valid TOML: it is nested too deeply") from None


def _read(path: Path, max_bytes: int) -> bytes:
    with open(os.open(path, _OPEN_FLAGS), "rb", closefd=True) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ConfigurationError(f"{path} is not a regular file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ConfigurationError(f"{path} is larger than {max_bytes // 1024} kB")
    return data
