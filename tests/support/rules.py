"""What the providers insist on in a history they are sent; an AssertionError names the first broken rule."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

from support.messages import marks

LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def refuse(word: str) -> None:
    """For `parse_constant`: NaN and the like are no JSON."""
    raise AssertionError(f"{word} is no JSON")


# --- OpenAI Chat Completions ---


def check_completions(messages: list[dict[str, Any]]) -> None:
    """The rules of OpenAI for `messages`; AssertionError names the first that is broken."""
    waiting: list[str] = []
    used: set[str] = set()
    for number, message in enumerate(messages):
        role = message["role"]
        assert role in ("system", "user", "assistant", "tool")
        assert role != "system" or number == 0, "the system prompt comes first"
        if role == "tool":
            assert waiting, "a result stands directly after the calls of its turn"
            assert waiting.pop(0) == message["tool_call_id"], "results are in the order of the calls"
            assert isinstance(message["content"], str)
        else:
            assert not waiting, "every call has its result before the next message"
        if role == "assistant":
            waiting = _completions_turn(message, used)
        elif role != "tool" or isinstance(message["content"], str):
            _completions_content(message["content"])
    assert not waiting, "every call has its result at the end"


def _completions_turn(message: dict[str, Any], used: set[str]) -> list[str]:
    calls = message.get("tool_calls")
    assert calls is None or calls, "no empty list of calls"
    if calls is None:
        _completions_content(message["content"])
    ids = [call["id"] for call in calls or ()]
    for call in calls or ():
        assert call["id"] not in used, "an id is used once"
        used.add(call["id"])
        assert 0 < len(call["id"]) <= 40
        assert set(call["id"]) <= LEGAL
        assert 0 < len(call["function"]["name"]) <= 64
        assert set(call["function"]["name"]) <= LEGAL
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    return ids


def _completions_content(content: Any) -> None:
    assert content, "no empty message"
    if isinstance(content, str):
        assert content.strip(), "no blank message"
        return
    for part in content:
        assert part["type"] in ("text", "image_url")
        assert part["type"] != "text" or part["text"].strip(), "no blank part"


# --- OpenAI Responses ---


_SERVERS = ("x", "web_search_call")
_AFTER_REASONING = ("reasoning", "message", "function_call", *_SERVERS)


def check_responses(items: list[dict[str, Any]]) -> None:
    """The rules of OpenAI for `input`; AssertionError names the first that is broken."""
    waiting: list[str] = []
    used: set[str] = set()
    answering = False
    for number, item in enumerate(items):
        kind = str(item.get("type", item.get("role")))
        if kind == "function_call_output":
            answering = True
            assert waiting, "a result stands after the calls of its turn"
            assert waiting.pop(0) == item["call_id"], "results are in the order of the calls"
            assert item["output"], "no empty result"
            continue
        assert not (waiting and answering), "every call has its result before the next item"
        answering = False
        if kind == "function_call":
            _responses_call(item, used)
            waiting.append(item["call_id"])
        elif kind == "reasoning":
            assert items[number + 1].get("type") in _AFTER_REASONING
            assert "summary" in item
        else:
            assert not waiting, "nothing stands between calls and results"
            _responses_said(kind, item, number)
    assert not waiting, "every call has its result at the end"


def _responses_call(item: dict[str, Any], used: set[str]) -> None:
    assert item["call_id"] not in used, "an id is used once"
    used.add(item["call_id"])
    for id in (item["call_id"], item.get("id", "fc"), item["name"]):
        assert 0 < len(id) <= 64
        assert set(id) <= LEGAL
    assert item.get("id", "fc").startswith("fc")
    assert isinstance(json.loads(item["arguments"]), dict)


def _responses_said(kind: str, item: dict[str, Any], number: int) -> None:
    if kind == "message":
        assert 0 < len(item["id"]) <= 64
        (part,) = item["content"]
        assert part["text"].strip(), "no blank text"
    elif kind == "user":
        assert item["content"], "no empty message"
        assert all(part.get("text", "x").strip() for part in item["content"]), "no blank part"
    else:
        assert kind in (*_SERVERS, "system", "developer")
        assert kind in _SERVERS or number == 0, "the system prompt comes first"


# --- Anthropic's Messages ---


def check_messages(body: dict[str, Any]) -> None:
    """Anthropic's rules; AssertionError names the first that is broken."""
    assert marks(body) <= 4
    waiting: list[str] = []
    used: set[str] = set()
    messages = body["messages"]
    assert not messages or messages[0]["role"] == "user", "a conversation begins with the user"
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            assert not waiting, "results come directly after their calls"
            assert content.strip(), "no blank message"
            continue
        assert content, "no empty message"
        kinds = [block["type"] for block in content]
        for block in content:
            _messages_block(block)
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert results == waiting, "each call has its result in the next message, in order"
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results open their message"
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        assert len(set(calls) | used) == len(calls) + len(used), "an id is used once"
        used |= set(calls)
        waiting = calls
        pairs = list(itertools.pairwise(kinds))
        assert ("thinking", "thinking") not in pairs, "no two thinking blocks in a row"
        if calls and set(kinds) <= {"text", "tool_use"}:
            assert kinds == sorted(kinds), "nothing stands between a call and its result"
    assert not waiting
    _messages_server_calls(messages)
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"][-1]
        assert last["type"] not in ("thinking", "redacted_thinking")
        assert last["type"] != "text" or last["text"] == last["text"].rstrip()


