"""Images in base64: their sizes, and still PNGs of GIFs for servers that accept no GIF or no animation.

Pillow reads them. A size takes 0.13 ms for a PNG, JPEG or GIF of any length and 3 ms for a WebP of 1 MB, once
per message, and the import of Pillow 55 ms, with the first image. Pillow's classes for the formats are used
directly: `Image.open` warns about large images and refuses very large ones, but their size is needed too.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from agent.messages import ImageContent

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

Size = tuple[int, int]

# Characters of base64 that contain the header of most images; a multiple of four.
_HEADER = 64 * 1024
_GIF_IN_BASE64 = "R0lGOD"  # GIF8
# A larger GIF is not decoded: 40 million pixels take 40 to 160 MB of memory.
_MAX_PIXELS = 40_000_000


def image_size(data: str) -> Size | None:
    """Width and height in pixels of a PNG, JPEG, GIF or WebP in base64; None for anything else."""
    for part in (data[:_HEADER], data):
        try:
            image = _opened(base64.b64decode(part))
        except Exception:  # Pillow raises exceptions of many types for broken images
            continue
        return image.size if image is not None else None
    return None


def is_broken(data: str) -> bool:
    """True for an image in base64 that can't be decoded, and for data of another format."""
    try:
        image = _opened(base64.b64decode(data, validate=True))
        if image is None:
            return True
        if image.width * image.height <= _MAX_PIXELS:
            image.load()
    except Exception:
        return True
    return False


def as_still_png(image: ImageContent, only_animated: bool = False) -> ImageContent:
    """The first frame of a GIF as a PNG; with `only_animated` a still GIF stays as it is.

    Images of other formats, broken and very large ones are returned unchanged.
    """
    if not image.data.startswith(_GIF_IN_BASE64):
        return image
    try:
        from PIL.GifImagePlugin import GifImageFile

        gif = GifImageFile(io.BytesIO(base64.b64decode(image.data)))
        if gif.width * gif.height > _MAX_PIXELS or (only_animated and not gif.is_animated):
            return image
        gif.seek(0)
        out = io.BytesIO()
        gif.convert("RGBA" if "transparency" in gif.info else "RGB").save(out, "PNG")
    except Exception:  # Pillow raises exceptions of many types for broken images
        return image
    return ImageContent(base64.b64encode(out.getvalue()).decode(), "image/png")


def _opened(raw: bytes) -> ImageFile | None:
    """The image, its pixels not yet decoded; None for an unknown format."""
    from PIL.GifImagePlugin import GifImageFile
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    formats: tuple[tuple[bytes, type[ImageFile]], ...] = (
        (b"\x89PNG\r\n\x1a\n", PngImageFile),
        (b"\xff\xd8", JpegImageFile),
        (b"GIF8", GifImageFile),
        (b"RIFF", WebPImageFile),
    )
    kind = next((kind for magic, kind in formats if raw.startswith(magic)), None)
    return None if kind is None else kind(io.BytesIO(raw))
