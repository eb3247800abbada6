"""What the tests of the Responses format share: models, events, requests and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support.completions import Tool, options
from support.sse_server import SseServer

from agent.messages import AssistantMessage, Message, UserMessage
from agent.models import Model
from agent.providers.openai_responses import build_request, stream
from agent.stream import AgentContext, StreamDone, StreamError, StreamOptions, build_message

API = "openai-responses"
LOCAL = Model("m", API, "local", input=("text", "image"))
THINKER = replace(LOCAL, reasoning=True)


def E(type: str, **fields: Any) -> str:
    """One event as it comes over the wire."""
    name = f"response.{type}" if type != "error" else type
    return f"event: {name}\ndata: {json.dumps({'type': name} | fields)}\n\n"


def created(id: str = "resp_1", model: str = "m") -> str:
    return E("created", response={"id": id, "object": "response", "status": "in_progress", "model": model})


def added(place: int, **item: Any) -> str:
    return E("output_item.added", output_index=place, item=item)


def done(place: int, **item: Any) -> str:
    return E("output_item.done", output_index=place, item=item)


def delta(place: int, text: str, kind: str = "output_text", **more: Any) -> str:
    return E(f"{kind}.delta", output_index=place, delta=text, **more)


def ended(status: str = "completed", **response: Any) -> str:
    return E(status, response={"id": "resp_1", "object": "response", "status": status} | response)


def message_item(text: str, id: str = "msg_1", **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part]} | more


def call_item(name: str, arguments: str, call_id: str = "call_1", id: str = "fc_1") -> dict[str, Any]:
    return {"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments}


def reasoning_item(*summary: str, id: str = "rs_1", **more: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": id, "summary": parts, "encrypted_content": "gAAA"} | more


HELLO = (
    created(),
    added(0, type="message", id="msg_1", role="assistant", content=[]),
    E("content_part.added", output_index=0, content_index=0, part={"type": "output_text", "text": ""}),
    delta(0, "hel"),
    delta(0, "lo"),
    done(0, **message_item("hello")),
    ended(),
)


def request(
    messages: Sequence[Message] = (),
    model: Model = LOCAL,
    system: str = "",
    tools: Sequence[Tool] = (),
    **more: Any,
) -> dict[str, Any]:
    return build_request(model, AgentContext(system, messages, tools), options(**more))


def sent(messages: Sequence[Message], model: Model = LOCAL) -> list[dict[str, Any]]:
    """The input items of a request."""
    found: list[dict[str, Any]] = request(messages, model)["input"]
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


def assistant(*content: Any, provider: str = "local", model: str = "m", **more: Any) -> AssistantMessage:
    return AssistantMessage(content, API, provider, model, **more)
