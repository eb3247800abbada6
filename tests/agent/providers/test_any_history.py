"""A history of one model continues with any other, in any format."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import completions, gemini, messages, responses
from support.histories import ARGUMENTS, IDS, NAMES, RESULTS, TEXTS, USER_CONTENT
from support.official import PACKAGES, check_body, is_installed
from support.rounds import rounds
from support.rules import check_completions, check_contents, check_messages, check_responses
from support.sse_server import SseServer

from agent import Agent, RetryPolicy, ToolResult, tool
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
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
from agent.providers.history_transform import clean
from agent.stream import AgentContext, StreamOptions

SEES = ("text", "image")
MODELS = {
    model.api: model
    for model in (
        Model("m", completions.API, "local", input=SEES, reasoning=True),
        Model("gpt-5", responses.API, "openai", input=SEES, reasoning=True),
        messages.CLAUDE,
        gemini.GEMINI_3,
    )
}
FORMATS: dict[str, Any] = {
    completions.API: openai_completions,
    responses.API: openai_responses,
    messages.API: anthropic_messages,
    gemini.API: google_generative_ai,
}
PAIRS = list(itertools.product(MODELS, MODELS))
SIGNATURE = gemini.signature("s")


# --- histories as each format makes them -----------------------------------------------------------------


def spoken(
    texts: list[str | None],
    thoughts: list[str | None],
    ids: list[str],
    calls: list[str | None],
    *server: ServerContent,
) -> st.SearchStrategy[Any]:
    """Blocks with the signatures and ids of one format."""
    blocks = (
        st.builds(TextContent, TEXTS, st.sampled_from(texts))
        | st.builds(ThinkingContent, TEXTS, st.sampled_from(thoughts))
        | st.builds(ToolCall, IDS | st.sampled_from(ids), NAMES, ARGUMENTS, st.sampled_from(calls))
    )
    return blocks | st.sampled_from(server) if server else blocks


def _server(kind: str, display: str = "", **fields: Any) -> ServerContent:
    return ServerContent(kind, json.dumps({"type": kind} | fields), display or None)


ENCRYPTED = '{"type":"reasoning.encrypted","id":"call_1","data":"x"}'
SEARCH = {"type": "search", "query": "q"}
CODE = '{"executableCode":{"language":"PYTHON","code":"1+1"},"thoughtSignature":"' + SIGNATURE + '"}'
BLOCKS = {
    completions.API: spoken(
        [None], [None, "reasoning_content"], ["call_1"], [None, '{"type":"reasoning.encrypted"}']
    ),
    responses.API: spoken(
        [None, '{"v":1,"id":"msg_1","phase":"commentary"}'],
        [None, json.dumps(responses.reasoning_item("hm"))],
        ["call_1|fc_1", "call_2|fc_2"],
        [None],
        _server(
            "web_search_call",
            "searched",
            id="ws_1",
            status="completed",
            action={"type": "search", "query": "q"},
        ),
    ),
    messages.API: st.builds(ThinkingContent, st.just(""), st.just("opaque"), st.just(True))
    | spoken(
        [None],
        [None, "EqQBCgYIARgCIkA="],
        ["toolu_1", "toolu_2"],
        [None],
        _server("server_tool_use", "", id="srvtoolu_1", name="web_search", input={"query": "q"}),
        _server("web_search_tool_result", "found", tool_use_id="srvtoolu_1", content=[]),
    ),
    gemini.API: spoken(
        [None, SIGNATURE, "odd"],
        [None, SIGNATURE],
        ["ls_1700000000000_1"],
        [None, SIGNATURE, "odd"],
        ServerContent("executableCode", CODE, "1+1"),
    ),
}
STOPS = st.sampled_from(["stop", "toolUse", "toolUse", "length", "error", "aborted"])


def turns(api: str) -> st.SearchStrategy[AssistantMessage]:
    """Turns of this format's model, and of an older one of its maker."""
    model = MODELS[api]
    return st.builds(
        AssistantMessage,
        st.lists(BLOCKS[api], max_size=4),
        st.just(api),
        st.just(model.provider),
        st.just(model.id) | st.just(f"{model.id}-older"),
        stop_reason=STOPS,
    )


def histories(api: str) -> st.SearchStrategy[list[Message]]:
    """What a conversation that was mostly this model's may hold; in places another had a turn."""
    others = st.one_of([turns(other) for other in MODELS])
    answers = turns(api) | turns(api) | others
    users = st.builds(UserMessage, USER_CONTENT)
    return st.lists(users | answers | RESULTS | st.builds(CustomMessage, st.just("note")), max_size=10)


# --- what must hold of the request ------------------------------------------------------------------------


def check(api: str, body: dict[str, Any]) -> None:
    """The format's own rules."""
    match api:
        case completions.API:
            check_completions(body["messages"])
        case responses.API:
            check_responses(body["input"])
        case messages.API:
            check_messages(body)
        case gemini.API:
            check_contents(body["contents"], signed=True)


def body_of(history: list[Message], model: Model) -> dict[str, Any]:
    context = AgentContext("be brief", history, [completions.Tool("ls")])
    body: dict[str, Any] = FORMATS[model.api].build_request(model, context, StreamOptions(reasoning="high"))
    return body


def strings(value: Any) -> Iterator[str]:
    """Every string in JSON data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def what_was_said(history: list[Message], target: Model) -> Iterator[str]:
    """The texts that must reach the target: all text, and the thoughts of other providers' models."""
    for message in history:
        if isinstance(message, UserMessage):
            yield from texts_of(message)
        elif isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
            foreign = (message.provider, message.api) != (target.provider, target.api)
            for block in message.content:
                if isinstance(block, TextContent):
                    yield block.text
                elif isinstance(block, ThinkingContent) and foreign and not block.redacted:
                    yield block.thinking


