"""find: finds files and folders by name."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pydantic import Field

from agent_tools.files.filesystem import filesystem_for
from agent_tools.files.path_encoding import path_text
from agent_tools.files.paths import path_use
from agent_tools.search.gitignore import Walk
from agent_tools.search.globs import below, check_glob, matcher
from agent_tools.search.listing import (
    MAX_ROWS,
    Exclude,
    Notices,
    SearchGuard,
    excluded_text,
    require_searchable,
    search_path,
    shown_name,
)
from agent_tools.tool import Arguments, CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import MAX_BYTES

DEFAULT_LIMIT = 1000
_TIME_LIMIT = 60.0  # seconds


class FindArguments(Arguments):
    pattern: str = Field(
        description="Glob to find. Without a slash it matches entries at any depth (*.ts, README*, "
        "config.{yml,yaml}); with one, paths below `path` (src/**/*.spec.ts, docs/*, **/migrations/*)"
    )
    path: str = Field(".", description="Folder to search (default: the working directory)")
    limit: int = Field(DEFAULT_LIMIT, description=f"At most this many results (default {DEFAULT_LIMIT})")


DESCRIPTION = f"""\
Find files and folders by name. Lists paths relative to `path`, sorted, folders with a trailing slash.

Files ignored by .gitignore, .git and node_modules are skipped; hidden files are included; upper and lower \
case differ; links are listed, not followed. At most {DEFAULT_LIMIT} results or {MAX_BYTES // 1024}KB are \
shown. Prefer this tool to find and fd in bash; to search inside files use grep."""


def find_tool(
    cwd: str | os.PathLike[str] = ".",
    *,
    time_limit: float = _TIME_LIMIT,
    confine: bool = False,
    exclude: Exclude | None = None,
) -> Tool[FindArguments]:
    """The tool `find`, with relative paths taken from `cwd`; `time_limit` seconds end it with an error.

    `confine` refuses paths that are not below `cwd`; a .gitignore above it then does not apply.
    `exclude` leaves files and folders out, as for `grep_tool`.
    """
    cwd, filesystem = filesystem_for(cwd, confine)

    def target(arguments: FindArguments) -> str:
        return search_path(arguments.path, cwd, filesystem)

    def find(arguments: FindArguments, context: CallContext) -> Result:
        if not arguments.pattern.strip():
            raise ToolFailure("pattern is required")
        check_glob(arguments.pattern, "pattern")
        root = require_searchable(target(arguments), filesystem, exclude)
        if not filesystem.isdir(root):
            raise ToolFailure(f"not a folder: {shown_name(root)}; path must be the folder to search in")
        guard = SearchGuard(context.cancel, time_limit, "find")
        walk = Walk(root, top=os.fspath(cwd), check=guard, filesystem=filesystem, exclude=exclude)
        limit = min(max(1, arguments.limit), MAX_ROWS)
        return _listing(walk, below(arguments.pattern, path_text(root)), limit)

    return Tool(
        "find",
        DESCRIPTION,
        FindArguments,
        find,
        parallel=True,
        read_only=True,
        display_hint=DisplayHint((TitleArg("pattern", "pattern"), TitleArg("path", "path", "in")), 15),
        paths=lambda arguments: (path_use(target(arguments)),),
    )


def _listing(walk: Walk, pattern: str, limit: int) -> Result:
    found: list[str] = []
    for path in _matching(walk, pattern):
        found.append(shown_name(path))
        if len(found) > limit:
            break
    if not found:
        hints = ["ignored files, named by .gitignore, were skipped"] if walk.ignored else []
        if walk.excluded_files or walk.excluded_folders:
            hints.append(excluded_text(walk.excluded_files, walk.excluded_folders))
        return Result("No files found" + (f" ({'; '.join(hints)})" if hints else ""))
    notices = Notices()
    if len(found) > limit:
        found.pop()
        notices.add_limit(limit, "results", resultLimitReached=limit)
    notices.add_excluded(walk.excluded_files, walk.excluded_folders)
    notices.add_unreadable(walk.unreadable)
    return notices.result(found)


def _matching(walk: Walk, pattern: str) -> Iterator[str]:
    named = matcher(pattern)
    for prefix, names in walk:
        for name in names:
            if named(path_text(prefix + name)):
                yield prefix + name
