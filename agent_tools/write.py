"""write: a file made or replaced, byte for byte and all at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pydantic import Field

from agent_tools.files import atomic_write, content_hash, lock_for
from agent_tools.paths import require_path, resolve
from agent_tools.tool import Arguments, DisplayHint, Result, TitleArg, Tool, ToolFailure

Writer = Callable[[Any, str, str], object]


class WriteArguments(Arguments):
    path: str = Field(description="The file to write, relative to the working directory or absolute")
    content: str = Field(description="The whole new content, exactly as it shall stand in the file")


DESCRIPTION = """\
Create a file or replace the whole content of one. Missing folders are made. The content is written exactly as \
given: end it with a line feed if the file should. An existing file keeps its mode and stays what it is if it is a \
link. To change a part of a file use edit instead; to append to one, use edit or bash."""


def write_tool(cwd: str | os.PathLike[str] = ".", *, writer: Writer | None = None) -> Tool[WriteArguments]:
    """The tool `write`, with relative paths taken from `cwd`.

    `writer(context, absolute_path, content)` stores the text instead of us (an editor, another machine); it
    makes missing folders itself and raises when it cannot.
    """

    def write(arguments: WriteArguments, context: Any) -> Result:
        path = resolve(require_path(arguments.path), cwd)
        data = encode_utf8(arguments.content, "content")
        with lock_for(path, context.cancel):
            existed = os.path.exists(path)
            if writer is None:
                make_parents(path)
            if context.cancel.is_set():
                raise ToolFailure(f"write was aborted; {arguments.path} is unchanged")
            store(path, data, context, writer)
        digest = content_hash(data)
        text = f"Wrote {len(data)} bytes to {arguments.path}"
        details = {"hash": digest, "bytes": len(data), "created": not existed}
        return Result(text, details, {"hash": digest})

    return Tool(
        "write", DESCRIPTION, WriteArguments, write, display_hint=DisplayHint((TitleArg("path", "path"),))
    )


def store(path: str, data: bytes, context: Any, writer: Writer | None = None) -> None:
    """Put the new content in place, after the journal could keep the old one."""
    journal = getattr(context, "journal", None)
    if journal is not None:
        journal.before_change(path)
    try:
        if writer is None:
            atomic_write(path, data)
        else:
            writer(context, path, data.decode("utf-8"))
    except ToolFailure:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ToolFailure(f"cannot write {path}: {reason}") from error


def make_parents(path: str) -> None:
    """Make the folders above a file, above the target where it is a link."""
    parent = os.path.dirname(os.path.realpath(path))
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        # A parent that is a file is reported as existing.
        reason = (
            f"{error.filename} is not a directory" if isinstance(error, FileExistsError) else error.strerror
        )
        raise ToolFailure(f"cannot create the directory {parent}: {reason}") from error


def encode_utf8(text: str, name: str) -> bytes:
    """The argument's bytes; half a surrogate pair is refused, because no file could say it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailure(
            f"{name} holds half a surrogate pair at character {error.start}, which is no valid text"
        ) from None
