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


class ProtectedFiles:
    """The settings files of a user and of all projects."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = os.path.abspath(config_folder(environ))
        self._real = os.path.realpath(self._folder)
        self._environ = environ

    def touched_by(self, call: Call) -> str:
        """The protected file or folder that a call writes or a command names; empty for none."""
        if call.command:
            return self._named_by(call.command)
        for use in call.uses:
            if use.is_written:
                for path in (use.path, use.real):
                    if os.path.basename(path).casefold() == PROJECT_FILE or self._is_in_folder(path):
                        return path
        return ""

    def _is_in_folder(self, path: str) -> bool:
        path = os.path.join(path, "").casefold()
        return any(path.startswith(os.path.join(f, "").casefold()) for f in (self._folder, self._real))

    def _named_by(self, command: str) -> str:
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
        return next((word for word in re.split(r"[\s;&|()<>=]+", text) if self._may_expand_to(word)), "")

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
