"""What the tests of Google's format share: models, chunks and requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support.completions import Tool, options
from support.sse_server import SseServer

from agent.messages import AssistantMessage, ImageContent, Message, ToolCall, UserMessage
from agent.models import Model
from agent.providers.google_generative_ai import build_request, stream
from agent.providers.google_generative_ai.decode import decode
from agent.stream import AgentContext, StreamDone, StreamError, StreamEvent, StreamOptions, build_message

API = "google-generative-ai"
GEMINI_3 = Model("gemini-3.8-flash", API, "google", input=("text", "image"), reasoning=True)
GEMINI_2 = replace(GEMINI_3, id="gemini-2.5-flash")
IMAGE = ImageContent("aGk=", "image/png")
SKIP = "skip_thought_signature_validator"


def G(parts: list[Any] | None = None, finish: str | None = None, **more: Any) -> str:
    """One chunk; without `parts` its candidate has no content."""
    candidate: dict[str, Any] = {"index": 0}
    if parts is not None:
        candidate["content"] = {"role": "model", "parts": parts}
    if finish:
        candidate["finishReason"] = finish
    return f"data: {json.dumps({'candidates': [candidate]} | more)}\n\n"


def fc(name: str, args: Any = None, signature: str | None = None, **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": {} if args is None else args} | more}
    return part | ({"thoughtSignature": signature} if signature else {})


HELLO = (G([{"text": "hel"}], responseId="r1", modelVersion="gemini-x"), G([{"text": "lo"}], "STOP"))


def signature(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(*chunks: str, names: dict[str, str] | None = None) -> list[StreamEvent]:
    """The events of these chunks."""
    return list(decode([chunk.removeprefix("data: ").strip() for chunk in chunks], None, names))


def message_of(*chunks: str, model: Model = GEMINI_3) -> AssistantMessage:
    *log, end = read(*chunks)
    assert isinstance(end, StreamDone | StreamError)
    return build_message(log, end, model, 0).message


def request(
    messages: Sequence[Message] = (),
    model: Model = GEMINI_3,
    system: str = "",
    tools: Sequence[Tool] = (),
    **more: Any,
) -> dict[str, Any]:
    return build_request(model, AgentContext(system, messages, tools), options(**more))


def sent(messages: Sequence[Message], model: Model = GEMINI_3, **compat: Any) -> list[dict[str, Any]]:
    """The contents of a request."""
    found: list[dict[str, Any]] = request(messages, replace(model, compat=compat))["contents"]
    return found


def answer(model: Model, context: AgentContext, opts: StreamOptions) -> AssistantMessage:
    *log, end = stream(model, context, opts)
    assert isinstance(end, StreamDone | StreamError)
    return build_message(log, end, model, 0).message


def complete(
    server: SseServer, messages: Sequence[Message] = (UserMessage("hi"),), **more: Any
) -> AssistantMessage:
    """The answer of the server to a model's request."""
    model = more.pop("model", GEMINI_3)
    context = AgentContext(more.pop("system", ""), messages, more.pop("tools", ()))
    return answer(replace(model, base_url=server.url), context, options(**{"api_key": "key"} | more))


def assistant(*content: Any, model: Model = GEMINI_3, **more: Any) -> AssistantMessage:
    calls = any(isinstance(block, ToolCall) for block in content)
    stop = more.pop("stop_reason", "toolUse" if calls else "stop")
    return AssistantMessage(content, model.api, model.provider, model.id, stop_reason=stop, **more)