def texts_of(message: UserMessage) -> list[str]:
    if isinstance(message.content, str):
        return [message.content]
    return [block.text for block in message.content if isinstance(block, TextContent)]


def has_image(history: list[Message]) -> bool:
    users = [m for m in history if isinstance(m, UserMessage) and not isinstance(m.content, str)]
    return any(isinstance(block, ImageContent) for message in users for block in message.content)


SETTINGS = settings(max_examples=rounds(30), deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(("maker", "target"), PAIRS)
@SETTINGS
@given(data=st.data(), sees=st.booleans())
def test_any_history_of_one_format_is_a_well_formed_request_in_any_other(
    maker: str, target: str, data: st.DataObject, sees: bool
) -> None:
    history = data.draw(histories(maker))
    model = replace(MODELS[target], input=SEES if sees else ("text",))
    before = [repr(message_to_json(message)) for message in history]
    body = body_of(history, model)
    check(target, body)
    sent = list(strings(body))
    for text in what_was_said(history, model):
        words = clean(text).strip()
        assert any(words in string for string in sent), f"{words!r} is missing"
    assert sees or not any("aGk=" in string for string in sent), "no image to a model that sees none"
    if has_image(history):
        assert any(("aGk=" if sees else "image was left out") in string for string in sent)
    assert [repr(message_to_json(message)) for message in history] == before


@pytest.mark.parametrize("target", MODELS)
@SETTINGS
@given(data=st.data())
def test_any_history_is_one_that_the_official_package_could_send(target: str, data: st.DataObject) -> None:
    if not is_installed(target):
        pytest.skip(f"the official package is not here: {PACKAGES[target]}")
    history = data.draw(st.one_of([histories(maker) for maker in MODELS]))
    check_body(target, body_of(history, MODELS[target]))


# --- one conversation, two models, real bytes ---------------------------------------------------------------

PICTURE = ImageContent("aGk=", "image/png")


@tool
def look(at: str) -> ToolResult:
    """Look at something."""
    return ToolResult([TextContent(f"seen: {at}"), PICTURE])


def _arguments(at: str) -> str:
    return json.dumps({"at": at})


def _completions_calls() -> tuple[str, ...]:
    calls = [
        {"index": n, "id": f"call_{n}", "function": {"name": "look", "arguments": _arguments(at)}}
        for n, at in enumerate(("sea", "sky"))
    ]
    C = completions.C
    return (
        C({"reasoning_content": "pondering"}),
        C({"content": "Looking."}),
        C({"tool_calls": calls}),
        C({}, "tool_calls"),
        completions.DONE,
    )


def _responses_calls() -> tuple[str, ...]:
    items = [
        responses.reasoning_item("pondering"),
        responses.message_item("Looking."),
        responses.call_item("look", _arguments("sea")),
        responses.call_item("look", _arguments("sky"), "call_2", "fc_2"),
    ]
    done = [responses.done(place, **item) for place, item in enumerate(items)]
    return (responses.created(), *done, responses.ended(output=items))


def _messages_calls() -> tuple[str, ...]:
    m = messages
    calls = [
        event
        for place, at in ((2, "sea"), (3, "sky"))
        for event in (m.TU(place, f"toolu_{place}", "look"), m.JD(place, _arguments(at)), m.CS(place))
    ]
    thinking = (m.TH(0), m.HD(0, "pondering"), m.SD(0, "EqQBCgYIARgCIkA="), m.CS(0))
    return (m.MS, *thinking, m.TB(1), m.TD(1, "Looking."), m.CS(1), *calls, m.MD("tool_use"), m.ME)


def _gemini_calls() -> tuple[str, ...]:
    G, fc = gemini.G, gemini.fc
    calls = [fc("look", {"at": "sea"}, SIGNATURE), fc("look", {"at": "sky"})]
    return (G([{"text": "pondering", "thought": True}]), G([{"text": "Looking."}]), G(calls, "STOP"))


CALLS = {
    completions.API: _completions_calls(),
    responses.API: _responses_calls(),
    messages.API: _messages_calls(),
    gemini.API: _gemini_calls(),
}
HELLOS = {
    completions.API: completions.HELLO,
    responses.API: responses.HELLO,
    messages.API: messages.HELLO,
    gemini.API: gemini.HELLO,
}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_conversation_goes_on_with_another_model(sse_server: SseServer, first: str, second: str) -> None:
    """Read from one format's bytes, tools run, and asked in another's; then back again."""
    for script in (CALLS[first], HELLOS[first], HELLOS[second], HELLOS[first]):
        sse_server.play(*script)
    here, there = (replace(MODELS[api], base_url=sse_server.url) for api in (first, second))
    retry = RetryPolicy((), (), (), ())
    with Agent(here, tools=[look], retry=retry, get_api_key=lambda provider: "k") as agent:
        agent.thinking_level = "high"
        assert agent.run("one").text == "hello"
        agent.model = there
        assert agent.run("two").text == "hello"
        agent.model = replace(here, id=f"{here.id}-b", input=("text",))
        result = agent.run("three")
    assert (result.stop, result.text) == ("end_turn", "hello")
    assert len([m for m in agent.state.messages if isinstance(m, ToolResultMessage)]) == 2
    for request, api in zip(sse_server.requests, (first, first, second, first), strict=True):
        check(api, request.json)
        if is_installed(api):
            check_body(api, request.json)
    *_, moved, back = (list(strings(request.json)) for request in sse_server.requests)
    for text in ("Looking.", "seen: sea", "seen: sky", *(("pondering",) if first != second else ())):
        assert any(text in string for string in moved)
    assert any("aGk=" in string for string in moved)
    assert not any("aGk=" in string for string in back)
    assert any("image, left out here" in string for string in back)
