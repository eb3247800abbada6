"""Runs the interactive mode in a pseudo-terminal, types into it and reads its screen."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pexpect
from support.command import ROOT
from support.terminal import Screen

# Long for a machine with much to do; a test that passes waits a fraction of a second.
_PATIENCE = 20.0


class Interactive:
    """The command in a pseudo-terminal, and the screen that its output makes."""

    def __init__(
        self, url: str, home: Path, *words: str, columns: int = 80, rows: int = 24, **env: str
    ) -> None:
        self.screen = Screen(columns, rows)
        self.raw = ""
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        environment = keep | {
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            **env,
        }
        command = ["-m", "agent", "--model", "local/test", "--base-url", url, "--cwd", str(home), *words]
        self.child = pexpect.spawn(
            sys.executable, command, env=environment, dimensions=(rows, columns), encoding="utf-8", echo=False
        )
        self.child.delaybeforesend = None

    def __enter__(self) -> Interactive:
        try:
            self.wait_for(r"\n[a-z]+/\S+")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, whatever it does."""
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
        self.child.close(force=True)

    def type(self, text: str) -> None:
        """Type as a person would, all at once."""
        self.child.send(text)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Read what it writes until something holds."""
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come; the screen:\n" + "\n".join(self.screen.lines))
            self._read()

    def wait_for(self, pattern: str) -> None:
        """Until the pattern stands somewhere in what is shown."""
        self.wait_until(lambda: re.search(pattern, self.text) is not None, repr(pattern))

    def wait_gone(self, pattern: str) -> None:
        """Until it does not."""
        self.wait_until(lambda: re.search(pattern, self.text) is None, f"the end of {pattern!r}")

    def wait_exit(self) -> int:
        """Until the command has ended; its exit code, negative for a signal."""
        deadline = time.monotonic() + _PATIENCE
        while self._read() and time.monotonic() < deadline:
            pass
        self.child.wait()
        return self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self.screen.resize(columns, rows)
        self.child.setwinsize(rows, columns)

    @property
    def text(self) -> str:
        """All lines so far."""
        return "\n".join(self.screen.lines)

    @property
    def line(self) -> str:
        """The input line."""
        prompts = [row for row in self.screen.visible if row.startswith("❯")]
        return prompts[-1][1:].strip() if prompts else ""

    def _read(self) -> bool:
        try:
            piece = self.child.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += piece
        self.screen.feed(piece)
        return True
