"""Takes a docstring apart: what a function does, and what each parameter means."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(args|arguments|parameters|params)\s*:\s*$", re.IGNORECASE)
_ANY_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?)\s*:\s*$", re.IGNORECASE
)
_GOOGLE = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = re.compile(r"^:\w+[^:]*:")
_NUMPY = re.compile(r"^(\w+)\s*(?::.*)?$")


def split_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description before any section, and the parameters' own (Google, Sphinx or NumPy style)."""
    if not docstring:
        return "", {}
    lines = inspect.cleandoc(docstring).split("\n")
    start = next((i for i, _ in enumerate(lines) if _begins_section(lines, i)), len(lines))
    return "\n".join(lines[:start]).strip(), _parameters(lines[start:])


def _begins_section(lines: list[str], i: int) -> bool:
    return bool(_ANY_SECTION.match(lines[i]) or _SPHINX_FIELD.match(lines[i]) or _is_numpy_heading(lines, i))


def _is_numpy_heading(lines: list[str], i: int) -> bool:
    return i + 1 < len(lines) and bool(lines[i].strip()) and re.match(r"^-{3,}\s*$", lines[i + 1]) is not None


def _parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    style = ""
    for i, line in enumerate(lines):
        if match := _SPHINX.match(line):
            style, current = "sphinx", found.setdefault(match[1], [match[2]])
        elif _begins_section(lines, i):
            wanted = _SECTION.match(line.strip() + ("" if line.strip().endswith(":") else ":"))
            style = ("numpy" if _is_numpy_heading(lines, i) else "google") if wanted else ""
            current = None
        elif style in ("google", "numpy") and (entry := _entry(line, style)):
            current = found.setdefault(entry[0], [entry[1]])
        elif current is not None and line.startswith((" ", "\t")):
            current.append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


def _entry(line: str, style: str) -> tuple[str, str] | None:
    """The parameter that a line of a section begins, with the start of its description."""
    indent = len(line) - len(line.lstrip())
    if style == "numpy":
        match = _NUMPY.match(line) if indent == 0 else None
        return (match[1], "") if match else None
    match = _GOOGLE.match(line.strip()) if 0 < indent <= 4 else None
    return (match[1], match[2]) if match else None
