"""The tools inside the OpenAI Agents SDK."""
# ruff: noqa: E402 the imports of a framework come after the look for it

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from PIL import Image
from support.integrations import STAYING, cancel_kills, need

need("agents", "openai-agents")

import agents
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import agent_tools
from agent_tools.adapters import to_openai_agents

QUIET = agents.RunConfig(tracing_disabled=True)
Calls = list[tuple[str, Any]]


class Scripted(Model):
    """A model that makes these calls, one list per turn, then says it is done; keeps what it was sent."""

    def __init__(self, *rounds: Calls) -> None:
        self.rounds = rounds
        self.sent: list[Any] = []

    async def get_response(self, *rest: Any, **request: Any) -> ModelResponse:
        turn = len(self.sent)
        self.sent.append(request["input"])
        output: list[Any] = [done()]
        if turn < len(self.rounds):
            output = [
                ResponseFunctionToolCall(
                    type="function_call",
                    call_id=f"call-{turn}-{number}",
                    name=name,
                    arguments=given if isinstance(given, str) else json.dumps(given),
                )
                for number, (name, given) in enumerate(self.rounds[turn])
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def done() -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text="done", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])


def coder(root: Path, model: Model) -> Any:
    return agents.Agent(name="coder", model=model, tools=to_openai_agents(agent_tools.coding_tools(root)))


def outputs(model: Scripted) -> list[Any]:
    return [item["output"] for item in model.sent[-1] if item.get("type") == "function_call_output"]


def run(root: Path, *rounds: Calls) -> list[Any]:
    """The results of its calls that the model was sent."""
    model = Scripted(*rounds)
    assert agents.Runner.run_sync(coder(root, model), "go", run_config=QUIET).final_output == "done"
    return outputs(model)


def test_a_run_reads_and_edits_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    edit = {"path": "a.txt", "oldText": "hello", "newText": "goodbye"}
    answers = run(tmp_path, [("read", {"path": "a.txt"})], [("edit", edit)])
    assert answers[0].startswith("hello\n")
    assert "[hash: " in answers[0]
    assert (tmp_path / "a.txt").read_text() == "goodbye\n"


def test_the_schemas_are_the_tools_own(tmp_path: Path) -> None:
    tools = agent_tools.coding_tools(tmp_path)
    for tool, shown in zip(tools, to_openai_agents(tools), strict=True):
        assert (shown.name, shown.description) == (tool.name, tool.description)
        assert shown.params_json_schema == tool.parameters
        assert shown.strict_json_schema is False


def test_failures_and_broken_json_reach_the_model(tmp_path: Path) -> None:
    answers = run(tmp_path, [("read", {"path": "nope"}), ("read", {}), ("bash", {"command": "exit 3"})])
    assert "nope" in answers[0]
    assert "path is required" in answers[1]
    assert "3" in answers[2]


def test_an_image_reaches_the_model_as_one(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (answer,) = run(tmp_path, [("read", {"path": "a.png"})])
    (image,) = [item for item in answer if item["type"] == "input_image"]
    kind, _, data = image["image_url"].partition(";base64,")
    assert kind == "data:image/png"
    assert base64.b64decode(data) == (tmp_path / "a.png").read_bytes()


def test_cancelling_the_run_kills_the_command(tmp_path: Path) -> None:
    model = Scripted([("bash", {"command": STAYING})])
    agent = coder(tmp_path, model)
    assert cancel_kills(lambda: agents.Runner.run(agent, "go", run_config=QUIET), tmp_path)
