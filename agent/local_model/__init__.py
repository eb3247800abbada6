"""Runs a small model on this machine, for tests and for a first try without a key.

SmolLM2-135M is large enough to test the connection: it streams and can be made to call a tool, but it is not
a useful agent. Its server offers Chat Completions (and more) on a loopback port, in a child process that
never outlives this one.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Protocol

from agent.errors import ConfigurationError
from agent.local_model.parts import HOW_TO_INSTALL, LocalParts, fetch, find
from agent.models import Model
from agent.usage import ModelCost

__all__ = ["LocalParts", "LocalServer", "fetch", "find"]

_HERE = Path(__file__).parent
_READY = b"listening on "
# Loading takes about a second when the files are cached, and many on a cold or busy machine.
_START_SECONDS = 60.0
_POLL = 0.05


class _Cancel(Protocol):
    def wait(self, timeout: float) -> bool: ...


class LocalServer:
    """The model server as a context manager: ready when entered, stopped when left.

    `cancel` (anything with `wait(timeout) -> bool`) and `timeout` (seconds) bound the start. Entering raises
    ConfigurationError, with what to install or what went wrong, when the parts are missing, the processor
    lacks an instruction set that the engine needs, or the start was cancelled or took too long. The server
    also ends with this process, however that ends. Threads: used by one at a time.
    """

    def __init__(
        self,
        parts: LocalParts | None = None,
        *,
        cancel: _Cancel | None = None,
        timeout: float = _START_SECONDS,
    ) -> None:
        self._parts = parts
        self._cancel = cancel
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""

    @property
    def base_url(self) -> str:
        """The base URL of the wire formats: `http://127.0.0.1:port/v1`."""
        return f"{self.url}/v1"

    @property
    def model(self) -> Model:
        """The model of this server, for an `Agent`."""
        return Model(
            "smollm2",
            "openai-completions",
            "local",
            self.base_url,
            name="SmolLM2-135M-Instruct",
            context_window=4096,
            max_tokens=1024,
            cost=ModelCost(0.0, 0.0),
        )

    @property
    def pid(self) -> int | None:
        """The process id of the server; None when it is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and return once it is ready; when this raises, nothing keeps running."""
        parts = self._parts or find()
        self.url = ""
        command = [
            str(_HERE / "server.py"),
            str(parts.engine),
            str(parts.weights),
            str(_HERE / "tools.jinja"),
        ]
        self._scratch = tempfile.TemporaryDirectory(prefix="steady-agent-", ignore_cleanup_errors=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C must not reach the server: this process stops it
            )
        atexit.register(self.stop)
        try:
            self._wait_until_ready(time.monotonic() + self._timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and wait until it has ended; does nothing when it is not running."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin
            process.stdin.close()
            try:
                # The server ends when its input is closed, unless it is still loading.
                process.wait(0.5 if self.url else 0)
            except subprocess.TimeoutExpired:
                _kill(process)
                process.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def __enter__(self) -> LocalServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_ready(self, deadline: float) -> None:
        assert self._process
        while not (self._is_listening() and self._is_healthy()):
            if self._process.poll() is not None:
                raise ConfigurationError(self._exit_reason(self._process.returncode))
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    f"the local model was not ready after {self._timeout:g} s: {self._output_tail()}"
                )
            if self._cancel is None:
                time.sleep(_POLL)
            elif self._cancel.wait(_POLL):
                raise ConfigurationError("the start of the local model was cancelled")

    def _is_listening(self) -> bool:
        for line in self._output().splitlines(keepends=True):
            if line.startswith(_READY) and line.endswith(b"\n"):
                self.url = line.removeprefix(_READY).decode().strip()
        return bool(self.url)

    def _is_healthy(self) -> bool:
        try:
            # Requests to loopback must not go to a proxy of the environment.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.url}/health", timeout=5) as response:
                return bool(json.load(response).get("status") == "ok")
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def _exit_reason(self, code: int) -> str:
        if hasattr(signal, "SIGILL") and code == -signal.SIGILL:
            return "the engine of the local model needs a processor with AVX2, which this one lacks"
        output = self._output_tail()
        if "ImportError" in output or "ModuleNotFoundError" in output:
            return f"the engine of the local model cannot be loaded: {HOW_TO_INSTALL}. Its output: {output}"
        return f"the server of the local model ended with exit code {code}: {output}"

    def _output_tail(self) -> str:
        return self._output()[-1000:].decode(errors="replace").strip() or "it printed nothing"

    @property
    def _log(self) -> Path:
        assert self._scratch
        return Path(self._scratch.name) / "server.log"

    def _output(self) -> bytes:
        return self._log.read_bytes()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
