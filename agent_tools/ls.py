"""ls: lists the entries of a folder."""

from __future__ import annotations

import os
import stat

from pydantic import Field

from agent_tools.files.filesystem import Filesystem, OutsideRoot, filesystem_for
from agent_tools.files.paths import path_use
from agent_tools.search.listing import (
    Exclude,
    Notices,
    excluded_text,
    require_searchable,
    search_path,
    shown_name,
)
from agent_tools.tool import Arguments, CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import MAX_BYTES

DEFAULT_LIMIT = 500


class LsArguments(Arguments):
    path: str = Field(".", description="Folder to list (default: the working directory)")
    limit: int = Field(DEFAULT_LIMIT, description=f"At most this many entries (default {DEFAULT_LIMIT})")


DESCRIPTION = f"""\
List the entries of one folder, sorted without regard to case, folders with a trailing slash, hidden and \
ignored ones included. At most {DEFAULT_LIMIT} entries or {MAX_BYTES // 1024}KB are shown. To look through a \
whole tree use find."""


def ls_tool(
    cwd: str | os.PathLike[str] = ".", *, confine: bool = False, exclude: Exclude | None = None
) -> Tool[LsArguments]:
    """The tool `ls`, with relative paths taken from `cwd`; `confine` refuses what is not below it.

    `exclude` leaves files and folders out, as for `grep_tool`.
    """
    cwd, filesystem = filesystem_for(cwd, confine)

    def target(arguments: LsArguments) -> str:
        return search_path(arguments.path, cwd, filesystem)

    def ls(arguments: LsArguments, context: CallContext) -> Result:
        folder = require_searchable(target(arguments), filesystem, exclude)
        if not filesystem.isdir(folder):
            raise ToolFailure(f"not a directory: {shown_name(folder)}; use read to see a file")
        return _listing(_entries(folder, filesystem), folder, max(1, arguments.limit), exclude)

    return Tool(
        "ls",
        DESCRIPTION,
        LsArguments,
        ls,
        parallel=True,
        read_only=True,
        display_hint=DisplayHint((TitleArg("path", "path"),), 20),
        paths=lambda arguments: (path_use(target(arguments)),),
    )


def _entries(folder: str, filesystem: Filesystem) -> list[str]:
    """The names, folders (and links to them) with a slash, without dangling links.

    A link out of the root is listed as a file, whatever its target is.
    """
    names = []
    try:
        with filesystem.scandir(folder) as entries:
            for entry in entries:
                try:
                    is_folder = _is_folder(entry, folder, filesystem)
                except OSError:
                    continue
                names.append(entry.name + "/" if is_folder else entry.name)
    except OSError as error:
        raise ToolFailure(f"cannot read {shown_name(folder)}: {error.strerror}") from None
    # The name itself decides between names that differ in case only.
    return sorted(names, key=lambda name: (name.casefold(), name))


def _is_folder(entry: os.DirEntry[str], folder: str, filesystem: Filesystem) -> bool:
    if not entry.is_symlink():
        return entry.is_dir(follow_symlinks=False)
    try:
        return stat.S_ISDIR(filesystem.stat(os.path.join(folder, entry.name)).st_mode)
    except OutsideRoot:
        return False


def _listing(names: list[str], folder: str, limit: int, exclude: Exclude | None) -> Result:
    excluded: list[str] = []
    if exclude is not None:
        real = os.path.join(os.path.realpath(folder), "")
        excluded = [name for name in names if exclude(real + name)]
        names = [name for name in names if name not in set(excluded)]
    folders = sum(name.endswith("/") for name in excluded)
    if not names:
        return Result(
            f"({excluded_text(len(excluded) - folders, folders)})" if excluded else "(empty directory)"
        )
    notices = Notices()
    notices.add_excluded(len(excluded) - folders, folders)
    if len(names) > limit:
        notices.add_limit(limit, "entries", entryLimitReached=limit)
    return notices.result([shown_name(name) for name in names[:limit]])
