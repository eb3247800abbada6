"""write: creates or replaces a file, byte for byte and atomically."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from pydantic import Field

from agent_tools.diff import generate_diff
from agent_tools.files.atomic_write import (
    Writer,
    content_hash,
    make_parents,
    read_regular,
    require_regular_file,
    store,
)
from agent_tools.files.encoding import encode_argument
from agent_tools.files.file_lock import lock_for
from agent_tools.files.filesystem import Filesystem, filesystem_for
from agent_tools.files.paths import path_use, require_path, resolve
from agent_tools.files.protected import PROTECTED
from agent_tools.tool import Arguments, CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure

# A larger text, before or after, gets no diff: it costs time and memory in every place that keeps results.
_MAX_DIFFED_BYTES = 256 * 1024


class WriteArguments(Arguments):
    path: str = Field(description="The file to write, relative to the working directory or absolute")
    content: str = Field(description="The whole new content, exactly as it is written to the file")


DESCRIPTION = """\
Create a file or replace the whole content of one. Missing folders are created. The content is written \
exactly as given: end it with a line feed if the file should. An existing file keeps its mode; a link stays \
a link. To change a part of a file use edit instead. The result has the hash of the new content."""


def write_tool(
    cwd: str | os.PathLike[str] = ".",
    *,
    writer: Writer | None = None,
    confine: bool = False,
    protect: Collection[str] = PROTECTED,
) -> Tool[WriteArguments]:
    """The tool `write`, with relative paths taken from `cwd`.

    `writer(context, absolute_path, content)` stores the text in place of the disk (an editor, another
    machine); it creates missing folders and raises when it fails. `confine` refuses paths that are not below
    `cwd`, and changes of the files and folders in `protect`, which programs outside a sandbox obey.
    """
    cwd, filesystem = filesystem_for(cwd, confine, protect)

    def target(arguments: WriteArguments) -> str:
        path = resolve(require_path(arguments.path), cwd, filesystem=filesystem)
        if arguments.path.endswith(("/", os.sep)):
            raise ToolFailure(f"{arguments.path} names a directory; path must be a file")
        return path

    def write(arguments: WriteArguments, context: CallContext) -> Result:
        path = target(arguments)
        data = encode_argument(arguments.content, "content")
        with lock_for(path, context.cancel, filesystem):
            existed = filesystem.exists(path)
            if writer is None:
                make_parents(path, filesystem)
            if context.cancel.is_set():
                raise ToolFailure(f"write was aborted; {arguments.path} is unchanged")
            old = _text_on_disk(path, filesystem) if existed and writer is None else None
            store(path, data, context, writer, filesystem)
        digest = content_hash(data)
        text = f"Wrote {len(data)} bytes to {arguments.path}"
        details: dict[str, object] = {"hash": digest, "bytes": len(data), "created": not existed}
        if old is not None and len(data) <= _MAX_DIFFED_BYTES:
            details["diff"] = generate_diff(old, data.decode("utf-8", "replace")).text
        return Result(text, details, {"hash": digest})

    return Tool(
        "write",
        DESCRIPTION,
        WriteArguments,
        write,
        display_hint=DisplayHint((TitleArg("path", "path"),)),
        paths=lambda arguments: (path_use(target(arguments), is_written=True),),
    )


def _text_on_disk(path: str, filesystem: Filesystem) -> str | None:
    """The text of the file that is to be replaced; None when it is large, no text or can't be read."""
    with suppress(OSError, ValueError, ToolFailure):
        if require_regular_file(path, filesystem).st_size <= _MAX_DIFFED_BYTES:
            data = read_regular(path, filesystem, max_bytes=_MAX_DIFFED_BYTES)
            return None if b"\0" in data else data.decode("utf-8")
    return None
