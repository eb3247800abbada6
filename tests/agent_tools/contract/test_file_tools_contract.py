"""The file tools keep the contract that any agent builds on."""

from __future__ import annotations

import pytest

from agent_tools import edit_tool, editdiff_tool, read_tool, write_tool
from agent_tools.contract import ToolCase, check_tool

CASES = [
    ToolCase(
        read_tool,
        {"path": "f"},
        expected="hello",
        files={"f": "hello\n", "big": "a line of some length\n" * 100_000},
        large={"path": "big"},
    ),
    ToolCase(write_tool, lambda call: {"path": f"f{call}", "content": "x"}, expected="1 bytes"),
    ToolCase(
        edit_tool,
        lambda call: {"path": "f", "oldText": f"<{call}>", "newText": f"({call})"},
        expected="Edited f",
        files={"f": "".join(f"<{call}>\n" for call in range(10))},
    ),
    ToolCase(
        editdiff_tool,
        {"path": "f", "oldText": "hello", "newText": "bye"},
        expected="+1 bye",
        files={"f": "hello\n"},
        large={"path": "f", "oldText": "hello", "newText": "line\n" * 100_000},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_tool_keeps_the_contract(case: ToolCase) -> None:
    check_tool(
        case.make,
        case.arguments,
        expected=case.expected,
        files=case.files,
        large=case.large,
    )
