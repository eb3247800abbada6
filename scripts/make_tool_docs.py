"""Writes docs/tools/*.md and tests/agent_tools/snapshots/*.json from the tools as they are.

What the code knows (descriptions, arguments, limits, options) comes from the code, an example and notes on
the behaviour from scripts/tool_pages. Run it after a change of a prompt, and read the diff.
"""

from __future__ import annotations

import importlib
import inspect
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agent_tools import JobTable, all_tools, bash_tool, jobs_tool  # noqa: E402 found by the line above
from agent_tools.truncate import format_size  # noqa: E402

PAGES = ROOT / "docs" / "tools"
NOTES = ROOT / "scripts" / "tool_pages"
SNAPSHOTS = ROOT / "tests" / "agent_tools" / "snapshots"

# What a limit is about, the constant, and its unit ("bytes" is shown as a size).
Limit = tuple[str, str, str]
_RESULT: tuple[Limit, ...] = (
    ("lines of one answer", "truncate.MAX_LINES", ""),
    ("size of one answer", "truncate.MAX_BYTES", "bytes"),
)
_LISTING: tuple[Limit, ...] = (("size of one answer", "truncate.MAX_BYTES", "bytes"),)
LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "read": (
        *_RESULT,
        ("width of an image that is shown", "images.MAX_WIDTH", "pixels"),
        ("height of an image that is shown", "images.MAX_HEIGHT", "pixels"),
        ("size of an image file", "images.MAX_INPUT_BYTES", "bytes"),
    ),
    "bash": (
        *_RESULT,
        ("time of a command that asks for none", "bash.DEFAULT_TIMEOUT", "s"),
        ("size of the log of one command", "process.logs.LOG_LIMIT", "bytes"),
        ("size of all logs of a program", "process.logs.TOTAL_LIMIT", "bytes"),
    ),
    "edit": (("size of a file", "edit.MAX_EDITED_BYTES", "bytes"),),
    "editdiff": (("size of a file", "edit.MAX_EDITED_BYTES", "bytes"), *_RESULT),
    "grep": (
        ("matches that are shown unless more are asked for", "grep.DEFAULT_LIMIT", ""),
        ("characters of one line", "truncate.MAX_LINE_LENGTH", ""),
        *_LISTING,
    ),
    "find": (("results that are shown unless more are asked for", "find.DEFAULT_LIMIT", ""), *_LISTING),
    "ls": (("entries that are shown unless more are asked for", "ls.DEFAULT_LIMIT", ""), *_LISTING),
    "imageresize": (
        ("width unless another is given", "images.MAX_WIDTH", "pixels"),
        ("height unless another is given", "images.MAX_HEIGHT", "pixels"),
        ("size of the result unless another is given", "images.MAX_BYTES", "bytes"),
        ("size of an image file", "images.MAX_INPUT_BYTES", "bytes"),
        ("pixels of an image that is decoded whole", "images.MAX_PIXELS", ""),
        ("pixels of a JPEG, which can be decoded at a fraction", "images.MAX_JPEG_PIXELS", ""),
    ),
    "plan": (
        ("keys of metadata", "plan.MAX_METADATA_KEYS", ""),
        ("characters of one of its values", "plan.MAX_METADATA_LENGTH", ""),
    ),
    "jobs": (
        ("jobs that run at the same time", "jobs.MAX_RUNNING", ""),
        ("ended jobs that are remembered", "jobs.MAX_ENDED", ""),
        ("time of a wait that asks for none", "jobs.DEFAULT_WAIT", "s"),
    ),
}


def tools() -> dict[str, Any]:
    """Every tool by the name of its page."""
    with JobTable() as table:
        return {tool.name: tool for tool in (*all_tools("."), jobs_tool(table))}


def variants() -> dict[str, Any]:
    """Tools whose prompt depends on their options, by the name of their snapshot."""
    with JobTable() as table:
        return {
            "bash-background": bash_tool(".", jobs=table),
            "bash-confined": bash_tool("/project", confine=True),
        }


def page(name: str, tool: Any) -> str:
    """The page of a tool, as Markdown."""
    example, _, behaviour = (NOTES / f"{name}.md").read_text("utf-8").partition("## Behaviour\n")
    module = importlib.import_module(f"agent_tools.{name}")
    summary = (module.__doc__ or "").partition("\n")[0].removeprefix(f"{name}: ")
    factory = getattr(module, f"{name}_tool")
    sections = [
        "<!-- Made by scripts/make_tool_docs.py (`make tool-docs`). -->",
        f"# {name}",
        summary[:1].upper() + summary[1:],
        example.strip(),
        "## Description sent to the model",
        "\n".join(f"> {line}".rstrip() for line in _portable(tool.description).split("\n")),
        "## Arguments",
        _arguments(tool.parameters),
        *(["## Limits", _table(("", "at most"), map(_limit, LIMITS[name]))] if name in LIMITS else []),
        f"## Behaviour\n{behaviour.rstrip()}",
        "## Making one",
        f"```text\n{_signature(factory)}\n```",
        inspect.getdoc(factory) or "",
    ]
    return "\n\n".join(sections) + "\n"


def snapshot(tool: Any) -> str:
    """Everything that a model is sent about a tool, as JSON."""
    sent = {
        "name": tool.name,
        "description": _portable(tool.description).split(". "),
        "parameters": tool.parameters,
    }
    return json.dumps(sent, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    """Every file that is made, with its content."""
    made = tools()
    pages = {PAGES / f"{name}.md": page(name, tool) for name, tool in made.items()}
    snapshots = {SNAPSHOTS / f"{name}.json": snapshot(tool) for name, tool in (made | variants()).items()}
    return {**pages, **snapshots}


def _portable(description: str) -> str:
    """The same text on every machine: the description of bash names the system it runs on."""
    return description.replace(f"{platform.system()}/{platform.machine()}", "Linux/x86_64")


def _arguments(schema: Mapping[str, Any], prefix: str = "") -> str:
    return _table(("name", "type", "", "meaning"), _argument_rows(schema, prefix))


def _argument_rows(schema: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, ...]]:
    required = schema.get("required", ())
    for name, item in schema["properties"].items():
        default = item.get("default")  # an empty default is explained in the description, if at all
        when = "required" if name in required else f"default {default}" if default else ""
        yield f"`{prefix}{name}`", _kind(item), when, item.get("description", "")
        inner = item.get("items", item)
        if "properties" in inner:
            yield from _argument_rows(inner, f"{prefix}{name}[]." if "items" in item else f"{prefix}{name}.")


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(branch) for branch in schema["anyOf"])
    return str(schema.get("type", "any"))


def _limit(limit: Limit) -> tuple[str, str]:
    what, constant, unit = limit
    module, _, name = constant.rpartition(".")
    value = getattr(importlib.import_module(f"agent_tools.{module}"), name)
    return what, format_size(value) if unit == "bytes" else f"{int(value):,} {unit}".rstrip()


def _signature(factory: Any) -> str:
    lines = [f"{factory.__name__}("]
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    return "\n".join([*lines, ")"])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def main() -> int:
    made = files()
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != content:
            path.write_text(content, "utf-8")
            print(path.relative_to(ROOT))
    for folder, ending in ((PAGES, "*.md"), (SNAPSHOTS, "*.json")):
        for path in set(folder.glob(ending)) - made.keys():
            path.unlink()
            print(f"{path.relative_to(ROOT)} is no more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
