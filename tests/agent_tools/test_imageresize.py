"""imageresize: an image to look at, or a smaller copy on filesystem."""

from __future__ import annotations

import base64
import io
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent_tools.imageresize import imageresize_tool
from agent_tools.images import sniff_mime
from agent_tools.tool import Context, ImageBlock, Result, TextBlock


def picture(path: Path, width: int, height: int, kind: str = "PNG", **options: Any) -> Path:
    Image.new("RGB", (width, height), "teal").save(path, format=kind, **options)
    return path


def noise(path: Path, width: int, height: int) -> Path:
    data = random.Random(3).randbytes(width * height * 3)
    Image.frombytes("RGB", (width, height), data).save(path)
    return path


def shown(result: Result) -> Image.Image:
    (block,) = [block for block in result.content if isinstance(block, ImageBlock)]
    data = base64.b64decode(block.data, validate=True)
    assert sniff_mime(data) == block.mime_type
    return Image.open(io.BytesIO(data))


def test_a_large_image_is_shown_smaller_with_the_factor_for_coordinates(tmp_path: Path) -> None:
    picture(tmp_path / "big.png", 3000, 1500)
    result = imageresize_tool(tmp_path).run(path="big.png")
    assert not result.is_error
    assert [type(block) for block in result.content] == [TextBlock, ImageBlock]
    assert shown(result).size == (2000, 1000)
    assert "3000x1500" in result.text
    assert "1.50" in result.text
    assert result.details["wasResized"] is True


def test_an_image_within_the_limits_is_shown_as_it_is(tmp_path: Path) -> None:
    source = picture(tmp_path / "a.png", 100, 50)
    result = imageresize_tool(tmp_path).run(path="a.png")
    (block,) = result.content[1:]
    assert isinstance(block, ImageBlock)
    assert base64.b64decode(block.data) == source.read_bytes()
    assert "Multiply" not in result.text


def test_every_limit_can_be_given_even_as_text(tmp_path: Path) -> None:
    noise(tmp_path / "n.png", 400, 300)
    result = imageresize_tool(tmp_path).execute(
        {"path": "n.png", "maxWidth": "200", "maxHeight": 200, "maxBytes": 9000, "quality": 70}
    )
    assert shown(result).size == (200, 150)
    assert result.details["bytes"] <= 9000


@pytest.mark.parametrize(("name", "kind"), [("out.png", "PNG"), ("out.jpg", "JPEG"), ("OUT.JPEG", "JPEG")])
def test_the_output_file_holds_what_its_name_says(tmp_path: Path, name: str, kind: str) -> None:
    noise(tmp_path / "n.png", 300, 200)
    result = imageresize_tool(tmp_path).run(path="n.png", maxWidth=150, output=name)
    assert not result.is_error, result.text
    assert all(isinstance(block, TextBlock) for block in result.content)
    written = Image.open(tmp_path / name)
    assert (written.format, written.size) == (kind, (150, 100))
    assert "300x200 -> 150x100" in result.text


def test_an_image_may_be_replaced_by_its_smaller_self(tmp_path: Path) -> None:
    source = picture(tmp_path / "a.png", 300, 200)
    source.chmod(0o640)
    assert not imageresize_tool(tmp_path).run(path="a.png", maxWidth=30, output="a.png").is_error
    assert Image.open(source).size == (30, 20)
    assert source.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.png"]


def test_an_animation_within_the_limits_is_copied_whole(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    result = imageresize_tool(tmp_path).run(path="a.gif", output="new/b.gif")
    assert not result.is_error, result.text
    assert (tmp_path / "new" / "b.gif").read_bytes() == (tmp_path / "a.gif").read_bytes()
    assert "unchanged" in result.text


@pytest.mark.parametrize("name", ["out.gif", "out.webp", "out.bmp", "out"])
def test_an_output_name_that_would_lie_is_refused(tmp_path: Path, name: str) -> None:
    picture(tmp_path / "a.png", 300, 200)
    result = imageresize_tool(tmp_path).run(path="a.png", maxWidth=30, output=name)
    assert result.is_error
    assert ".png" in result.text
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"RIFF", b"<html>", b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(500)],
    ids=["empty", "riff", "html", "garbage"],
)
def test_what_is_no_image_gives_an_error_and_no_image(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)
    result = imageresize_tool(tmp_path).run(path="x.png", output="y.png")
    assert result.is_error
    assert all(isinstance(block, TextBlock) for block in result.content)
    assert not (tmp_path / "y.png").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = imageresize_tool(tmp_path).run(path="nope.png")
    assert result.is_error
    assert "nope.png" in result.text


@pytest.mark.parametrize("arguments", [{}, {"path": ""}, {"path": "  "}])
def test_the_path_is_required(tmp_path: Path, arguments: dict[str, Any]) -> None:
    result = imageresize_tool(tmp_path).execute(arguments)
    assert result.is_error
    assert "path is required" in result.text


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert imageresize_tool(tmp_path).run(path=".").is_error
    assert imageresize_tool(tmp_path).run(path="pipe.png").is_error


def test_a_giant_file_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    with open(tmp_path / "x.png", "wb") as file:
        file.truncate(1 << 40)
    result = imageresize_tool(tmp_path).run(path="x.png")
    assert result.is_error
    assert "at most 100.0MB" in result.text


def test_a_name_copied_from_a_screenshot_is_found(tmp_path: Path) -> None:
    picture(tmp_path / "Shot 3\u202fAM.png", 10, 10)
    assert not imageresize_tool(tmp_path).run(path="Shot 3 AM.png").is_error


def test_the_output_is_journalled_before_it_changes(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 300, 200)
    before: list[tuple[str, bool]] = []

    class Journal:
        def before_change(self, path: str) -> None:
            before.append((path, os.path.exists(path)))

    context = Context(journal=Journal())
    imageresize_tool(tmp_path).execute({"path": "a.png", "output": "b.png"}, context)
    assert before == [(str(tmp_path / "b.png"), False)]


def test_a_call_cancelled_on_the_way_writes_nothing(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 300, 200)

    class SecondLook(threading.Event):
        """Set from the second look on: the first is the one before the start."""

        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 1

    result = imageresize_tool(tmp_path).execute(
        {"path": "a.png", "output": "b.png"}, Context(cancel=SecondLook())
    )
    assert result.is_error
    assert "aborted" in result.text
    assert not (tmp_path / "b.png").exists()
