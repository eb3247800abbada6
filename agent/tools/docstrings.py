"""Takes a docstring apart: what a function does, and what each parameter means."""

from __future__ import annotations

import inspect
import re

_PARAMETERS = r"(?:other |keyword )?(?:args|arguments|parameters|params)"
_OTHERS = (
    r"attributes|returns?|yields?|receives|raises|warns|warnings?|examples?|notes?|see also|references|todo"
)
_SECTION = re.compile(rf"^{_PARAMETERS}\s*:?\s*$", re.IGNORECASE)
_ANY_SECTION = re.compile(rf"^(?:{_PARAMETERS}|{_OTHERS})\s*:\s*$", re.IGNORECASE)
_GOOGLE = re.compile(r"^\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_PARAM = "param|parameter|arg|argument|key|keyword"
_SPHINX = re.compile(rf"^:(?:{_PARAM})\s+(?:[^:]*\s)?\*{{0,2}}(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = re.compile(rf"^:(?:{_PARAM}|type|returns?|rtype|raises?|except|yields?|meta)\b[^:]*:(?:\s|$)")
_NUMPY = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_UNDERLINE = re.compile(r"^-{3,}\s*$")


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
    return i + 1 < len(lines) and bool(lines[i].strip()) and _UNDERLINE.match(lines[i + 1]) is not None


def _parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    style, depth = "", 0
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if match := _SPHINX.match(line):
            style, current = "sphinx", found.setdefault(match[1], [match[2]])
        elif _begins_section(lines, i):
            style = ("numpy" if _is_numpy_heading(lines, i) else "google") if _SECTION.match(line) else ""
            current, depth = None, 0
        elif style and (entry := _entry(line, style, indent, depth)):
            current, depth = found.setdefault(entry[0], [entry[1]]), indent
        elif current is not None and indent:
            current.append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


def _entry(line: str, style: str, indent: int, depth: int) -> tuple[str, str] | None:
    """The parameter that a line of a section begins, with the start of its description.

    `depth` is the indent of the section's first entry, 0 before that: what is deeper goes on with an entry.
    """
    if style == "numpy":
        match = _NUMPY.match(line) if indent == 0 else None
        return (match[1], "") if match else None
    match = (
        _GOOGLE.match(line.strip()) if style == "google" and indent and indent <= (depth or indent) else None
    )
    return (match[1], match[2] or "") if match else None
