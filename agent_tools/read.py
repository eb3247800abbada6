"""read: lines of a text file, a page at a time, or an image to look at."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pydantic import Field

from agent_tools.files.atomic_write import content_hash, open_regular
from agent_tools.files.encoding import looks_binary
from agent_tools.files.filesystem import Filesystem, filesystem_for
from agent_tools.files.line_window import BLOCK_BYTES, Window, read_window
from agent_tools.files.path_encoding import path_text
from agent_tools.files.paths import not_found, path_use, require_path, resolve
from agent_tools.tool import (
    Arguments,
    CallContext,
    DisplayHint,
    ImageBlock,
    JsonObject,
    Result,
    TextBlock,
    TitleArg,
    Tool,
    ToolFailure,
)
from agent_tools.truncate import MAX_BYTES, MAX_LINES, format_size

Reader = Callable[[Any, str], str]


class ReadArguments(Arguments):
    path: str = Field(description="The file to read, relative to the working directory or absolute")
    offset: int | None = Field(None, description="First line to show, counted from 1 (default 1)")
    limit: int | None = Field(None, ge=1, description="How many lines to show, at least 1")
    if_hash: str | None = Field(
        None,
        description="Hash of the content you already have; if the file still has it, the result is one line. "
        "Ignored together with offset or limit",
    )


DESCRIPTION = f"""\
Read a text file, or look at an image (jpg, png, gif, webp).

