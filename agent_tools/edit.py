"""edit: replaces quoted text in a file and changes nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from agent_tools.editing.replacement import EditArguments, Edited, apply_edits
from agent_tools.files.atomic_write import (
    FileChanged,
    Writer,
    content_hash,
    read_regular,
    require_regular_file,
    store,
)
from agent_tools.files.file_lock import lock_for
from agent_tools.files.filesystem import FILESYSTEM, Filesystem, filesystem_for
from agent_tools.files.paths import not_found, path_use, require_path, resolve
from agent_tools.files.protected import PROTECTED
from agent_tools.tool import CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import format_size

Reader = Callable[[Any, str], str]

_ATTEMPTS = 5
MAX_EDITED_BYTES = 100 * 1024 * 1024  # a text is held several times while it is edited

DESCRIPTION = """\
Replace text in a file. oldText must occur in the file exactly once, character for character with its \
indentation; include as many lines around it as that needs, and no more. Give either oldText and newText, or \
edits, a list of such pairs for one file: every oldText is searched in the file as it is now, they must not \
overlap, and either all are applied or none. Everything else in the file stays as it is, line endings and \
encoding included. To create a file or rewrite most of one, use write."""


def edit_tool(
    cwd: str | os.PathLike[str] = ".",
    *,
    reader: Reader | None = None,
    writer: Writer | None = None,
    confine: bool = False,
    protect: Collection[str] = PROTECTED,
) -> Tool[EditArguments]:
    """The tool `edit`, with relative paths taken from `cwd`.

    `reader(context, absolute_path)` and `writer(context, absolute_path, text)` replace the disk when the text
    is elsewhere (in an editor, on another machine). Edits of one file wait for each other, whatever path
    names it, so parallel calls lose nothing. `confine` refuses what is not below `cwd`, and changes of the
    files and folders in `protect`, which programs outside a sandbox obey.
    """
    cwd, filesystem = filesystem_for(cwd, confine, protect)

    def target(arguments: EditArguments) -> str:
        return resolve(require_path(arguments.path), cwd, filesystem=filesystem)

    def edit(arguments: EditArguments, context: CallContext) -> Result:
        path = target(arguments)
        with lock_for(path, context.cancel, filesystem):
            for attempt in range(_ATTEMPTS):
                read = _status(path, filesystem) if reader is None else None
                edited = prepare_edit(arguments, path, context, reader, filesystem)
                try:
                    store(path, edited.data, context, writer, filesystem, expected=read)
                    break
                except FileChanged:  # by a program that takes no lock
                    if attempt == _ATTEMPTS - 1:
                        raise
        return _result(arguments, edited)

    return Tool(
        "edit",
        DESCRIPTION,
        EditArguments,
        edit,
        display_hint=DisplayHint((TitleArg("path", "path"),)),
        paths=lambda arguments: (path_use(target(arguments), is_written=True),),
    )


def _status(path: str, filesystem: Filesystem) -> os.stat_result | None:
    try:
        return filesystem.stat(path)
    except OSError:
        return None


def prepare_edit(
    arguments: EditArguments,
    path: str,
    context: CallContext,
    reader: Reader | None = None,
    filesystem: Filesystem = FILESYSTEM,
) -> Edited:
    """Compute the edit of a file without writing it; raises `ToolFailure` if it cannot be applied."""
    data = _load(arguments.path, path, context, reader, filesystem)
    _stop_if_cancelled(arguments.path, context)
    if arguments.if_hash is not None and arguments.if_hash != content_hash(data):
        raise ToolFailure(
            f"{arguments.path} has changed since it had the hash {arguments.if_hash}; nothing was edited. "
            "Read it again first."
        )
    edited = apply_edits(data, arguments.replacements, arguments.path)
    _stop_if_cancelled(arguments.path, context)
    return edited


def _load(
    given: str, path: str, context: CallContext, reader: Reader | None, filesystem: Filesystem
) -> bytes:
    if reader is not None:
        try:
            return reader(context, path).encode("utf-8", "surrogateescape")
        except Exception as error:
            raise ToolFailure(f"{given} was not found or cannot be read: {error}") from error
    try:
        size = require_regular_file(path, filesystem).st_size
        if size > MAX_EDITED_BYTES:
            limit = format_size(MAX_EDITED_BYTES)
            raise ToolFailure(f"{given} has {format_size(size)}; edit takes at most {limit}. Use bash (sed).")
        return read_regular(path, filesystem, max_bytes=MAX_EDITED_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise not_found(given, path, filesystem) from None


def _stop_if_cancelled(given: str, context: CallContext) -> None:
    if context.cancel.is_set():
        raise ToolFailure(f"edit was aborted; {given} is unchanged")


def _result(arguments: EditArguments, edited: Edited) -> Result:
    diff = edited.diff()
    count = len(arguments.replacements)
    plural = "s" if count > 1 else ""
    text = f"Edited {arguments.path}: {count} replacement{plural}, +{diff.added} -{diff.removed} lines"
    # A change of invisible characters has no line in the diff.
    text += f", first changed line {diff.first_changed_line}." if diff.first_changed_line else "."
    if edited.was_forgiving:
        text += " The file's text differed from oldText in whitespace or typographic characters."
    return Result(text, {"diff": diff.text, "firstChangedLine": diff.first_changed_line})
