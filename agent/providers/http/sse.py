"""Server-sent events: from chunks of bytes to payloads.

Bytes are decoded when an event is complete, so a character that is split between two packets does no harm.
Complete events are decoded and split together, which costs well under a microsecond per event. Lines end at
LF, CRLF or CR only: `str.splitlines` would also split at U+2028, U+0085 and others that are allowed inside a
JSON string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# A line may have 10 MiB (a tool call with a whole file in it), an event a little more.
MAX_EVENT_BYTES = 16 * 1024 * 1024

_OTHER_FIELDS = ("", "event", "id", "retry")  # besides `data`; a comment has an empty name
_STRAY_SHOWN = 300  # characters: enough to tell a login page from an error message


class EventTooLargeError(Exception):
    """The server sent more than `MAX_EVENT_BYTES` without ending the event."""


class SseReader:
    """Iterates over the payloads (`data` fields) of a stream of byte chunks, as text.

    Several `data` lines are joined by line feeds. Comments, unknown fields and events without data are
    skipped; an unfinished last event counts. Bytes that are not UTF-8 become U+FFFD. `event` is the name of
    the event of the last payload, empty when it had none. `stray` is the beginning of the first text that
    does not belong to an event stream, such as a web page. Each byte is processed once. Not thread-safe.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.event = ""
        self.stray = ""
        self._chunks = chunks

    def __iter__(self) -> Iterator[str]:
        for block in _complete_events(self._chunks):
            for event in block.decode("utf-8", "replace").split("\n\n"):
                if event.startswith("data: ") and "\n" not in event:
                    self.event = ""
                    yield event[6:]
                elif event.startswith("event: ") and event.count("\n") == 1 and "\ndata: " in event:
                    self.event, _, payload = event[7:].partition("\ndata: ")
                    yield payload
                elif event:
                    name, data = _fields(event)
                    if data is not None:
                        self.event = name
                        yield data
                    elif not self.stray:
                        self.stray = _stray(event)


def _fields(event: str) -> tuple[str, str | None]:
    """The name and the data of one event; the data is None when there is none."""
    name, data = "", []
    for line in event.removeprefix("\ufeff").split("\n"):
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
    return name, "\n".join(data) if data else None


def _stray(event: str) -> str:
    lines = event[:_STRAY_SHOWN].removeprefix("\ufeff").split("\n")
    return "\n".join(line for line in lines if line.partition(":")[0] not in _OTHER_FIELDS)


def _complete_events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks of complete events with LF line ends; the last block may lack its empty line."""
    pieces: list[bytes] = []  # of an event that is not complete yet
    held = 0
    after_cr = False
    for raw in chunks:
        chunk = raw
        if after_cr or b"\r" in chunk:
            chunk = _with_line_feeds(chunk, after_cr)
            after_cr = raw.endswith(b"\r") or (after_cr and not raw)
        elif not pieces and chunk.endswith(b"\n\n"):  # complete events, as nearly always
            yield chunk[:-2]
            continue
        if not chunk:
            continue
        end = chunk.rfind(b"\n\n")
        if end < 0 and chunk.startswith(b"\n") and pieces and pieces[-1].endswith(b"\n"):
            end = 0  # the empty line is split between two chunks
        if end < 0:
            pieces.append(chunk)
            held += len(chunk)
            if held > MAX_EVENT_BYTES:
                raise EventTooLargeError(f"the server sent an event of more than {MAX_EVENT_BYTES >> 20} MiB")
            continue
        pieces.append(chunk[:end])
        yield b"".join(pieces)
        rest = chunk[end:].lstrip(b"\n")
        pieces = [rest] if rest else []
        held = len(rest)
    if pieces:
        yield b"".join(pieces)


def _with_line_feeds(chunk: bytes, after_cr: bool) -> bytes:
    """The chunk with LF for every CRLF and CR; a CRLF split between two chunks is one line end."""
    if after_cr and chunk.startswith(b"\n"):
        chunk = chunk[1:]
    if b"\r" not in chunk:
        return chunk
    chunk = b"\n\n".join(chunk.split(b"\r\n\r\n"))  # usually enough, and three times as fast
    return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk
