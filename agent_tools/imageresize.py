"""imageresize: makes an image small enough to show, or writes a smaller copy of it."""

from __future__ import annotations

import base64
import os
from collections.abc import Collection

from pydantic import Field

from agent_tools.files.atomic_write import make_parents, open_regular, store
from agent_tools.files.file_lock import lock_for
from agent_tools.files.filesystem import Filesystem, filesystem_for
from agent_tools.files.path_encoding import path_text
from agent_tools.files.paths import not_found, path_use, require_path, resolve
from agent_tools.files.protected import PROTECTED
from agent_tools.images import (
    MAX_BYTES,
    MAX_HEIGHT,
    MAX_INPUT_BYTES,
    MAX_WIDTH,
    QUALITY,
    ResizedImage,
    resize_image,
)
from agent_tools.tool import (
    Arguments,
    CallContext,
    DisplayHint,
    ImageBlock,
    JsonObject,
    PathUse,
    Result,
    TextBlock,
    TitleArg,
    Tool,
    ToolFailure,
)
from agent_tools.truncate import format_size

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_WRITABLE = ("image/png", "image/jpeg")


class ImageResizeArguments(Arguments):
    path: str = Field(description="The image to read: PNG, JPEG, GIF or WebP")
    max_width: int = Field(0, alias="maxWidth", description=f"Pixels; default {MAX_WIDTH}")
    max_height: int = Field(0, alias="maxHeight", description=f"Pixels; default {MAX_HEIGHT}")
    max_bytes: int = Field(0, alias="maxBytes", description=f"Size of the result; default {MAX_BYTES}")
    quality: int = Field(0, description=f"Quality if it becomes a JPEG, 1 to 95; default {QUALITY}")
    output: str = Field(
        "",
        description="Write the result to this .png or .jpg file instead of showing it (may equal path)",
    )


DESCRIPTION = f"""\
Make an image smaller, keeping its shape. Without output you get the image to look at, with the factor that \
maps its coordinates to the original; with output the result is written to that file. By default it fits \
{MAX_WIDTH}x{MAX_HEIGHT} pixels and {format_size(MAX_BYTES)}. An image within the limits stays as it is. \
Photographs are turned upright by their EXIF orientation."""


def imageresize_tool(
    cwd: str | os.PathLike[str] = ".", *, confine: bool = False, protect: Collection[str] = PROTECTED
) -> Tool[ImageResizeArguments]:
    """The tool `imageresize`; relative paths start at `cwd`, the source changes only if it is the output.

    `confine` refuses to read or write what is not below `cwd`, and to write what `protect` names.
    """
    cwd, filesystem = filesystem_for(cwd, confine, protect)

    def source(arguments: ImageResizeArguments) -> str:
        return resolve(require_path(arguments.path), cwd, filesystem=filesystem)

    def output(arguments: ImageResizeArguments) -> str:
        return resolve(arguments.output, cwd, filesystem=filesystem) if arguments.output else ""

    def paths(arguments: ImageResizeArguments) -> tuple[PathUse, ...]:
        written = output(arguments)
        uses = (path_use(source(arguments)),)
        return (*uses, path_use(written, is_written=True)) if written else uses

    def imageresize(arguments: ImageResizeArguments, context: CallContext) -> Result:
        return _imageresize(arguments, source(arguments), output(arguments), context, filesystem)

    return Tool(
        "imageresize",
        DESCRIPTION,
        ImageResizeArguments,
        imageresize,
        display_hint=DisplayHint((TitleArg("path", "path"),)),
        paths=paths,
    )


def _imageresize(
    arguments: ImageResizeArguments, source: str, output: str, context: CallContext, filesystem: Filesystem
) -> Result:
    kind = _kind_of(output)
    image = resize_image(
        _read(arguments.path, source, filesystem),
        max_width=arguments.max_width,
        max_height=arguments.max_height,
        max_bytes=arguments.max_bytes,
        quality=arguments.quality,
        as_type=kind if kind in _WRITABLE else "",
    )
    if context.cancel.is_set():
        raise ToolFailure("imageresize was aborted; nothing was written")
    if output:
        return _write(image, output, kind, context, filesystem)
    text = f"{arguments.path}: {_measures(image)}"
    if image.note:
        text += "\n" + image.note
    data = base64.b64encode(image.data).decode("ascii")
    return Result([TextBlock(text), ImageBlock(data, image.mime_type)], details=_details(image))


def _read(path: str, found: str, filesystem: Filesystem) -> bytes:
    try:
        file = open_regular(found, filesystem)
    except FileNotFoundError:
        raise not_found(path, found, filesystem) from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_INPUT_BYTES:
            limit = format_size(MAX_INPUT_BYTES)
            raise ToolFailure(f"{path} has {format_size(size)}; images of at most {limit} are read")
        return file.read()


def _kind_of(output: str) -> str:
    """The type the output must have by its name; empty without an output."""
    if not output:
        return ""
    kind = _TYPES.get(os.path.splitext(output)[1].lower())
    if kind is None:
        raise ToolFailure(
            f"output must end in .png, .jpg or .jpeg, so that its name tells what it holds: {output}"
        )
    return kind


def _write(
    image: ResizedImage, output: str, kind: str, context: CallContext, filesystem: Filesystem
) -> Result:
    if image.mime_type != kind:
        raise ToolFailure(
            f"the result is {image.mime_type}; output must end in .png, .jpg or .jpeg, not {output}"
        )
    with lock_for(output, context.cancel, filesystem):
        make_parents(output, filesystem)
        store(output, image.data, context, filesystem=filesystem)
    text = f"Wrote {path_text(output)}: {_measures(image)}"
    return Result(text if image.was_resized else f"{text} (unchanged)", details=_details(image))


def _measures(image: ResizedImage) -> str:
    size = f"{image.width}x{image.height}"
    if (image.original_width, image.original_height) != (image.width, image.height):
        size = f"{image.original_width}x{image.original_height} -> {size}"
    return f"{image.mime_type}, {size}, {format_size(len(image.data))}"


def _details(image: ResizedImage) -> JsonObject:
    return {
        "mimeType": image.mime_type,
        "originalWidth": image.original_width,
        "originalHeight": image.original_height,
        "width": image.width,
        "height": image.height,
        "wasResized": image.was_resized,
        "bytes": len(image.data),
    }
