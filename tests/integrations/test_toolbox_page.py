"""The blocks of docs/toolbox.md that need another framework, run inside it with a model that calls `ls`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.integrations import need

PAGE = Path(__file__).parents[2] / "docs" / "toolbox.md"
BLOCKS = dict(
    re.findall(
        r"^<!-- no-run: needs (\S+) -->\n```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
)


def pydantic_model() -> Any:
    need("pydantic_ai", "pydantic-ai-slim")
    from pydantic_ai.models.test import TestModel

    return TestModel(call_tools=["ls"])


def openai_model() -> Any:
    need("agents", "openai-agents").set_tracing_disabled(True)  # else it starts a thread for traces
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Lists(Model):
        """Calls `ls`, then repeats the result."""

        async def get_response(self, *rest: Any, **request: Any) -> ModelResponse:
            given = request["input"]
            outputs = [item["output"] for item in given if isinstance(item, dict) and "output" in item]
            output: Any = ResponseFunctionToolCall(
                type="function_call", call_id="1", name="ls", arguments="{}"
            )
            if outputs:
                text = ResponseOutputText(type="output_text", text=str(outputs[-1]), annotations=[])
                output = ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *rest: Any, **more: Any) -> Any:
            raise NotImplementedError

    return Lists()


def langchain_model() -> Any:
    need("langchain_core", "langchain-core")
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Lists(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            assert "ls" in [tool.name for tool in tools]
            return self

    call = {"type": "tool_call", "id": "1", "name": "ls", "args": {}}
    return Lists(messages=iter([AIMessage("", tool_calls=[call])]))


MODELS = {
    "pydantic-ai": (pydantic_model, "here.txt"),
    "openai-agents": (openai_model, "here.txt"),
    "langchain-core": (langchain_model, "'name': 'ls'"),
}


@pytest.mark.parametrize("framework", MODELS)
def test_the_block_of_the_page_runs(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_model, expected = MODELS[framework]
    (tmp_path / "here.txt").touch()
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[framework], {"model": make_model()})
    assert expected in capsys.readouterr().out


def test_every_foreign_block_of_the_page_is_run_here() -> None:
    assert BLOCKS.keys() == MODELS.keys()
