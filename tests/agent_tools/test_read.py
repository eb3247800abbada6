"""read: the right lines, a way on to the others, and never a byte that harms the conversation."""

from __future__ import annotations

import base64
import io
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent_tools.read import read_tool
from agent_tools.tool import Context, Result, TextBlock


@pytest.fixture
def read(tmp_path: Path) -> Any:
    return read_tool(tmp_path)


def numbered(count: int, end: str = "\n") -> str:
    return "\n".join(f"line {n}" for n in range(1, count + 1)) + end


def write(folder: Path, content: str | bytes, name: str = "f") -> str:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return name


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


def has_image(result: Result) -> bool:
    return any(block.type == "image" for block in result.content)


def next_offset(result: Result) -> int:
    found = re.search(r"offset=(\d+)", result.text)
    assert found, result.text[-300:]
    return int(found[1])


# Whole files


@pytest.mark.parametrize(
    "content", ["a\nb\nc\n", "a\nb\nc", "a\r\nb\r\n", "10%\r20%\rdone\n", "\n", "ä\u2028ö\n"]
)
def test_a_file_is_shown_letter_by_letter(tmp_path: Path, read: Any, content: str) -> None:
    result = read(path=write(tmp_path, content))
    assert result.content == (TextBlock(content),)
    assert re.fullmatch("[0-9a-f]{16}", result.meta["hash"])
    assert result.details == {"hash": result.meta["hash"]}


def test_an_absolute_path_works_from_any_directory(tmp_path: Path) -> None:
    write(tmp_path, "here")
    assert read_tool("/")(path=str(tmp_path / "f")).text == "here"


def test_an_empty_file_says_so(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, ""))
    assert (result.text, result.meta, result.is_error) == (
        "(empty file)",
        {"hash": "e3b0c44298fc1c14"},
        False,
    )
    assert read(path="f", offset=1).text == "(empty file)"
    assert "0 lines" in read(path="f", offset=2).text


def test_a_link_shows_its_target(tmp_path: Path, read: Any) -> None:
    write(tmp_path, "target")
    (tmp_path / "link").symlink_to("f")
    assert read(path="link").text == "target"


@pytest.mark.parametrize(
    ("path", "expected"), [("no", "not found"), ("", "path is required"), (".", "directory")]
)
def test_what_cannot_be_read_is_an_error_that_says_why(read: Any, path: str, expected: str) -> None:
    result = read(path=path)
    assert result.is_error
    assert expected in result.text


def test_a_dangling_link_is_not_found(tmp_path: Path, read: Any) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert "not found: link" in read(path="link").text


def test_a_missing_path_is_named(read: Any) -> None:
    assert "path is required" in read.execute({}).text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error(tmp_path: Path, read: Any) -> None:
    write(tmp_path, "x")
    (tmp_path / "f").chmod(0)
    assert "Permission denied" in read(path="f").text


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = read(path="pipe")
    assert result.is_error
    assert "FIFO" in result.text


def test_an_endless_device_is_refused(read: Any) -> None:
    assert "character device" in read(path="/dev/zero").text


def test_a_cancelled_read_reads_nothing(tmp_path: Path, read: Any) -> None:
    stop = threading.Event()
    stop.set()
    result = read.execute({"path": write(tmp_path, "x")}, Context(cancel=stop))
    assert result.is_error
    assert "aborted" in result.text


def test_a_read_that_is_cancelled_under_way_stops_at_the_next_block(tmp_path: Path, read: Any) -> None:
    class AfterTheStart(threading.Event):
        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 2

    write(tmp_path, b"x\n" * 1_000_000)
    stop = AfterTheStart()
    assert "aborted" in read.execute({"path": "f"}, Context(cancel=stop)).text
    assert stop.asked == 3


# Limits and the way on


def test_two_thousand_lines_with_a_final_line_feed_are_whole(tmp_path: Path, read: Any) -> None:
    assert read(path=write(tmp_path, numbered(2000))).text == numbered(2000)


def test_more_lines_are_cut_and_counted(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, numbered(2500)))
    assert result.text.startswith(numbered(2000, end="\n\n["))
    assert "1-2000 of 2500" in result.text
    assert next_offset(result) == 2001
    cut = result.details["truncation"]
    assert (cut["truncatedBy"], cut["totalLines"], cut["outputLines"]) == ("lines", 2500, 2000)
    assert (cut["totalBytes"], cut["truncated"]) == (len(numbered(2500)), True)


