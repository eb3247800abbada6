"""Computes the change that a call of `edit` or `write` would make, before it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from agent.cli.permissions.paths_of_call import paths_of_call

# Bytes. For a larger file or content no diff is computed.
_MAX_SIZE = 2_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """A file's old and new text; `old` is None for a new file. `problem` says why there are no texts."""

    path: str
    old: str | None = None
    new: str = ""
    problem: str = ""

    @property
    def diff(self) -> str:
        """The change as rows of a diff, or the reason why there is none."""
        from agent_tools.diff import generate_diff

        return self.problem or generate_diff(self.old or "", self.new).text


def planned_change(tool: str, arguments: Mapping[str, object], cwd: str) -> Change | None:
    """The change that a call would make; None for other tools. Bad arguments give a `problem`."""
    if tool not in ("edit", "write"):
        return None
    from agent_tools.tool import ToolFailure

    try:
        return _edit(arguments, cwd) if tool == "edit" else _write(arguments, cwd)
    except (ToolFailure, OSError, ValueError) as error:
        return Change(str(arguments.get("path", "")), problem=str(error))


def _edit(arguments: Mapping[str, object], cwd: str) -> Change:
    from agent_tools.edit import prepare_edit
    from agent_tools.editing.replacement import EditArguments
    from agent_tools.tool import Context

    parsed = EditArguments.model_validate({key: v for key, v in arguments.items() if v is not None})
    path = _path("edit", arguments, cwd)
    edited = prepare_edit(parsed, path, Context())
    return Change(path, edited.before, edited.after)


def _path(tool: str, arguments: Mapping[str, object], cwd: str) -> str:
    """The file that the tool itself would take."""
    uses = paths_of_call(tool, arguments, cwd)
    return uses[0].path if uses else ""


def _write(arguments: Mapping[str, object], cwd: str) -> Change:
    from agent_tools.files.atomic_write import open_regular
    from agent_tools.files.encoding import decode

    content = str(arguments.get("content", ""))
    path = _path("write", arguments, cwd)
    old = None
    if os.path.exists(path):
        with open_regular(path) as file:
            old = file.read(_MAX_SIZE + 1)
    if max(len(old or b""), len(content)) > _MAX_SIZE:
        return Change(path, problem=f"{path}: {len(content)} new characters, too many to show")
    return Change(path, None if old is None else decode(old).display, content)
