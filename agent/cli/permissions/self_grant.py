"""Finds calls that touch the permission settings: what decides about the agent must not change unasked.

Protected are every file named `.steady-agent.toml`, in any folder, and everything in the configuration
folder. Commands are searched by their text for these names, after quotes are removed and `~`, `$HOME` and
`$XDG_CONFIG_HOME` replaced. That catches what is written plainly; a program can still build the name itself.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping

from agent.cli.permissions.files import ANSWERS_FILE, PROJECT_FILE, USER_FILE
from agent.cli.permissions.rules import Call
from agent.cli.setup.config_folder import config_folder

_GLOB = re.compile(r"[*?\[]")
# Programs that change the content of a folder that they are given.
_MOVES = re.compile(r"\b(?:cp|mv|rm|ln|rsync|tar|unzip|install|cpio|chmod|chown|find|git)\b")


class ProtectedFiles:
    """The settings files of a user and of all projects."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = os.path.abspath(config_folder(environ))
        self._real = os.path.realpath(self._folder)
        self._environ = environ

    def touched_by(self, call: Call) -> str:
        """The protected file or folder that a call writes or a command names; empty for none."""
        if call.command:
            return self._named_by(call.command, os.path.abspath(call.folder))
        for use in call.uses:
            if use.is_written:
                for path in (use.path, use.real):
                    if os.path.basename(path).casefold() == PROJECT_FILE or self._is_in_folder(path):
                        return path
        return ""

    def _is_in_folder(self, path: str) -> bool:
        path = os.path.join(path, "").casefold()
        return any(path.startswith(os.path.join(f, "").casefold()) for f in (self._folder, self._real))

    def _named_by(self, command: str, folder: str) -> str:
        if self._is_in_folder(folder) or self._is_in_folder(os.path.realpath(folder)):
            return folder
        text = re.sub(r"\\\n|[\"'\\]", "", command)
        home = os.path.expanduser("~")
        for name, value in (("HOME", home), ("XDG_CONFIG_HOME", self._environ.get("XDG_CONFIG_HOME", ""))):
            if value:
                text = text.replace(f"${{{name}}}", value)
                text = value.join(re.split(rf"\${name}\b", text))
        text = home.join(re.split(r"(?<![\w/.])~(?=/)", text))
        folded = text.casefold()
        name = os.path.basename(self._folder)
        near = os.path.join(os.path.basename(os.path.dirname(self._folder)), name)
        names = (
            PROJECT_FILE,
            self._folder,
            self._real,
            near,
            f"{name}/{USER_FILE}",
            f"{name}/{ANSWERS_FILE}",
        )
        for protected in names:
            if protected.casefold() in folded:
                return protected
        if self._reaches_through_parent(folded, folder):
            return self._folder
        return next((word for word in re.split(r"[\s;&|()<>=]+", text) if self._may_expand_to(word)), "")

    def _reaches_through_parent(self, folded: str, folder: str) -> bool:
        """True when a command in the parent of the configuration folder, or naming it, may change both."""
        parents = {os.path.dirname(self._folder), os.path.dirname(self._real)}
        common = {os.path.expanduser("~"), "/"}  # named by nearly every command
        is_there = bool({folder, os.path.realpath(folder)} & parents)
        names_parent = any(
            re.search(rf"(?<![\w/.-]){re.escape(parent.casefold())}/?(?![\w/.-])", folded)
            for parent in parents - common
        )
        name = re.escape(os.path.basename(self._folder).casefold())
        names_folder = re.search(rf"(?<![\w-]){name}(?![\w-])", folded) is not None
        return ((is_there or names_parent) and names_folder) or (names_parent and bool(_MOVES.search(folded)))

    def _may_expand_to(self, word: str) -> bool:
        """True for a glob that can match a protected file; `*` alone matches no hidden file."""
        if not _GLOB.search(word):
            return False
        folder, _, last = word.rpartition("/")
        if last.startswith(".") and _GLOB.search(last) and fnmatch.fnmatchcase(PROJECT_FILE, last.casefold()):
            return True
        parent, _, middle = folder.rpartition("/")
        candidates = ((folder, last), (parent, middle))
        name = os.path.basename(self._folder)
        return any(
            _GLOB.search(part) and fnmatch.fnmatchcase(name, part) and above == os.path.dirname(self._folder)
            for above, part in candidates
        )
