"""Images are measured, and converted where a server does not accept them."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from dataclasses import replace
from random import Random

import pytest
from PIL import Image
from support.formats import FORMATS

from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.providers.images import as_still_png, image_size, is_broken
from agent.stream import AgentContext, StreamOptions


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


# --- GIFs ---


def gif(*colors: int, size: tuple[int, int] = (6, 4), **more: object) -> ImageContent:
    """A GIF with a frame for each gray value."""
    frames = [Image.new("L", size, color) for color in colors]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=len(frames) > 1, append_images=frames[1:], **more)
    return ImageContent(base64.b64encode(out.getvalue()).decode(), "image/gif")


STILL, ANIMATED = gif(77), gif(10, 200, 90)
PNG = ImageContent(_encoded((3, 3), "PNG"), "image/png")
# By format and model: which of STILL and ANIMATED go out as a PNG.
CONVERTED = [
    ("google-generative-ai", "", [STILL, ANIMATED]),
    ("openai-completions", "gpt-5", [ANIMATED]),
    ("openai-completions", "google/gemini-3.8-flash", [STILL, ANIMATED]),
    ("openai-responses", "gpt-5", [ANIMATED]),
    ("anthropic-messages", "", []),
]


@pytest.mark.parametrize(("api", "model", "converted"), CONVERTED)
@pytest.mark.parametrize("in_result", [False, True], ids=["prompt", "result"])
def test_a_gif_goes_out_as_the_server_accepts_it(
    api: str, model: str, converted: list[ImageContent], in_result: bool
) -> None:
    found = FORMATS[api]
    images = [STILL, ANIMATED, PNG]
    history: list[Message] = [UserMessage(images)]
    if in_result:
        call = AssistantMessage([ToolCall("c1", "look", {})], stop_reason="toolUse")
        history = [UserMessage("go"), call, ToolResultMessage("c1", "look", images)]
    target = replace(found.model, id=model or found.model.id)
    body = json.dumps(found.module.build_request(target, AgentContext("", history), StreamOptions()))
    assert PNG.data in body
    for image in (STILL, ANIMATED):
        still = as_still_png(image).data
        assert (image.data in body, still in body) == (image not in converted, image in converted)
    assert ("image/gif" in body) == (converted != [STILL, ANIMATED])


def test_the_png_of_a_gif_shows_its_first_frame() -> None:
    png = as_still_png(ANIMATED)
    assert png.mime_type == "image/png"
    with Image.open(io.BytesIO(base64.b64decode(png.data))) as image:
        assert image.format == "PNG"
        assert image.size == (6, 4)
        assert image.convert("L").getpixel((0, 0)) == 10


def test_transparency_is_kept() -> None:
    png = as_still_png(gif(0, 255, transparency=0))
    with Image.open(io.BytesIO(base64.b64decode(png.data))) as image:
        assert image.mode == "RGBA"


@pytest.mark.parametrize(
    "image",
    [
        PNG,
        ImageContent(ANIMATED.data[:12], "image/gif"),
        ImageContent("R0lGOD" + "====", "image/gif"),
        ImageContent("", "image/gif"),
        ImageContent("not base64", "image/gif"),
        ImageContent(PNG.data, "image/gif"),
        gif(1, 2, size=(8000, 6000)),
    ],
    ids=["png", "cut", "padding", "empty", "no base64", "mislabelled", "huge"],
)
def test_what_is_no_gif_of_moderate_size_stays_as_it_is(image: ImageContent) -> None:
    assert as_still_png(image) is image


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_a_whole_image_is_not_broken_and_a_cut_one_is(form: str) -> None:
    data = _encoded((50, 40), form)
    assert not is_broken(data)
    assert is_broken(data[: len(data) // 2])
