"""Converts the output of a command into the text that a terminal would show.

Colours and other escape sequences are removed. After a carriage return or a backspace the text before it is
overwritten, so that a progress bar becomes its last frame. Other control codes are removed. Only the current
line can be overwritten: cursor movements to other lines are ignored.
"""

from __future__ import annotations

import codecs
import re

# Characters after which an unfinished line becomes final: it is not a progress bar, memory stays bounded and
# each character is handled once.
OPEN_LINE_LIMIT = 8192

# Escape sequences (ECMA-48): CSI with its parameters, intermediates and final byte; the strings OSC, DCS,
# SOS, PM and APC up to BEL or ST, but never past the end of a line or into another escape sequence; then
# the short ones, a lone ST among them.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
# The start of a sequence whose rest has not arrived, and a carriage return that may be part of a CRLF.
_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?P<string>\x1b[\]PX^_])[^\x07\x1b\x9c\r\n]*(?P<end>\x1b?)"
    r"|\x1b[ -/]*"
    r"|(?<!\r)\r+)\Z"
)
# Real sequences have a dozen characters; longer ones are noise that must not accumulate.
_UNFINISHED_LIMIT = 256

# Two control codes, removed from the input first, stand for "erase to the right" and "erase the line".
_ERASE_RIGHT, _ERASE_LINE = "\x01", "\x02"
_MOVES = {
    ("", "K"): _ERASE_RIGHT,
    ("0", "K"): _ERASE_RIGHT,
    ("2", "K"): _ERASE_LINE,
    ("", "G"): "\r",
    ("0", "G"): "\r",
    ("1", "G"): "\r",
}
_STEPS = re.compile(r"([\n\r\b\x01\x02])")
_MOVING = re.compile(r"[\r\b\x01\x02]")
_LINE_END = re.compile(r"(?<!\r)\r+\n")

_PLAIN_CONTROLS = {"\t", "\n"}
_C0_C1 = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))] + ["\ufff9", "\ufffa", "\ufffb"]
# Removed before escape sequences are parsed: all but the characters of sequences and cursor movements.
_DROP_BEFORE = dict.fromkeys(ord(c) for c in _C0_C1 if c not in _PLAIN_CONTROLS | set("\r\b\x07\x1b\x9b\x9c"))
_DROP_AFTER = dict.fromkeys(map(ord, "\x07\x1b\x9b\x9c"))
_SPECIAL = re.compile("[" + "".join(c for c in _C0_C1 if c not in _PLAIN_CONTROLS) + "]")
_SPECIAL_BYTES = bytes(ord(c) for c in _C0_C1 if ord(c) < 0x80 and c not in _PLAIN_CONTROLS)


class TerminalText:
    """Decodes and cleans output as it arrives; how it is split into pieces does not change the result.

    Bytes are decoded as UTF-8, invalid ones become U+FFFD. Memory is bounded. Used by one thread.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._line = ""
        self._column = 0
        # "Erase the line" takes effect at the next carriage return: before a line end it would only remove
        # text that was meant to be read.
        self._erase_on_return = False
        # The beginning of the current line has been returned as final.
        self._line_is_cut = False

    @property
    def open_line(self) -> str:
        """The current line so far; it may still be overwritten."""
        return self._line

    def feed(self, data: bytes) -> str:
        """Process more bytes and return the text that became final: whole lines, or pieces of a long one."""
        text = self._unfinished + self._decoder.decode(data)
        self._unfinished = ""
        if _is_plain(text):
            return self._append(text)
        # Before the search for an unfinished sequence: a NUL inside a sequence does not end it.
        text = text.translate(_DROP_BEFORE)
        if found := _UNFINISHED.search(text):
            self._unfinished = _shortened(found)
            text = text[: found.start()]
        # Before sequences become movements: a movement to the start of the line is not part of a line end.
        text = _LINE_END.sub("\n", text)
        text = _ESCAPE.sub(_move, text).translate(_DROP_AFTER)
        return self._replay(text) if _MOVING.search(text) else self._append(text)

    def finish(self) -> str:
        """Return the rest after the last byte."""
        text = self._append(self._decoder.decode(b"", True))
        rest, self._line, self._column, self._unfinished = text + self._line, "", 0, ""
        return rest

    def _append(self, text: str) -> str:
        """Process text without cursor movements other than line ends."""
        if not text:
            return ""
        if self._column != len(self._line) or self._erase_on_return:
            return self._replay(text)
        final, end, rest = text.rpartition("\n")
        if end:
            final, self._line, self._line_is_cut = self._line + final + end, rest, False
        else:
            self._line += rest
        self._column = len(self._line)
        return final + self._cut_line()

    def _replay(self, text: str) -> str:
        """Process text step by step, as a terminal does."""
        final: list[str] = []
        line, column = self._line, self._column
        for step in _STEPS.split(text):
            match step:
                case "":
                    pass
                case "\n":
                    final.append(line + "\n")
                    line, column = "", 0
                    self._erase_on_return = self._line_is_cut = False
                case "\r":
                    if self._line_is_cut:
                        # Its beginning is final already: keep the line and start another one.
                        final.append(line + "\n")
                        self._line_is_cut, line = False, ""
                    if self._erase_on_return:
                        self._erase_on_return, line = False, ""
                    column = 0
                case "\b":
                    column = max(column - 1, 0)
                case "\x01":
                    line = line[:column]
                case "\x02":
                    line, self._erase_on_return = ("", False) if column == 0 else (line, True)
                case _:
                    self._erase_on_return = False
                    line = line[:column] + step + line[column + len(step) :]
                    column += len(step)
                    if len(line) > OPEN_LINE_LIMIT and column == len(line):
                        final.append(line)
                        line, column, self._line_is_cut = "", 0, True
        self._line, self._column = line, column
        return "".join(final)

    def _cut_line(self) -> str:
        if len(self._line) <= OPEN_LINE_LIMIT:
            return ""
        piece, self._line, self._column, self._line_is_cut = self._line, "", 0, True
        return piece


def plain_text(text: str) -> str:
    """Return `text` as a terminal would show it: see `TerminalText`."""
    terminal = TerminalText()
    return terminal.feed(text.encode("utf-8", "replace")) + terminal.finish()


def _is_plain(text: str) -> bool:
    if text.isascii():
        # Four times as fast as the regular expression, and nearly all output is ASCII.
        data = text.encode("ascii")
        return len(data.translate(None, _SPECIAL_BYTES)) == len(data)
    return _SPECIAL.search(text) is None


def _move(found: re.Match[str]) -> str:
    return _MOVES.get((found["parameters"] or "", found["final"] or ""), "")


def _shortened(found: re.Match[str]) -> str:
    """The part of an unfinished sequence that must be kept until the rest arrives."""
    if found["string"]:
        # The payload of a string sequence is dropped anyway.
        return found["string"] + found["end"]
    if found[0][0] == "\r":
        return "\r"
    return found[0][:_UNFINISHED_LIMIT]
