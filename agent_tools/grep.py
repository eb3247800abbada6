"""grep: finds lines that match a pattern, with the lines around them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

from pydantic import Field

from agent_tools.files.encoding import displayable
from agent_tools.files.filesystem import Filesystem, filesystem_for
from agent_tools.files.path_encoding import path_text
from agent_tools.files.paths import path_use
from agent_tools.search.engine import Budget, FileHits, Search
from agent_tools.search.gitignore import Walk
from agent_tools.search.globs import below, check_glob, matcher
from agent_tools.search.line_finder import Line
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
from agent_tools.search.pattern import Pattern, compile_pattern
from agent_tools.tool import Arguments, CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import MAX_BYTES, MAX_LINE_LENGTH

DEFAULT_LIMIT = 100
_TIME_LIMIT = 60.0  # seconds
_MAX_CONTEXT = 2000  # lines; more than any answer shows
_CUT = "... [truncated]"
_CUT_START = "[truncated] ..."


class GrepArguments(Arguments):
    pattern: str = Field(
        description="What to search for, matched against one line at a time: a regular expression "
        "(. \\w \\d \\s \\b ^ $ [a-z] (a|b) * + ? {2,3}), or plain text with literal=true"
    )
    path: str = Field(
        ".",
        description="Folder or file to search (default: the working directory), even if ignored",
    )
    glob: str = Field(
        "",
        description="Only files of this name or path below `path`: *.py, *.{ts,tsx}, src/**/*.md, !*.min.js",
    )
    ignore_case: bool = Field(
        False, alias="ignoreCase", description="Match upper and lower case alike (default false)"
    )
    literal: bool = Field(
        False,
        description="Take the pattern as plain text instead of a regular expression (default false); right "
        "for code such as foo(bar)",
    )
    context: int = Field(0, description="Lines to show before and after each match (default 0)")
    limit: int = Field(DEFAULT_LIMIT, description=f"At most this many matches (default {DEFAULT_LIMIT})")


DESCRIPTION = f"""\
Search the contents of files for a pattern. Shows matching lines as `path:LINE: text` and, with context, the \
lines around them as `path-LINE- text`, sorted by path.

