"""What a call of `edit` or `write` would make of its file, before it is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A change this large is not read before it is allowed.
_LARGEST_SHOWN = 2_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """A file and both its texts; `old` is None for a new one. Without texts `problem` says why."""

    path: str
    old: str | None = None
    new: str = ""
    problem: str = ""

    @property
    def diff(self) -> str:
        """The change as rows of a diff, or why there is none."""
        from agent_tools.diff import generate_diff

        return self.problem or generate_diff(self.old or "", self.new).text


def planned_change(tool: str, arguments: Mapping[str, Any], cwd: str) -> Change | None:
    """The change that a call would make; None for a tool that changes no text. Never raises for a call."""
    if tool not in ("edit", "write"):
        return None
    from agent_tools.tool import ToolFailure

    try:
        return _edit(arguments, cwd) if tool == "edit" else _write(arguments, cwd)
    except (ToolFailure, OSError, ValueError) as error:
        return Change(str(arguments.get("path", "")), problem=str(error))


def _edit(arguments: Mapping[str, Any], cwd: str) -> Change:
    from agent_tools.edit import prepare_edit
    from agent_tools.editing.replacement import EditArguments
    from agent_tools.files.paths import find_existing
    from agent_tools.tool import Context

    parsed = EditArguments.model_validate({key: v for key, v in arguments.items() if v is not None})
    path = find_existing(parsed.path, cwd)
    edited = prepare_edit(parsed, path, Context())
    return Change(path, edited.before, edited.after)


def _write(arguments: Mapping[str, Any], cwd: str) -> Change:
    from agent_tools.files.atomic_write import open_regular
    from agent_tools.files.encoding import decode
    from agent_tools.files.paths import resolve

    content = str(arguments.get("content", ""))
    path = resolve(str(arguments.get("path", "")), cwd)
    old = None
    if os.path.exists(path):
        with open_regular(path) as file:
            old = file.read(_LARGEST_SHOWN + 1)
    if max(len(old or b""), len(content)) > _LARGEST_SHOWN:
        return Change(path, problem=f"{path} would get {len(content)} characters, too many to show")
    return Change(path, None if old is None else decode(old).display, content)
