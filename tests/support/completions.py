"""What the tests of the Chat Completions format share: models, chunks, requests and histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from support.sse_server import SseServer

from agent.messages import AssistantMessage, ImageContent, Message, TextContent, ToolCall, UserMessage
from agent.models import Model
from agent.providers.openai_completions import build_request, stream
from agent.retry import RetryPolicy
from agent.stream import AgentContext, StreamDone, StreamError, StreamOptions, build_message

API = "openai-completions"
LOCAL = Model("m", API, "local", input=("text", "image"))
THINKER = replace(LOCAL, reasoning=True)
IMAGE = ImageContent("aGk=", "image/png")
FAST = RetryPolicy(request=(0.0, 0.0))


@dataclass
class Tool:
    name: str
    description: str = "does it"
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


def C(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


DONE = "data: [DONE]\n\n"
HELLO = (C({"role": "assistant", "content": "hel"}), C({"content": "lo"}), C({}, "stop"), DONE)


HI = AgentContext(messages=[UserMessage("hi")])


def options(**more: Any) -> StreamOptions:
    return StreamOptions(**{"retry": FAST} | more)


def request(
    messages: Sequence[Message] = (),
    model: Model = LOCAL,
    system: str = "",
    tools: Sequence[Tool] = (),
    **more: Any,
) -> dict[str, Any]:
    return build_request(model, AgentContext(system, messages, tools), options(**more))


def sent(messages: Sequence[Message], model: Model = LOCAL, **compat: Any) -> list[dict[str, Any]]:
    """The messages of a request."""
    found: list[dict[str, Any]] = request(messages, replace(model, compat=compat))["messages"]
    return found


def answer(model: Model, context: AgentContext, opts: StreamOptions) -> AssistantMessage:
    *log, end = stream(model, context, opts)
    assert isinstance(end, StreamDone | StreamError)
    return build_message(log, end, model, 0).message


def complete(
    server: SseServer, messages: Sequence[Message] = (UserMessage("hi"),), **more: Any
) -> AssistantMessage:
    """The answer of the server to a local model's request."""
    model = more.pop("model", LOCAL)
    context = AgentContext(more.pop("system", ""), messages, more.pop("tools", ()))
    return answer(replace(model, base_url=server.url), context, options(**more))


def assistant_calls(*calls: ToolCall, text: str = "", **more: Any) -> AssistantMessage:
    content = (*((TextContent(text),) if text else ()), *calls)
    return AssistantMessage(content, API, "local", "m", stop_reason="toolUse", **more)


def assistant(*content: Any, provider: str = "local") -> AssistantMessage:
    return AssistantMessage(content, API, provider, "m")