def _messages_block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "no blank text"
        case "thinking":
            assert block["signature"]
        case "redacted_thinking":
            assert block["data"]
        case "tool_use":
            assert 0 < len(block["id"]) <= 64
            assert 0 < len(block["name"]) <= 64
            assert set(block["id"] + block["name"]) <= LEGAL
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert block["content"]
            assert isinstance(block["content"], str) or not block["is_error"], "an error is text"


def _messages_server_calls(messages: list[dict[str, Any]]) -> None:
    blocks = [b for m in messages if m["role"] == "assistant" for b in m["content"]]
    called = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    answered = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
    assert answered <= called
    after = messages[max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=0) + 1 :]
    prompted = any(isinstance(m["content"], str) or m["content"][0]["type"] != "tool_result" for m in after)
    assert called <= answered or not prompted, "no message may come while a search is open"


# --- Google's contents ---


def check_contents(contents: list[dict[str, Any]], signed: bool = False) -> None:
    """Google's rules for `contents`; AssertionError names the first that is broken.

    `signed`: the first call of a turn must bear a signature.
    """
    assert not contents or contents[0]["role"] == "user", "the user begins"
    called: list[str] = []
    after = ""
    for content in contents:
        role, parts = content["role"], content["parts"]
        assert role in ("user", "model")
        assert parts, "no empty content"
        names = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        assert names == called, (
            "the responses to a turn's calls are the next content, in order, and all of it"
        )
        assert not names or len(names) == len(parts)
        assert (role, after) != ("model", "model"), "a turn follows a user's content"
        called = [_contents_call(part["functionCall"]) for part in parts if "functionCall" in part]
        assert not called or role == "model", "only the model calls"
        _contents_parts(parts)
        if signed and called:
            assert next(part for part in parts if "functionCall" in part).get("thoughtSignature")
        after = role
    assert not called, "every call has its response at the end"


def _contents_parts(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        if "thoughtSignature" in part:
            base64.b64decode(part["thoughtSignature"], "-_" if "_" in part["thoughtSignature"] else None)
        elif "text" in part:
            assert part["text"].strip(), "no blank part without a signature"
    assert any("text" not in part or part["text"].strip() for part in parts), "no content is blank"


def _contents_call(call: dict[str, Any]) -> str:
    name: str = call["name"]
    assert 0 < len(name) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    assert name[0].isalpha() or name[0] == "_"
    assert isinstance(call["args"], dict)
    return name
