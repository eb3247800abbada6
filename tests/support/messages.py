"""What the tests of Anthropic's format share: models, events, requests and histories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from support.completions import Tool, options
from support.sse_server import SseServer

from agent.messages import AssistantMessage, ImageContent, Message, TextContent, ToolCall, UserMessage
from agent.models import Model
from agent.providers.anthropic_messages import build_request, stream
from agent.providers.anthropic_messages.decode import decode
from agent.providers.history_transform import OPENING
from agent.stream import AgentContext, StreamDone, StreamError, StreamOptions, build_message

API = "anthropic-messages"
CLAUDE = Model("claude-x", API, "anthropic", input=("text", "image"), max_tokens=64_000, reasoning=True)
PLAIN = Model("m", API, "mine", "http://host", input=("text", "image"))
IMAGE = ImageContent("aGk=", "image/png")


def event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n"


def start(**usage: int) -> str:
    message: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "x",
        "stop_reason": None,
        "usage": {"input_tokens": 10, "output_tokens": 1} | usage,
    }
    return event("message_start", message=message)


MS = start()
ME = event("message_stop")
PING = event("ping")


def opened(index: int, **block: Any) -> str:
    return event("content_block_start", index=index, content_block=block)


def TB(index: int) -> str:
    return opened(index, type="text", text="")


def TH(index: int) -> str:
    return opened(index, type="thinking", thinking="", signature="")


def TU(index: int, id: str, name: str) -> str:
    return opened(index, type="tool_use", id=id, name=name, input={})


def delta(index: int, kind: str, **fields: Any) -> str:
    return event("content_block_delta", index=index, delta={"type": kind} | fields)


def TD(index: int, text: str) -> str:
    return delta(index, "text_delta", text=text)


def HD(index: int, thinking: str) -> str:
    return delta(index, "thinking_delta", thinking=thinking)


def SD(index: int, signature: str) -> str:
    return delta(index, "signature_delta", signature=signature)


def JD(index: int, text: str) -> str:
    return delta(index, "input_json_delta", partial_json=text)


def CS(index: int) -> str:
    return event("content_block_stop", index=index)


def MD(reason: str | None, output: int = 5, **usage: Any) -> str:
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": output} | usage)


def ER(kind: str, text: str) -> str:
    return event("error", error={"type": kind, "message": text})


HELLO = (MS, TB(0), TD(0, "hel"), TD(0, "lo"), CS(0), MD("end_turn"), ME)


def decoded(*events: str, **more: Any) -> AssistantMessage:
    """The message that these decoded events build, without a network."""
    payloads = [data for e in events for data in payloads_of(e)]
    *log, end = decode(payloads, **more)
    assert isinstance(end, StreamDone | StreamError)
    return build_message(log, end, CLAUDE, 0).message


def payloads_of(text: str) -> Iterable[str]:
    return [line[6:] for line in text.split("\n") if line.startswith("data: ")]


def request(
    messages: Sequence[Message] = (UserMessage("hi"),),
    model: Model = CLAUDE,
    system: str = "",
    tools: Sequence[Tool] = (),
    **more: Any,
) -> dict[str, Any]:
    return build_request(model, AgentContext(system, messages, tools), options(**more))


def sent(messages: Sequence[Message], model: Model = CLAUDE, **compat: Any) -> list[dict[str, Any]]:
    """The messages of a request without cache marks, and without the opening before an answer."""
    body = request(messages, replace(model, compat=compat), cache_retention="none")
    found: list[dict[str, Any]] = body["messages"]
    return found[1:] if found[:1] == [{"role": "user", "content": OPENING}] else found


def answer(model: Model, context: AgentContext, opts: StreamOptions) -> AssistantMessage:
    *log, end = stream(model, context, opts)
    assert isinstance(end, StreamDone | StreamError)
    return build_message(log, end, model, 0).message


def complete(
    server: SseServer, messages: Sequence[Message] = (UserMessage("hi"),), **more: Any
) -> AssistantMessage:
    """The answer of the server to a request."""
    model = more.pop("model", CLAUDE)
    context = AgentContext(more.pop("system", ""), messages, more.pop("tools", ()))
    return answer(replace(model, base_url=server.url), context, options(**({"api_key": "key-123"} | more)))


def assistant(*content: Any, provider: str = "anthropic", model: str = "claude-x") -> AssistantMessage:
    return AssistantMessage(content, API, provider, model)


def assistant_calls(*calls: ToolCall, text: str = "") -> AssistantMessage:
    content = (*((TextContent(text),) if text else ()), *calls)
    return AssistantMessage(content, API, "anthropic", "claude-x", stop_reason="toolUse")


def marks(body: Any) -> int:
    """How many cache marks a body holds."""
    return json.dumps(body).count('"cache_control"')
