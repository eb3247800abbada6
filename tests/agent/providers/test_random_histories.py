"""Random histories of four makers, sent in four formats, fit the official clients' types and our rules.

Seeded; `AGENT_TEST_ROUNDS` multiplies the number of histories.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from PIL import Image
from support import completions, gemini, messages, responses
from support.completions import Tool
from support.official import PACKAGES, check_body, is_installed
from support.rounds import rounds
from support.rules import check_completions, check_contents, check_messages, check_responses

from agent.messages import (
    AssistantBlock,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    message_to_json,
)
from agent.models import Model
from agent.providers import (
    anthropic_messages,
    google_generative_ai,
    openai_completions,
    openai_responses,
)
from agent.stream import AgentContext, StreamOptions

HISTORIES = rounds(60)
MAKERS = {
    completions.API: Model("m", completions.API, "local", reasoning=True),
    responses.API: Model("gpt-5", responses.API, "openai", reasoning=True),
    messages.API: messages.CLAUDE,
    gemini.API: gemini.GEMINI_3,
}
FORMATS: dict[str, Any] = {
    completions.API: openai_completions,
    responses.API: openai_responses,
    messages.API: anthropic_messages,
    gemini.API: google_generative_ai,
}
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    completions.API: lambda body: check_completions(body["messages"]),
    responses.API: lambda body: check_responses(body["input"]),
    messages.API: check_messages,
    gemini.API: lambda body: check_contents(body["contents"], signed=True),
}


# --- parts of a history ----------------------------------------------------------------------------------


def _image(form: str, frames: int = 1) -> ImageContent:
    out = io.BytesIO()
    more = {"save_all": True, "append_images": [Image.new("L", (3, 2), n) for n in range(frames - 1)]}
    Image.new("L", (3, 2), 200).save(out, form, **(more if frames > 1 else {}))
    return ImageContent(base64.b64encode(out.getvalue()).decode(), f"image/{form.lower()}")


IMAGES = [_image("PNG"), _image("GIF"), _image("GIF", 3), _image("WEBP"), ImageContent("aGk=", "image/png")]
TEXTS = [
    "",
    " ",
    "\n",
    "hello",
    "é 😀",
    "a\x00b",
    "half \ud800",
    "\udfff\ud83d\ude00",
    "x" * 2000,
    '{"a": 1}',
]
NAMES = ["ls", "foo.bar baz", "", "é" * 70, "3d", "n\ud800"]
IDS = ["a", "", "call_1", "call_1|fc_1", "x|rs_2", "é/é", "y" * 70, "toolu_1"]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"": [None, True]},
    {"n": float("nan"), "é\ud800": {"b": []}},
]
SIGNATURE = gemini.signature("s")
SIGNATURES = {
    completions.API: [None, '{"type":"reasoning.encrypted"}', "odd"],
    responses.API: [None, '{"v":1,"id":"msg_1","phase":"commentary"}', "msg_2", "{"],
    messages.API: [None],
    gemini.API: [None, SIGNATURE, "odd"],
}
THOUGHTS = {
    completions.API: [None, "reasoning_content", "odd"],
    responses.API: [None, json.dumps(responses.reasoning_item("hm")), "odd"],
    messages.API: [None, "EqQBCgYIARgCIkA="],
    gemini.API: [None, SIGNATURE],
}
CITATIONS: dict[str, list[dict[str, Any]]] = {
    completions.API: [],
    responses.API: [
        {"type": "url_citation", "url": "https://a.org", "title": "A", "start_index": 0, "end_index": 2}
    ],
    messages.API: [
        {
            "type": "web_search_result_location",
            "url": "https://a.org",
            "title": "A",
            "encrypted_index": "x",
            "cited_text": "hello",
        }
    ],
    gemini.API: [],
}


def _server(kind: str, display: str | None = None, **fields: Any) -> ServerContent:
    return ServerContent(kind, json.dumps({"type": kind} | fields), display)


SEARCH = {"type": "search", "query": "q"}
CODE = '{"executableCode":{"language":"PYTHON","code":"1+1"}}'
SERVER = {
    completions.API: [ServerContent("odd", "{}")],
    responses.API: [
        _server(
            "web_search_call",
            "searched",
            id="ws_1",
            status="completed",
            action=SEARCH,
        )
    ],
    messages.API: [
        _server("server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "q"}),
        _server("web_search_tool_result", "found", tool_use_id="srvtoolu_1", content=[]),
        ServerContent("web_search_tool_result", "{cut"),
    ],
    gemini.API: [ServerContent("executableCode", CODE, "1+1")],
}
STOPS = ["stop", "toolUse", "toolUse", "length", "error", "aborted"]
SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"anyOf": [{"type": "object", "properties": {"a b": {"type": "string"}}}, {"required": ["a b"]}]},
    {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}},
]


def _history(random: Random, maker: str) -> list[Message]:
    """A conversation that is mostly the maker's; others had a turn now and then."""
    return [_message(random, maker) for _ in range(random.randrange(12))]


