"""Every tool of the package keeps the contract that is offered to users."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import agent_tools
from agent_tools.contract import Call, ToolCase

pytest_plugins = ["agent_tools.contract"]

LINES = "".join(f"line {number} of many\n" for number in range(4_000))


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "navy").save(buffer, "PNG")
    return buffer.getvalue()


def plan_tool(root: Path) -> Any:
    return agent_tools.plan_tool(lambda title, entries, metadata: None)


def file(number: int) -> str:
    return f"folder/file{number}.txt"


FILES = {file(number): f"text number {number}\nsecond line\n" for number in range(8)}
BIG = {"big.txt": LINES}
MANY = {f"{'long_name_' * 24}{number}.md": "" for number in range(300)}

CASES = [
    ToolCase(
        agent_tools.read_tool,
        lambda number: {"path": file(number)},
        lambda number: f"text number {number}",
        files={**FILES, **BIG},
        large={"path": "big.txt"},
    ),
    ToolCase(
        agent_tools.bash_tool,
        lambda number: {"command": f"echo number {number}"},
        lambda number: f"number {number}",
        slow={"command": "sleep 30 & sleep 30 | cat; wait"},
        large={"command": "seq 1000000"},
    ),
    ToolCase(
        agent_tools.write_tool,
        lambda number: {"path": f"new/{number}.txt", "content": "x\n" * (number + 1)},
        lambda number: f"{number}.txt",
    ),
    ToolCase(
        agent_tools.edit_tool,
        lambda number: {"path": file(number), "oldText": "second line", "newText": f"changed {number}"},
        lambda number: f"file{number}.txt",
        files=FILES,
    ),
    ToolCase(
        agent_tools.editdiff_tool,
        lambda number: {"path": file(number), "oldText": "second line", "newText": f"changed {number}"},
        lambda number: f"changed {number}",
        files={**FILES, **BIG},
        large={"path": "big.txt", "edits": [{"oldText": LINES, "newText": LINES.replace("many", "few")}]},
    ),
    ToolCase(
        agent_tools.find_tool,
        lambda number: {"pattern": f"file{number}.*"},
        file,
        files={**FILES, **MANY},
        large={"pattern": "*.md", "limit": 100_000},
    ),
    ToolCase(
        agent_tools.grep_tool,
        lambda number: {"pattern": f"number {number}"},
        lambda number: f"{file(number)}:1: text number {number}",
        files={**FILES, **BIG},
        large={"pattern": "line", "limit": 100_000},
    ),
    ToolCase(
        agent_tools.ls_tool,
        {"path": "folder"},
        "file3.txt",
        files={**FILES, **MANY},
        large={"limit": 100_000},
    ),
    ToolCase(
        agent_tools.imageresize_tool,
        lambda number: {"path": "a.png", "maxWidth": 20 + number},
        lambda number: f"40x30 -> {20 + number}x",
        files={"a.png": png()},
    ),
    ToolCase(
        plan_tool,
        lambda number: {"entries": [{"content": "a", "status": "pending", "priority": "low"}] * (number + 2)},
        lambda number: f"{number + 2} entries",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_tool_keeps_the_contract(case: ToolCase, tool_check: Any) -> None:
    tool_check(case)


def test_every_tool_of_the_package_is_checked() -> None:
    assert {str(case) for case in CASES} == {tool.name for tool in agent_tools.all_tools()}


def test_a_call_of_the_contract_can_be_used_alone(tmp_path: Path) -> None:
    case = ToolCase(agent_tools.ls_tool)
    text, is_error = Call(case, agent_tools.ls_tool(tmp_path), {}).finish()
    assert text == "(empty directory)"
    assert not is_error
