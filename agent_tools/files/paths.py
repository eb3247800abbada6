"""Resolves the paths that models write to files.

Models copy the `@` of a file mention, replace unusual spaces by plain ones, and straighten the quotes of
names. The path as written is tried first, so every file can be reached by its exact name. A path may lead out
of the working directory unless the filesystem is confined.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain

from agent_tools.files.filesystem import FILESYSTEM, Filesystem
from agent_tools.files.path_encoding import native_path, path_text
from agent_tools.tool import PathUse, ToolFailure

# Characters that look like a space: no-break, the U+2000 block, narrow no-break, math, ideographic.
_ODD_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_MERIDIEM = re.compile(r" (?=[AP]M\.)")
_SUGGESTION_ENTRIES = 2000  # a folder larger than this is not searched for a similar name


def require_path(path: str, name: str = "path") -> str:
    """The argument itself; `ToolFailure` that names the argument when it is blank."""
    if not path.strip():
        raise ToolFailure(f"{name} is required")
    return path


def resolve(
    path: str, cwd: str | os.PathLike[str], *, must_exist: bool = False, filesystem: Filesystem = FILESYSTEM
) -> str:
    """The absolute path that `path` means when read from the directory `cwd`.

    The name as written comes first. When no file has it, those are tried that models often misspell: without
    one leading `@`, with plain spaces for odd ones, with the narrow no-break space of macOS screenshot times,
    decomposed accents, curly apostrophes. A new file goes into the existing folder that is found in the same
    way. All tools use this one function, so they agree on the file that a path names.
    `~` and `~/x` mean the home directory. A relative path is joined to `cwd` and normalized, an absolute one
    stays as it is; "" stays "". Raises `ToolFailure` for a path that no system accepts, for one that may not
    be used on the `filesystem`, and, with `must_exist`, for one that does not exist.
    """
    if not path:
        return path
    _check_encodable(path)
    resolved = _resolve(path, cwd, must_exist, filesystem)
    filesystem.check(resolved)
    return resolved


def _resolve(path: str, cwd: str | os.PathLike[str], must_exist: bool, filesystem: Filesystem) -> str:
    unmarked = path.removeprefix("@") if len(path) > 1 else path
    flattened = _ODD_SPACES.sub(" ", unmarked)
    plain = _absolute(flattened, cwd)
    literal = [_absolute(candidate, cwd) for candidate in dict.fromkeys((path, unmarked, flattened))]
    for candidate in chain(literal, _variants(plain)):
        if filesystem.exists(candidate):
            return candidate
    for candidate in literal:
        if filesystem.lexists(candidate):  # a link whose target does not exist yet
            return candidate
    if must_exist:
        raise not_found(path, plain, filesystem)
    folder, name = os.path.split(plain)
    for parent in (os.path.dirname(_absolute(unmarked, cwd)), folder, *_variants(folder)):
        if filesystem.isdir(parent):
            return os.path.join(parent, name)
    return plain


def path_use(path: str, *, is_written: bool = False) -> PathUse:
    """The declaration of a resolved path for `Tool.paths`."""
    return PathUse(path, os.path.realpath(path), is_written)


def not_found(path: str, resolved: str, filesystem: Filesystem = FILESYSTEM) -> ToolFailure:
    """The failure for a missing file: the path as given, and a similar name in its folder if there is one."""
    similar = _similar_name(resolved, filesystem)
    hint = f" Did you mean {similar}?" if similar else ""
    where = "" if os.path.isabs(path) else f" (looked for {path_text(resolved)})"
    return ToolFailure(f"File not found: {path}{where}.{hint}")


def _absolute(text: str, cwd: str | os.PathLike[str]) -> str:
    path = native_path(text)
    if path == "~" or path.startswith("~/"):
        return os.path.expanduser("~") + path[1:]
    if os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(os.path.abspath(cwd), path))


def _check_encodable(path: str) -> None:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolFailure(f"the path {path!r} is not valid text") from None
    if "\0" in path:
        raise ToolFailure(f"the path {path!r} holds a NUL character, which no file name can")


def _variants(path: str) -> Iterator[str]:
    def decomposed(text: str) -> str:
        return unicodedata.normalize("NFD", text)

    rewrites: tuple[Callable[[str], str], ...] = (
        lambda text: _MERIDIEM.sub("\u202f", text),
        decomposed,
        lambda text: text.replace("'", "\u2019"),
        lambda text: decomposed(text).replace("'", "\u2019"),
    )
    text = path_text(path)
    folder, name = os.path.split(text)
    for rewrite in rewrites:
        # The folder may be correct while the name is not, so both are tried.
        yield native_path(os.path.join(folder, rewrite(name)))
        yield native_path(rewrite(text))


def _similar_name(path: str, filesystem: Filesystem) -> str:
    folder, name = os.path.split(path)
    try:
        with filesystem.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_SUGGESTION_ENTRIES), strict=False)]
    except OSError:
        return ""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return path_text(os.path.join(folder, close[0])) if close else ""
