"""Prepares images for a model: checks them by their bytes, turns them upright, and makes them small enough.

A provider refuses a whole conversation that contains a corrupt or oversized image, so no image is returned
that was not decoded completely. Pillow is loaded at the first call, not with the module, and its global
settings are not changed; every function may be called from any number of threads.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_tools.tool import JsonObject, ToolFailure

if TYPE_CHECKING:
    from PIL import Image, ImageFile

# Pixels. Anthropic refuses larger images in requests with more than 20 of them.
MAX_WIDTH = MAX_HEIGHT = 2000
MAX_BASE64 = 5 * 1024 * 1024  # characters of the base64 text: the smallest limit of a provider (Anthropic)
MAX_BYTES = MAX_BASE64 // 4 * 3  # 3,932,160 raw bytes are exactly MAX_BASE64 characters
QUALITY = 80

# 2^26 pixels are 256 MiB once decoded at Pillow's four bytes each.
MAX_PIXELS = 1 << 26
# A baseline JPEG is decoded at down to an eighth of its size, so phones' 200 megapixels cost little memory.
MAX_JPEG_PIXELS = 1 << 28
# Each scan of a progressive JPEG passes over all pixels; this many take about a second. Encoders write 15
# scans.
MAX_SCANNED_PIXELS = 16 * MAX_PIXELS
_JPEG_SCAN = b"\xff\xda"  # compressed data never contains this marker
MAX_INPUT_BYTES = 100 * 1024 * 1024  # no camera writes more; keeps a mistaken path from filling the memory

_LOWER_QUALITIES = (70, 55, 40)
_SCALES = (1.0, 0.75, 0.5, 0.35)
_LAST_SCALE = 0.25
_MIN_SIDE = 100  # below this a further step down would cost more legibility than it saves bytes
_ORIENTATION = 0x0112  # the EXIF tag
_PNG_END = b"IEND\xaeB`\x82"


class ImageError(ToolFailure):
    """The bytes are not a complete image that a model can be shown; the text says why."""


@dataclass(frozen=True, slots=True)
class ResizedImage:
    """An image within the limits. Sizes are in pixels, of the upright image."""

    data: bytes
    mime_type: str
    original_width: int
    original_height: int
    width: int
    height: int
    was_resized: bool  # if false, `data` is the input, byte for byte

    @property
    def note(self) -> str:
        """How coordinates map to the original image, for a model; empty for an unchanged image."""
        if not self.was_resized:
            return ""
        return (
            f"[Image: original {self.original_width}x{self.original_height}, displayed at "
            f"{self.width}x{self.height}. Multiply coordinates by {self.original_width / self.width:.2f} "
            "to map to the original image.]"
        )


def sniff_mime(data: bytes) -> str | None:
    """The image type that the first bytes show (PNG, JPEG, GIF, WebP), or None; twelve bytes are enough."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def is_cut_off(data: bytes, name: str) -> bool:
    """True when a file named like an image is empty or ends within an image's signature.

    Such a file is a failed download or thumbnail: neither an image nor useful text.
    """
    if not name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp")):
        return False
    signatures = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF")
    return any(signature.startswith(data) for signature in signatures) or (
        data.startswith(b"RIFF") and len(data) < 12
    )


def resize_image(
    data: bytes,
    mime_type: str = "",
    *,
    max_width: int = MAX_WIDTH,
    max_height: int = MAX_HEIGHT,
    max_bytes: int = MAX_BYTES,
    quality: int = QUALITY,
    as_type: str = "",
) -> ResizedImage:
    """The image within the limits, upright; unchanged when it already is.

    `mime_type` is used in errors only; the bytes decide. `max_bytes` counts raw bytes, `quality` is for
    JPEG (1 to 95). A limit of zero or less means its default. The largest size that fits is taken: first the
    target size at falling qualities, then smaller ones; when even a quarter is too large in bytes, that
    quarter is returned. PNG or JPEG, whichever is smaller; transparency is kept as PNG or, when that is too
    large, laid on white. `as_type` ("image/png" or "image/jpeg") forces the type. Of an animation that has to
    be changed the first frame is kept.

    Raises `ImageError` for bytes that are no image, are truncated or corrupt, or claim an absurd size; that
    size is judged from the header, before anything is decoded.
    """
    limits = _Limits(
        max_width if max_width > 0 else MAX_WIDTH,
        max_height if max_height > 0 else MAX_HEIGHT,
        max_bytes if max_bytes > 0 else MAX_BYTES,
        min(quality, 95) if quality > 0 else QUALITY,
    )
    mime = _checked_mime(data, mime_type)
    try:
        return _resize(data, mime, limits, as_type)
    except ImageError:
        raise
    except Exception as error:  # decoders raise nearly anything on hostile bytes
        kind = mime.removeprefix("image/").upper()
        reason = str(error) or type(error).__name__
        raise ImageError(f"the {kind} image is corrupt or truncated ({reason})") from error


