"""Converts paths between the text of models and the strings that the functions of `os` take.

On POSIX a path is bytes. Python decodes them with the encoding of the locale, so under `LC_ALL=C` or a
Latin-1 locale its strings are not the text that people see, and a text that the locale cannot express is
refused. Tools read and write paths as UTF-8 in every locale. Where the locale is UTF-8, both forms are the
same.
"""

from __future__ import annotations

import os
import sys

_IS_SAME = sys.getfilesystemencoding().lower() in ("utf-8", "utf8")


def native_path(text: str) -> str:
    """The path for functions of `os`; UnicodeEncodeError for half a surrogate pair."""
    return text if _IS_SAME or text.isascii() else os.fsdecode(text.encode("utf-8", "surrogateescape"))


def path_text(native: str) -> str:
    """The text of a path from `os`; bytes that are not UTF-8 are lone surrogates."""
    return native if _IS_SAME or native.isascii() else os.fsencode(native).decode("utf-8", "surrogateescape")