Files ignored by .gitignore, .git and node_modules are skipped, hidden files are searched; binary files are \
only named. At most {DEFAULT_LIMIT} matches or {MAX_BYTES // 1024}KB are shown; lines longer than \
{MAX_LINE_LENGTH} characters are cut around the match. Prefer this tool to grep and rg in bash; narrow a \
broad search with path or glob."""


def grep_tool(
    cwd: str | os.PathLike[str] = ".",
    *,
    time_limit: float = _TIME_LIMIT,
    confine: bool = False,
    exclude: Exclude | None = None,
) -> Tool[GrepArguments]:
    """The tool `grep`, with relative paths taken from `cwd`; `time_limit` seconds end a search with an error.

    ripgrep speeds it up when it is on PATH; the answers are the same without it. `confine` refuses what is
    not below `cwd`, reads no .gitignore above it, and does without ripgrep, which opens files by their paths.
    `exclude(real_path)` is True for files and folders to leave out (a folder's path ends in a slash); the
    answer counts them. No file is opened that `exclude` takes out, and a `path` in such a folder is refused.
    """
    cwd, filesystem = filesystem_for(cwd, confine)

    def target(arguments: GrepArguments) -> str:
        return search_path(arguments.path, cwd, filesystem)

    def grep(arguments: GrepArguments, context: CallContext) -> Result:
        if not arguments.pattern:
            raise ToolFailure("pattern is required")
        pattern = compile_pattern(arguments.pattern, arguments.literal, arguments.ignore_case)
        check_glob(arguments.glob, "glob")
        path = require_searchable(target(arguments), filesystem, exclude)
        guard = SearchGuard(context.cancel, time_limit, "grep")
        return _Search(arguments, pattern, path, os.fspath(cwd), guard, filesystem, exclude).result()

    return Tool(
        "grep",
        DESCRIPTION,
        GrepArguments,
        grep,
        parallel=True,
        read_only=True,
        display_hint=DisplayHint(
            (
                TitleArg("pattern", "pattern"),
                TitleArg("path", "path", "in"),
                TitleArg("glob", "pattern", "glob"),
            ),
            15,
        ),
        paths=lambda arguments: (path_use(target(arguments)),),
    )


class _Search:
    """One call of grep."""

    def __init__(
        self,
        arguments: GrepArguments,
        pattern: Pattern,
        path: str,
        cwd: str,
        guard: SearchGuard,
        filesystem: Filesystem,
        exclude: Exclude | None,
    ) -> None:
        self._arguments = arguments
        self._pattern = pattern
        self._guard = guard
        self._filesystem = filesystem
        self._cwd = cwd
        self._is_folder = filesystem.isdir(path)
        self._root = path if self._is_folder else os.path.dirname(path)
        self._name = os.path.basename(path)
        self._walk = Walk(
            self._root, top=cwd, files_only=True, check=guard, filesystem=filesystem, exclude=exclude
        )

    def result(self) -> Result:
        limit = max(1, self._arguments.limit)
        budget = Budget(min(limit, MAX_ROWS))
        context = min(max(0, self._arguments.context), _MAX_CONTEXT)
        search = Search(
            self._root,
            self._pattern,
            budget,
            self._guard,
            context=context,
            cwd=self._cwd,
            literal_hint=self._literal(),
            filesystem=self._filesystem,
        )
        rows = _Rows(context > 0)
        with closing(search.run(self._names()) if self._is_folder else search.run_file(self._name)) as found:
            for hits in found:
                rows.add(hits)
                if len(rows.lines) > MAX_ROWS:
                    break
        if budget.unreadable and not self._is_folder:
            raise ToolFailure(f"cannot read {shown_name(self._name)}")
        if not rows.lines:
            return Result("No matches found" + self._why_nothing(budget, search.literal_found))
        notices = Notices()
        if budget.more and limit <= MAX_ROWS:
            notices.add_limit(limit, "matches", matchLimitReached=limit)
        if rows.cut:
            text = f"Some lines truncated to {MAX_LINE_LENGTH} characters. Use read to see full lines"
            notices.add(text, linesTruncated=True)
        notices.add_excluded(self._walk.excluded_files, self._walk.excluded_folders)
        notices.add_unreadable([*self._walk.unreadable, *budget.unreadable])
        return notices.result(rows.lines)

    def _names(self) -> Iterator[str]:
        """The files to search, below the root."""
        glob = self._arguments.glob
        excluded = glob.startswith("!")
        named = matcher(below(glob.removeprefix("!"), path_text(self._root))) if glob else None
        for prefix, names in self._walk:
            for name in names:
                if name[-1] != "/" and (named is None or named(path_text(prefix + name)) != excluded):
                    yield prefix + name

    def _literal(self) -> Pattern | None:
        """The pattern as plain text, if that matches other lines than the regular expression."""
        if self._pattern.finds_itself:
            return None
        return compile_pattern(self._arguments.pattern, True, self._arguments.ignore_case)

    def _why_nothing(self, budget: Budget, literal: tuple[str, int] | None) -> str:
        """Hints for a model that expected a match."""
        hints = []
        if literal:
            name, line = literal
            hints.append(
                f"as a regular expression; but the literal text {self._arguments.pattern!r} occurs, first in "
                f"{shown_name(name)}{f':{line}' if line else ''}. Use literal=true to find it"
            )
        source = self._arguments.pattern
        if "\n" in source or (not self._arguments.literal and r"\n" in source):
            hints.append("a pattern is matched against one line at a time, so it cannot hold a line feed")
        if not self._arguments.literal and r"\|" in source:
            hints.append(r"\| is a bar; alternatives are written a|b")
        if self._walk.ignored:
            hints.append("ignored files (.gitignore) were skipped: name one as path to search it")
        if self._walk.excluded_files or self._walk.excluded_folders:
            hints.append(excluded_text(self._walk.excluded_files, self._walk.excluded_folders))
        unreadable = [*self._walk.unreadable, *budget.unreadable]
        if unreadable:
            hints.append(f"could not read {len(unreadable)}: {', '.join(map(shown_name, unreadable[:3]))}")
        return f" ({'; '.join(hints)})" if hints else ""


class _Rows:
    """The rows of a result."""

    def __init__(self, separated: bool) -> None:
        self.lines: list[str] = []
        self.cut = False
        self._separated = separated

    def add(self, hits: FileHits) -> None:
        name = shown_name(hits.name)
        if hits.is_binary:
            self._separate()
            self.lines.append(f"{name}: binary file matches")
        for block in hits.blocks:
            self._separate()
            for line in block:
                mark = ":" if line.is_match else "-"
                self.lines.append(f"{name}{mark}{line.number}{mark} {self._shown(line)}")

    def _separate(self) -> None:
        if self._separated and self.lines:
            self.lines.append("--")

    def _shown(self, line: Line) -> str:
        if len(line.text) <= MAX_LINE_LENGTH:
            return displayable(line.text)
        self.cut = True
        return displayable(_cut_around(line.text, line.start, line.end))


def _cut_around(text: str, start: int, end: int) -> str:
    """The part of a long line around its match; the beginning of the match when that is long."""
    if end <= MAX_LINE_LENGTH:
        return text[:MAX_LINE_LENGTH] + _CUT
    margin = max(0, MAX_LINE_LENGTH - (end - start))
    first = max(0, min(start - margin // 2, len(text) - MAX_LINE_LENGTH))
    last = first + MAX_LINE_LENGTH
    return (_CUT_START if first else "") + text[first:last] + (_CUT if last < len(text) else "")
