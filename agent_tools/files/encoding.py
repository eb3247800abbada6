"""Decodes the bytes of files of any encoding to text, and encodes them back without loss.

Detection: a byte order mark decides. Else zero bytes in every other position mean UTF-16; valid UTF-8 is
UTF-8; a file with at least as many well-formed as broken UTF-8 characters is damaged UTF-8; the rest is
Latin-1.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

from agent_tools.tool import ToolFailure

# The longer marks first: UTF-32 LE begins like UTF-16 LE.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMES = {
    "utf-8": "UTF-8",
    "latin-1": "Latin-1",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
    "utf-32-le": "UTF-32 LE",
    "utf-32-be": "UTF-32 BE",
}
SNIFFED_BYTES = 8192  # covers any file header, and is cheap to inspect for every file

_BINARY_STARTS = (b"%PDF-", b"PK\x03\x04", b"\x7fELF", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"MZ\x90\x00")
# Control bytes that text files hold: tab, line feed, form feed, carriage return, backspace, escape.
_CONTROL = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27}) + b"\x7f"
_CONTROL_SHARE = 0.3  # a file with more control bytes than this share is binary
_WIDE_SHARE = 0.8  # in UTF-16 of western text at least this share of the high bytes is zero, and no low byte
_UNSHOWABLE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of some bytes, without the byte order mark.

    `encode(text)` restores the original bytes. Bytes that are not valid UTF-8 are kept in `text` as lone
    surrogates, which must not leave the process: show `display` instead.
    `note` describes an unusual encoding; it is "" for plain UTF-8.
    """

    text: str
    encoding: str
    bom: bytes = b""
    note: str = ""
    tail: bytes = b""  # bytes of an incomplete last character in a wide encoding

    @property
    def display(self) -> str:
        """The text for a model: surrogates become U+FFFD, and NUL becomes U+2400."""
        return displayable(self.text)

    @property
    def encoding_name(self) -> str:
        """The encoding's name for messages."""
        return _NAMES[self.encoding]

    def encode(self, text: str) -> bytes:
        """The text in this encoding, byte order mark included; UnicodeEncodeError if it cannot express it."""
        return self.bom + text.encode(self.encoding, _error_handler(self.encoding)) + self.tail


def decode(data: bytes) -> DecodedText:
    """Decode the bytes of a file; never fails, and loses nothing."""
    encoding, bom = wide_encoding(data)
    if encoding:
        return _decode_wide(data, encoding, bom)
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(bom) :]
    try:
        return DecodedText(body.decode("utf-8"), "utf-8", bom)
    except UnicodeDecodeError:
        pass
    damaged, latin = damaged_utf8(data), latin_1(data)
    # Latin-1 text hardly ever forms UTF-8 characters by chance.
    broken = len(_UNSHOWABLE.findall(damaged.text))
    well_formed = len(damaged.text) - broken - len(re.findall(r"[\x00-\x7f]", damaged.text))
    return damaged if bom or well_formed >= broken else latin


def damaged_utf8(data: bytes) -> DecodedText:
    """The bytes decoded as UTF-8; invalid ones become surrogates."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data[len(bom) :].decode("utf-8", "surrogateescape")
    return DecodedText(text, "utf-8", bom, "not valid UTF-8; invalid bytes are shown as \ufffd")


def latin_1(data: bytes) -> DecodedText:
    """The bytes decoded as Latin-1, in which every byte is a character."""
    return DecodedText(data.decode("latin-1"), "latin-1", b"", "not UTF-8; read as Latin-1")


def wide_encoding(head: bytes) -> tuple[str, bytes]:
    """The UTF-16 or UTF-32 encoding that the first bytes of a file show, and its mark; else ("", b"")."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            is_wide = encoding != "utf-8" and _may_be_wide(head[len(mark) :], encoding)
            return (encoding, mark) if is_wide else ("", b"")
    sample = head[:SNIFFED_BYTES]
    sample = sample[: len(sample) & ~1]
    half = len(sample) // 2
    if half < 2:
        return "", b""
    for low, high, encoding in ((0, 1, "utf-16-le"), (1, 0, "utf-16-be")):
        letters = sample[low::2]
        is_text = len(letters.translate(None, _CONTROL)) == half
        if is_text and sample[high::2].count(0) >= half * _WIDE_SHARE:
            return encoding, b""
    return "", b""


def _may_be_wide(body: bytes, encoding: str) -> bool:
    """False for bytes that only begin like a byte order mark: damaged UTF-8 gives unassigned characters."""
    sample = body[:SNIFFED_BYTES]
    if b"\0" in sample:  # a line feed or a space of a real one
        return True
    text = sample[: len(sample) & ~3].decode(encoding, "replace")
    return not any(unicodedata.category(character) in ("Cn", "Co", "Cs") for character in text)


def looks_binary(data: bytes) -> bool:
    """True when the start of a file is not text."""
    sample = data[:SNIFFED_BYTES]
    if not sample or wide_encoding(sample)[0]:
        return False
    if b"\0" in sample or sample.startswith(_BINARY_STARTS):
        return True
    return len(sample) - len(sample.translate(None, _CONTROL)) > len(sample) * _CONTROL_SHARE


def displayable(text: str) -> str:
    """The text without what JSON encoders and providers refuse: NUL and lone surrogates are replaced."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    return text if text.isascii() else _UNSHOWABLE.sub("\ufffd", text)


def encoding_name(encoding: str) -> str:
    """An encoding's name for messages."""
    return _NAMES[encoding]


def encode_argument(text: str, name: str) -> bytes:
    """The argument as UTF-8; `ToolFailure` for half a surrogate pair, which no encoding can express."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailure(
            f"{name} holds half a surrogate pair at character {error.start}, which is not valid text"
        ) from None


def _decode_wide(data: bytes, encoding: str, bom: bytes) -> DecodedText:
    unit = 4 if "32" in encoding else 2
    end = len(bom) + (len(data) - len(bom)) // unit * unit
    try:
        text = data[len(bom) : end].decode(encoding, _error_handler(encoding))
    except UnicodeDecodeError:
        return latin_1(data)
    if text.encode(encoding, _error_handler(encoding)) != data[len(bom) : end]:
        return latin_1(data)
    return DecodedText(text, encoding, bom, f"decoded from {_NAMES[encoding]}", data[end:])


def _error_handler(encoding: str) -> str:
    if encoding == "utf-8":
        return "surrogateescape"
    return "strict" if encoding == "latin-1" else "surrogatepass"
