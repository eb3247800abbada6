"""The size of an image."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from random import Random

import pytest
from PIL import Image

from agent.providers.images import image_size


def _encoded(size: tuple[int, int], form: str, **more: object) -> str:
    out = io.BytesIO()
    Image.new("RGB", size, (9, 8, 7)).save(out, form, **more)
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize("size", [(1, 1), (300, 200), (2500, 900), (1, 9001)])
@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"lossless": False}),
        ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),  # the extended form
    ],
)
def test_the_size_is_the_one_a_decoder_finds(
    size: tuple[int, int], form: str, more: dict[str, object]
) -> None:
    assert image_size(_encoded(size, form, **more)) == size


@pytest.mark.parametrize("length", [0, 1, 2, 3, 60_000])
def test_the_size_of_a_jpeg_stands_behind_its_metadata(length: int) -> None:
    exif = b"Exif\0\0" + b"x" * length
    assert image_size(_encoded((640, 480), "JPEG", exif=exif, icc_profile=b"y" * 200_000)) == (640, 480)


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_a_cut_image_has_a_size_or_none_and_raises_nothing(form: str) -> None:
    whole = _encoded((20, 10), form)
    for length in range(min(len(whole), 400)):
        assert image_size(whole[:length]) in (None, (20, 10))


@pytest.mark.parametrize("data", ["", "aGk=", "not base64 at all", "é", "/9j/", "UklGRg==", "====", "A"])
def test_what_is_no_image_has_no_size(data: str) -> None:
    assert image_size(data) is None


def test_a_small_part_of_a_long_image_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = bytes(range(256)) * 4_000
    image = Image.frombytes("L", (1000, 1024), noise)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=0)
    data = base64.b64encode(out.getvalue()).decode()
    decoded: list[int] = []
    decode = base64.b64decode

    def counting(text: str) -> bytes:
        decoded.append(len(text))
        return decode(text)

    monkeypatch.setattr(base64, "b64decode", counting)
    assert image_size(data) == (1000, 1024)
    assert len(data) > 1_000_000
    assert sum(decoded) < 100_000


def test_the_size_of_an_image_of_very_many_pixels_is_found(recwarn: pytest.WarningsRecorder) -> None:
    header = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 50_000, 1, 0, 0, 0, 0))
    data = base64.b64encode(header + _chunk(b"IDAT", zlib.compress(b""))).decode()
    assert image_size(data) == (60_000, 50_000)
    assert list(recwarn) == []


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_random_damage_raises_nothing(form: str) -> None:
    random = Random(1)
    whole = base64.b64decode(_encoded((200, 100), form))
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 8)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        image_size(base64.b64encode(damaged).decode())


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
