"""Keeps the end of a command's output in memory and, beyond the limit, the whole output in a file.

Memory is bounded to a few hundred kilobytes, however long the output is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agent_tools.process.logs import LogFile
from agent_tools.process.terminal_text import OPEN_LINE_LIMIT, TerminalText
from agent_tools.truncate import MAX_BYTES, MAX_LINES, format_size, keep_tail


@dataclass(frozen=True, slots=True)
class Captured:
    """The finished output.

    `text` is for the model. `notice` says what was cut and where the full output is; empty when nothing was
    cut. `raw` is the end of the output with its escape codes; empty when there were none. `hash` covers the
    whole cleaned text.
    """

    text: str
    notice: str
    hash: str
    raw: str
    log_path: str


@dataclass(frozen=True, slots=True)
class Recent:
    """The output since a position, a notice of what was cut, and the position for the next call."""

    text: str
    notice: str
    position: int


class Capture:
    """Receives output as it arrives. Used by one thread at a time.

    `log_folder` is where the full output goes when it is long; a command that sees that folder under another
    path names it with `log_seen_in`.
    """

    def __init__(self, log_folder: str = "", log_seen_in: str = "") -> None:
        self._terminal = TerminalText()
        self._clean = _Tail()
        self._raw = _Tail()
        self._hash = hashlib.sha256()
        self._log = LogFile(log_folder, log_seen_in)
        self._line_ends = 0
        # Sizes in bytes of the last whole line and of the piece after it.
        self._last_line = 0
        self._open_line = 0

    @property
    def total_bytes(self) -> int:
        """Size in bytes of the cleaned text that is final so far."""
        return self._clean.total

    @property
    def received_bytes(self) -> int:
        """Number of bytes that the command has written."""
        return self._raw.total

    def feed(self, data: bytes) -> None:
        """Process more output."""
        self._raw.append(data)
        self._raw.trim()
        self._add(self._terminal.feed(data))

    def recent(self, limit: int) -> str:
        """Return about the last `limit` bytes of the text so far, including the unfinished line."""
        return (self._clean.last(limit) + self._terminal.open_line)[-limit:]

    def since(self, position: int) -> Recent:
        """Return the text after the first `position` bytes of final text, including the unfinished line."""
        new = self._clean.total - position
        held = min(new, len(self._clean.window))
        kept = keep_tail((self._clean.last(held) if held else "") + self._terminal.open_line)
        cut = held < new or kept.truncated
        notice = f"[The beginning was cut. {self._log.location()}]" if cut else ""
        return Recent(kept.content, notice, self._clean.total)

    def lines_since(self, position: int) -> tuple[str, int]:
        """For incremental search: the text from `position` on, and where its last, unfinished line begins."""
        held = min(self._clean.total - position, len(self._clean.window))
        text = self._clean.last(held) if held else ""
        return text + self._terminal.open_line, self._clean.total - min(self._open_line, OPEN_LINE_LIMIT)

    def finish(self) -> Captured:
        """End the output, close the log and return what was captured."""
        self._add(self._terminal.finish())
        self._log.close()
        kept = keep_tail(self._clean.last())
        raw = "" if self._raw.same_as(self._clean) else keep_tail(self._raw.last()).content
        if not self._over_limit():
            return Captured(self._clean.last(), "", self._digest(), raw, "")
        total = self._line_count()
        if kept.output_lines == total and not kept.last_line_partial:
            # Only the final line feed was over the limit: no line is missing.
            self._log.delete()
            return Captured(kept.content, "", self._digest(), raw, "")
        if kept.last_line_partial:
            shown, whole = format_size(kept.output_bytes), format_size(self._open_line or self._last_line)
            what = f"Showing last {shown} of line {total} (line is {whole})."
        else:
            because = f" ({format_size(MAX_BYTES)} limit)" if kept.truncated_by == "bytes" else ""
            what = f"Showing lines {total - kept.output_lines + 1}-{total} of {total}{because}."
        notice = f"[{what} {self._log.location()}]"
        return Captured(kept.content, notice, self._digest(), raw, self._log.path)

    def discard_log(self) -> None:
        """Delete the log, for a result that does not name it."""
        self._log.delete()

    def _add(self, text: str) -> None:
        if not text:
            return
        data = text.encode("utf-8")
        self._hash.update(data)
        self._count(data)
        self._clean.append(data)
        if self._log.started:
            self._log.write(data)
        elif self._over_limit():
            # The limit has just been passed, so the window still holds everything.
            self._log.start(bytes(self._clean.window))
        self._clean.trim()

    def _count(self, data: bytes) -> None:
        ends = data.count(b"\n")
        if not ends:
            self._open_line += len(data)
            return
        self._line_ends += ends
        last = data.rindex(b"\n")
        before = data.rfind(b"\n", 0, last)
        self._last_line = last - before - 1 if before >= 0 else self._open_line + last
        self._open_line = len(data) - last - 1

    def _line_count(self) -> int:
        return self._line_ends + bool(self._open_line)

    def _over_limit(self) -> bool:
        return self._clean.total > MAX_BYTES or self._line_count() > MAX_LINES

    def _digest(self) -> str:
        return self._hash.hexdigest()[:16]


class _Tail:
    """The last bytes of a stream: at least twice what is shown, so that no cut reaches the window's start."""

    def __init__(self) -> None:
        self.window = bytearray()
        self.total = 0

    def append(self, data: bytes) -> None:
        self.window += data
        self.total += len(data)

    def trim(self) -> None:
        # Half of the window at a time, so that each byte is moved about once.
        if len(self.window) > 4 * MAX_BYTES:
            del self.window[: -2 * MAX_BYTES]

    def same_as(self, other: _Tail) -> bool:
        """Whether both streams are equal, as far as their windows show."""
        size = min(len(self.window), len(other.window))
        return self.total == other.total and self.window[-size:] == other.window[-size:]

    def last(self, limit: int = 0) -> str:
        """Return the text of the last `limit` bytes (0: of the window), starting at a whole character."""
        data = bytes(self.window[-limit:] if limit else self.window)
        if len(data) < self.total:
            # A character that was cut leaves at most three continuation bytes.
            data = data[next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0) :]
        return data.decode("utf-8", "replace")