@dataclass(frozen=True, slots=True)
class _Limits:
    width: int
    height: int
    bytes: int
    quality: int

    def target(self, width: int, height: int) -> tuple[int, int]:
        """The largest size of the same shape within the limits; a side never becomes zero."""
        if width > self.width:
            width, height = self.width, max(1, round(height * self.width / width))
        if height > self.height:
            width, height = max(1, round(width * self.height / height)), self.height
        return width, height

    def qualities(self) -> tuple[int, ...]:
        return (self.quality, *(lower for lower in _LOWER_QUALITIES if lower < self.quality))


def _checked_mime(data: bytes, believed: str) -> str:
    mime = sniff_mime(data)
    if mime is not None and len(data) <= MAX_INPUT_BYTES:
        return mime
    if not data:
        raise ImageError("the image is empty (0 bytes)")
    if mime is not None:
        raise ImageError(f"the image has {len(data)} bytes; at most {MAX_INPUT_BYTES} are read")
    named = f" although it is named {believed}" if believed else ""
    raise ImageError(f"the content is no PNG, JPEG, GIF or WebP image{named}")


def _resize(data: bytes, mime: str, limits: _Limits, as_type: str) -> ResizedImage:
    source = _open(data, mime)
    orientation = _orientation(source)
    width, height = source.size
    if orientation >= 5:
        width, height = height, width
    target = limits.target(width, height)
    fits = target == (width, height) and len(data) <= limits.bytes
    if fits and orientation == 1 and as_type in ("", mime) and _is_whole(source, data, mime):
        return ResizedImage(data, mime, width, height, width, height, False)

    pixels = _decode(_open(data, mime), target if orientation < 5 else (target[1], target[0]))
    upright = _turn(pixels, orientation)
    # What came as a JPEG has lost what a PNG would keep.
    wanted_type = as_type or (mime if mime == "image/jpeg" else "")
    encoded, encoded_mime, size = _fit(upright, target, limits, wanted_type)
    return ResizedImage(encoded, encoded_mime, width, height, *size, True)


# Reading


def _open(data: bytes, mime: str) -> ImageFile.ImageFile:
    """Read the header of an image and check its size.

    The reader for the type is called directly: `Image.open` warns about large images through the process-wide
    warning filters, and loads every plug-in when it meets a WebP.
    """
    from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    if mime == "image/webp":
        _check_size(*_webp_size(data))  # its decoder allocates the canvas when it is made
    readers: JsonObject = {
        "image/png": PngImagePlugin.PngImageFile,
        "image/jpeg": JpegImagePlugin.JpegImageFile,
        "image/gif": GifImagePlugin.GifImageFile,
        "image/webp": WebPImagePlugin.WebPImageFile,
    }
    image: ImageFile.ImageFile = readers[mime](io.BytesIO(data))
    scalable = mime == "image/jpeg" and not image.info.get("progressive")
    _check_size(*image.size, MAX_JPEG_PIXELS if scalable else MAX_PIXELS)
    scans = data.count(_JPEG_SCAN) if mime == "image/jpeg" and _may_have_many_scans(data) else 0
    if scans * image.width * image.height > MAX_SCANNED_PIXELS:
        raise ImageError(f"the JPEG has {scans} scans, too many to decode; make a copy of it first")
    return image


def _may_have_many_scans(data: bytes) -> bool:
    """False for a JPEG whose first scan holds all components: decoders refuse a second one.

    Looks at the headers only, since counting the scans of a large file takes a tenth of its decoding.
    """
    at, components, is_progressive = 2, 0, True
    while data[at : at + 1] == b"\xff" and at + 10 <= len(data):
        marker = data[at + 1]
        if marker == 0xDA:
            return is_progressive or data[at + 4] < components
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # the frame header
            is_progressive, components = marker not in (0xC0, 0xC1), data[at + 9]
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return True


def _check_size(width: int, height: int, limit: int = MAX_PIXELS) -> None:
    if width * height > limit:
        raise ImageError(
            f"the image claims {width}x{height} pixels, more than the {limit} that are decoded; "
            "make a smaller copy of it first"
        )


