"""The width and height of an image, read from its first bytes: nothing is decoded, no library is needed."""

from __future__ import annotations

import base64
import binascii

Size = tuple[int, int]

_HEADER = 30  # what a WebP needs; no image of any kind is as short
# A JPEG's size stands behind its metadata; a file with more segments than this before it is no photograph.
_MOST_SEGMENTS = 200
# The markers of a frame's beginning, SOF0 to SOF15 without the three of that range that mean something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a length


def image_size(data: str) -> Size | None:
    """Width and height in pixels of a PNG, JPEG, GIF or WebP in base64; None for what is none of these.

    Decodes a few bytes here and there, whatever the length of the data.
    """
    try:
        start = _read(data, 0, _HEADER)
        if len(start) < _HEADER:
            return None
        if start.startswith(b"\x89PNG\r\n\x1a\n"):
            return _big(start[16:20]), _big(start[20:24])
        if start.startswith((b"GIF87a", b"GIF89a")):
            return _little(start[6:8]), _little(start[8:10])
        if start.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
            return _webp(start)
    except (binascii.Error, ValueError, IndexError):
        pass
    return None


def _read(data: str, offset: int, count: int) -> bytes:
    """`count` bytes at `offset` of what the base64 text stands for; fewer at its end."""
    first = offset // 3
    last = -(-(offset + count) // 3)
    text = data[first * 4 : last * 4]
    decoded = base64.b64decode(text + "=" * (-len(text) % 4))
    skip = offset - first * 3
    return decoded[skip : skip + count]


def _jpeg(data: str) -> Size | None:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        head = _read(data, at, 9)
        if len(head) < 9 or head[0] != 0xFF:
            return None
        marker = head[1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _FRAMES:
            return _big(head[7:9]), _big(head[5:7])
        else:
            at += 2 if marker in _ALONE else 2 + _big(head[2:4])
    return None


def _webp(start: bytes) -> Size | None:
    kind = start[12:16]
    if kind == b"VP8X":
        return _little(start[24:27]) + 1, _little(start[27:30]) + 1
    if kind == b"VP8 ":
        return _little(start[26:28]) & 0x3FFF, _little(start[28:30]) & 0x3FFF
    if kind == b"VP8L":
        bits = _little(start[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")
