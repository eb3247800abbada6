"""editdiff: shows what an edit would change as a diff, without writing it."""

from __future__ import annotations

import os

from agent_tools.edit import Reader, prepare_edit
from agent_tools.editing.replacement import EditArguments
from agent_tools.files.filesystem import filesystem_for
from agent_tools.files.paths import path_use, require_path, resolve
from agent_tools.tool import CallContext, DisplayHint, JsonObject, Result, TitleArg, Tool
from agent_tools.truncate import cut_line, format_size, keep_head

_ROW_LENGTH = 2000  # characters, so that a minified file does not fill the result with one row
_NOTICE_BYTES = 200  # kept free for the notice, so that the whole result stays within the limit

DESCRIPTION = """\
Show what an edit would do to a file, as a diff with line numbers, without changing anything. The arguments \
are those of edit. A row starts with - for a removed line, + for an added one, and a space for context."""


def editdiff_tool(
    cwd: str | os.PathLike[str] = ".", *, reader: Reader | None = None, confine: bool = False
) -> Tool[EditArguments]:
    """The tool `editdiff`, relative paths start at `cwd`; `reader` and `confine` as for `edit_tool`."""
    cwd, filesystem = filesystem_for(cwd, confine)

    def target(arguments: EditArguments) -> str:
        return resolve(require_path(arguments.path), cwd, filesystem=filesystem)

    def editdiff(arguments: EditArguments, context: CallContext) -> Result:
        path = target(arguments)
        edited = prepare_edit(arguments, path, context, reader, filesystem)
        diff = edited.diff()
        details: JsonObject = {"diff": diff.text, "firstChangedLine": diff.first_changed_line}
        rows = "\n".join([cut_line(row, _ROW_LENGTH) for row in diff.text.split("\n")])
        shown = keep_head(rows)
        if not shown.truncated:
            return Result(rows or "Only invisible characters would change.", details)
        shown = keep_head(rows, max_bytes=shown.max_bytes - _NOTICE_BYTES)
        details["truncation"] = shown.summary()
        notice = (
            f"[Showing rows 1-{shown.output_lines} of {shown.total_lines} "
            f"({format_size(shown.total_bytes)}) of the diff: +{diff.added} -{diff.removed} lines in all.]"
        )
        return Result(f"{shown.content}\n\n{notice}", details)

    return Tool(
        "editdiff",
        DESCRIPTION,
        EditArguments,
        editdiff,
        parallel=True,
        display_hint=DisplayHint((TitleArg("path", "path"),)),
        paths=lambda arguments: (path_use(target(arguments)),),
    )