def test_many_bytes_are_cut_at_a_line(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, "".join(f"{n:207d}\n" for n in range(500))))
    shown, _, notice = result.text.rpartition("\n\n")
    assert len(shown.split("\n")) == 246
    assert all(len(line) == 207 for line in shown.split("\n"))
    assert "50.0KB limit" in notice
    assert next_offset(result) == 247


@pytest.mark.parametrize("more", [{}, {"offset": 1}])
def test_six_long_lines_are_cut_alike_in_both_ways_of_reading(tmp_path: Path, read: Any, more: Any) -> None:
    result = read(path=write(tmp_path, ("y" * 20479 + "\n") * 6), **more)
    assert "1-2 of 6" in result.text
    assert "50.0KB limit" in result.text
    assert next_offset(result) == 3


def test_a_part_cut_before_the_very_last_line_is_known_as_cut(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, ("y" * 20479 + "\n") * 4), offset=2)
    assert next_offset(result) == 4
    cut = result.details["truncation"]
    assert (cut["truncatedBy"], cut["outputLines"], cut["totalLines"]) == ("bytes", 2, 4)
    assert read(path="f", offset=3).details is None


@pytest.mark.parametrize("more", [{}, {"offset": 1}, {"limit": 2}])
def test_a_first_line_too_long_to_show_comes_with_a_command_for_it(
    tmp_path: Path, read: Any, more: dict[str, int]
) -> None:
    """R06"""
    name = write(tmp_path, "x" * 61440 + "\nsecond\n", "it's long")
    result = read(path=name, **more)
    assert "60.0KB" in result.text
    assert "50.0KB limit" in result.text
    assert "xxx" not in result.text
    command = re.search(r"sed -n .*? \| head -c 51200", result.text)
    assert command
    assert os.popen(command[0]).read() == "x" * 51200
    assert next_offset(result) == 2
    assert read(path=name, offset=2).text == "second"


def test_one_endless_line_never_tells_to_go_on_at_itself(tmp_path: Path, read: Any) -> None:
    """R06"""
    result = read(path=write(tmp_path, b"[" + b"1," * 40000 + b"1]"))
    assert "head -c" in result.text
    assert "offset=" not in result.text


@pytest.mark.parametrize("more", [{}, {"offset": 1}])
def test_a_line_of_exactly_the_limit_is_whole(tmp_path: Path, read: Any, more: dict[str, int]) -> None:
    assert read(path=write(tmp_path, "x" * 51200), **more).text == "x" * 51200
    assert read(path=write(tmp_path, "x" * 51200 + "\n"), **more).text == "x" * 51200


@pytest.mark.parametrize("end", ["\n", ""])
def test_following_the_notices_shows_every_line_once(tmp_path: Path, read: Any, end: str) -> None:
    content = "\n".join("z" * (n * 37 % 3000) + str(n) for n in range(3000))
    write(tmp_path, content + end)
    shown, offset = [], 1
    while offset:
        result = read(path="f", offset=offset)
        body, _, notice = result.text.partition("\n\n[")
        shown.append(body)
        offset = next_offset(result) if notice else 0
    assert "\n".join(shown) == content


# Parts