def _webp_size(data: bytes) -> tuple[int, int]:
    """Width and height from a WebP header (lossy, lossless or extended)."""
    kind = data[12:16]
    if len(data) < 30:
        raise ImageError("the WEBP image is truncated")
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) to 8; a broken EXIF block counts as none."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # unreadable metadata does not make the image unusable
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _is_whole(image: ImageFile.ImageFile, data: bytes, mime: str) -> bool:
    """Decode all frames; raises when data is missing, False when an animation may be incomplete."""
    if mime == "image/png":
        _open(data, mime).verify()  # the checksums of all chunks up to the end mark, though not its own
        if _PNG_END not in data:
            raise ImageError("the PNG image is truncated: its end mark is missing")
    frames = getattr(image, "n_frames", 1) if mime in ("image/gif", "image/webp") else 1
    if frames * image.width * image.height > MAX_PIXELS:
        return False
    for frame in range(frames):
        image.seek(frame)
        image.load()
    # A GIF cut between two frames decodes without an error; without its end mark only the first is used.
    return mime != "image/gif" or data.rstrip(b"\0\r\n").endswith(b";")


def _decode(image: ImageFile.ImageFile, wanted: tuple[int, int]) -> Image.Image:
    """The pixels as L, RGB or RGBA; a JPEG may be decoded at a half, a quarter or an eighth of its size."""
    # The decoder reduces as well as resampling does, which then has to shrink by less than a half.
    image.draft(None, wanted)
    _check_size(*image.size)
    image.load()
    if image.mode.startswith("I"):
        return _from_16_bit(image)
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        opaque = layered.getchannel("A").getextrema()[0] == 255
        return layered.convert("RGB") if opaque else layered
    if image.mode in ("L", "RGB"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """Grey of 16 bits as 8; Pillow's own conversion cuts everything above 255 to white."""
    return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")


def _turn(image: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose

    steps = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(steps[orientation]) if orientation in steps else image


# Writing


def _fit(
    image: Image.Image, target: tuple[int, int], limits: _Limits, as_type: str
) -> tuple[bytes, str, tuple[int, int]]:
    """The first encoding within the byte limit and its size in pixels; else the smallest one tried."""
    for size in _sizes(target):
        scaled = _scaled(image, size)
        for encoded, mime in _encodings(scaled, limits.qualities(), limits.bytes, as_type):
            if len(encoded) <= limits.bytes:
                return encoded, mime, size
    size = (max(1, round(target[0] * _LAST_SCALE)), max(1, round(target[1] * _LAST_SCALE)))
    scaled = _scaled(image, size)
    candidates = []
    if as_type != "image/jpeg":
        candidates.append((_png(scaled), "image/png"))
    if as_type != "image/png":
        candidates.append((_jpeg(scaled, min(limits.qualities())), "image/jpeg"))
    encoded, mime = min(candidates, key=lambda candidate: len(candidate[0]))
    return encoded, mime, size


def _sizes(target: tuple[int, int]) -> Iterator[tuple[int, int]]:
    yield target
    for scale in _SCALES[1:]:
        size = (round(target[0] * scale), round(target[1] * scale))
        if min(size) < _MIN_SIDE:
            return
        yield size


def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    from PIL.Image import Resampling

    return image if image.size == size else image.resize(size, Resampling.LANCZOS, reducing_gap=3.0)


def _encodings(
    image: Image.Image, qualities: tuple[int, ...], max_bytes: int, as_type: str
) -> Iterator[tuple[bytes, str]]:
    """Encodings from the best downwards. A PNG is the same at every quality, so it is tried once."""
    if as_type == "image/png":
        yield _png(image), "image/png"
        return
    if image.mode == "RGBA" and not as_type and (layered := _png(image, max_bytes)):
        yield layered, "image/png"
        return
    best = _jpeg(image, qualities[0])
    if not as_type and (exact := _png(image, min(len(best), max_bytes))):
        yield exact, "image/png"
        return
    yield best, "image/jpeg"
    for quality in qualities[1:]:
        yield _jpeg(image, quality), "image/jpeg"


class _TooLarge(Exception):
    pass


class _Bounded(io.BytesIO):
    """A buffer that refuses to grow past a limit, so that encoding a too large PNG ends early."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self._limit:
            raise _TooLarge
        return super().write(data)


def _png(image: Image.Image, limit: int | None = None) -> bytes:
    """The image as PNG; empty when that would be larger than `limit`."""
    buffer = io.BytesIO() if limit is None else _Bounded(limit)
    try:
        _bare(image).save(buffer, format="PNG")
    except _TooLarge:
        return b""
    return buffer.getvalue()


def _jpeg(image: Image.Image, quality: int) -> bytes:
    if image.mode == "RGBA":
        from PIL import Image as images

        white = images.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    buffer = io.BytesIO()
    _bare(image).save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()


def _bare(image: Image.Image) -> Image.Image:
    """The image without what its file said beside the pixels: a kept EXIF block would turn it once more."""
    image.info.clear()
    return image