At most {MAX_LINES} lines or {MAX_BYTES // 1024}KB are shown at once; when there is more, the result says \
which offset continues. Use offset and limit to read a part of a large file. Prefer this tool to cat, sed, \
head and tail. The result for a whole file has a hash: pass it as if_hash to find out cheaply whether the \
file has changed, and read again without it when you need the content."""


def read_tool(
    cwd: str | os.PathLike[str] = ".", *, reader: Reader | None = None, confine: bool = False
) -> Tool[ReadArguments]:
    """The tool `read`, with relative paths taken from `cwd`.

    `reader(context, absolute_path)` returns the text of text files in place of the disk (the buffer of an
    editor, another machine); images are read from the disk. `confine` refuses paths that are not below `cwd`.
    """
    cwd, filesystem = filesystem_for(cwd, confine)

    def target(arguments: ReadArguments) -> str:
        return resolve(require_path(arguments.path), cwd, filesystem=filesystem)

    def read(arguments: ReadArguments, context: CallContext) -> Result:
        path = target(arguments)
        if reader is None:
            return _read_local(arguments, path, context, filesystem)
        return _read_delegated(arguments, path, context, reader, filesystem)

    return Tool(
        "read",
        DESCRIPTION,
        ReadArguments,
        read,
        parallel=True,
        read_only=True,
        display_hint=DisplayHint(
            (TitleArg("path", "path"), TitleArg("offset", label="from"), TitleArg("limit", label="lines"))
        ),
        paths=lambda arguments: (path_use(target(arguments)),),
    )


def _read_local(arguments: ReadArguments, path: str, context: CallContext, filesystem: Filesystem) -> Result:
    try:
        file = open_regular(path, filesystem)
    except (FileNotFoundError, NotADirectoryError):
        raise not_found(arguments.path, path, filesystem) from None
    with file:
        head = file.read(BLOCK_BYTES)
        image = _image(head, file, arguments, path)
        if image is not None:
            return image
        if looks_binary(head):
            raise _binary(arguments.path, os.fstat(file.fileno()).st_size, head)
        return _text(arguments, path, _blocks(head, file, context))


def _read_delegated(
    arguments: ReadArguments, path: str, context: CallContext, reader: Reader, filesystem: Filesystem
) -> Result:
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(path, filesystem))
            head = file.read(BLOCK_BYTES)
        except (OSError, ToolFailure):
            head = b""  # a file that cannot be opened here may exist for the reader
        image = _image(head, file, arguments, path) if head else None
        if image is not None:
            return image
    try:
        text = reader(context, path)
    except Exception as error:
        raise ToolFailure(f"cannot read {arguments.path}: {error}") from error
    return _text(arguments, path, iter((text.encode("utf-8", "replace"),)))


def _blocks(head: bytes, file: BinaryIO, context: CallContext) -> Iterator[bytes]:
    block = head
    while block:
        if context.cancel.is_set():
            raise ToolFailure("read was aborted")
        yield block
        block = file.read(BLOCK_BYTES)


def _text(arguments: ReadArguments, path: str, blocks: Iterator[bytes]) -> Result:
    is_part = arguments.offset is not None or arguments.limit is not None
    # Line 0 or less means the beginning.
    window = read_window(blocks, max(1, arguments.offset or 1), arguments.limit, hashed=not is_part)
    if not is_part and arguments.if_hash == window.hash:
        return _unchanged(arguments.path, window.hash)
    if window.is_binary:
        raise _binary(arguments.path, window.shown.total_bytes, b"")
    if window.first > max(1, window.total_lines):
        raise ToolFailure(
            f"offset {window.first} is beyond end of file: {arguments.path} has {window.total_lines} lines"
        )
    details = _details(window, is_part)
    meta = None if is_part else {"hash": window.hash}
    return Result(_shown(window, arguments.limit, path, is_part), details or None, meta)


def _details(window: Window, is_part: bool) -> JsonObject:
    details: JsonObject = {} if is_part else {"hash": window.hash}
    if window.encoding != "utf-8":
        details["encoding"] = window.encoding
    if window.shown.truncated:
        details["truncation"] = window.shown.summary()
    return details


def _shown(window: Window, limit: int | None, path: str, is_part: bool) -> str:
    """The lines, with notices in brackets below them."""
    if window.total_lines == 0:
        return "(empty file)"
    notices = [_continuation_notice(window, limit, path), window.note]
    notice = "\n".join(f"[{text}]" for text in notices if text)
    text = window.shown.content
    if not notice:
        return text.removesuffix("\n") if is_part else text
    body = text.removesuffix("\n")
    return f"{body}\n\n{notice}" if window.last >= window.first else notice


def _continuation_notice(window: Window, limit: int | None, path: str) -> str:
    """How to read the rest, "" when nothing is left."""
    first, last = window.first, window.last
    if last < first:
        size, cap = format_size(window.first_line_bytes), format_size(MAX_BYTES)
        command = f"sed -n '{first}p' {shlex.quote(path_text(path))} | head -c {MAX_BYTES}"
        beyond = f" Use offset={first + 1} for the lines after it." if window.total_lines > first else ""
        return f"Line {first} is {size}, exceeds {cap} limit. Use bash to see its start: {command}.{beyond}"
    if not window.remaining:
        return ""
    shown = last - first + 1
    cause = "" if shown in (limit, MAX_LINES) else f" ({format_size(MAX_BYTES)} limit)"
    return (
        f"Showing lines {first}-{last} of {window.total_lines}{cause}; {window.remaining} more lines. "
        f"Use offset={last + 1} to continue."
    )


def _unchanged(path: str, digest: str) -> Result:
    return Result(f"{path} is unchanged (hash {digest})", {"hash": digest, "unchanged": True})


def _binary(path: str, size: int, head: bytes) -> ToolFailure:
    kind = "a PDF document" if head.startswith(b"%PDF-") else "a binary file"
    return ToolFailure(
        f"{path} is {kind} ({format_size(size)}) and cannot be shown as text. "
        "Use bash with a program for its format, or xxd for its bytes."
    )


def _image(head: bytes, file: BinaryIO, arguments: ReadArguments, path: str) -> Result | None:
    """The result for a file that is an image, an error for one that only its name says is; else None."""
    from agent_tools.images import MAX_INPUT_BYTES, ImageError, is_cut_off, resize_image, sniff_mime

    mime = sniff_mime(head)
    if mime is None:
        if is_cut_off(head, path):
            raise ImageError(f"{arguments.path} is not a complete image: it has {len(head)} bytes")
        return None
    data = head + file.read(MAX_INPUT_BYTES + 1 - len(head))
    is_part = arguments.offset is not None or arguments.limit is not None
    digest = content_hash(data)
    if not is_part and arguments.if_hash == digest:
        return _unchanged(arguments.path, digest)
    image = resize_image(data, mime)
    text = f"Read image file [{image.mime_type}]" + (f"\n{image.note}" if image.note else "")
    encoded = base64.b64encode(image.data).decode("ascii")
    blocks = (TextBlock(text), ImageBlock(encoded, image.mime_type))
    return Result(blocks, None if is_part else {"hash": digest}, None if is_part else {"hash": digest})