def _message(random: Random, maker: str) -> Message:
    match random.randrange(9):
        case 0:
            return CustomMessage("note", {})
        case 1 | 2:
            blocks = _user_blocks(random)
            return UserMessage(random.choice(TEXTS) if random.random() < 0.5 else blocks)
        case 3 | 4:
            id, name, failed = random.choice(IDS), random.choice(NAMES), random.random() < 0.3
            meta = {"hash": random.choice(TEXTS)} if random.random() < 0.3 else None
            return ToolResultMessage(id, name, _user_blocks(random), failed, meta=meta)
    api = maker if random.random() < 0.8 else random.choice(list(MAKERS))
    model = MAKERS[api]
    blocks = [_block(random, api) for _ in range(random.randrange(5))]
    id = model.id if random.random() < 0.8 else f"{model.id}-older"
    return AssistantMessage(blocks, api, model.provider, id, stop_reason=random.choice(STOPS))


def _user_blocks(random: Random) -> list[UserBlock]:
    return [
        random.choice(IMAGES) if random.random() < 0.3 else TextContent(random.choice(TEXTS))
        for _ in range(random.randrange(4))
    ]


def _block(random: Random, api: str) -> AssistantBlock:
    text, signature = random.choice(TEXTS), random.choice(SIGNATURES[api])
    match random.randrange(5):
        case 0 | 1:
            citations = CITATIONS[api] if random.random() < 0.5 else []
            return TextContent(text, signature, tuple(citations))
        case 2:
            if api == messages.API and random.random() < 0.2:
                return ThinkingContent("", "opaque", True)
            return ThinkingContent(text, random.choice(THOUGHTS[api]))
        case 3:
            return ToolCall(random.choice(IDS), random.choice(NAMES), random.choice(ARGUMENTS), signature)
    return random.choice(SERVER[api])


def _options(random: Random) -> StreamOptions:
    return StreamOptions(
        reasoning=random.choice(["", "off", "low", "high"]),
        cache_retention=random.choice(["none", "short", "long"]),
        session_id=random.choice(["", "s" * 90]),
        tool_choice=random.choice(["", "auto", "required", "ls"]),
    )


# --- the requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_random_history_is_a_request_that_the_official_client_could_send(maker: str, target: str) -> None:
    if not is_installed(target):
        pytest.skip(f"the official package is not here: {PACKAGES[target]}")
    random = Random(f"{maker} {target}")
    for number in range(HISTORIES):
        history = _history(random, maker)
        before = [repr(message_to_json(message)) for message in history]
        model = replace(MAKERS[target], input=("text", "image") if random.random() < 0.8 else ("text",))
        tools = [Tool(name, parameters=schema) for name, schema in zip(NAMES, SCHEMAS, strict=False)]
        context = AgentContext(random.choice(TEXTS), history, random.sample(tools, random.randrange(4)))
        body = FORMATS[target].build_request(model, context, _options(random))
        try:
            json.dumps(body, allow_nan=False).encode()
            CHECKS[target](body)
            check_body(target, body)
        except Exception as error:
            error.add_note(f"history {number}: {history!r}")
            raise
        assert [repr(message_to_json(message)) for message in history] == before
