"""The tools as LangChain's."""
# ruff: noqa: E402 the imports of a framework come after the look for it

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.integrations import STAYING, cancel_kills, need

need("langchain_core", "langchain-core")

from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

import agent_tools
from agent_tools.adapters import to_langchain
from agent_tools.tool import Result


def tools(root: Path) -> dict[str, Any]:
    return {tool.name: tool for tool in to_langchain(agent_tools.coding_tools(root))}


def request(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A call as an agent makes it."""
    return {"type": "tool_call", "id": "call-1", "name": name, "args": given}


def call(root: Path, name: str, given: dict[str, Any], *, awaited: bool) -> ToolMessage:
    tool = tools(root)[name]
    message = (
        asyncio.run(tool.ainvoke(request(name, given))) if awaited else tool.invoke(request(name, given))
    )
    assert isinstance(message, ToolMessage)
    assert message.tool_call_id == "call-1"
    return message


@pytest.mark.parametrize("awaited", [False, True])
def test_a_call_reads_and_another_edits(tmp_path: Path, awaited: bool) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    message = call(tmp_path, "read", {"path": "a.txt"}, awaited=awaited)
    assert message.status == "success"
    assert str(message.content).startswith("hello\n")
    assert isinstance(message.artifact, Result)
    edit = {"path": "a.txt", "edits": [{"oldText": "hello", "newText": "goodbye"}]}
    call(tmp_path, "edit", edit, awaited=awaited)
    assert (tmp_path / "a.txt").read_text() == "goodbye\n"


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(("given", "message"), [({"path": "nope"}, "nope"), ({}, "path is required")])
def test_a_failure_is_a_message_of_status_error(
    tmp_path: Path, given: dict[str, Any], message: str, awaited: bool
) -> None:
    answer = call(tmp_path, "read", given, awaited=awaited)
    assert answer.status == "error"
    assert message in str(answer.content)


def test_an_image_is_a_content_block(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    message = call(tmp_path, "read", {"path": "a.png"}, awaited=False)
    kinds: list[Any] = [block["type"] for block in message.content_blocks]
    assert kinds == ["text", "image", "text"]
    image: Any = message.content_blocks[1]
    assert base64.b64decode(image["base64"]) == (tmp_path / "a.png").read_bytes()
    assert image["mime_type"] == "image/png"


def test_a_model_is_shown_the_tools_own_schema(tmp_path: Path) -> None:
    for tool, shown in zip(agent_tools.coding_tools(tmp_path), tools(tmp_path).values(), strict=True):
        function = convert_to_openai_tool(shown)["function"]
        assert function["name"] == tool.name
        assert function["description"] == tool.description
        assert function["parameters"]["properties"] == tool.parameters["properties"]
        assert function["parameters"].get("required", []) == tool.parameters["required"]


def test_a_plain_call_without_an_agent_gives_the_text(tmp_path: Path) -> None:
    assert "hi" in tools(tmp_path)["bash"].invoke({"command": "echo hi"})


def test_cancelling_the_call_kills_the_command(tmp_path: Path) -> None:
    assert cancel_kills(
        lambda: tools(tmp_path)["bash"].ainvoke(request("bash", {"command": STAYING})), tmp_path
    )
