"""An edit changes the quoted bytes and no others, whatever the encoding and the line endings of the file."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.rounds import rounds

from agent_tools.editing.replacement import Replacement, apply_edits
from agent_tools.files.encoding import DecodedText, decode
from agent_tools.tool import ToolFailure

_PLAIN = ["a", "b", "foo", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\r"]
_TYPOGRAPHY = ["é", "e\u0301", "\u2019", "'", "\u2013", "\ufb01", "\u00a0", "漢", "😀"]
_PIECES = st.sampled_from(_PLAIN + _TYPOGRAPHY)
_TEXTS = st.lists(_PIECES, max_size=40).map("".join)
_NEW = st.lists(st.sampled_from(["x", "foo", " ", "\n", "\r\n", "yy\n", "'", ""]), max_size=6).map("".join)
_DAMAGE = st.sampled_from([b"\xff", b"\xc3", b"\xe2\x80", b"\xed\xa0\x80", b"\x80abc", b"\xf0\x9f"])


@st.composite
def _files(draw: st.DrawFn) -> bytes:
    text = draw(_TEXTS)
    match draw(st.sampled_from(["utf-8", "mark", "utf-16-le", "utf-16-be", "latin-1", "damaged"])):
        case "mark":
            return codecs.BOM_UTF8 + text.encode()
        case "utf-16-le":
            return codecs.BOM_UTF16_LE + text.encode("utf-16-le")
        case "utf-16-be":
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
        case "latin-1":
            return text.encode("latin-1", "ignore")
        case "damaged":
            data = text.encode()
            for damage in draw(st.lists(_DAMAGE, min_size=1, max_size=3)):
                place = draw(st.integers(0, len(data)))
                data = data[:place] + damage + data[place:]
            return data
    return text.encode()


def _bytes_of(decoded: DecodedText, text: str) -> bytes:
    return decoded.encode(text).removeprefix(decoded.bom).removesuffix(decoded.tail or b"\0\0\0")


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def _occurrences(text: str, quoted: str) -> int:
    return sum(text.startswith(quoted, place) for place in range(len(text)))


@settings(max_examples=rounds(400), deadline=None)
@given(_files(), _NEW, st.booleans(), st.data())
def test_every_byte_outside_the_quotation_stays(
    data: bytes, new: str, with_line_feeds: bool, draw: st.DataObject
) -> None:
    decoded = decode(data)
    text = decoded.text
    start, end = sorted(draw.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    # A quotation does not cut a CRLF in two.
    assume(text[start - 1 : start + 1] != "\r\n" and text[end - 1 : end + 1] != "\r\n")
    quoted = _line_feeds(text[start:end]) if with_line_feeds else text[start:end]
    # CR CR LF with line feeds is CR LF, which stands for a line feed.
    assume("\r\n" not in quoted or not with_line_feeds)
    assume(quoted.strip() and not any("\ud800" <= character <= "\udfff" for character in quoted))
    assume(_occurrences(_line_feeds(text), _line_feeds(quoted)) == 1)
    assume(_line_feeds(quoted) != _line_feeds(new))

    edited = apply_edits(data, [Replacement(oldText=quoted, newText=new)], "file")

    before, after = (
        decoded.bom + _bytes_of(decoded, text[:start]),
        _bytes_of(decoded, text[end:]) + decoded.tail,
    )
    assert edited.data.startswith(before)
    assert edited.data.endswith(after)
    middle = edited.data[len(before) : len(edited.data) - len(after)]
    assert _line_feeds(middle.decode(decoded.encoding)) == _line_feeds(new)


@settings(max_examples=rounds(400), deadline=None)
@given(_files(), st.lists(st.tuples(_TEXTS.filter(bool), _NEW), min_size=1, max_size=3))
def test_edits_are_made_all_or_none(data: bytes, pairs: list[tuple[str, str]]) -> None:
    replacements = [Replacement(oldText=old, newText=new) for old, new in pairs]
    try:
        edited = apply_edits(data, replacements, "file")
    except ToolFailure:
        return

    assert isinstance(edited.data, bytes)
    if all(_line_feeds(old) == _line_feeds(new) for old, new in pairs) and not edited.was_forgiving:
        assert edited.data == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "latin-1"])
def test_an_edit_of_a_line_keeps_the_endings_of_all_others(encoding: str) -> None:
    text = "één\r\ntwo\nthree\rfour\r\n"
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""

    edited = apply_edits(
        mark + text.encode(encoding), [Replacement(oldText="two\nthree", newText="2\n3")], "file"
    )

    assert edited.data == mark + "één\r\n2\n3\rfour\r\n".encode(encoding)
