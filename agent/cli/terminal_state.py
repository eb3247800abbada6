"""Saves the terminal's settings and restores them when the program ends in the middle of something."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

# Colours off, cursor shown, bracketed paste off, then the rest of our live lines erased.
_RESET = b"\x1b[0m\x1b[?25h\x1b[?2004l\r\n\x1b[J"


@dataclass(frozen=True, slots=True)
class TerminalState:
    """The settings of the terminal at one moment. `restore` may be called from a signal handler."""

    settings: Sequence[tuple[int, Any]] = ()  # descriptor and its termios attributes
    output: int | None = None  # the descriptor that takes escape codes

    @classmethod
    def saved(cls) -> TerminalState:
        """The settings that hold now; restoring does nothing where there is no terminal."""
        try:
            import termios
        except ImportError:
            return cls()
        settings = []
        with suppress(OSError, ValueError, AttributeError, termios.error):
            settings.append((sys.stdin.fileno(), termios.tcgetattr(sys.stdin.fileno())))
        return cls(settings, _terminal_output())

    def restore(self) -> None:
        """Restore the settings, show the cursor and erase what was still being drawn."""
        if not self._is_in_foreground():
            return  # the terminal belongs to another program, and changing it would stop this one
        if self.output is not None:
            with suppress(OSError):
                os.write(self.output, _RESET)
        if not self.settings:
            return
        import termios

        for descriptor, attributes in self.settings:
            with suppress(OSError, termios.error):
                termios.tcsetattr(descriptor, termios.TCSANOW, attributes)

    def _is_in_foreground(self) -> bool:
        descriptors = [descriptor for descriptor, _ in self.settings]
        if self.output is not None:
            descriptors.append(self.output)
        with suppress(OSError):
            return all(os.tcgetpgrp(descriptor) == os.getpgrp() for descriptor in descriptors)
        return False


def _terminal_output() -> int | None:
    """The descriptor of standard output when it is a terminal that understands escape codes."""
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        return None
    with suppress(OSError, ValueError, AttributeError):
        if sys.stdout.isatty():
            return sys.stdout.fileno()
    return None