@pytest.mark.parametrize(
    ("arguments", "first", "last", "more", "following"),
    [
        ({"offset": 51}, 51, 100, 0, None),
        ({"limit": 10}, 1, 10, 90, 11),
        ({"offset": 41, "limit": 20}, 41, 60, 40, 61),
        ({"limit": 99}, 1, 99, 1, 100),
        ({"limit": 100}, 1, 100, 0, None),
        ({"limit": 1000}, 1, 100, 0, None),
        ({"offset": 100}, 100, 100, 0, None),
        ({"offset": 0, "limit": 1}, 1, 1, 99, 2),
        ({"offset": -3, "limit": 1}, 1, 1, 99, 2),
        ({"offset": "2", "limit": 2.0}, 2, 3, 97, 4),
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_part_holds_the_requested_lines_and_states_what_is_left(
    tmp_path: Path,
    read: Any,
    end: str,
    arguments: Any,
    first: int,
    last: int,
    more: int,
    following: int | None,
) -> None:
    """R05"""
    result = read(path=write(tmp_path, numbered(100, end)), **arguments)
    lines = "\n".join(f"line {n}" for n in range(first, last + 1))
    body, _, notice = result.text.partition("\n\n[")
    assert body == lines
    assert result.details is None
    assert bool(notice) == bool(more)
    if more:
        assert f"{more} more lines" in notice
        assert "KB limit" not in notice
        assert next_offset(result) == following


def test_a_final_line_feed_is_no_line(tmp_path: Path, read: Any) -> None:
    """R01"""
    write(tmp_path, numbered(10))
    assert "5 more lines" in read(path="f", limit=5).text
    result = read(path="f", offset=11)
    assert result.is_error
    assert "10 lines" in result.text


@pytest.mark.parametrize(("lines", "offset"), [(2, 3), (5, 1200), (3, 100)])
def test_an_offset_past_the_end_names_both_numbers(
    tmp_path: Path, read: Any, lines: int, offset: int
) -> None:
    """R02, R03"""
    result = read(path=write(tmp_path, numbered(lines)), offset=offset, limit=200)
    assert result.is_error
    assert "beyond end of file" in result.text
    assert f"offset {offset} " in result.text
    assert f"{lines} lines" in result.text


@pytest.mark.parametrize("limit", [0, -3, 1.5, "many"])
def test_a_limit_that_asks_for_no_line_is_rejected_by_name(tmp_path: Path, read: Any, limit: Any) -> None:
    """R05"""
    result = read(path=write(tmp_path, numbered(3)), limit=limit)
    assert result.is_error
    assert result.text.startswith("limit: ")


def test_a_limit_above_the_cap_goes_on_in_the_right_place(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, numbered(2100)), offset=50, limit=2040)
    assert "51 more lines" in result.text
    assert next_offset(result) == 2050
    assert next_offset(read(path="f", offset=1)) == 2001


def test_a_part_carries_no_hash_and_ignores_the_one_given(tmp_path: Path, read: Any) -> None:
    write(tmp_path, numbered(5))
    digest = read(path="f").meta["hash"]
    result = read(path="f", offset=2, limit=1, if_hash=digest)
    assert result.text.startswith("line 2\n")
    assert result.meta is None


def test_a_long_line_elsewhere_does_not_disturb(tmp_path: Path, read: Any) -> None:
    write(tmp_path, b"x" * (2 * 1024 * 1024) + b"\nsecond\nthird\n")
    assert read(path="f", offset=2, limit=1).text.startswith("second\n")
    assert read(path="f", offset=3).text == "third"


# The hash


def test_a_known_hash_is_answered_in_one_line(tmp_path: Path, read: Any) -> None:
    write(tmp_path, numbered(5))
    digest = read(path="f").meta["hash"]
    result = read(path="f", if_hash=digest)
    assert "unchanged" in result.text
    assert digest in result.text
    assert "line 1" not in result.text
    assert result.details == {"hash": digest, "unchanged": True}
    assert result.meta is None


def test_a_changed_file_or_another_hash_shows_the_file(tmp_path: Path, read: Any) -> None:
    write(tmp_path, "abc")
    digest = read(path="f").meta["hash"]
    assert read(path="f", if_hash=digest.upper()).text == "abc"
    write(tmp_path, "abcd")
    assert read(path="f", if_hash=digest).text == "abcd"


# Encodings


def test_utf16_is_shown_as_text_with_a_note(tmp_path: Path, read: Any) -> None:
    """R08"""
    result = read(path=write(tmp_path, b"\xff\xfe" + "h\u00e9llo\n".encode("utf-16-le")))
    assert result.text.startswith("h\u00e9llo\n")
    assert "UTF-16" in result.text
    assert result.details["encoding"] == "utf-16-le"


def test_latin_1_is_shown_as_text_with_a_note(tmp_path: Path, read: Any) -> None:
    """R09"""
    result = read(path=write(tmp_path, b"caf\xe9 menu\n"))
    assert result.text.startswith("caf\u00e9 menu\n")
    assert "Latin-1" in result.text


@pytest.mark.parametrize("more", [{}, {"offset": 1, "limit": 5}, {"offset": 2}])
def test_a_bad_byte_far_into_the_file_breaks_nothing(tmp_path: Path, read: Any, more: dict[str, int]) -> None:
    """R11"""
    result = read(path=write(tmp_path, b"a" * 70000 + b"\x80\n" + b"b\x80\n"), **more)
    assert not result.is_error
    result.text.encode()


def test_a_byte_order_mark_is_not_shown(tmp_path: Path, read: Any) -> None:
    """R12"""
    write(tmp_path, b'\xef\xbb\xbf{"a":1}\n')
    assert read(path="f").text == '{"a":1}\n'
    assert read(path="f", limit=1).text == '{"a":1}'


def test_growing_by_decoding_does_not_break_the_limit(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, (b"\xe9" * 99 + b"\n") * 500))
    assert len(result.text.encode()) < 51200 + 300
    assert next_offset(result) == 1 + result.text.count("\u00e9" * 99)


