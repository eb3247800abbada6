"""The tools inside Pydantic AI."""
# ruff: noqa: E402 the imports of a framework come after the look for it

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image
from support.integrations import STAYING, cancel_kills, need

need("pydantic_ai", "pydantic-ai-slim")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agent_tools
from agent_tools.adapters import to_pydantic_ai

Calls = list[tuple[str, Any]]


def agent_that_calls(root: Path, *rounds: Calls) -> tuple[Agent, list[list[ModelMessage]]]:
    """An agent whose model makes these calls, one list per turn, and what the model was sent each time."""
    sent: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(list(messages))
        turn = len(sent) - 1
        if turn < len(rounds):
            return ModelResponse(parts=[ToolCallPart(name, given) for name, given in rounds[turn]])
        return ModelResponse(parts=[TextPart("done")])

    tools = to_pydantic_ai(agent_tools.coding_tools(root))
    return Agent(FunctionModel(model), tools=tools), sent


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def test_a_run_reads_and_edits_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    agent, sent = agent_that_calls(
        tmp_path,
        [("read", {"path": "a.txt"})],
        [("edit", {"path": "a.txt", "oldText": "hello", "newText": "goodbye"})],
    )
    assert agent.run_sync("go").output == "done"
    assert (tmp_path / "a.txt").read_text() == "goodbye\n"
    first = returns(sent[1])[0]
    assert first.tool_name == "read"
    assert str(first.content).startswith("hello\n")
    assert "[hash: " in str(first.content)


def test_the_model_sees_the_tools_own_schemas(tmp_path: Path) -> None:
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("done")])

    tools = agent_tools.coding_tools(tmp_path)
    Agent(FunctionModel(model), tools=to_pydantic_ai(tools)).run_sync("go")
    shown = {tool.name: tool for tool in seen[0].function_tools}
    for tool in tools:
        assert shown[tool.name].parameters_json_schema == tool.parameters
        assert shown[tool.name].description == tool.description
        assert shown[tool.name].sequential is not tool.parallel


def test_failures_reach_the_model_and_never_end_the_run(tmp_path: Path) -> None:
    failing: Calls = [("read", {"path": "nope"}), ("bash", {"command": "exit 3"}), ("read", {})]
    agent, sent = agent_that_calls(tmp_path, failing, failing, failing, failing)
    assert agent.run_sync("go").output == "done"
    answers = [str(part.content) for part in returns(sent[-1])]
    assert len(answers) == 12
    assert "nope" in answers[0]
    assert "path is required" in answers[2]
    assert all(part.outcome == "failed" for part in returns(sent[-1]))


def test_an_image_reaches_the_model_as_one(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    agent, sent = agent_that_calls(tmp_path, [("read", {"path": "a.png"})])
    agent.run_sync("go")
    content: Any = returns(sent[1])[0].content
    (image,) = [item for item in content if isinstance(item, BinaryContent)]
    assert image.data == (tmp_path / "a.png").read_bytes()
    assert image.media_type == "image/png"


def test_cancelling_the_run_kills_the_command(tmp_path: Path) -> None:
    agent, _ = agent_that_calls(tmp_path, [("bash", {"command": STAYING})])
    assert cancel_kills(lambda: agent.run("go"), tmp_path)
