"""All wire formats side by side: a model of each, how its server answers, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from support import completions, gemini, messages, responses
from support.completions import FAST
from support.sse_server import SseServer, Step

from agent.messages import AssistantMessage, Message, UserMessage
from agent.models import Model
from agent.providers import _WIRE_FORMATS as REGISTERED
from agent.providers import (
    anthropic_messages,
    google_generative_ai,
    openai_completions,
    openai_responses,
)
from agent.stream import AgentContext, StreamDone, StreamError, StreamOptions, build_message

SEES = ("text", "image")


@dataclass(frozen=True)
class Format:
    """One wire format. `key_header` is where its server looks for the key, `prefix` stands before it."""

    model: Model
    module: ModuleType
    hello: tuple[Step, ...]
    key_header: str
    prefix: str = ""

    @property
    def api(self) -> str:
        return self.model.api

    def refuse(self, server: SseServer, status: int, text: str, **headers: str) -> None:
        """Let the server answer with an error in this format."""
        body = json.dumps(self._error(status, text))
        named = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        server.play(body, status=status, headers=named)

    def greet(self, server: SseServer) -> None:
        """Let the server answer with "hello"."""
        server.play(*self.hello)

    def ask(
        self, server: SseServer, history: Sequence[Message] = (UserMessage("hi"),), **more: Any
    ) -> AssistantMessage:
        """The answer to the history; "hello" after `greet`."""
        model = replace(more.pop("model", self.model), base_url=server.url)
        given: dict[str, Any] = {"retry": FAST, "api_key": "key-123456"} | more
        options = StreamOptions(**given)
        *log, end = self.module.stream(model, AgentContext("", history), options)
        assert isinstance(end, StreamDone | StreamError)
        return build_message(log, end, model, 0).message

    def _error(self, status: int, text: str) -> Mapping[str, Any]:
        if self.api == messages.API:
            kind = "invalid_request_error" if status == 400 else "api_error"
            return {"type": "error", "error": {"type": kind, "message": text}}
        if self.api == gemini.API:
            return {"error": {"code": status, "message": text, "status": "INVALID_ARGUMENT"}}
        return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}}


FORMATS = {
    found.api: found
    for found in (
        Format(
            Model("m", completions.API, "local", input=SEES),
            openai_completions,
            completions.HELLO,
            "authorization",
            "Bearer ",
        ),
        Format(
            Model("m", responses.API, "local", input=SEES),
            openai_responses,
            responses.HELLO,
            "authorization",
            "Bearer ",
        ),
        Format(messages.CLAUDE, anthropic_messages, messages.HELLO, "x-api-key"),
        Format(gemini.GEMINI_3, google_generative_ai, gemini.HELLO, "x-goog-api-key"),
    )
}
assert sorted(FORMATS) == sorted(REGISTERED), "a registered format is not listed here"