def test_a_binary_file_is_named_with_its_size(tmp_path: Path, read: Any) -> None:
    """R18"""
    result = read(path=write(tmp_path, b"%PDF-1.7\n" + bytes(range(256)) * 40))
    assert result.is_error
    assert "PDF" in result.text
    assert "10.0KB" in result.text
    assert len(result.text) < 1024


def test_binary_data_below_a_text_head_is_refused_where_it_is(tmp_path: Path, read: Any) -> None:
    write(tmp_path, b"#!/bin/sh\n" * 40_000 + bytes(range(256)) * 100)
    assert not read(path="f", limit=5).is_error
    assert "binary" in read(path="f", offset=40_001).text


# Images


def test_an_image_is_shown_by_its_content_whatever_its_name(tmp_path: Path, read: Any) -> None:
    """R17"""
    for name in ("a.jpg", "a.txt"):
        result = read(path=write(tmp_path, png(10, 10), name))
        text, image = result.content
        assert "image/png" in text.text
        assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", png(10, 10))
        assert result.meta == {"hash": result.details["hash"]}


def test_a_large_image_is_made_smaller_and_says_so(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, png(3000, 30), "wide.png"))
    assert "original 3000x30, displayed at 2000x20" in result.text


def test_a_known_hash_of_an_image_is_answered_without_it(tmp_path: Path, read: Any) -> None:
    write(tmp_path, png(10, 10), "a.png")
    result = read(path="a.png", if_hash=read(path="a.png").meta["hash"])
    assert "unchanged" in result.text
    assert not has_image(result)


def test_an_image_has_no_parts_but_a_part_has_no_hash(tmp_path: Path, read: Any) -> None:
    result = read(path=write(tmp_path, png(10, 10), "a.png"), offset=2)
    assert has_image(result)
    assert (result.meta, result.details) == (None, None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(
            "p.png",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"7" * 64 + b"\nsize 914901\n",
            id="R13",
        ),
        pytest.param("x.jpg", b"<html><body>404</body></html>", id="R14"),
    ],
)
def test_a_text_named_like_an_image_is_text(tmp_path: Path, read: Any, name: str, content: bytes) -> None:
    """R13, R14"""
    result = read(path=write(tmp_path, content, name))
    assert result.content == (TextBlock(content.decode()),)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("x.png", b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(2048), id="R15"),
        pytest.param("x.png", b"", id="R16-empty"),
        pytest.param("y.png", png(100, 100)[: len(png(100, 100)) * 6 // 10], id="R16-cut"),
        pytest.param("z.webp", b"RIFF", id="R16-signature"),
    ],
)
def test_a_broken_image_is_an_error_and_no_image(
    tmp_path: Path, read: Any, name: str, content: bytes
) -> None:
    """R15, R16"""
    result = read(path=write(tmp_path, content, name))
    assert result.is_error
    assert result.text
    assert not has_image(result)


# A delegate


def test_a_delegate_is_asked_for_text_by_absolute_path(tmp_path: Path) -> None:
    asked: list[str] = []

    def reader(context: Any, path: str) -> str:
        asked.append(path)
        return "buffer\nof\nan editor\n"

    read = read_tool(tmp_path, reader=reader)
    write(tmp_path, "on disk")
    result = read(path="f")
    assert result.text == "buffer\nof\nan editor\n"
    assert "unchanged" in read(path="f", if_hash=result.meta["hash"]).text
    assert read(path="f", offset=3).text == "an editor"
    assert "beyond end of file" in read(path="f", offset=4).text
    assert read(path="only there").text.startswith("buffer")
    assert asked[0] == str(tmp_path / "f")


def test_a_delegate_is_not_asked_for_images(tmp_path: Path) -> None:
    def reader(context: Any, path: str) -> str:
        raise AssertionError("asked")

    assert has_image(read_tool(tmp_path, reader=reader)(path=write(tmp_path, png(5, 5))))


def test_the_error_of_a_delegate_is_shown_with_the_path(tmp_path: Path) -> None:
    def reader(context: Any, path: str) -> str:
        raise RuntimeError("the editor is closed")

    result = read_tool(tmp_path, reader=reader)(path="f")
    assert result.is_error
    assert "f: the editor is closed" in result.text


def test_the_description_says_what_the_tool_can_do() -> None:
    tool = read_tool()
    for word in ("png", "2000 lines", "50KB", "offset", "sed", "if_hash"):
        assert word in tool.description
    assert tool.parameters["required"] == ["path"]
    assert set(tool.parameters["properties"]) == {"path", "offset", "limit", "if_hash"}
    assert tool.parallel
