"""Encodings: what a file says, and its very bytes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.files.encoding import decode, displayable, encode_argument, looks_binary
from agent_tools.tool import ToolFailure


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-16-le")))
def test_any_bytes_come_back_unchanged(data: bytes) -> None:
    decoded = decode(data)
    assert decoded.encode(decoded.text) == data


@given(st.binary(max_size=200))
def test_what_is_shown_can_be_encoded(data: bytes) -> None:
    decode(data).display.encode("utf-8")


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"plain\n", "plain\n", "utf-8"),
        ("é中".encode(), "é中", "utf-8"),
        (b"\xef\xbb\xbfhi", "hi", "utf-8"),
        ("h\u00e9\n".encode("utf-16"), "h\u00e9\n", "utf-16-le"),
        (b"\xfe\xff" + "中".encode("utf-16-be"), "中", "utf-16-be"),
        ("no mark\n".encode("utf-16-le"), "no mark\n", "utf-16-le"),
        ("no mark\n".encode("utf-16-be"), "no mark\n", "utf-16-be"),
        ("wide".encode("utf-32"), "wide", "utf-32-le"),
        (b"caf\xe9", "caf\u00e9", "latin-1"),
        (b"", "", "utf-8"),
    ],
)
def test_the_encoding_is_recognised(data: bytes, text: str, encoding: str) -> None:
    decoded = decode(data)
    assert (decoded.text, decoded.encoding) == (text, encoding)


def test_one_broken_byte_in_utf8_does_not_make_latin_1_of_it() -> None:
    decoded = decode("größer\n".encode() + b"\xff\n")
    assert decoded.display == "größer\n\ufffd\n"
    assert "not valid UTF-8" in decoded.note


def test_plain_utf8_needs_no_note_and_others_name_themselves() -> None:
    assert decode(b"x").note == ""
    assert "UTF-16" in decode("x".encode("utf-16")).note
    assert "Latin-1" in decode(b"\xe9").note


def test_half_a_character_at_the_end_of_utf16_is_kept() -> None:
    data = "ab".encode("utf-16") + b"!"
    decoded = decode(data)
    assert decoded.text == "ab"
    assert decoded.encode("abc") == "abc".encode("utf-16") + b"!"


def test_a_nul_is_shown_as_its_picture() -> None:
    assert displayable("a\0b") == "a\u2400b"


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"text\r\n\tmore\x1b[1m\f", False),
        ("h\u00e9llo".encode("utf-16"), False),
        (b"%PDF-1.7\n", True),
        (b"abc\0def", True),
        (bytes(range(1, 32)) * 4, True),
        (b"PK\x03\x04zip", True),
    ],
)
def test_binary_is_distinguished_from_text(data: bytes, binary: bool) -> None:
    assert looks_binary(data) is binary


def test_half_a_surrogate_pair_is_refused_by_name() -> None:
    with pytest.raises(ToolFailure, match="content holds half a surrogate pair"):
        encode_argument("a\ud83d", "content")
