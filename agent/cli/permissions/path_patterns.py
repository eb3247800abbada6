"""Matches the path patterns of rules, which are written as in a .gitignore.

`*` stops at a slash, `**` does not. A pattern without a slash matches a name at any depth; a slash at the end
means folders. A folder stands for everything in it, and `folder/**` for the folder too. Paths are relative to
the folder of the rule; `~` and absolute paths work.

`pathspec` is not used: it knows neither absolute patterns nor the difference between a path as written and
its resolved form, on which allowing rules depend.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from agent.cli.permissions.paths_of_call import PathUse

_GLOB_CHARACTER = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern as regular expressions: one for absolute paths as written, one for resolved paths."""

    written: re.Pattern[str]
    real: re.Pattern[str]
    allows: bool

    @classmethod
    def parse(cls, pattern: str, *, base: str, allows: bool) -> PathPattern:
        """Parse a pattern relative to `base`; raises BadGlob for one that can match nothing."""
        from agent_tools.search.globs import BadGlob

        if pattern.startswith("$"):
            raise BadGlob("variables are not replaced; write ~ for the home folder")
        if "\0" in pattern or any("\ud800" <= character <= "\udfff" for character in pattern):
            raise BadGlob("no file name has such characters")
        pattern = os.path.expanduser(pattern)
        is_folder = len(pattern) > 1 and pattern.endswith("/")
        pattern = pattern.rstrip("/") or pattern[:1]
        if "/" not in pattern and pattern not in (".", ".."):
            pattern = f"**/{pattern}"
            if not allows:  # a bare name is denied in every folder
                named = _expression("/", pattern, is_folder=is_folder, ignore_case=True)
                return cls(named, named, allows)
        base = os.path.abspath(base)
        if os.path.isabs(pattern):
            literal = _GLOB_CHARACTER.split(pattern, maxsplit=1)[0]
            base = literal if literal == pattern else os.path.dirname(literal)
            pattern = pattern[len(base) :].lstrip("/")
        while pattern.startswith(("./", "../")):
            step, pattern = pattern.split("/", 1)
            base = os.path.normpath(os.path.join(base, step))
        if pattern in (".", ".."):
            base, pattern = os.path.normpath(os.path.join(base, pattern)), ""
        if not allows:
            pattern = pattern.removesuffix("/**") if pattern != "**" else ""
        written, real = (
            _expression(folder, pattern, is_folder=is_folder, ignore_case=not allows)
            for folder in (base, os.path.realpath(base))
        )
        return cls(written, real, allows)

    def matches(self, use: PathUse) -> bool:
        """Match a path of a call. An allowing rule must match the resolved path, others either form."""
        if self.allows:  # a link in an allowed folder does not allow its target
            return self.matches_real(_as_folder(use.real))
        paths = (_as_folder(use.path), _as_folder(use.real))
        return any(expression.fullmatch(p) for expression in (self.written, self.real) for p in paths)

    def matches_real(self, real: str) -> bool:
        """Match a resolved path; that of a folder ends in a slash."""
        return self.real.fullmatch(real) is not None or (
            not self.allows and self.written.fullmatch(real) is not None
        )


def _as_folder(path: str) -> str:
    return os.path.join(path, "") if "\0" not in path and os.path.isdir(path) else path


def _expression(base: str, pattern: str, *, is_folder: bool, ignore_case: bool) -> re.Pattern[str]:
    from agent_tools.search.globs import translate

    inside = f"/{translate(pattern)}" if pattern else ""
    below = "/.*" if is_folder else "(?:/.*)?"
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)  # .ENV may be the same file as .env
    return re.compile(f"{re.escape(base.rstrip('/'))}{inside}{below}", flags)
