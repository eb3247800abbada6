"""read: images by their bytes, and nothing broken ever shown as one."""

from __future__ import annotations

import base64
import io
import random
from pathlib import Path

import pytest
from PIL import Image

from agent_tools.images import sniff_mime
from agent_tools.read import read_tool
from agent_tools.tool import ImageBlock, Result, TextBlock


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(buffer, kind)
    return buffer.getvalue()


def noise() -> bytes:
    buffer = io.BytesIO()
    Image.frombytes("RGB", (60, 60), random.Random(5).randbytes(10_800)).save(buffer, "PNG")
    return buffer.getvalue()


def read(folder: Path, name: str, content: bytes) -> Result:
    (folder / name).write_bytes(content)
    return read_tool(folder).run(path=name)


def images(result: Result) -> list[ImageBlock]:
    return [block for block in result.content if isinstance(block, ImageBlock)]


def test_a_pointer_of_git_lfs_named_like_an_image_is_text(tmp_path: Path) -> None:
    """R13"""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"7" * 64 + b"\nsize 914901\n"
    result = read(tmp_path, "p.png", pointer)
    assert not result.is_error
    assert images(result) == []
    assert result.text.startswith(pointer.decode().rstrip("\n"))


def test_an_error_page_named_like_an_image_is_text(tmp_path: Path) -> None:
    """R14"""
    result = read(tmp_path, "x.jpg", b"<html><body>404</body></html>")
    assert [type(block) for block in result.content] == [TextBlock]
    assert "<body>404" in result.text


def test_garbage_behind_the_right_signature_is_an_error(tmp_path: Path) -> None:
    """R15"""
    result = read(tmp_path, "x.png", b"\x89PNG\r\n\x1a\n" + random.Random(15).randbytes(2048))
    assert result.is_error
    assert images(result) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.png", b""),
        ("y.png", noise()[: len(noise()) * 6 // 10]),
        ("z.webp", b"RIFF"),
        ("z.jpg", b"\xff\xd8"),
        ("y.jpg", picture(300, 300, "JPEG")[:900]),
    ],
)
def test_an_empty_or_truncated_image_is_an_error_and_no_image(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """R16"""
    result = read(tmp_path, name, content)
    assert result.is_error
    assert [type(block) for block in result.content] == [TextBlock]
    assert result.text


@pytest.mark.parametrize(
    ("name", "kind"), [("a.jpg", "PNG"), ("a.png", "JPEG"), ("a.gif", "WEBP"), ("a.txt", "GIF"), ("a", "PNG")]
)
def test_the_mime_type_is_that_of_the_bytes(tmp_path: Path, name: str, kind: str) -> None:
    """R17"""
    content = picture(10, 10, kind)
    (image,) = images(read(tmp_path, name, content))
    assert image.mime_type == f"image/{kind.lower()}"
    assert base64.b64decode(image.data) == content


def test_a_large_image_is_shown_smaller_and_says_so(tmp_path: Path) -> None:
    """I03"""
    result = read(tmp_path, "shot.png", picture(1440, 8570))
    (image,) = images(result)
    data = base64.b64decode(image.data)
    assert sniff_mime(data) == image.mime_type
    assert Image.open(io.BytesIO(data)).size == (336, 2000)
    assert "1440x8570" in result.text
    assert "336x2000" in result.text
